//! Connections as other tools' reports show them: numbers that wrap, packets in other pieces, ports
//! that are used again, handshakes with a second attempt.

use super::*;

/// Forty connections, each prepared by `begin`, with five requests answered after 20 ms.
fn site(
    mut begin: impl FnMut(&mut TrafficScript, i64) -> ScriptedConnection,
    mut exchange: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64),
) -> (Report, ObservedRows) {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let line = &mut begin(&mut script, client * 31);
        for n in 0..5 {
            exchange(&mut script, line, 4000 + client * 31 + n * 900);
        }
    }
    script.run(ModelOptions::default())
}

#[track_caller]
fn check(name: &str, (report, rows): &(Report, ObservedRows), connections: u64) {
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{name}: {}", report.why);
    let tier = &report.tiers[0];
    assert_eq!(tier.port, 80, "{name}");
    let counts = (tier.requests, tier.responses, tier.unseen, tier.unasked);
    assert_eq!(counts, (200, 200, 0, 0), "{name}: {:?}", rows.requests);
    assert_eq!(tier.connections, connections, "{name}");
    assert!(rows.requests.iter().all(|row| row.2 == 20), "{name}: {:?}", rows.requests);
}

fn plain(script: &mut TrafficScript, line: &mut ScriptedConnection, at: i64) {
    script.exchange(line, at, "/a", 20);
}

/// SackOfHacks/pcapper#32, seladb/PcapPlusPlus#402: sequence numbers that pass zero, within a segment,
/// between two, and while one of them is sent again.
#[test]
pub(super) fn sequence_numbers_wrap_anywhere() {
    for before in [1, 2, 40, 100, 160, 700, 1500] {
        let begin = |script: &mut TrafficScript, at| {
            let mut line = script.line(80);
            line.next = [0_u32.wrapping_sub(before), 0_u32.wrapping_sub(2 * before)];
            script.send(&mut line, CLIENT, at, Flags::SYN, b"");
            script.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
            script.ack(&mut line, CLIENT, at + 1);
            line
        };
        let seen = site(begin, plain);
        check(&format!("{before} before zero"), &seen, 40);
        assert!(seen.1.connections.iter().all(|one| one.retransmits == [0, 0]), "{before}");
        let seen = site(begin, |script, line, at| {
            script.data(line, CLIENT, at, get("/a"));
            for part in ok(1500).chunks(700) {
                script.data(line, SERVER, at + 20, part);
            }
            script.again(230);
            script.ack(line, CLIENT, at + 251);
        });
        let sent_again: u32 = seen.1.connections.iter().map(|one| one.retransmits[1]).sum();
        assert_eq!(sent_again, 200, "{before} before zero");
        assert_eq!(seen.0.verdict, DelayVerdict::PathLoss, "{before}: {}", seen.0.why);
    }
}

/// wolfSSL/wolfssl PR 9124, elastic/beats PR 1898: what is sent again comes in other pieces, with new data
/// behind it or old data before it.
#[test]
fn pieces_that_overlap_are_read_once() {
    for (from, to) in [(0, 900), (300, 1100), (500, 700), (0, 1019)] {
        let seen = site(
            |script, at| script.open(80, at, 1),
            |script, line, at| {
                script.data(line, CLIENT, at, get("/a"));
                let (answer, start) = (ok(1000), line.next[SERVER]);
                script.data(line, SERVER, at + 20, &answer[..700]);
                line.next[SERVER] = start.wrapping_add(from);
                let to = answer.len().min(to);
                script.data(line, SERVER, at + 25, &answer[from as usize..to]);
                line.next[SERVER] = start.wrapping_add(u32::try_from(to.max(700)).expect("short"));
                script.data(line, SERVER, at + 26, &answer[to.max(700)..]);
                script.ack(line, CLIENT, at + 27);
            },
        );
        let (report, rows) = &seen;
        let tier = &report.tiers[0];
        let counts = (tier.requests, tier.responses, tier.unseen, tier.unasked);
        assert_eq!(counts, (200, 200, 0, 0), "{from}..{to}: {:?}", rows.requests);
        let are_timed = rows.requests.iter().all(|row| (row.2, row.3) == (20, 26) || row.3 == 25);
        assert!(are_timed, "{from}..{to}: {:?}", rows.requests);
    }
}

/// firezone/firezone PR 14511 and zeek/zeek#3313: a SYN-ACK that does not arrive is sent again, as it was or
/// with another number, and so is the SYN.
#[test]
pub(super) fn a_handshake_with_a_second_attempt_is_one_connection() {
    for has_new_number in [false, true] {
        let begin = |script: &mut TrafficScript, at| {
            let mut line = script.line(80);
            let isn = line.next;
            script.send(&mut line, CLIENT, at, Flags::SYN, b"");
            script.send(&mut line, SERVER, at + 1, Flags::SYN | Flags::ACK, b"");
            line.next[CLIENT] = isn[CLIENT];
            script.send(&mut line, CLIENT, at + 1000, Flags::SYN, b"");
            line.next[SERVER] =
                isn[SERVER].wrapping_add(if has_new_number { 77_777_777 } else { 0 });
            script.send(&mut line, SERVER, at + 1001, Flags::SYN | Flags::ACK, b"");
            script.ack(&mut line, CLIENT, at + 1010);
            line
        };
        let (report, rows) = site(begin, plain);
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unseen, tier.unasked), (200, 200, 0, 0));
        assert_eq!(tier.connections, 40, "{has_new_number}");
        assert_eq!(report.verdict, DelayVerdict::PathLoss, "{has_new_number}: {}", report.why);
        assert!(rows.requests.iter().all(|row| row.2 == 20), "{:?}", rows.requests);
    }
}

