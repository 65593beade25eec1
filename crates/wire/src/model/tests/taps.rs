//! Captures that show only a part, clocks that differ, and tiers behind each other.

use super::*;

/// Forty clients with ten requests each over ten seconds.
fn site() -> TrafficScript {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let line = &mut script.open(80, client * 11, 4);
        for n in 0..10 {
            script.exchange(line, 100 + n * 900 + (client * 7919) % 899, "/a", 20 + client % 7);
        }
    }
    script
}

fn verdict_of(script: TrafficScript) -> (DelayVerdict, String) {
    let (report, _) = script.run(ModelOptions::default());
    (report.verdict, report.why)
}

/// ntop/ntopng#6600, zeek/zeek#2934, and a path whose two directions pass different taps.
#[test]
fn a_tap_of_one_direction_cannot_tell() {
    for port in [80, 0] {
        let mut script = site();
        script.packets.retain(|packet| (packet.to.port == 80) == (port == 80));
        let (verdict, why) = verdict_of(script);
        assert_eq!(verdict, DelayVerdict::Unknown, "{why}");
        assert!(why.contains("one direction"), "{why}");
    }
    let mut script = site();
    script.packets.retain(|packet| packet.from.port == 80 || packet.from.port % 2 == 0);
    let (verdict, why) = verdict_of(script);
    assert_eq!(verdict, DelayVerdict::Unknown, "{why}");
}

/// apollographql/router#4274: rejected requests are no success.
#[test]
fn a_fifth_of_failures_is_never_smooth() {
    let failing = |percent: i64, status: Option<&str>| {
        let mut script = TrafficScript::default();
        for client in 0..100_i64 {
            let at = client * 90;
            let line = &mut script.open(80, at, 2);
            script.data(line, CLIENT, at + 10, get("/a"));
            if client % 100 >= percent {
                script.data(line, SERVER, at + 30, ok(20));
            } else if let Some(status) = status {
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                script.data(line, SERVER, at + 30, answer);
            }
            script.ack(line, CLIENT, at + 32);
            script.send(line, CLIENT, at + 5000, Flags::FIN | Flags::ACK, b"");
            script.send(line, SERVER, at + 5001, Flags::FIN | Flags::ACK, b"");
        }
        verdict_of(script)
    };
    for status in [Some("502 Bad Gateway"), Some("429 Too Many Requests"), None] {
        for percent in [20, 50, 100] {
            let (verdict, why) = failing(percent, status);
            assert_eq!(verdict, DelayVerdict::Failing, "{percent} % of {status:?}: {why}");
        }
        let (verdict, why) = failing(4, status);
        assert_eq!(verdict, DelayVerdict::Smooth, "{status:?}: {why}");
    }
}

/// Clients whose timestamps tick otherwise, or never, do not make the network late.
#[test]
fn other_ticks_beside_usual_ones_are_no_jitter() {
    for tick_us in [1, 977, 3333, 100_000, 500_000, 1_000_000, i64::MAX] {
        let mut script = site();
        for packet in script.packets.iter_mut().filter(|packet| packet.from.port % 5 == 0) {
            packet.tick_us = tick_us;
        }
        let (verdict, why) = verdict_of(script);
        assert_eq!(verdict, DelayVerdict::Smooth, "{tick_us} µs: {why}");
    }
}

/// Stamps of Linux 6.7's microseconds, of HZ=300 and of 10 ms show held packets as those of 1 ms do.
#[test]
fn a_network_that_holds_packets_shows_with_any_tick() {
    for tick_us in [1, 1000, 3333, 10_000] {
        let mut script = TrafficScript::default();
        for client in 0..40_i64 {
            let line = &mut script.open(80, client * 11, 4);
            for n in 0..40 {
                let at = 100 + n * 700 + (client * 7919) % 699;
                let into = at % 4000;
                line.held_ms = if (3000..3550).contains(&into) { 3550 - into } else { 0 };
                let arrived = at + line.held_ms;
                script.data(line, CLIENT, at, get("/a"));
                line.held_ms = 0;
                script.data(line, SERVER, arrived + 10, ok(20));
                script.ack(line, CLIENT, arrived + 11);
            }
        }
        for packet in script.packets.iter_mut().filter(|packet| packet.to.port == 80) {
            packet.tick_us = tick_us;
        }
        let (verdict, why) = verdict_of(script);
        assert_eq!(verdict, DelayVerdict::UpstreamNetworkJitter, "{tick_us} µs: {why}");
    }
}

/// Clocks that jump in evilsocket/pwnagotchi#880 and shadow/shadow#1585, and one direction that is
/// stamped late in zeek/zeek#1564: a tap whose clock is set, and one that stamps late.
#[test]
fn a_tap_whose_clock_is_set_is_named() {
    let mut script = site();
    for packet in script.packets.iter_mut().filter(|packet| packet.ts > BEGIN + 5000 * MS) {
        packet.ts += 2000 * MS;
    }
    let (verdict, why) = verdict_of(script);
    assert_eq!(verdict, DelayVerdict::Unknown, "{why}");
    assert!(why.contains("clock"), "{why}");
    let mut script = site();
    // All packets of a tenth of each second are stamped at its end.
    for packet in &mut script.packets {
        let into = packet.ts % (1000 * MS);
        if into > 850 * MS {
            packet.ts += 1000 * MS - into;
        }
    }
    let (verdict, why) = verdict_of(script);
    assert_eq!(verdict, DelayVerdict::Unknown, "{why}");
    assert!(why.contains("stamps late"), "{why}");
}

