//! Verdicts for known faults.

use super::*;

/// Two hundred connections over ten seconds, 20 requests each, answered after 20 to 60 ms; `shape`
/// may hold a request in the network (`held`) or change its send time.
fn crowd(mut each: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64, i64)) -> Report {
    let mut script = TrafficScript::default();
    for client in 0..200 {
        let line = &mut script.open(80, client * 3, 1);
        for n in 0..20 {
            let at = 700 + n * 500 + (client * 7919) % 499;
            let think = 20 + (client * 31 + n * 17) % 40;
            each(&mut script, line, at, think);
        }
    }
    script.run(ModelOptions::default()).0
}

#[track_caller]
fn verdict(report: &Report, expected: DelayVerdict) {
    assert_eq!(report.verdict, expected, "{}", report.why);
}

#[test]
pub(super) fn an_even_crowd_is_smooth() {
    let report = crowd(|script, line, at, think| script.exchange(line, at, "/a", think));
    verdict(&report, DelayVerdict::Smooth);
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (4000, 4000));
}

#[test]
fn a_network_that_holds_packets_is_told_from_clients_that_pause() {
    // Every two seconds the network holds everything for 400 ms.
    let hold = |at: i64| if at % 2000 < 400 { 400 - at % 2000 } else { 0 };
    let report = crowd(|script, line, at, think| {
        line.held_ms = hold(at);
        let arrived = at + line.held_ms;
        script.data(line, CLIENT, at, get("/a"));
        script.data(line, SERVER, arrived + think, ok(20));
        line.held_ms = hold(arrived + think + 1);
        script.ack(line, CLIENT, arrived + think + 1);
    });
    verdict(&report, DelayVerdict::UpstreamNetworkJitter);
    let report = crowd(|script, line, at, think| script.exchange(line, at + hold(at), "/a", think));
    verdict(&report, DelayVerdict::SenderBursts);
}

#[test]
pub(super) fn a_slow_url_is_named() {
    let report = crowd(|script, line, at, think| {
        if at > 5000 && think % 4 == 0 {
            script.exchange(line, at, "/app/search?q=1", 400 + think);
        } else {
            script.exchange(line, at, if think % 4 == 0 { "/app/search?q=2" } else { "/b" }, think);
        }
    });
    verdict(&report, DelayVerdict::SlowApp);
    assert!(report.why.contains("/app/search"), "{}", report.why);
}

#[test]
pub(super) fn lost_answers_are_path_loss_and_spurious_ones_are_not() {
    for is_spurious in [false, true] {
        let mut count = 0;
        let report = crowd(|script, line, at, think| {
            count += 1;
            script.data(line, CLIENT, at, get("/a"));
            script.data(line, SERVER, at + think, ok(20));
            let is_repeated = count % 40 == 0;
            if is_repeated {
                script.again(3);
            }
            script.ack(line, CLIENT, at + think + 4);
            if is_repeated && is_spurious {
                let right = line.next[SERVER];
                let dsack = Some(SackBlock { left: right.wrapping_sub(5), right });
                script.packets.last_mut().expect("there is one").dsack = dsack;
            }
        });
        verdict(&report, if is_spurious { DelayVerdict::Smooth } else { DelayVerdict::PathLoss });
    }
}

#[test]
fn packets_that_only_the_tap_lost_are_no_path_loss() {
    let mut script = TrafficScript::default();
    for client in 0..200 {
        let line = &mut script.open(80, client * 3, 1);
        for n in 0..20 {
            script.exchange(line, 700 + n * 500 + (client * 7919 + n * 104_729) % 499, "/a", 30);
        }
    }
    let mut count = 0;
    script.packets.retain(|_| {
        count += 1;
        count % 100 != 0
    });
    verdict(&script.run(ModelOptions::default()).0, DelayVerdict::Smooth);
}