/// DanieleDeSensi/peafowl#5, arkime/arkime#956 and #2313: a port is used again though the capture lacks the
/// end of its last connection, or half of it; the server is still the server.
#[test]
pub(super) fn a_port_that_is_used_again_begins_a_connection() {
    for end in ["none", "client", "server", "reset"] {
        let begin = |script: &mut TrafficScript, at| {
            let mut line = script.open(80, at, 1);
            script.data(&mut line, CLIENT, at + 10, b"\x16\x03\x01\x00\x05hello");
            script.data(&mut line, SERVER, at + 11, b"\x15\x03\x01\x00\x02\x02\x28");
            match end {
                "client" => script.send(&mut line, CLIENT, at + 20, Flags::FIN | Flags::ACK, b""),
                "server" => script.send(&mut line, SERVER, at + 20, Flags::FIN | Flags::ACK, b""),
                "reset" => script.send(&mut line, SERVER, at + 20, Flags::RST, b""),
                _ => {}
            }
            line.next = line.next.map(|next| next.wrapping_mul(7).wrapping_add(1_000_003));
            script.send(&mut line, CLIENT, at + 2000, Flags::SYN, b"");
            script.send(&mut line, SERVER, at + 2000, Flags::SYN | Flags::ACK, b"");
            script.ack(&mut line, CLIENT, at + 2001);
            line
        };
        let (report, rows) = site(begin, plain);
        let http: Vec<_> = rows.requests.iter().filter(|row| row.0 == "/a").collect();
        assert_eq!(http.len(), 200, "{end}");
        assert!(http.iter().all(|row| (row.1, row.2) == (Some(200), 20)), "{end}: {http:?}");
        assert_eq!(rows.connections.len(), 80, "{end}");
        assert!(report.tiers.iter().all(|tier| tier.port == 80), "{end}");
    }
}

/// arkime/arkime#2313: the first packet of a connection in the capture is the server's FIN, and then
/// the client uses its port again.
#[test]
pub(super) fn the_end_of_an_older_connection_turns_no_ends_around() {
    let begin = |script: &mut TrafficScript, at| {
        let mut line = script.line(80);
        script.send(&mut line, SERVER, at, Flags::FIN | Flags::ACK, b"");
        line.next = [u32::try_from(at).expect("small") * 1000 + 7, 500_000_000];
        script.send(&mut line, CLIENT, at + 100, Flags::SYN, b"");
        script.send(&mut line, SERVER, at + 100, Flags::SYN | Flags::ACK, b"");
        script.ack(&mut line, CLIENT, at + 101);
        line
    };
    let seen = site(begin, plain);
    check("an end first", &seen, 80);
}

/// arkime/arkime PR 4019: with several readers, the SYN is written behind the rest of its connection.
#[test]
fn a_syn_that_is_written_late_begins_no_connection() {
    let mut script = TrafficScript::default();
    let mut late = Vec::new();
    for client in 0..40_i64 {
        let line = &mut script.open(80, client * 31, 1);
        late.push(script.packets.remove(script.packets.len() - 3));
        for n in 0..5 {
            plain(&mut script, line, 100 + client * 31 + n * 10);
        }
        script.send(line, CLIENT, 200 + client * 31, Flags::FIN | Flags::ACK, b"");
        script.send(line, SERVER, 201 + client * 31, Flags::FIN | Flags::ACK, b"");
        let end = script.packets.len();
        script.packets.insert(end, late.pop().expect("it was pushed"));
    }
    let rows = Arc::new(Mutex::new(ObservedRows::default()));
    let options = ModelOptions { threads: 1, ..ModelOptions::default() };
    let mut model = Model::new(options, Some(Box::new(CollectingSink(Arc::clone(&rows)))));
    script.packets.iter().for_each(|packet| model.packet(&view(packet)));
    let report = model.report();
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses), (200, 200));
    assert_ne!(report.verdict, DelayVerdict::Failing, "{}", report.why);
    assert_ne!(report.verdict, DelayVerdict::AcceptQueue, "{}", report.why);
    assert_eq!(rows.lock().expect("nobody panicked").connections.len(), 40);
}

/// OISF/libhtp#403: the tap lacks a response and the next request: the first request is not answered by
/// the second one's response, which would be slow.
#[test]
fn a_response_belongs_to_no_request_before_a_hole() {
    let (report, rows) = site(
        |script, at| script.open(80, at, 1),
        |script, line, at| {
            script.data(line, CLIENT, at, get("/test.js"));
            script.data(line, SERVER, at + 20, ok(20));
            let kept = script.packets.len() - 1;
            script.data(line, CLIENT, at + 600, get("/api"));
            script.packets.truncate(kept);
            script.data(line, SERVER, at + 620, ok(20));
            script.ack(line, CLIENT, at + 621);
        },
    );
    assert!(rows.requests.iter().all(|row| row.0 == "/test.js"), "{:?}", rows.requests);
    assert!(rows.requests.iter().all(|row| row.4 == RequestEnd::Unseen), "{:?}", rows.requests);
    assert_eq!(report.verdict, DelayVerdict::Unknown, "{}", report.why);
}
