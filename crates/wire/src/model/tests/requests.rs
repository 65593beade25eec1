//! Requests: their counts and times, whatever happens to packets.

use super::*;

#[test]
fn keep_alive_pipelining_and_continue_are_counted_as_sent() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(80, 0, 1);
    script.exchange(line, 10, "/a", 5);
    // Two requests in one segment; the response takes three segments.
    script.data(line, CLIENT, 100, [get("/b"), get("/c")].concat());
    script.data(line, SERVER, 110, ok(5));
    let answer = ok(50);
    script.data(line, SERVER, 120, &answer[..30]);
    script.data(line, SERVER, 125, &answer[30..]);
    script.data(
        line,
        CLIENT,
        200,
        b"POST /d HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    );
    script.data(line, SERVER, 203, b"HTTP/1.1 100 Continue\r\n\r\n");
    script.data(line, CLIENT, 206, b"body");
    script.data(
        line,
        SERVER,
        216,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    );
    script.data(line, SERVER, 220, b"0\r\n\r\n");
    script.data(line, CLIENT, 300, b"HEAD /e HTTP/1.1\r\n\r\n");
    script.data(line, SERVER, 301, b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
    script.data(line, CLIENT, 400, get("/f"));
    script.data(line, SERVER, 401, b"HTTP/1.0 200 OK\r\n\r\nuntil");
    script.data(line, SERVER, 402, b" the end");
    script.send(line, SERVER, 403, Flags::FIN | Flags::ACK, b"");
    let (report, rows) = script.run(ModelOptions::default());
    let expected = [
        row("/a", [5, 5]),
        row("/b", [10, 10]),
        row("/c", [20, 25]),
        row("/d", [10, 20]),
        row("/e", [1, 1]),
        row("/f", [1, 2]),
    ];
    assert_eq!(rows.requests, expected);
    let tier = &report.tiers[0];
    assert_eq!((tier.port, tier.requests, tier.responses, tier.connections), (80, 6, 6, 1));
    assert_eq!(tier.unanswered + tier.unasked + tier.unseen, 0);
}

#[test]
fn slices_hold_every_request_by_its_start_and_nothing_twice() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(80, 0, 1);
    // In flight from 0.5 s to 2.5 s, then from 4.0 s to 4.2 s; slice 3 is empty but present.
    script.exchange(line, 500, "/long", 2000);
    script.exchange(line, 4000, "/short", 200);
    let (report, _) = script.run(ModelOptions::default());
    let slices = &report.tiers[0].slices;
    let get = |measure: fn(&crate::judge::SliceReport) -> u64| {
        slices.iter().map(measure).collect::<Vec<_>>()
    };
    assert_eq!(get(|slice| slice.arrivals), [1, 0, 0, 0, 1]);
    assert_eq!(get(|slice| slice.completions), [0, 0, 1, 0, 1]);
    assert_eq!(get(|slice| slice.weighted_us), [500_000, 1_000_000, 500_000, 0, 200_000]);
    assert_eq!(get(|slice| slice.busy_us), [500_000, 1_000_000, 500_000, 0, 200_000]);
    assert_eq!(get(|slice| slice.sum_us), [2_000_000, 0, 0, 0, 200_000]);
    assert_eq!(slices[0].observed_us, 1_000_000);
    assert_eq!(slices[4].observed_us, 201_000);
}

#[test]
fn a_capture_that_begins_late_and_a_port_that_is_used_again_are_understood() {
    let mut script = TrafficScript::default();
    // No handshake, and the server sends first: the rest of a response.
    let mut line = script.line(80);
    script.data(&mut line, SERVER, 0, b"...the rest of some body");
    script.exchange(&mut line, 10, "/late", 3);
    script.send(&mut line, CLIENT, 20, Flags::FIN | Flags::ACK, b"");
    script.send(&mut line, SERVER, 21, Flags::FIN | Flags::ACK, b"");
    // The same endpoints again, soon after.
    line.next = [5_000_000, 6_000_000];
    script.send(&mut line, CLIENT, 100, Flags::SYN, b"");
    script.send(&mut line, SERVER, 101, Flags::SYN | Flags::ACK, b"");
    script.ack(&mut line, CLIENT, 102);
    script.exchange(&mut line, 110, "/again", 4);
    let (report, rows) = script.run(ModelOptions::default());
    assert_eq!(rows.requests, [row("/late", [3, 3]), row("/again", [4, 4])]);
    assert_eq!(report.tiers[0].connections, 2);
    assert_eq!(rows.connections[1].syn_wait_us, Some(1000));
}

