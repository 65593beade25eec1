//! What comes before requests, and what only looks like one.

use super::*;

/// A TLS record of `length` bytes.
fn record(kind: u8, length: u16) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    let mut out = vec![kind, 3, 3, high, low];
    out.resize(5 + usize::from(length), 0xee);
    out
}

pub(super) fn records(list: &[(u8, u16)]) -> Vec<u8> {
    list.iter().flat_map(|(kind, length)| record(*kind, *length)).collect()
}

/// A connection after a handshake of TLS 1.3, with tickets behind the client's Finished.
fn tls13(script: &mut TrafficScript, at: i64, first_request: u16) -> ScriptedConnection {
    let mut line = script.open(443, at, 1);
    script.data(&mut line, CLIENT, at + 2, records(&[(22, 250)]));
    script.data(&mut line, SERVER, at + 3, records(&[(22, 122), (20, 1), (23, 30), (23, 1400)]));
    script.data(&mut line, SERVER, at + 4, records(&[(23, 290), (23, 69)]));
    script.data(&mut line, CLIENT, at + 5, records(&[(20, 1), (23, 69), (23, first_request)]));
    script.data(&mut line, SERVER, at + 6, records(&[(23, 250), (23, 250)]));
    line
}

/// openssl/openssl#17654 and syncsynchalt/illustrated-tls13#11: the handshake and the tickets of TLS
/// 1.3 are application data on the wire.
#[test]
fn tickets_and_alerts_of_tls_1_3_are_neither_answers_nor_requests() {
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let at = client * 100;
        let think = if client < 40 { 10 } else { 1200 };
        let line = &mut tls13(&mut script, at, 120);
        script.data(line, SERVER, at + 5 + think, records(&[(23, 700)]));
        script.data(line, CLIENT, at + 7 + think, records(&[(23, 19)]));
        script.send(line, CLIENT, at + 8 + think, Flags::FIN | Flags::ACK, b"");
        script.send(line, SERVER, at + 9 + think, Flags::FIN | Flags::ACK, b"");
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered), (60, 60, 0));
    let think = tier.think.expect("there are answers");
    assert!((1_190_000..1_210_000).contains(&think.p95), "{think:?}");
}

/// A hello of a client (1) or server (2) with one extension.
pub(super) fn hello(kind: u8, suite: [u8; 2], extension: &[u8]) -> Vec<u8> {
    let [high, low] = suite;
    let suites: &[u8] = if kind == 1 { &[0, 2, high, low, 1, 0] } else { &[high, low, 0] };
    let size = u8::try_from(extension.len()).expect("short");
    let body = [&[3, 3][..], &[7; 32], &[0], suites, &[0, size], extension];
    let body = body.concat();
    let length = u8::try_from(body.len()).expect("short");
    [&[22, 3, 3, 0, length + 4, kind, 0, 0, length][..], &body].concat()
}

pub(super) const VERSION: [u8; 6] = [0, 0x2b, 0, 2, 3, 4];
const SUITE: [u8; 2] = [0x13, 1];
const EARLY_DATA: [u8; 4] = [0, 0x2a, 0, 0];

/// A client resumes a session with a request in its first flight; the answer comes at once, or after
/// the client's Finished.
fn early(script: &mut TrafficScript, [at, think]: [i64; 2]) -> ScriptedConnection {
    let mut line = script.open(443, at, 1);
    let asked = [hello(1, SUITE, &EARLY_DATA), records(&[(20, 1), (23, 77)])].concat();
    script.data(&mut line, CLIENT, at + 2, asked);
    let answer = [hello(2, SUITE, &VERSION), records(&[(20, 1), (23, 40), (23, 69)])].concat();
    script.data(&mut line, SERVER, at + 3, answer);
    if think < 3 {
        script.data(&mut line, SERVER, at + 2 + think, records(&[(23, 700)]));
    }
    script.data(&mut line, CLIENT, at + 6, records(&[(23, 21), (23, 69)]));
    script.data(&mut line, SERVER, at + 7, records(&[(23, 250)]));
    if think >= 3 {
        script.data(&mut line, SERVER, at + 2 + think, records(&[(23, 700)]));
    }
    line
}

