//! HTTP/2 and gRPC without TLS, from the frames of both sides.

use super::*;

/// A frame of HTTP/2.
fn frame(head: [u8; 2], stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &head, &stream.to_be_bytes(), payload].concat()
}

const END_HEADERS: u8 = 4;

fn headers(stream: u32, is_last: bool, block: &[u8]) -> Vec<u8> {
    frame([1, END_HEADERS | u8::from(is_last)], stream, block)
}

fn data(stream: u32, is_last: bool, length: usize) -> Vec<u8> {
    frame([0, u8::from(is_last)], stream, &vec![0; length])
}

/// A field as a literal that enters the table, with a name from the static table or a new one.
fn literal(index: u8, texts: [&str; 2]) -> Vec<u8> {
    let mut out = vec![0x40 | index];
    for text in texts.into_iter().skip(usize::from(index > 0)) {
        out.push(u8::try_from(text.len()).expect("short"));
        out.extend(text.as_bytes());
    }
    out
}

/// `POST` of a method of gRPC.
fn call(path: &str) -> Vec<u8> {
    [&[0x83, 0x86][..], &literal(4, ["", path])].concat()
}

/// `GET` of a path.
fn page(path: &str) -> Vec<u8> {
    [&[0x82, 0x86][..], &literal(4, ["", path])].concat()
}

/// Head of a gRPC response.
fn grpc_head() -> Vec<u8> {
    [&[0x88][..], &literal(31, ["", "application/grpc"])].concat()
}

fn grpc_status(code: &str) -> Vec<u8> {
    literal(0, ["grpc-status", code])
}

/// A message of gRPC.
fn message(length: u8) -> Vec<u8> {
    [&[0, 0, 0, 0, length][..], &vec![7; length.into()]].concat()
}

/// The preface and settings of both sides.
fn greet(script: &mut TrafficScript, line: &mut ScriptedConnection, at: i64) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    script.data(line, CLIENT, at, [&preface[..], &frame([4, 0], 0, &[])].concat());
    script.data(line, SERVER, at, frame([4, 0], 0, &[0, 3, 0, 0, 0, 100]));
    script.data(line, CLIENT, at, frame([4, 1], 0, &[]));
    script.data(line, SERVER, at, frame([4, 1], 0, &[]));
}

/// A unary call that is answered after `think` ms.
fn unary(
    script: &mut TrafficScript,
    line: &mut ScriptedConnection,
    stream: u32,
    [at, think]: [i64; 2],
    status: &str,
) {
    let ask = [headers(stream, false, &call("/shop.Cart/Add")), frame([0, 1], stream, &message(9))];
    script.data(line, CLIENT, at, ask.concat());
    let answer = [
        headers(stream, false, &grpc_head()),
        frame([0, 0], stream, &message(20)),
        headers(stream, true, &grpc_status(status)),
    ];
    script.data(line, SERVER, at + think, answer.concat());
    script.ack(line, CLIENT, at + think + 1);
}

/// Calls on ten connections, 20 each, with a think time and a status by their number.
fn calls(think: fn(u32) -> i64, status: fn(u32) -> &'static str) -> (Report, ObservedRows) {
    let mut script = TrafficScript::default();
    for client in 0..10_i64 {
        let line = &mut script.open(50_051, client * 7, 1);
        greet(&mut script, line, client * 7 + 2);
        for number in 0..20 {
            let at = client * 7 + 10 + i64::from(number) * 2000;
            unary(&mut script, line, 2 * number + 1, [at, think(number)], status(number));
        }
    }
    script.run(ModelOptions::default())
}

/// elastic/beats#42692, zeek/zeek#3731, MITRECND/bro-http2#6: HTTP/2 without TLS was a connection
/// without a protocol.
#[test]
fn a_slow_grpc_method_is_judged_like_a_slow_url() {
    let (report, rows) = calls(|number| if number % 2 == 0 { 10 } else { 900 }, |_| "0");
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    let tier = &report.tiers[0];
    assert_eq!((tier.protocol, tier.requests, tier.responses), ("http2", 200, 200));
    assert_eq!((tier.errors_5xx, tier.unanswered, tier.unasked), (0, 0, 0));
    assert_eq!(rows.requests[0], row("/shop.Cart/Add", [10, 10]));
    assert_eq!(tier.urls[0].template, "/shop.Cart/Add");
    let (fast, _) = calls(|_| 10, |_| "0");
    assert_eq!(fast.verdict, DelayVerdict::Smooth, "{}", fast.why);
}

