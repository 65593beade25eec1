//! Hostile input: impossible times, too many connections, damaged files, random packets.

use super::*;

#[test]
fn times_that_cannot_be_are_counted_and_not_believed() {
    let mut script = TrafficScript::default();
    let mut line = script.line(80);
    (0..6).for_each(|n| script.data(&mut line, CLIENT, n, get("/a")));
    let times = [i64::MIN, BEGIN, i64::MAX, BEGIN - 3600 * 1_000 * MS, BEGIN - 5 * MS, -1];
    for first in 0..times.len() {
        let mut model = Model::new(ModelOptions::default(), None);
        for (at, packet) in script.packets.iter().enumerate() {
            let ts_ns = times[(first + at) % times.len()];
            model.packet(&Packet { ts_ns, ..view(packet) });
        }
        let report = model.report();
        let skipped = report.skipped.count(SkipReason::Time);
        assert_eq!((report.packets + skipped, skipped >= 3), (6, true));
    }
}

#[test]
fn many_connections_of_one_packet_stay_within_the_limit() {
    let mut model =
        Model::new(ModelOptions { connections_max: 1000, ..ModelOptions::default() }, None);
    let mut script = TrafficScript::default();
    let mut line = script.line(80);
    script.send(&mut line, CLIENT, 0, Flags::SYN, b"");
    let mut packet = view(&script.packets[0]);
    for n in 0..200_000_u32 {
        packet.from = Endpoint { address: u128::from(n), port: 1 };
        model.packet(&packet);
        assert!(model.connections() <= 1000);
    }
    let report = model.report();
    assert_eq!(report.given_up, 199_000);
}

#[test]
fn any_packets_in_any_order_make_a_report() {
    arbtest::arbtest(|u| {
        let mut script = TrafficScript::default();
        let mut lines: Vec<ScriptedConnection> =
            [80, 80, 8080].into_iter().map(|port| script.line(port)).collect();
        let texts: [&[u8]; 6] = [
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            b"\x17\x03\x03",
            b"HTTP/1.1 200 OK\r\n",
            b"x",
        ];
        while !u.is_empty() && script.packets.len() < 60 {
            let line = u.choose_index(lines.len())?;
            let line = &mut lines[line];
            let flags = Flags(u.arbitrary()?);
            let text = *u.choose(&texts)?;
            let at = u.int_in_range(0..=5000)?;
            script.send(line, u.int_in_range(0..=1)?, at, flags, text);
            let last = script.packets.last_mut().expect("it was pushed");
            last.seq = last.seq.wrapping_add(u.int_in_range(0..=20)?);
            last.ack = last.ack.wrapping_add(u.int_in_range(0..=200)?);
            last.captured = u.int_in_range(0..=60)?;
            last.window = u.arbitrary()?;
        }
        let sent = script.packets.len() as u64;
        let (report, rows) = script.run(ModelOptions::default());
        assert_eq!(report.packets + report.skipped.total(), sent);
        let requests: u64 = report.tiers.iter().map(|tier| tier.requests).sum();
        assert_eq!(rows.requests.len() as u64, requests);
        for tier in &report.tiers {
            assert_eq!(tier.slices.iter().map(|slice| slice.arrivals).sum::<u64>(), tier.requests);
        }
        Ok(())
    });
}

/// Writes the script as a pcap file of Ethernet frames.
fn file(script: &TrafficScript) -> Vec<u8> {
    let mut out = Vec::new();
    for value in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend(value.to_le_bytes());
    }
    for packet in &script.packets {
        let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) =
            (packet.from.ip(), packet.to.ip())
        else {
            panic!("scripts are IPv4")
        };
        let mut builder = etherparse::PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4(from.octets(), to.octets(), 64)
            .tcp(packet.from.port, packet.to.port, packet.seq, packet.window);
        if packet.flags.has(Flags::ACK) {
            builder = builder.ack(packet.ack);
        }
        if packet.flags.has(Flags::SYN) {
            builder = builder.syn();
        }
        let mut frame = Vec::new();
        builder.write(&mut frame, &packet.payload).expect("memory takes all");
        let length = u32::try_from(frame.len()).expect("short");
        let ts = packet.ts - BEGIN;
        let (seconds, ns) = (ts / 1_000_000_000, ts % 1_000_000_000);
        for value in [seconds, ns] {
            out.extend(u32::try_from(value).expect("short").to_le_bytes());
        }
        out.extend(length.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend(frame);
    }
    out
}

fn read(bytes: Vec<u8>) -> (Report, u64) {
    let input = crate::CaptureInput::from_stream("test", Box::new(std::io::Cursor::new(bytes)));
    let mut capture = crate::Capture::new(input.expect("bytes")).expect("a capture");
    let mut model = Model::new(ModelOptions::default(), None);
    while capture.step(&mut |packet| model.packet(packet)).expect("memory can be read") {}
    let mut report = model.report();
    report.skipped.merge(&capture.skipped());
    (report, capture.records())
}

#[test]
fn a_damaged_capture_is_read_as_far_as_it_goes() {
    let mut script = TrafficScript::default();
    for client in 0..4 {
        let line = &mut script.open(if client % 2 == 0 { 80 } else { 8080 }, client * 5, 1);
        (0..6).for_each(|n| script.exchange(line, 40 + 20 * n, &format!("/item/{n}"), 5));
    }
    script.packets.sort_by_key(|packet| packet.ts);
    let whole = file(&script);
    assert_eq!(read(whole.clone()).0.tiers.iter().map(|tier| tier.responses).sum::<u64>(), 24);
    let test = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let mut bytes = whole.clone();
        for _ in 0..u.int_in_range(1..=40)? {
            let at = u.int_in_range(24..=bytes.len() - 1)?;
            bytes[at] = u.arbitrary()?;
        }
        bytes.truncate(u.int_in_range(24..=bytes.len())?);
        let (report, records) = read(bytes);
        // Skipped packets are counted: plus one for where reading ended.
        let used = report.packets + report.skipped.total();
        assert!(used >= records && used <= records + 1, "{used} {records}");
        Ok(())
    };
    let test = arbtest::arbtest(test);
    // `cargo xtask test --long` sets the rounds, in seconds.
    match std::env::var("WEIR_ROUNDS").ok().and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => drop(test.budget(std::time::Duration::from_secs(seconds))),
        None => drop(test),
    }
}
