//! Delays between several ports, and failures that must not pass for health.

use super::protocols::records;
use super::*;

/// Connects to another server.
fn open_to(
    script: &mut TrafficScript,
    mut line: ScriptedConnection,
    at: i64,
) -> ScriptedConnection {
    script.send(&mut line, CLIENT, at, Flags::SYN, b"");
    script.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
    script.ack(&mut line, CLIENT, at);
    line
}

/// Connections to `port`, opened `step` ms apart; `each` gets the time of the handshake's end.
fn site(
    [count, step, port]: [i64; 3],
    mut each: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64, i64),
) -> Report {
    let mut script = TrafficScript::default();
    for client in 0..count {
        let port = u16::try_from(port).expect("a port");
        let line = &mut script.open(port, client * step, 1);
        each(&mut script, line, client, client * step + 1);
    }
    judge(script)
}

fn judge(script: TrafficScript) -> Report {
    script.run(ModelOptions::default()).0
}

#[track_caller]
fn check(report: &Report, expected: DelayVerdict, word: &str) {
    assert_eq!(report.verdict, expected, "{}", report.why);
    assert!(report.why.contains(word), "{}", report.why);
}

/// Answers of an application to `clients` and what its database does meanwhile: the times of the
/// queries of each request.
fn application(clients: i64, queries: impl Fn(i64) -> Vec<i64>) -> TrafficScript {
    let mut script = TrafficScript::default();
    for client in 0..clients {
        let app = &mut script.open(80, client * 7, 1);
        let mut line = script.line(6379);
        // The application, which has the address of the server, opens it.
        line.ends = [Endpoint { port: line.ends[CLIENT].port, ..end(2, 0) }, end(9, 6379)];
        let database = &mut open_to(&mut script, line, client * 7);
        for n in 0..5 {
            let times = queries(client * 5 + n);
            let start = 300 + n * 3000 + (client * 7919) % 899;
            script.data(app, CLIENT, start, get("/list"));
            let mut at = start + 2;
            for time in times {
                script.data(database, CLIENT, at, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
                script.data(database, SERVER, at + time, b"$1\r\nv\r\n");
                script.ack(database, CLIENT, at + time);
                at += time + 1;
            }
            script.data(app, SERVER, at + 2, ok(20));
            script.ack(app, CLIENT, at + 3);
        }
    }
    script
}

/// mozilla/pontoon#3545, intuitem/ciso-assistant-community#4855, spring-projects/spring-petclinic#1302:
/// many quick queries are the application's doing; one slow query among forty is the database's,
/// though no p95 shows it.
#[test]
fn one_slow_query_is_the_databases_and_many_quick_ones_are_the_applications() {
    let one_slow =
        judge(application(40, |_| (0..40).map(|n| if n == 7 { 1100 } else { 1 }).collect()));
    check(&one_slow, DelayVerdict::SlowApp, "port 6379:");
    let many = judge(application(40, |_| vec![29; 40]));
    check(&many, DelayVerdict::SlowApp, "port 80:");
}

/// golang/go#17341 and rakyll/boom#100: while a server stands still, its clients wait, and send all
/// at once when it continues.
#[test]
fn a_burst_after_a_stall_of_the_server_is_not_the_clients() {
    let mut script = TrafficScript::default();
    for client in 0..100_i64 {
        let (line, mut at) = (&mut script.open(80, client * 3, 1), 400 + client * 9);
        for _ in 0..30 {
            // Every two seconds it stops for 600 ms.
            let into = (at + 10) % 2000;
            let think = if into < 600 { 600 - into + 10 + client % 20 } else { 10 };
            script.exchange(line, at, "/a", think);
            at += think + 150 + client % 60;
        }
    }
    check(&judge(script), DelayVerdict::SlowApp, "/a");
}

/// nginx-proxy in front of a page and its images: the first request of a connection is the page.
#[test]
fn a_slow_page_that_opens_the_connection_is_no_accept_queue() {
    let report = site([60, 150, 80], |script, line, _, at| {
        script.exchange(line, at + 5, "/checkout", 900);
        (0..6).for_each(|n| script.exchange(line, at + 950 + n * 40, "/logo.png", 5));
    });
    check(&report, DelayVerdict::SlowApp, "/checkout");
}

/// kubernetes/kubernetes#3734 and istio/istio#38191: one of many servers of a port is slow.
#[test]
pub(super) fn one_slow_server_of_many_is_named() {
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let mut line = script.line(8080);
        let server = 10 + u8::try_from(client % 30).expect("small");
        line.ends[SERVER] = end(server, 8080);
        let mut line = open_to(&mut script, line, client * 5);
        for n in 0..20 {
            let think = if server == 17 { 800 } else { 15 };
            script.exchange(&mut line, 400 + n * 1000 + (client * 7919) % 899, "/a", think);
        }
    }
    check(&judge(script), DelayVerdict::SlowApp, "192.0.2.17");
}