/// istio/istio#5429, envoyproxy/envoy#860, grpc/grpc-dotnet#856: the HTTP status of a failed call is
/// 200. Statuses that clients cause are no failures.
#[test]
fn a_grpc_status_in_trailers_fails_a_call() {
    let (report, rows) = calls(|_| 10, |number| if number % 3 == 0 { "14" } else { "0" });
    assert_eq!(report.verdict, DelayVerdict::Failing, "{}", report.why);
    assert_eq!(report.tiers[0].errors_5xx, 70);
    assert_eq!(rows.databases[0], ("POST".to_owned(), "14".to_owned()));
    let (report, rows) = calls(|_| 10, |_| "5");
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
    assert_eq!((report.tiers[0].errors_5xx, &*rows.databases[0].1), (0, "5"));
}

/// grpc/grpc-java#12545 (a reset with an error), grpc/grpc-node#1969 (streams refused by the
/// server): calls that the server resets have failed, and one that ends without a status as well.
#[test]
fn calls_that_the_server_resets_have_failed() {
    let site = |code: u8, has_head: bool| {
        let mut script = TrafficScript::default();
        for client in 0..5_i64 {
            let line = &mut script.open(50_051, client * 7, 1);
            greet(&mut script, line, client * 7 + 2);
            for number in 0..10 {
                let (at, stream) = (client * 7 + 10 + i64::from(number) * 100, 2 * number + 1);
                if number % 2 == 0 {
                    unary(&mut script, line, stream, [at, 5], "0");
                    continue;
                }
                script.data(line, CLIENT, at, headers(stream, true, &call("/shop.Cart/Add")));
                if has_head {
                    script.data(line, SERVER, at + 5, headers(stream, false, &grpc_head()));
                }
                script.data(line, SERVER, at + 9, frame([3, 0], stream, &[0, 0, 0, code]));
            }
        }
        script.run(ModelOptions::default())
    };
    for has_head in [false, true] {
        let (report, rows) = site(7, has_head);
        assert_eq!(report.verdict, DelayVerdict::Failing, "{}", report.why);
        let end = if has_head { RequestEnd::Cut } else { RequestEnd::Reset };
        assert_eq!(rows.requests.iter().filter(|request| request.4 == end).count(), 25);
    }
    // An upload whose rest the server does not want.
    let (report, _) = site(0, true);
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
}

/// grpc/grpc-go#577, eclipse-vertx/vertx-http-proxy#132: a proxy dropped the trailers. A response of
/// trailers alone may lack the HTTP status (grpc/grpc#10172), and gRPC-Web has no trailers.
#[test]
fn a_grpc_response_without_a_status_has_failed() {
    let site = |answer: fn(u32) -> Vec<u8>| {
        let mut script = TrafficScript::default();
        let line = &mut script.open(50_051, 0, 1);
        greet(&mut script, line, 2);
        for number in 0..30 {
            let (at, stream) = (10 + i64::from(number) * 50, 2 * number + 1);
            script.data(line, CLIENT, at, headers(stream, true, &call("/shop.Cart/Add")));
            script.data(line, SERVER, at + 5, answer(stream));
            script.ack(line, CLIENT, at + 6);
        }
        let (report, rows) = script.run(ModelOptions::default());
        (report.verdict, report.tiers[0].errors_5xx, rows.databases[0].1.clone())
    };
    let dropped =
        site(|stream| [headers(stream, false, &grpc_head()), data(stream, true, 30)].concat());
    assert_eq!(dropped, (DelayVerdict::Failing, 30, "no status".to_owned()));
    let alone = site(|stream| headers(stream, true, &grpc_status("12")));
    assert_eq!(alone, (DelayVerdict::Failing, 30, "12".to_owned()));
    let web = site(|stream| {
        let head = [&[0x88][..], &literal(31, ["", "application/grpc-web+proto"])].concat();
        [headers(stream, false, &head), data(stream, true, 30)].concat()
    });
    assert_eq!(web, (DelayVerdict::Smooth, 0, String::new()));
}