/// OISF/suricata PR 3532: requests in early data are requests, and the handshake around them is not.
#[test]
fn early_data_of_tls_1_3_is_a_request() {
    for (think, expected) in [(1, DelayVerdict::Smooth), (1200, DelayVerdict::SlowApp)] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let line = &mut early(&mut script, [client * 100, think]);
            let at = client * 100 + 2000;
            script.data(line, CLIENT, at, records(&[(23, 130)]));
            script.data(line, SERVER, at + think.max(5), records(&[(23, 700)]));
            script.ack(line, CLIENT, at + think.max(5) + 1);
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (120, 120, 0), "{think}");
        assert_eq!(report.verdict, expected, "{think}: {}", report.why);
    }
}

/// erlang/otp#11237: after a HelloRetryRequest, hellos come behind the change of ciphers.
#[test]
fn a_second_hello_is_no_encrypted_handshake() {
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let at = client * 100;
        let line = &mut script.open(443, at, 1);
        script.data(line, CLIENT, at + 2, hello(1, SUITE, &VERSION));
        script.data(
            line,
            SERVER,
            at + 3,
            [hello(2, SUITE, &VERSION), records(&[(20, 1)])].concat(),
        );
        script.data(
            line,
            CLIENT,
            at + 4,
            [records(&[(20, 1)]), hello(1, SUITE, &VERSION)].concat(),
        );
        let flight = records(&[(23, 40), (23, 900), (23, 290), (23, 69)]);
        script.data(line, SERVER, at + 5, [hello(2, SUITE, &VERSION), flight].concat());
        script.data(line, CLIENT, at + 6, records(&[(23, 69), (23, 150)]));
        script.data(line, SERVER, at + 7, records(&[(23, 250), (23, 250)]));
        script.data(line, SERVER, at + 1206, records(&[(23, 700)]));
        script.ack(line, CLIENT, at + 1207);
    }
    let (report, _) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered), (60, 60, 0));
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
}

/// A server that writes head and body apart: once the tickets came, the head is the answer.
#[test]
fn after_the_tickets_the_first_record_is_the_answer() {
    let mut script = TrafficScript::default();
    for client in 0..30_i64 {
        let at = client * 50;
        let line = &mut tls13(&mut script, at, 22);
        script.data(line, CLIENT, at + 10, records(&[(23, 120)]));
        script.data(line, SERVER, at + 30, records(&[(23, 300)]));
        script.data(line, SERVER, at + 70, records(&[(23, 700)]));
        script.ack(line, CLIENT, at + 71);
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (30, 30));
    let think = report.tiers[0].think.expect("there are answers");
    assert!((19_000..21_500).contains(&think.p50), "{think:?}");
}

#[test]
fn an_answer_without_tickets_is_the_answer() {
    let mut script = TrafficScript::default();
    for client in 0..30_i64 {
        let at = client * 50;
        let line = &mut tls13(&mut script, at, 120);
        script.packets.pop();
        line.next[SERVER] = line.next[SERVER].wrapping_sub(510);
        script.data(line, SERVER, at + 25, records(&[(23, 300)]));
        script.ack(line, CLIENT, at + 26);
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (30, 30));
    let think = report.tiers[0].think.expect("there are answers");
    assert!((19_000..21_500).contains(&think.p50), "{think:?}");
}

/// medic/cht-core#7183: over TLS, a message of the server that is late because nothing happened
/// looks like a slow answer.
#[test]
fn messages_of_a_websocket_over_tls_give_no_definite_verdict() {
    let mut script = TrafficScript::default();
    for client in 0..15_i64 {
        let at = client * 200;
        let line = &mut tls13(&mut script, at, 400);
        script.data(line, SERVER, at + 20, records(&[(23, 200)]));
        for n in 0..4 {
            let at = at + 1000 + n * 8000;
            script.data(line, CLIENT, at, records(&[(23, 50)]));
            script.data(line, SERVER, at + 3000, records(&[(23, 90)]));
        }
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::Unknown, "{}", report.why);
    assert!(report.why.contains("WebSocket"), "{}", report.why);
    let slices = &report.tiers[0].slices;
    assert!(slices.iter().all(|slice| slice.verdict != Some(DelayVerdict::SlowApp)));
}