#[test]
fn what_is_sent_twice_is_not_asked_twice_and_dsack_tells_why() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(80, 0, 1);
    script.data(line, CLIENT, 10, get("/a"));
    script.again(200);
    let answer = ok(20);
    script.data(line, SERVER, 300, &answer);
    script.again(50);
    let right = line.next[SERVER];
    let left = right.wrapping_sub(u32::try_from(answer.len()).expect("short"));
    script.ack(line, CLIENT, 351);
    script.packets.last_mut().expect("there is one").dsack = Some(SackBlock { left, right });
    let (report, rows) = script.run(ModelOptions::default());
    assert_eq!(rows.requests, [row("/a", [290, 290])]);
    let connection = &rows.connections[0];
    assert_eq!((connection.retransmits, connection.spurious), ([1, 1], [0, 1]));
    let evidence = &report.tiers[0].evidence;
    assert_eq!((evidence.retransmits, evidence.spurious, evidence.client_retransmits), (1, 1, 1));
}

#[test]
fn missing_packets_lose_one_request_and_not_the_way() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(80, 0, 1);
    for n in 0..10 {
        script.exchange(line, 100 * (n + 1), &format!("/{n}"), 10);
    }
    // The response to /3 and the request for /6 were not captured.
    let is_missing = |packet: &OwnedPacket| {
        let at = (packet.ts - BEGIN) / MS;
        (at == 410 || at == 700) && !packet.payload.is_empty()
    };
    script.packets.retain(|packet| !is_missing(packet));
    let (report, rows) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!(
        (tier.requests, tier.responses, tier.unseen, tier.unasked),
        (9, 8, 1, 1),
        "{:?}",
        rows.requests
    );
    let paths: Vec<&str> = rows.requests.iter().map(|row| &*row.0).collect();
    assert_eq!(paths, ["/0", "/1", "/2", "/3", "/4", "/5", "/7", "/8", "/9"]);
    assert_eq!(rows.requests[3].4, RequestEnd::Unseen);
    assert!(rows.requests.iter().all(|row| row.2 <= 10));
}

#[test]
fn a_snap_length_of_few_bytes_leaves_counts_and_times() {
    for captured in [4, 10, 24, 30] {
        let mut script = TrafficScript::default();
        let line = &mut script.open(80, 0, 1);
        for n in 0..5 {
            script.exchange(line, 100 * (n + 1), "/app/search?q=12345", 10);
        }
        script.packets.iter_mut().for_each(|packet| packet.captured = captured);
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (5, 5, 0), "{captured}");
        assert_eq!(tier.think.expect("five").p50, 10_000, "{captured}");
    }
}

#[test]
fn requests_behind_the_snap_length_are_known_by_their_answers() {
    // For a status, 96 bytes of IPv6 with timestamps leave the first digit, and with a VLAN tag
    // nothing.
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let proceed = "HTTP/1.1 100 Continue\r\n\r\n";
    for (captured, interim) in [(24, hints), (12, hints), (10, hints), (9, proceed), (6, proceed)] {
        let mut script = TrafficScript::default();
        let line = &mut script.open(80, 0, 1);
        script.data(line, CLIENT, 10, [get("/a"), get("/b"), get("/c")].concat());
        script.data(line, SERVER, 15, interim);
        (0..3).for_each(|n| script.data(line, SERVER, 20 + n, ok(5)));
        script.packets.iter_mut().for_each(|packet| packet.captured = captured);
        let (report, rows) = script.run(ModelOptions::default());
        assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (3, 3), "{captured}");
        assert_eq!(rows.requests.iter().map(|row| row.2).collect::<Vec<_>>(), [10, 11, 12]);
    }
}