/// grpc/grpc-java#5806, grpc/grpc-go#2767: calls above the last stream of a GOAWAY were not taken;
/// those below it are answered.
#[test]
fn a_goaway_ends_the_calls_that_the_server_does_not_take() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(50_051, 0, 1);
    greet(&mut script, line, 2);
    for stream in [1, 3, 5] {
        script.data(line, CLIENT, 10, headers(stream, true, &call("/shop.Cart/Add")));
    }
    script.data(line, SERVER, 12, frame([7, 0], 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
    script.data(line, SERVER, 14, frame([7, 0], 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
    for (stream, at) in [(3, 30), (1, 50)] {
        let answer =
            [headers(stream, false, &grpc_head()), headers(stream, true, &grpc_status("0"))];
        script.data(line, SERVER, at, answer.concat());
    }
    script.send(line, SERVER, 51, Flags::FIN | Flags::ACK, b"");
    let (report, rows) = script.run(ModelOptions::default());
    let ends: Vec<_> = rows.requests.iter().map(|request| (request.2, request.4)).collect();
    assert_eq!(ends[1..], [(20, RequestEnd::Ok), (40, RequestEnd::Ok)]);
    assert_eq!(ends[0].1, RequestEnd::Closed);
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered), (3, 2, 1));
}

/// Responses of which the client reads a window and then nothing for `pause` ms.
fn downloads(pause: i64, has_window: bool) -> (Report, ObservedRows) {
    let mut script = TrafficScript::default();
    for client in 0..20_i64 {
        let at = client * 50;
        let line = &mut script.open(8000, at, 1);
        greet(&mut script, line, at + 2);
        if has_window {
            script.data(line, CLIENT, at + 3, frame([8, 0], 0, &[0, 16, 0, 0]));
            script.data(line, CLIENT, at + 3, frame([4, 0], 0, &[0, 4, 0, 16, 0, 0]));
        }
        script.data(line, CLIENT, at + 10, headers(1, true, &page("/file")));
        script.data(line, SERVER, at + 20, headers(1, false, &[0x88]));
        for part in 0..4 {
            let piece = data(1, false, 16_384 - usize::from(part == 3));
            script.data(line, SERVER, at + 20, piece);
            script.ack(line, CLIENT, at + 21);
        }
        let update = [frame([8, 0], 0, &[0, 1, 0, 0]), frame([8, 0], 1, &[0, 1, 0, 0])].concat();
        if !has_window {
            script.data(line, CLIENT, at + 21 + pause, update);
        }
        script.data(line, SERVER, at + 22 + pause, data(1, true, 1000));
        script.ack(line, CLIENT, at + 23 + pause);
    }
    script.run(ModelOptions::default())
}

/// linkerd/linkerd#1013, tower-rs/tower-grpc#14, haskell-grpc-native/http2-client#74: the sender has
/// used up a window, and the client's kernel has all of it.
#[test]
fn a_client_that_updates_no_window_reads_slowly() {
    let (report, _) = downloads(800, false);
    assert_eq!(report.verdict, DelayVerdict::ClientReader, "{}", report.why);
    assert_eq!(report.tiers[0].evidence.zero_windows, 20);
    let (report, _) = downloads(8, false);
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
    // With a larger window the same pause is the server's.
    let (report, _) = downloads(1200, true);
    assert_eq!(report.verdict, DelayVerdict::Unknown, "{}", report.why);
    assert!(report.why.contains("pauses of the server"), "{}", report.why);
    assert_eq!(report.tiers[0].evidence.zero_windows, 0);
}

/// vmagamedov/grpclib#74: uploads that wait for the server's windows.
#[test]
fn a_server_that_updates_no_window_reads_uploads_slowly() {
    let mut script = TrafficScript::default();
    for client in 0..20_i64 {
        let at = client * 50;
        let line = &mut script.open(50_051, at, 1);
        greet(&mut script, line, at + 2);
        script.data(line, CLIENT, at + 10, headers(1, false, &call("/files.Upload/Put")));
        for part in 0..4 {
            script.data(line, CLIENT, at + 10, data(1, false, 16_384 - usize::from(part == 3)));
            script.ack(line, SERVER, at + 11);
        }
        let update = [frame([8, 0], 0, &[0, 1, 0, 0]), frame([8, 0], 1, &[0, 1, 0, 0])].concat();
        script.data(line, SERVER, at + 900, update);
        script.data(line, CLIENT, at + 901, data(1, true, 1000));
        let answer = [headers(1, false, &grpc_head()), headers(1, true, &grpc_status("0"))];
        script.data(line, SERVER, at + 905, answer.concat());
        script.ack(line, CLIENT, at + 906);
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    assert!(report.why.contains("reads uploads slowly"), "{}", report.why);
}

/// MITRECND/bro-http2#8: the upgrade from HTTP/1.1; the response comes on stream 1, here in the
/// segment of the switch.
#[test]
fn an_upgrade_to_h2c_is_followed() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(80, 0, 1);
    let ask = "GET /first HTTP/1.1\r\nHost: www\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
    script.data(line, CLIENT, 10, ask);
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    let answer = [headers(1, false, &[0x88]), data(1, true, 50)].concat();
    script.data(line, SERVER, 310, [&switch[..], &frame([4, 0], 0, &[]), &answer].concat());
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let second = headers(3, true, &page("/second"));
    script.data(line, CLIENT, 320, [&preface[..], &frame([4, 0], 0, &[]), &second].concat());
    script.data(line, SERVER, 340, [headers(3, false, &[0x8e]), data(3, true, 0)].concat());
    script.ack(line, CLIENT, 341);
    let (report, rows) = script.run(ModelOptions::default());
    let mut second = row("/second", [20, 20]);
    second.1 = Some(500);
    assert_eq!(rows.requests, [row("/first", [300, 300]), second]);
    assert_eq!(report.tiers[0].protocol, "http2");
}

/// dridi/cashpack#4, gma1k/podtrace#283, grafana/beyla#1530: a capture that begins in the middle, or
/// lacks packets, lacks entries of the header table; what does not need them is read.
#[test]
fn the_middle_of_a_connection_is_read_without_its_header_table() {
    let mut script = TrafficScript::default();
    for client in 0..10_i64 {
        let line = &mut script.line(50_051);
        let at = client * 20;
        script.data(line, CLIENT, at, frame([8, 0], 0, &[0, 0, 1, 0]));
        for number in 0..10 {
            let (at, stream) = (at + 50 + i64::from(number) * 300, 2 * number + 101);
            // Path, content type and status are entries from before the capture.
            script.data(line, CLIENT, at, headers(stream, true, &[0x83, 0x86, 0xc4]));
            let answer = [headers(stream, false, &[0x88, 0xc1]), data(stream, false, 30)].concat();
            script.data(line, SERVER, at + 200, answer);
            script.data(line, SERVER, at + 201, headers(stream, true, &[0xc2]));
            script.ack(line, CLIENT, at + 202);
        }
    }
    let (report, rows) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!((tier.protocol, tier.port), ("http2", 50_051));
    assert_eq!((tier.requests, tier.responses, tier.unasked), (100, 100, 0));
    assert_eq!(rows.requests[5].1, Some(200));
    let think = tier.think.expect("there are answers");
    assert!((199_000..202_000).contains(&think.p50), "{think:?}");
}

/// Segments that the tap lost: what the server sent in them is neither slow nor missing.
#[test]
fn responses_of_lost_segments_are_unseen() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(50_051, 0, 1);
    greet(&mut script, line, 2);
    script.data(line, CLIENT, 10, headers(1, true, &call("/a.B/C")));
    script.data(line, CLIENT, 11, headers(3, true, &call("/a.B/D")));
    script.data(line, SERVER, 20, headers(1, false, &grpc_head()));
    script.data(line, SERVER, 21, [0; 700]);
    script.packets.pop();
    script.ack(line, CLIENT, 22);
    script.data(line, CLIENT, 30, headers(5, true, &call("/a.B/E")));
    let answer = [headers(5, false, &grpc_head()), headers(5, true, &grpc_status("0"))].concat();
    script.data(line, SERVER, 45, answer);
    script.data(line, SERVER, 50, data(3, true, 10));
    script.ack(line, CLIENT, 51);
    let (report, rows) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unseen, tier.unanswered), (3, 2, 1, 0));
    assert_eq!(rows.requests.iter().filter(|one| one.4 == RequestEnd::Ok).count(), 2);
    assert!(rows.requests.iter().any(|one| one.0 == "/a.B/E" && one.2 == 15));
}