#[test]
fn a_long_poll_beside_fast_routes_gives_no_definite_verdict() {
    let site = |wait: fn(i64) -> i64| {
        let mut script = TrafficScript::default();
        for client in 0..15_i64 {
            let line = &mut script.open(80, client * 200, 1);
            let mut at = client * 200 + 50;
            for n in 0..3 {
                script.exchange(line, at, "/poll", wait(n));
                script.exchange(line, at + wait(n) + 100, "/page", 10);
                at += wait(n) + 300;
            }
        }
        script.run(ModelOptions::default()).0
    };
    let polls = site(|n| if n == 1 { 4000 } else { 25_000 });
    assert_eq!(polls.verdict, DelayVerdict::Unknown, "{}", polls.why);
    assert!(polls.why.contains("long poll"), "{}", polls.why);
    // A report that is slow now and then is slow.
    let slow = site(|n| if n == 1 { 6000 } else { 300 });
    assert_eq!(slow.verdict, DelayVerdict::SlowApp, "{}", slow.why);
}

/// probelabs/goreplay#291 (BAN), zeek/zeek#5595 (QUERY), OISF/suricata#1424 (WebDAV), and a token
/// that is not registered.
#[test]
fn any_token_is_a_method() {
    let mut script = TrafficScript::default();
    for (client, first) in (0_i64..).zip(["BAN", "QUERY", "LOCK", "M-SEARCH", "x-Own!1"]) {
        let line = &mut script.open(80, client * 100, 1);
        for (n, method) in (0_i64..).zip([first, "GET", "PROPPATCH", "VERSION-CONTROL"]) {
            let at = client * 100 + 10 + n * 20;
            let request = format!("{method} /dav/{n} HTTP/1.1\r\nHost: www\r\n\r\n");
            let (head, rest) = request.split_at(if n == 2 { 5 } else { request.len() });
            script.data(line, CLIENT, at, head);
            if !rest.is_empty() {
                script.data(line, CLIENT, at, rest);
            }
            script.data(line, SERVER, at + 5, ok(20));
            script.ack(line, CLIENT, at + 6);
        }
    }
    let (report, rows) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!((tier.protocol, tier.requests, tier.responses), ("http", 20, 20));
    assert_eq!((tier.unasked, tier.unanswered), (0, 0));
    let methods: Vec<&str> = rows.databases.iter().map(|(method, _)| &**method).collect();
    assert!(
        ["BAN", "QUERY", "LOCK", "M-SEARCH", "x-Own!1"].iter().all(|one| methods.contains(one))
    );
}