/// openssl/openssl#29227 and MagicStack/uvloop#321: the ServerHello comes late, and all else is fast.
#[test]
fn a_late_server_hello_is_not_smooth() {
    let report = site([40, 60, 443], |script, line, _, at| {
        script.data(line, CLIENT, at + 2, records(&[(22, 200)]));
        script.data(line, SERVER, at + 702, records(&[(22, 100)]));
        script.data(line, CLIENT, at + 704, records(&[(20, 1), (22, 40)]));
        script.data(line, SERVER, at + 706, records(&[(20, 1), (22, 40)]));
        script.data(line, CLIENT, at + 710, records(&[(23, 120)]));
        script.data(line, SERVER, at + 720, records(&[(23, 200)]));
    });
    check(&report, DelayVerdict::Unknown, "first TLS record");
}

/// processone/tsung#408, mitmproxy/mitmproxy#3201, mbrubeck/agate#30: clients refuse the certificate.
#[test]
fn handshakes_that_end_with_an_alert_are_failures() {
    for percent in [30, 100] {
        let report = site([100, 50, 443], |script, line, client, at| {
            script.data(line, CLIENT, at + 2, records(&[(22, 100)]));
            script.data(line, SERVER, at + 4, records(&[(22, 100)]));
            if client < percent {
                script.data(line, CLIENT, at + 6, records(&[(21, 2)]));
                script.send(line, CLIENT, at + 6, Flags::FIN | Flags::ACK, b"");
            } else {
                script.data(line, CLIENT, at + 6, records(&[(20, 1), (22, 40), (23, 90)]));
                script.data(line, SERVER, at + 7, records(&[(20, 1), (22, 40), (23, 90)]));
            }
        });
        check(&report, DelayVerdict::Failing, "handshake");
    }
}

/// rancher/rancher#4734 and gnosek/nginx-upstream-fair#34: some connections are refused, or nothing
/// answers at all.
#[test]
fn connections_that_never_open_are_failures() {
    for (percent, is_refused) in [(30, true), (100, true), (100, false)] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let at = client * 80;
            if client * 100 >= percent * 60 {
                let line = &mut script.open(80, at, 1);
                script.exchange(line, at + 5, "/a", 10);
                continue;
            }
            let line = &mut script.line(80);
            script.send(line, CLIENT, at, Flags::SYN, b"");
            if is_refused {
                script.send(line, SERVER, at + 1, Flags::RST | Flags::ACK, b"");
            } else {
                [1000, 3000, 7000].iter().for_each(|later| {
                    script
                        .again(later - (script.packets.last().expect("one").ts - BEGIN) / MS + at);
                });
            }
        }
        check(&judge(script), DelayVerdict::Failing, "refused");
    }
}

/// http-party/node-http-proxy#623, haproxy/haproxy#164 and kaazing/gateway#926: fewer bytes than
/// announced, with status 200. A complete body before a reset is no failure.
#[test]
fn bodies_that_the_server_breaks_off_are_failures() {
    let broken = |is_short: bool, flags: Flags, closer: usize| {
        site([60, 70, 80], |script, line, client, at| {
            script.data(line, CLIENT, at + 3, get("/file"));
            let answer = ok(900);
            let length = if is_short && client % 3 == 0 { 500 } else { answer.len() };
            script.data(line, SERVER, at + 10, &answer[..length]);
            script.ack(line, CLIENT, at + 11);
            script.send(line, closer, at + 12, flags, b"");
        })
    };
    let fin = Flags::FIN | Flags::ACK;
    for flags in [fin, Flags::RST] {
        check(&broken(true, flags, SERVER), DelayVerdict::Failing, "broken off");
        check(&broken(false, flags, SERVER), DelayVerdict::Smooth, "");
        // Clients that leave have seen enough.
        check(&broken(true, flags, CLIENT), DelayVerdict::Smooth, "");
    }
}

/// iv-org/invidious#604, Kong/kong#2360, openresty/lua-resty-core#65: a backend that dies with the
/// request, one that has forgotten an idle connection, and one whose reset the request crosses. Only
/// the first is no race.
#[test]
fn a_reset_after_the_request_was_taken_is_no_race() {
    let resets = |ack_ms: Option<i64>, idle_reset: bool| {
        site([50, 30, 80], |script, line, client, at| {
            script.exchange(line, at + 5, "/a", 10);
            let at = at + 65_000;
            if client % 2 == 1 {
                return;
            }
            if idle_reset {
                script.send(line, SERVER, at, Flags::RST | Flags::ACK, b"");
            }
            script.data(line, CLIENT, at, get("/a"));
            let flags = if ack_ms.is_some() { Flags::RST | Flags::ACK } else { Flags::RST };
            script.send(line, SERVER, at + ack_ms.unwrap_or(0), flags, b"");
        })
    };
    check(&resets(Some(4), false), DelayVerdict::Failing, "never answered");
    check(&resets(None, false), DelayVerdict::KeepaliveRace, "reset");
    check(&resets(None, true), DelayVerdict::KeepaliveRace, "25 requests");
}