/// openshift/origin#20311, prometheus-operator/prometheus-operator#2046 (streams that clients cancel
/// are no failures), etcd-io/etcd#15402: watches stay open, and neither side waits for the other.
#[test]
fn streams_that_stay_open_give_no_slow_application() {
    let site = |is_request_over: bool| {
        let mut script = TrafficScript::default();
        for client in 0..25_i64 {
            let at = client * 30;
            let line = &mut script.open(50_051, at, 1);
            greet(&mut script, line, at + 2);
            let ask = headers(1, false, &call("/watch.Watch/Watch"));
            script.data(
                line,
                CLIENT,
                at + 5,
                [ask, frame([0, u8::from(is_request_over)], 1, &message(5))].concat(),
            );
            script.data(line, SERVER, at + 9000, headers(1, false, &grpc_head()));
            for event in 0..3 {
                let at = at + 9000 + event * 4000;
                script.data(line, SERVER, at, frame([0, 0], 1, &message(30)));
                script.ack(line, CLIENT, at + 1);
            }
            script.data(line, SERVER, at + 22_000, headers(1, true, &grpc_status("0")));
            script.ack(line, CLIENT, at + 22_001);
        }
        script.run(ModelOptions::default()).0
    };
    let mut cancelled = TrafficScript::default();
    for client in 0..25_i64 {
        let line = &mut cancelled.open(50_051, client * 30, 1);
        greet(&mut cancelled, line, client * 30 + 2);
        for number in 0..2 {
            let at = client * 30 + 5 + i64::from(number) * 10;
            unary(&mut cancelled, line, 2 * number + 1, [at, 5], "0");
        }
        for (at, is_reset) in [(40, false), (9000, true)] {
            for stream in [5, 7] {
                let ask = headers(stream, false, &call("/watch.Watch/Watch"));
                let sent = if is_reset { frame([3, 0], stream, &[0, 0, 0, 8]) } else { ask };
                cancelled.data(line, CLIENT, client * 30 + at, sent);
                cancelled.ack(line, SERVER, client * 30 + at + 1);
            }
        }
    }
    let (report, _) = cancelled.run(ModelOptions::default());
    assert_eq!((report.tiers[0].unanswered, report.verdict), (0, DelayVerdict::Smooth));
    let duplex = site(false);
    assert_eq!(duplex.verdict, DelayVerdict::Smooth, "{}", duplex.why);
    let events = site(true);
    assert_eq!(events.verdict, DelayVerdict::Unknown, "{}", events.why);
    assert!(events.why.contains("streams"), "{}", events.why);
}