#[test]
fn a_full_accept_queue_shows_in_syns_a_second_apart() {
    let mut script = TrafficScript::default();
    for client in 0..100_i64 {
        let mut line = script.line(80);
        let waits: &[i64] = if client % 10 == 0 { &[0, 1000, 3000] } else { &[0] };
        for wait in waits {
            let isn = line.next[CLIENT];
            script.send(&mut line, CLIENT, client * 20 + wait, Flags::SYN, b"");
            line.next[CLIENT] = isn;
        }
        line.next[CLIENT] = line.next[CLIENT].wrapping_add(1);
        let at = client * 20 + waits[waits.len() - 1];
        script.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        script.ack(&mut line, CLIENT, at + 1);
        script.exchange(&mut line, at + 2, "/a", 10);
    }
    let by_port = view_with(&script, ModelOptions { ports: vec![80], ..ModelOptions::default() });
    let (report, _) = script.run(ModelOptions::default());
    verdict(&report, DelayVerdict::AcceptQueue);
    for report in [&report, &by_port] {
        let evidence = &report.tiers[0].evidence;
        assert_eq!((evidence.late_syns, evidence.syns), (20, 120));
    }
    assert_eq!(report.tiers[0].requests, 100);
}

#[test]
fn requests_that_cross_the_closing_are_a_race() {
    let mut script = TrafficScript::default();
    for client in 0..50 {
        let line = &mut script.open(80, client * 10, 40);
        script.data(line, CLIENT, 1000 + client * 10, get("/a"));
        script.data(line, SERVER, 1010 + client * 10, ok(20));
        script.ack(line, CLIENT, 1050 + client * 10);
        let at = 3000 + client * 10;
        if client % 5 == 0 {
            script.send(line, SERVER, at, Flags::FIN | Flags::ACK, b"");
            script.data(line, CLIENT, at + 13, get("/b"));
            script.send(line, SERVER, at + 13, Flags::RST, b"");
        }
    }
    let (report, rows) = script.run(ModelOptions::default());
    verdict(&report, DelayVerdict::KeepaliveRace);
    assert_eq!(report.tiers[0].evidence.races, 10);
    assert_eq!(rows.requests.iter().filter(|row| row.4 == RequestEnd::Reset).count(), 10);
}

#[test]
fn clients_that_do_not_read_are_named() {
    let mut script = TrafficScript::default();
    for client in 0..20 {
        let line = &mut script.open(80, client * 10, 1);
        script.data(line, CLIENT, 400 + client, get("/big"));
        let answer = ok(9000);
        for (n, part) in (0_i64..).zip(answer.chunks(1400)) {
            let at = 430 + client + n * 300;
            script.data(line, SERVER, at, part);
            line.window = 0;
            script.ack(line, CLIENT, at + 1);
            line.window = 500;
            script.ack(line, CLIENT, at + 299);
        }
    }
    let (report, _) = script.run(ModelOptions::default());
    verdict(&report, DelayVerdict::ClientReader);
}

#[test]
fn a_terminal_beside_requests_is_no_slow_application() {
    let mut script = TrafficScript::default();
    let terminal = &mut script.open(22, 0, 1);
    for n in 0..30 {
        script.data(terminal, CLIENT, 100 + n * 3000, b"sleep 2");
        script.data(terminal, SERVER, 2100 + n * 3000, b"$ ");
    }
    let alone = view_with(&script, ModelOptions::default());
    verdict(&alone, DelayVerdict::Unknown);
    assert!(alone.why.contains("not read"), "{}", alone.why);
    let line = &mut script.open(80, 3, 1);
    (0..30).for_each(|n| script.exchange(line, 200 + n * 3000, "/a", 10));
    let (report, _) = script.run(ModelOptions::default());
    verdict(&report, DelayVerdict::Smooth);
    let terminal = report.tiers.iter().find(|tier| tier.port == 22).expect("a tier");
    assert_eq!((terminal.protocol, terminal.requests), ("opaque", 30));
}