#[test]
fn an_upstream_request_finds_the_request_it_was_made_for() {
    let mut script = TrafficScript::default();
    let upstream = &mut script.open(8080, 0, 0);
    let edge = &mut script.open(80, 1, 1);
    for n in 0..30 {
        let (at, path) = (100 * (n + 1), format!("/x?{n}"));
        script.data(edge, CLIENT, at, get(&path));
        // The edge itself stalls for 300 ms from the tenth on.
        let stall = if n < 10 { 1 } else { 30 };
        script.data(upstream, CLIENT, at + stall, get(&path));
        script.data(upstream, SERVER, at + stall + 20, ok(5));
        script.data(edge, SERVER, at + stall + 22, ok(5));
    }
    let (report, rows) = script.run(ModelOptions::default());
    let parents = rows.parents.iter().flatten().count();
    assert_eq!(parents, 30);
    let tier = |port: u16| report.tiers.iter().find(|tier| tier.port == port).expect("a tier");
    assert!(tier(8080).is_upstream && !tier(80).is_upstream);
    assert!((tier(80).evidence.upstream_coverage - 1.0).abs() < 1e-9);
    let stall = tier(80).evidence.stall_later_ms_p95;
    assert!((30.0..31.0).contains(&stall), "{stall}");
}

#[test]
fn requests_to_databases_have_a_command_an_error_and_times() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(6379, 0, 1);
    // Two commands in one segment.
    script.data(line, CLIENT, 10, b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nget\r\n$1\r\nk\r\n");
    script.data(line, SERVER, 12, b"+PONG\r\n");
    script.data(line, SERVER, 15, b"-WRONGTYPE Operation\r\n");
    script.ack(line, CLIENT, 16);
    let line = &mut script.open(3306, 100, 1);
    let greeting = [b"\x32\0\0\0\x0a8.0.36\0".as_slice(), &[0; 42]].concat();
    script.data(line, SERVER, 101, greeting);
    script.data(line, CLIENT, 103, [b"\x40\0\0\x01\x05\x86\0\0".as_slice(), &[0; 60]].concat());
    script.data(line, SERVER, 104, b"\x07\0\0\x02\0\0\0\x02\0\0\0");
    script.data(line, CLIENT, 110, b"\x09\0\0\0\x03select 1");
    script.data(line, SERVER, 113, b"\x01\0\0\x01\x01");
    script.data(line, SERVER, 118, b"\x05\0\0\x02\xfe\0\0\x02\0");
    script.data(line, CLIENT, 130, b"\x05\0\0\0\x19\x01\0\0\0");
    script.data(line, CLIENT, 140, b"\x04\0\0\0\x03abc");
    script.data(line, SERVER, 141, b"\x0a\0\0\x01\xff\x28\x04#42000x");
    let (report, rows) = script.run(ModelOptions::default());
    let expected = [
        ("PING", 2, 2, ""),
        ("GET", 5, 5, "WRONGTYPE"),
        ("COM_QUERY", 3, 8, ""),
        ("COM_QUERY", 1, 1, "1064"),
    ];
    let both = rows.requests.iter().zip(&rows.databases);
    let found: Vec<_> = both
        .map(|(request, (command, error))| (command.as_str(), request.2, request.3, error.as_str()))
        .collect();
    assert_eq!(found, expected);
    let protocols: Vec<_> =
        report.tiers.iter().map(|tier| (tier.port, tier.protocol, tier.errors_5xx)).collect();
    assert_eq!(protocols, [(3306, "mysql", 1), (6379, "redis", 1)]);
}

#[test]
fn an_answer_to_half_a_command_ends_its_request_once() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(6379, 0, 1);
    script.data(line, CLIENT, 10, b"*1\r\n$4");
    script.data(line, SERVER, 12, b"+PONG\r\n");
    script.data(line, CLIENT, 14, b"\r\nPING\r\n*1\r\n$4\r\nINFO\r\n");
    script.data(line, SERVER, 16, b"+\r\n");
    let (report, rows) = script.run(ModelOptions::default());
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (2, 2));
    let commands: Vec<_> = rows.databases.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, ["", "INFO"]);
}

#[test]
fn headers_alone_of_a_connection_that_is_older_than_the_capture_are_requests_by_turn() {
    let mut script = TrafficScript::default();
    let line = &mut script.line(80);
    for at in 0..50 {
        script.exchange(line, 1000 * at, "/a", 200);
    }
    for packet in &mut script.packets {
        packet.captured = 0;
    }
    let (report, _) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    // It takes 32 packets with uncaptured payload to detect a headers-only capture.
    assert!((32..=34).contains(&tier.requests), "{}", tier.requests);
    assert_eq!(tier.requests, tier.responses);
    let think = tier.think.expect("requests were answered");
    assert!((199_000..=202_000).contains(&think.p50), "{think:?}");
}