/// An edge on port 80 with an upstream on 8080: requests of `slow` wait 900 ms there.
fn tiers(slow: impl Fn(i64) -> bool) -> Report {
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let (edge, upstream) =
            (&mut script.open(80, client * 13, 1), &mut script.open(8080, client * 13, 1));
        for n in 0..10 {
            let at = 200 + n * 1900 + (client * 7919) % 899;
            let think = if slow(at) { 900 } else { 20 };
            let path = format!("/item/{client}/{n}");
            script.data(edge, CLIENT, at, get(&path));
            script.data(upstream, CLIENT, at + 2, get(&path));
            script.data(upstream, SERVER, at + 2 + think, ok(20));
            script.ack(upstream, CLIENT, at + 3 + think);
            script.data(edge, SERVER, at + 4 + think, ok(20));
            script.ack(edge, CLIENT, at + 5 + think);
        }
    }
    script.run(ModelOptions::default()).0
}

#[test]
fn the_deepest_tier_that_owns_the_delay_is_named() {
    let report = tiers(|at| at % 4 == 0);
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    assert!(report.why.starts_with("port 8080:"), "{}", report.why);
}

#[test]
fn a_first_request_that_is_slow_while_all_are_is_no_accept_queue() {
    // New connections come while everything is slow, as they do.
    let site = |is_all_slow: bool| {
        let mut script = TrafficScript::default();
        let mut old: Vec<_> = (0..20).map(|n| script.open(80, n * 11, 1)).collect();
        for n in 0..40_i64 {
            for (line, shift) in old.iter_mut().zip(0_i64..) {
                let at = 300 + n * 1000 + shift * 20;
                let is_slow = is_all_slow && (20..23).contains(&n);
                script.exchange(line, at, "/a", if is_slow { 900 } else { 20 });
            }
        }
        for client in 0..40_i64 {
            let at = 20_350 + client * 60;
            let line = &mut script.open(80, at, 1);
            script.exchange(line, at + 2, "/a", 900);
        }
        script.run(ModelOptions::default()).0
    };
    let slow = site(true);
    assert_ne!(slow.verdict, DelayVerdict::AcceptQueue, "{}", slow.why);
    assert_ne!(slow.verdict, DelayVerdict::Smooth, "{}", slow.why);
    let queue = site(false);
    assert_eq!(queue.verdict, DelayVerdict::AcceptQueue, "{}", queue.why);
}

/// arkime/arkime#465 and arkime/arkime#693: with several receive queues, a packet that answers another
/// is written before it, though its time is later.
#[test]
fn answers_written_before_what_they_answer_are_no_loss() {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let line = &mut script.open(80, client * 50, 1);
        for n in 0..10 {
            let at = client * 50 + 10 + n * 200;
            script.data(line, CLIENT, at, get("/a"));
            script.data(line, SERVER, at + 20, ok(600));
            script.ack(line, CLIENT, at + 21);
        }
    }
    script.packets.sort_by_key(|packet| packet.ts);
    // Every third acknowledgement precedes its response, and some requests follow theirs.
    for swapped in [30, 31, 32] {
        let mut at = swapped;
        while at + 1 < script.packets.len() {
            let [first, second] = [&script.packets[at], &script.packets[at + 1]];
            if first.from == second.to && second.ts - first.ts <= MS {
                script.packets.swap(at, at + 1);
            }
            at += 9;
        }
    }
    let mut model = Model::new(ModelOptions::default(), None);
    script.packets.iter().for_each(|packet| model.packet(&view(packet)));
    let report = model.report();
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unseen), (400, 400, 0));
    assert_eq!(tier.evidence.retransmits + tier.evidence.client_retransmits, 0);
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
}

/// multipath-tcp/mptcp#250, multipath-tcp/mptcp_net-next#569: a response comes over several paths, each with
/// its own sequence numbers.
#[test]
fn paths_of_multipath_tcp_are_no_slow_application() {
    let site = |is_join: bool| {
        let mut script = TrafficScript::default();
        for client in 0..30_i64 {
            let at = client * 40;
            let first = &mut script.open(80, at, 1);
            let begin = script.packets.len();
            let second = &mut script.open(80, at + 5, 1);
            script.packets[begin].is_join = is_join;
            for number in 0..5 {
                let at = at + 10 + number * 1500;
                script.data(first, CLIENT, at, get("/page"));
                let answer = ok(4000);
                // The beginning took the other path.
                script.data(second, SERVER, at + 3, &answer[..1400]);
                script.ack(second, CLIENT, at + 4);
                script.data(first, SERVER, at + 1200, &answer[1400..]);
                script.ack(first, CLIENT, at + 1201);
            }
        }
        script.run(ModelOptions::default()).0
    };
    assert_ne!(site(false).verdict, DelayVerdict::Smooth);
    let report = site(true);
    assert_eq!(report.verdict, DelayVerdict::Unknown, "{}", report.why);
    assert!(report.why.contains("50 % of 60 connections"), "{}", report.why);
}