/// google/gvisor#7619: a server that still has the old connection acknowledges the SYN, and the next
/// SYN comes a second later. Its accept queue is not full.
#[test]
fn a_syn_that_meets_an_old_connection_is_no_accept_queue() {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let (mut line, at) = (script.line(80), client * 50);
        let [isn, theirs] = line.next;
        script.send(&mut line, CLIENT, at, Flags::SYN, b"");
        if client % 4 == 0 {
            script.ack(&mut line, SERVER, at);
            script.send(&mut line, CLIENT, at, Flags::RST, b"");
            line.next = [isn, theirs];
            script.send(&mut line, CLIENT, at + 1000, Flags::SYN, b"");
        }
        let at = at + if client % 4 == 0 { 1000 } else { 0 };
        script.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        script.ack(&mut line, CLIENT, at + 1);
        script.exchange(&mut line, at + 2, "/a", 10);
    }
    let report = judge(script);
    assert_eq!(report.tiers[0].evidence.late_syns, 0, "{}", report.why);
}

/// dndx/phantun#159 shows SYN-ACKs that are repeated; here they arrive at the second try.
#[test]
fn syn_acks_that_are_lost_are_path_loss() {
    let mut script = TrafficScript::default();
    for client in 0..100_i64 {
        let (mut line, at) = (script.line(80), client * 40);
        script.send(&mut line, CLIENT, at, Flags::SYN, b"");
        script.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        let late = if client % 10 == 0 { 1000 } else { 0 };
        if late > 0 {
            script.again(late);
        }
        script.ack(&mut line, CLIENT, at + late + 5);
        script.exchange(&mut line, at + late + 6, "/a", 10);
    }
    check(&judge(script), DelayVerdict::PathLoss, "second SYN-ACK");
}

/// chmorgan/libesphttpd#54 and http-rs/async-h1#199: small writes wait for delayed acknowledgements.
/// oven-sh/bun#36006 and genodelabs/genode#4056: a server that reads its upload slowly. nginx/nginx#864:
/// a head that is sent at once, and a body seconds later; events come when something happens.
#[test]
fn slow_bodies_have_their_owner() {
    let nagle = site([40, 90, 80], |script, line, _, at| {
        script.data(line, CLIENT, at, get("/a"));
        for (n, part) in (0_i64..).zip(ok(900).chunks(100)) {
            script.data(line, SERVER, at + 5 + n * 40, part);
            script.ack(line, CLIENT, at + 44 + n * 40);
        }
    });
    assert_ne!(nagle.verdict, DelayVerdict::ClientReader, "{}", nagle.why);
    let upload = site([40, 90, 80], |script, line, _, at| {
        script.data(line, CLIENT, at, b"POST /up HTTP/1.1\r\nContent-Length: 3000\r\n\r\n");
        for n in 0..3 {
            script.data(line, CLIENT, at + 1 + n * 600, [b'x'; 1000]);
            script.ack(line, SERVER, at + 2 + n * 600);
            script.packets.last_mut().expect("it was pushed").window = 0;
            script.ack(line, SERVER, at + 590 + n * 600);
        }
        script.data(line, SERVER, at + 1800, ok(10));
    });
    check(&upload, DelayVerdict::SlowApp, "uploads");
    let early_head = site([40, 90, 80], |script, line, _, at| {
        script.data(line, CLIENT, at, get("/a"));
        let answer = ok(2000);
        script.data(line, SERVER, at + 5, &answer[..60]);
        script.ack(line, CLIENT, at + 6);
        script.data(line, SERVER, at + 3000, &answer[60..]);
        script.ack(line, CLIENT, at + 3001);
    });
    check(&early_head, DelayVerdict::Unknown, "pauses of the server");
    let events = site([40, 90, 80], |script, line, _, at| {
        script.data(line, CLIENT, at, get("/events"));
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        script.data(line, SERVER, at + 5, head);
        (1..5).for_each(|n| script.data(line, SERVER, at + n * 3000, "data: x\n\n"));
        script.send(line, CLIENT, at + 14_000, Flags::FIN | Flags::ACK, b"");
    });
    check(&events, DelayVerdict::Smooth, "");
}

/// demikernel/inetstack PR 86 leaves out the open from both ends at once.
#[test]
fn both_ends_may_open_a_connection_at_once() {
    let mut script = TrafficScript::default();
    for client in 0..30_i64 {
        let (mut line, at) = (script.line(8080), client * 50);
        let isns = line.next;
        for flags in [Flags::SYN, Flags::SYN | Flags::ACK] {
            line.next = isns;
            script.send(&mut line, CLIENT, at, flags, b"");
            script.send(&mut line, SERVER, at, flags, b"");
        }
        script.exchange(&mut line, at + 5, "/a", 10);
    }
    let report = judge(script);
    check(&report, DelayVerdict::Smooth, "port 8080");
    assert_eq!((report.tiers.len(), report.tiers[0].requests), (1, 30));
}