/// zeek/zeek#1554, sonertari/SSLproxy#8, and apache/trafficserver#7332 for the short form.
#[test]
fn a_proxy_header_before_the_request_is_skipped() {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let version_2 = |length: u16| {
        [&signature[..], &[0x21, 0x11], &length.to_be_bytes(), &vec![7; length.into()]].concat()
    };
    let headers = [
        b"PROXY TCP4 198.51.100.1 10.0.0.80 50000 80\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        version_2(12),
        version_2(3000),
    ];
    for header in &headers {
        for has_own_segment in [false, true] {
            let mut script = TrafficScript::default();
            let line = &mut script.open(80, 0, 1);
            let request = get("/page");
            let parts = if has_own_segment {
                vec![header.clone(), request]
            } else {
                [&header[..], &request].concat().chunks(1400).map(<[u8]>::to_vec).collect()
            };
            for part in parts {
                script.data(line, CLIENT, 10, part);
            }
            script.data(line, SERVER, 900, b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
            script.ack(line, CLIENT, 901);
            script.exchange(line, 1000, "/next", 5);
            let (report, rows) = script.run(ModelOptions::default());
            let first = ("/page".to_owned(), Some(503), 890, 890, RequestEnd::Ok);
            assert_eq!(rows.requests, [first, row("/next", [5, 5])], "{} bytes", header.len());
            assert_eq!((report.tiers[0].protocol, report.tiers[0].errors_5xx), ("http", 1));
        }
    }
}

/// zeek/zeek#664, OISF/suricata#4102, dmachard/DNS-collector#233: TCP Fast Open, and a server that
/// takes only the SYN.
#[test]
fn a_request_in_the_syn_is_read_and_may_be_refused() {
    let site = |is_refused: bool| {
        let mut script = TrafficScript::default();
        for client in 0..30_i64 {
            let (mut line, at) = (script.line(80), client * 100);
            let request = get("/fast");
            script.send(&mut line, CLIENT, at, Flags::SYN, &request);
            let length = u32::try_from(request.len()).expect("short");
            if is_refused {
                line.next[CLIENT] = line.next[CLIENT].wrapping_sub(length);
            }
            script.send(&mut line, SERVER, at + 1, Flags::SYN | Flags::ACK, b"");
            script.ack(&mut line, CLIENT, at + 11);
            if is_refused {
                script.data(&mut line, CLIENT, at + 11, &request);
            }
            script.data(&mut line, SERVER, at + 30, ok(20));
            script.ack(&mut line, CLIENT, at + 41);
            script.exchange(&mut line, at + 60, "/next", 5);
        }
        script.run(ModelOptions::default())
    };
    for is_refused in [false, true] {
        let (report, rows) = site(is_refused);
        assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
        let tier = &report.tiers[0];
        assert_eq!((tier.port, tier.requests, tier.responses), (80, 60, 60));
        assert!(rows.requests.iter().any(|request| request.0 == "/fast"));
        assert!(rows.connections.iter().all(|one| one.retransmits == [0, 0]));
    }
}

/// zephyrproject-rtos/zephyr#47966 (a probe is the next byte), ntop/ntopng#1711 (keep-alives counted
/// as retransmits), tass-belgium/picotcp#126 (a probe without data).
#[test]
fn probes_of_a_closed_window_and_keep_alives_are_no_retransmits() {
    let mut script = TrafficScript::default();
    for client in 0..20_i64 {
        let at = client * 40;
        let line = &mut script.open(80, at, 1);
        script.data(line, CLIENT, at + 10, get("/big"));
        let answer = ok(3000);
        script.data(line, SERVER, at + 20, &answer[..1400]);
        line.window = 0;
        script.ack(line, CLIENT, at + 21);
        // The byte of a probe is not accepted, so it is sent again, alone and with the rest.
        for n in 0..3 {
            script.data(line, SERVER, at + 230 + n * 300, &answer[1400..1401]);
            line.next[SERVER] = line.next[SERVER].wrapping_sub(1);
            script.ack(line, CLIENT, at + 231 + n * 300);
        }
        line.window = 500;
        script.ack(line, CLIENT, at + 1000);
        script.data(line, SERVER, at + 1001, &answer[1400..2800]);
        script.data(line, SERVER, at + 1001, &answer[2800..]);
        script.ack(line, CLIENT, at + 1002);
        // Keep-alives repeat the byte before the next one.
        for n in 0..5 {
            line.next[CLIENT] = line.next[CLIENT].wrapping_sub(1);
            script.data(line, CLIENT, at + 20_000 + n * 10_000, b"\0");
            script.ack(line, SERVER, at + 20_001 + n * 10_000);
        }
    }
    let (report, rows) = script.run(ModelOptions::default());
    assert!(rows.connections.iter().all(|one| one.retransmits == [0, 0]), "{}", report.why);
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (20, 20));
    assert_ne!(report.verdict, DelayVerdict::PathLoss, "{}", report.why);
}