#[test]
fn losses_before_the_tap_show_in_holes_when_packets_have_no_identification() {
    // Uploads of three segments; the second of some is lost before the tap and retransmitted after
    // a round trip.
    let upload = |is_lossy: bool| {
        let mut script = TrafficScript::default();
        for client in 0..40_i64 {
            let line = &mut script.open(80, client * 50, 5);
            let at = client * 50 + 20;
            let head = b"POST /up HTTP/1.1\r\nContent-Length: 3000\r\n\r\n";
            script.data(line, CLIENT, at, head);
            script.data(line, CLIENT, at, [b'x'; 1000]);
            if is_lossy && client % 4 == 0 {
                script.packets.last_mut().expect("it was pushed").ts += 12 * MS;
            }
            script.data(line, CLIENT, at, [b'x'; 1000]);
            script.data(line, CLIENT, at, [b'x'; 1000]);
            script.data(line, SERVER, at + 30, ok(20));
            script.ack(line, CLIENT, at + 36);
        }
        script.packets.iter_mut().for_each(|packet| packet.ip_id = 0);
        script.run(ModelOptions::default()).0
    };
    verdict(&upload(false), DelayVerdict::Smooth);
    let lossy = upload(true);
    verdict(&lossy, DelayVerdict::PathLoss);
    assert_eq!(lossy.tiers[0].evidence.refilled, 10);
}

/// 200 clients whose last request, each to `/search`, gets no response.
fn left_alone(mut end: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64)) -> Report {
    let mut script = TrafficScript::default();
    for client in 0..200 {
        let line = &mut script.open(80, client * 3, 1);
        for n in 0..12 {
            let at = 700 + n * 500 + (client * 7919) % 499;
            script.exchange(line, at, "/a", 20 + (client + n) % 40);
        }
        let at = 6800 + (client * 7919) % 499;
        script.data(line, CLIENT, at, get("/search"));
        end(&mut script, line, at);
    }
    let line = &mut script.open(80, 15_000, 1);
    script.exchange(line, 15_002, "/a", 20);
    script.run(ModelOptions::default()).0
}

/// Netflix/concurrency-limits#126, rakyll/hey#55, zalando/skipper#864: the slowest requests have no
/// response, because clients give up or because the capture ends.
#[test]
fn requests_that_are_given_up_are_slow_although_they_have_no_response() {
    let closed = left_alone(|script, line, at| {
        script.ack(line, SERVER, at + 40);
        script.send(line, CLIENT, at + 3000, Flags::FIN | Flags::ACK, b"");
        script.ack(line, SERVER, at + 3001);
    });
    let reset = left_alone(|script, line, at| {
        script.ack(line, SERVER, at + 40);
        script.send(line, CLIENT, at + 3000, Flags::RST, b"");
    });
    let waiting = left_alone(|script, line, at| script.ack(line, SERVER, at + 40));
    for report in [&closed, &reset] {
        verdict(report, DelayVerdict::SlowApp);
        assert!(report.why.contains("`/search`"), "{}", report.why);
        assert!(report.why.contains("200 of them without a response"), "{}", report.why);
    }
    // After eight seconds it may be a long poll.
    verdict(&waiting, DelayVerdict::Unknown);
    assert!(waiting.why.contains("`/search` waits "), "{}", waiting.why);
}

/// What the client has acknowledged was answered, although the tap did not see it.
#[test]
fn a_response_that_the_tap_missed_is_no_wait() {
    let report = left_alone(|script, line, at| {
        let missed = script.packets.len();
        script.data(line, SERVER, at + 30, ok(20));
        script.packets.truncate(missed);
        script.ack(line, CLIENT, at + 31);
        script.send(line, CLIENT, at + 3000, Flags::FIN | Flags::ACK, b"");
    });
    assert_ne!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    assert_eq!(report.tiers[0].urls.iter().map(|url| url.given_up).sum::<u64>(), 0);
}