/// Keep-alive pings are no requests (grpc/grpc-node#717 has their GOAWAY), and a snap length cuts
/// what follows the frames' heads.
#[test]
fn pings_are_no_requests_and_cut_payload_hides_none() {
    let mut script = TrafficScript::default();
    for client in 0..10_i64 {
        let line = &mut script.open(50_051, client * 7, 1);
        greet(&mut script, line, client * 7 + 2);
        for number in 0..10 {
            let (at, stream) = (client * 7 + 10 + i64::from(number) * 500, 2 * number + 1);
            script.data(line, CLIENT, at, frame([6, 0], 0, &[1; 8]));
            script.data(line, SERVER, at + 250, frame([6, 1], 0, &[1; 8]));
            script.data(line, CLIENT, at + 300, headers(stream, true, &call("/a.B/C")));
            let head = headers(stream, false, &grpc_head());
            script.data(line, SERVER, at + 320, [head, data(stream, true, 3000)].concat());
            script.ack(line, CLIENT, at + 321);
        }
    }
    script.packets.iter_mut().for_each(|packet| packet.captured = 66);
    let (report, _) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered, tier.unseen), (100, 100, 0, 0));
    let think = tier.think.expect("there are answers");
    assert!((19_000..21_000).contains(&think.p95), "{think:?}");
}
