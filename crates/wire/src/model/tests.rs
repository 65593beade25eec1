//! The model against traffic that tests play packet by packet: counts, times and verdicts are known beforehand.

use std::sync::{Arc, Mutex};

use super::{ConnectionSeen, End, Model, Options, RequestSeen, Sink};
use crate::judge::{Report, Verdict};
use crate::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};
use crate::skip::Skip;

const MS: i64 = 1_000_000;
/// When plays begin.
const BEGIN: i64 = 1_700_000_000_000_000_000;

struct Owned {
    ts: i64,
    from: Endpoint,
    to: Endpoint,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    sent_ms: i64,
    ip_id: u16,
    dsack: Option<SackBlock>,
    payload: Vec<u8>,
    captured: usize,
}

/// Packets to be.
#[derive(Default)]
struct Play {
    packets: Vec<Owned>,
    clients: u16,
}

/// One connection of a play; times are milliseconds since its begin.
#[derive(Clone, Copy)]
struct Line {
    ends: [Endpoint; 2],
    next: [u32; 2],
    ids: [u16; 2],
    /// Milliseconds that the network holds the client's packets before they are seen.
    held_ms: i64,
    window: u16,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn end(last: u8, port: u16) -> Endpoint {
    Endpoint::new(std::net::Ipv4Addr::new(192, 0, 2, last).into(), port)
}

impl Play {
    fn line(&mut self, server_port: u16) -> Line {
        self.clients += 1;
        let (client, server) = match server_port {
            8080 => (end(2, 20_000 + self.clients), end(3, 8080)),
            port => (end(1, 20_000 + self.clients), end(2, port)),
        };
        let isn = u32::from(self.clients).wrapping_mul(0x1234_5677);
        Line {
            ends: [client, server],
            next: [isn, !isn],
            ids: [self.clients, 7],
            held_ms: 0,
            window: 500,
        }
    }

    /// A connection whose handshake takes `rtt` ms to the client.
    fn open(&mut self, server_port: u16, at: i64, rtt: i64) -> Line {
        let mut line = self.line(server_port);
        self.send(&mut line, CLIENT, at, Flags::SYN, b"");
        self.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        self.send(&mut line, CLIENT, at + rtt, Flags::ACK, b"");
        line
    }

    fn send(&mut self, line: &mut Line, who: usize, at: i64, flags: Flags, payload: &[u8]) {
        let held = if who == CLIENT { line.held_ms } else { 0 };
        line.ids[who] = line.ids[who].wrapping_add(1);
        self.packets.push(Owned {
            ts: BEGIN + (at + held) * MS,
            from: line.ends[who],
            to: line.ends[1 - who],
            seq: line.next[who],
            ack: line.next[1 - who],
            flags,
            window: if who == CLIENT { line.window } else { 500 },
            sent_ms: at + i64::from(line.ends[who].port) * 1000,
            ip_id: line.ids[who],
            dsack: None,
            payload: payload.to_vec(),
            captured: usize::MAX,
        });
        let takes_number = flags.has(Flags::SYN) || flags.has(Flags::FIN);
        let length = u32::try_from(payload.len()).expect("short") + u32::from(takes_number);
        line.next[who] = line.next[who].wrapping_add(length);
    }

    fn data(&mut self, line: &mut Line, who: usize, at: i64, payload: impl AsRef<[u8]>) {
        self.send(line, who, at, Flags::ACK | Flags::PSH, payload.as_ref());
    }

    fn ack(&mut self, line: &mut Line, who: usize, at: i64) {
        self.send(line, who, at, Flags::ACK, b"");
    }

    /// The last packet once more, `later` ms later.
    fn again(&mut self, later: i64) -> &mut Owned {
        let last = self.packets.last().expect("there is one");
        let again = Owned {
            ts: last.ts + later * MS,
            sent_ms: last.sent_ms + later,
            payload: last.payload.clone(),
            ip_id: last.ip_id.wrapping_add(1),
            ..*last
        };
        self.packets.push(again);
        self.packets.last_mut().expect("it was pushed")
    }

    /// A request that is answered after `think` ms, and acknowledged.
    fn exchange(&mut self, line: &mut Line, at: i64, path: &str, think: i64) {
        self.data(line, CLIENT, at, get(path));
        self.data(line, SERVER, at + think, ok(20));
        self.ack(line, CLIENT, at + think + 1);
    }

    fn run(mut self, options: Options) -> (Report, Rows) {
        self.packets.sort_by_key(|packet| packet.ts);
        let rows = Arc::new(Mutex::new(Rows::default()));
        let mut model = Model::new(options, Some(Box::new(Keep(Arc::clone(&rows)))));
        for packet in &self.packets {
            model.packet(&view(packet));
        }
        let report = model.report();
        let rows = std::mem::take(&mut *rows.lock().expect("nobody panicked"));
        (report, rows)
    }
}

/// The report of what is played so far.
fn view_with(play: &Play, options: Options) -> Report {
    let mut packets: Vec<&Owned> = play.packets.iter().collect();
    packets.sort_by_key(|packet| packet.ts);
    let mut model = Model::new(options, None);
    packets.into_iter().for_each(|packet| model.packet(&view(packet)));
    model.report()
}

fn view(owned: &Owned) -> Packet<'_> {
    Packet {
        ts_ns: owned.ts,
        from: owned.from,
        to: owned.to,
        seq: owned.seq,
        ack: owned.ack,
        is_sequence_known: true,
        flags: owned.flags,
        window: owned.window,
        window_scale: None,
        timestamps: Some(Timestamps {
            value: u32::try_from(owned.sent_ms & 0xffff_ffff).expect("masked"),
            echo: 0,
        }),
        sack_blocks: u8::from(owned.dsack.is_some()),
        dsack: owned.dsack,
        ip_id: Some(owned.ip_id),
        payload_length: u32::try_from(owned.payload.len()).expect("short"),
        payload: &owned.payload[..owned.payload.len().min(owned.captured)],
        interface: 0,
        direction: Direction::Unknown,
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: www\r\n\r\n").into_bytes()
}

fn ok(length: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length))
        .into_bytes()
}

/// A request as a test compares it: path, status, ms to think, ms in all, end.
type Row = (String, Option<u16>, i64, i64, End);

#[derive(Default)]
struct Rows {
    requests: Vec<Row>,
    parents: Vec<Option<u64>>,
    connections: Vec<ConnectionSeen>,
}

struct Keep(Arc<Mutex<Rows>>);

impl Sink for Keep {
    fn request(&mut self, seen: &RequestSeen<'_>) {
        let [first, last] = seen.answered.unwrap_or(seen.asked);
        let mut rows = self.0.lock().expect("nobody panicked");
        rows.requests.push((
            seen.target.to_owned(),
            seen.status,
            (first - seen.asked[1]) / MS,
            (last - seen.asked[0]) / MS,
            seen.end,
        ));
        rows.parents.push(seen.parent);
    }

    fn connection(&mut self, seen: &ConnectionSeen) {
        self.0.lock().expect("nobody panicked").connections.push(*seen);
    }
}

fn row(path: &str, think: i64, total: i64) -> Row {
    (path.to_owned(), Some(200), think, total, End::Ok)
}

#[test]
fn keep_alive_pipelining_and_continue_are_counted_as_sent() {
    let mut play = Play::default();
    let line = &mut play.open(80, 0, 1);
    play.exchange(line, 10, "/a", 5);
    // Two requests in one segment, three answers' worth of segments.
    play.data(line, CLIENT, 100, [get("/b"), get("/c")].concat());
    play.data(line, SERVER, 110, ok(5));
    let answer = ok(50);
    play.data(line, SERVER, 120, &answer[..30]);
    play.data(line, SERVER, 125, &answer[30..]);
    play.data(
        line,
        CLIENT,
        200,
        b"POST /d HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    );
    play.data(line, SERVER, 203, b"HTTP/1.1 100 Continue\r\n\r\n");
    play.data(line, CLIENT, 206, b"body");
    play.data(
        line,
        SERVER,
        216,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    );
    play.data(line, SERVER, 220, b"0\r\n\r\n");
    play.data(line, CLIENT, 300, b"HEAD /e HTTP/1.1\r\n\r\n");
    play.data(line, SERVER, 301, b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
    play.data(line, CLIENT, 400, get("/f"));
    play.data(line, SERVER, 401, b"HTTP/1.0 200 OK\r\n\r\nuntil");
    play.data(line, SERVER, 402, b" the end");
    play.send(line, SERVER, 403, Flags::FIN | Flags::ACK, b"");
    let (report, rows) = play.run(Options::default());
    let expected = [
        row("/a", 5, 5),
        row("/b", 10, 10),
        row("/c", 20, 25),
        row("/d", 10, 20),
        row("/e", 1, 1),
        row("/f", 1, 2),
    ];
    assert_eq!(rows.requests, expected);
    let tier = &report.tiers[0];
    assert_eq!((tier.port, tier.requests, tier.responses, tier.connections), (80, 6, 6, 1));
    assert_eq!(tier.unanswered + tier.unasked + tier.unseen, 0);
}

#[test]
fn slices_hold_every_request_by_its_start_and_nothing_twice() {
    let mut play = Play::default();
    let line = &mut play.open(80, 0, 1);
    // Under way from 0.5 s to 2.5 s, then from 4.0 s to 4.2 s; slice 3 is empty but there.
    play.exchange(line, 500, "/long", 2000);
    play.exchange(line, 4000, "/short", 200);
    let (report, _) = play.run(Options::default());
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
    let mut play = Play::default();
    // No handshake, and the server speaks first: the rest of an answer.
    let mut line = play.line(80);
    play.data(&mut line, SERVER, 0, b"...the rest of some body");
    play.exchange(&mut line, 10, "/late", 3);
    play.send(&mut line, CLIENT, 20, Flags::FIN | Flags::ACK, b"");
    play.send(&mut line, SERVER, 21, Flags::FIN | Flags::ACK, b"");
    // The same ends again, soon after.
    line.next = [5_000_000, 6_000_000];
    play.send(&mut line, CLIENT, 100, Flags::SYN, b"");
    play.send(&mut line, SERVER, 101, Flags::SYN | Flags::ACK, b"");
    play.ack(&mut line, CLIENT, 102);
    play.exchange(&mut line, 110, "/again", 4);
    let (report, rows) = play.run(Options::default());
    assert_eq!(rows.requests, [row("/late", 3, 3), row("/again", 4, 4)]);
    assert_eq!(report.tiers[0].connections, 2);
    assert_eq!(rows.connections[1].syn_wait_us, Some(1000));
}

#[test]
fn what_is_sent_twice_is_not_asked_twice_and_dsack_tells_why() {
    let mut play = Play::default();
    let line = &mut play.open(80, 0, 1);
    play.data(line, CLIENT, 10, get("/a"));
    play.again(200);
    let answer = ok(20);
    play.data(line, SERVER, 300, &answer);
    play.again(50);
    let right = line.next[SERVER];
    let left = right.wrapping_sub(u32::try_from(answer.len()).expect("short"));
    play.ack(line, CLIENT, 351);
    play.packets.last_mut().expect("there is one").dsack = Some(SackBlock { left, right });
    let (report, rows) = play.run(Options::default());
    assert_eq!(rows.requests, [row("/a", 290, 290)]);
    let connection = &rows.connections[0];
    assert_eq!((connection.retransmits, connection.spurious), ([1, 1], [0, 1]));
    let evidence = &report.tiers[0].evidence;
    assert_eq!((evidence.retransmits, evidence.spurious, evidence.client_retransmits), (1, 1, 1));
}

#[test]
fn missing_packets_lose_one_request_and_not_the_way() {
    let mut play = Play::default();
    let line = &mut play.open(80, 0, 1);
    for n in 0..10 {
        play.exchange(line, 100 * (n + 1), &format!("/{n}"), 10);
    }
    // The answer to /3 and the request for /6 were not captured.
    let is_missing = |packet: &Owned| {
        let at = (packet.ts - BEGIN) / MS;
        (at == 410 || at == 700) && !packet.payload.is_empty()
    };
    play.packets.retain(|packet| !is_missing(packet));
    let (report, rows) = play.run(Options::default());
    let tier = &report.tiers[0];
    assert_eq!(
        (tier.requests, tier.responses, tier.unseen, tier.unasked),
        (9, 8, 1, 1),
        "{:?}",
        rows.requests
    );
    let paths: Vec<&str> = rows.requests.iter().map(|row| &*row.0).collect();
    assert_eq!(paths, ["/0", "/1", "/2", "/3", "/4", "/5", "/7", "/8", "/9"]);
    assert_eq!(rows.requests[3].4, End::Unseen);
    assert!(rows.requests.iter().all(|row| row.2 <= 10));
}

#[test]
fn a_snap_length_of_few_bytes_leaves_counts_and_times() {
    for captured in [4, 10, 24, 30] {
        let mut play = Play::default();
        let line = &mut play.open(80, 0, 1);
        for n in 0..5 {
            play.exchange(line, 100 * (n + 1), "/app/search?q=12345", 10);
        }
        play.packets.iter_mut().for_each(|packet| packet.captured = captured);
        let (report, _) = play.run(Options::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (5, 5, 0), "{captured}");
        assert_eq!(tier.think.expect("five").p50, 10_000, "{captured}");
    }
}

/// Two hundred connections over ten seconds, 20 requests each, answered after 20 to 60 ms; `shape` may change a
/// request's time on its way (`held`) or its sending.
fn crowd(mut each: impl FnMut(&mut Play, &mut Line, i64, i64)) -> Report {
    let mut play = Play::default();
    for client in 0..200 {
        let line = &mut play.open(80, client * 3, 1);
        for n in 0..20 {
            let at = 700 + n * 500 + (client * 7919) % 499;
            let think = 20 + (client * 31 + n * 17) % 40;
            each(&mut play, line, at, think);
        }
    }
    play.run(Options::default()).0
}

#[track_caller]
fn verdict(report: &Report, expected: Verdict) {
    assert_eq!(report.verdict, expected, "{}", report.why);
}

#[test]
fn an_even_crowd_is_smooth() {
    let report = crowd(|play, line, at, think| play.exchange(line, at, "/a", think));
    verdict(&report, Verdict::Smooth);
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (4000, 4000));
}

#[test]
fn a_network_that_holds_packets_is_told_from_clients_that_pause() {
    // Every two seconds nothing passes for 400 ms.
    let hold = |at: i64| if at % 2000 < 400 { 400 - at % 2000 } else { 0 };
    let report = crowd(|play, line, at, think| {
        line.held_ms = hold(at);
        let arrived = at + line.held_ms;
        play.data(line, CLIENT, at, get("/a"));
        play.data(line, SERVER, arrived + think, ok(20));
        line.held_ms = hold(arrived + think + 1);
        play.ack(line, CLIENT, arrived + think + 1);
    });
    verdict(&report, Verdict::UpstreamNetworkJitter);
    let report = crowd(|play, line, at, think| play.exchange(line, at + hold(at), "/a", think));
    verdict(&report, Verdict::SenderBursts);
}

#[test]
fn a_slow_url_is_named() {
    let report = crowd(|play, line, at, think| {
        if at > 5000 && think % 4 == 0 {
            play.exchange(line, at, "/app/search?q=1", 400 + think);
        } else {
            play.exchange(line, at, if think % 4 == 0 { "/app/search?q=2" } else { "/b" }, think);
        }
    });
    verdict(&report, Verdict::SlowApp);
    assert!(report.why.contains("/app/search"), "{}", report.why);
}

#[test]
fn lost_answers_are_path_loss_and_spurious_ones_are_not() {
    for is_spurious in [false, true] {
        let mut count = 0;
        let report = crowd(|play, line, at, think| {
            count += 1;
            play.data(line, CLIENT, at, get("/a"));
            play.data(line, SERVER, at + think, ok(20));
            let is_repeated = count % 40 == 0;
            if is_repeated {
                play.again(3);
            }
            play.ack(line, CLIENT, at + think + 4);
            if is_repeated && is_spurious {
                let right = line.next[SERVER];
                let dsack = Some(SackBlock { left: right.wrapping_sub(5), right });
                play.packets.last_mut().expect("there is one").dsack = dsack;
            }
        });
        verdict(&report, if is_spurious { Verdict::Smooth } else { Verdict::PathLoss });
    }
}

#[test]
fn packets_that_only_the_tap_lost_are_no_path_loss() {
    let mut play = Play::default();
    for client in 0..200 {
        let line = &mut play.open(80, client * 3, 1);
        for n in 0..20 {
            play.exchange(line, 700 + n * 500 + (client * 7919 + n * 104_729) % 499, "/a", 30);
        }
    }
    let mut count = 0;
    play.packets.retain(|_| {
        count += 1;
        count % 100 != 0
    });
    verdict(&play.run(Options::default()).0, Verdict::Smooth);
}

#[test]
fn a_full_accept_queue_shows_in_syns_a_second_apart() {
    let mut play = Play::default();
    for client in 0..100_i64 {
        let mut line = play.line(80);
        let waits: &[i64] = if client % 10 == 0 { &[0, 1000, 3000] } else { &[0] };
        for wait in waits {
            let isn = line.next[CLIENT];
            play.send(&mut line, CLIENT, client * 20 + wait, Flags::SYN, b"");
            line.next[CLIENT] = isn;
        }
        line.next[CLIENT] = line.next[CLIENT].wrapping_add(1);
        let at = client * 20 + waits[waits.len() - 1];
        play.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        play.ack(&mut line, CLIENT, at + 1);
        play.exchange(&mut line, at + 2, "/a", 10);
    }
    let by_port = view_with(&play, Options { ports: vec![80], ..Options::default() });
    let (report, _) = play.run(Options::default());
    verdict(&report, Verdict::AcceptQueue);
    for report in [&report, &by_port] {
        let evidence = &report.tiers[0].evidence;
        assert_eq!((evidence.late_syns, evidence.syns), (20, 120));
    }
    assert_eq!(report.tiers[0].requests, 100);
}

#[test]
fn requests_that_cross_the_closing_are_a_race() {
    let mut play = Play::default();
    for client in 0..50 {
        let line = &mut play.open(80, client * 10, 40);
        play.data(line, CLIENT, 1000 + client * 10, get("/a"));
        play.data(line, SERVER, 1010 + client * 10, ok(20));
        play.ack(line, CLIENT, 1050 + client * 10);
        let at = 3000 + client * 10;
        if client % 5 == 0 {
            play.send(line, SERVER, at, Flags::FIN | Flags::ACK, b"");
            play.data(line, CLIENT, at + 13, get("/b"));
            play.send(line, SERVER, at + 13, Flags::RST, b"");
        }
    }
    let (report, rows) = play.run(Options::default());
    verdict(&report, Verdict::KeepaliveRace);
    assert_eq!(report.tiers[0].evidence.races, 10);
    assert_eq!(rows.requests.iter().filter(|row| row.4 == End::Reset).count(), 10);
}

#[test]
fn requests_behind_the_snap_length_are_known_by_their_answers() {
    let mut play = Play::default();
    let line = &mut play.open(80, 0, 1);
    play.data(line, CLIENT, 10, [get("/a"), get("/b"), get("/c")].concat());
    (0..3).for_each(|n| play.data(line, SERVER, 20 + n, ok(5)));
    play.packets.iter_mut().for_each(|packet| packet.captured = 24);
    let (report, rows) = play.run(Options::default());
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (3, 3));
    assert_eq!(rows.requests.iter().map(|row| row.2).collect::<Vec<_>>(), [10, 11, 12]);
}

#[test]
fn clients_that_do_not_read_are_named() {
    let mut play = Play::default();
    for client in 0..20 {
        let line = &mut play.open(80, client * 10, 1);
        play.data(line, CLIENT, 400 + client, get("/big"));
        let answer = ok(9000);
        for (n, part) in (0_i64..).zip(answer.chunks(1400)) {
            let at = 430 + client + n * 300;
            play.data(line, SERVER, at, part);
            line.window = 0;
            play.ack(line, CLIENT, at + 1);
            line.window = 500;
            play.ack(line, CLIENT, at + 299);
        }
    }
    let (report, _) = play.run(Options::default());
    verdict(&report, Verdict::ClientReader);
}

#[test]
fn an_upstream_request_finds_the_request_it_was_made_for() {
    let mut play = Play::default();
    let upstream = &mut play.open(8080, 0, 0);
    let edge = &mut play.open(80, 1, 1);
    for n in 0..30 {
        let (at, path) = (100 * (n + 1), format!("/x?{n}"));
        play.data(edge, CLIENT, at, get(&path));
        // The edge itself waits for 300 ms from the tenth on.
        let stall = if n < 10 { 1 } else { 30 };
        play.data(upstream, CLIENT, at + stall, get(&path));
        play.data(upstream, SERVER, at + stall + 20, ok(5));
        play.data(edge, SERVER, at + stall + 22, ok(5));
    }
    let (report, rows) = play.run(Options::default());
    let parents = rows.parents.iter().flatten().count();
    assert_eq!(parents, 30);
    let tier = |port: u16| report.tiers.iter().find(|tier| tier.port == port).expect("a tier");
    assert!(tier(8080).is_upstream && !tier(80).is_upstream);
    assert!((tier(80).evidence.upstream_coverage - 1.0).abs() < 1e-9);
    let stall = tier(80).evidence.stall_later_ms_p95;
    assert!((30.0..31.0).contains(&stall), "{stall}");
}

#[test]
fn a_terminal_beside_requests_is_no_slow_application() {
    let mut play = Play::default();
    let terminal = &mut play.open(22, 0, 1);
    for n in 0..30 {
        play.data(terminal, CLIENT, 100 + n * 3000, b"sleep 2");
        play.data(terminal, SERVER, 2100 + n * 3000, b"$ ");
    }
    let alone = view_with(&play, Options::default());
    verdict(&alone, Verdict::SlowApp);
    let line = &mut play.open(80, 3, 1);
    (0..30).for_each(|n| play.exchange(line, 200 + n * 3000, "/a", 10));
    let (report, _) = play.run(Options::default());
    verdict(&report, Verdict::Smooth);
    let terminal = report.tiers.iter().find(|tier| tier.port == 22).expect("a tier");
    assert_eq!((terminal.protocol, terminal.requests), ("opaque", 30));
}

#[test]
fn times_that_cannot_be_are_counted_and_not_believed() {
    let mut play = Play::default();
    let mut line = play.line(80);
    (0..6).for_each(|n| play.data(&mut line, CLIENT, n, get("/a")));
    let times = [i64::MIN, BEGIN, i64::MAX, BEGIN - 3600 * 1_000 * MS, BEGIN - 5 * MS, -1];
    for first in 0..times.len() {
        let mut model = Model::new(Options::default(), None);
        for (at, packet) in play.packets.iter().enumerate() {
            let ts_ns = times[(first + at) % times.len()];
            model.packet(&Packet { ts_ns, ..view(packet) });
        }
        let report = model.report();
        let skipped = report.skipped.count(Skip::Time);
        assert_eq!((report.packets + skipped, skipped >= 3), (6, true));
    }
}

#[test]
fn many_connections_of_one_packet_stay_within_the_limit() {
    let mut model = Model::new(Options { connections_max: 1000, ..Options::default() }, None);
    let mut play = Play::default();
    let mut line = play.line(80);
    play.send(&mut line, CLIENT, 0, Flags::SYN, b"");
    let mut packet = view(&play.packets[0]);
    for n in 0..200_000_u32 {
        packet.from = Endpoint { address: u128::from(n), port: 1 };
        model.packet(&packet);
        assert!(model.connections.len() <= 1000);
    }
    let report = model.report();
    assert_eq!(report.given_up, 199_000);
}

#[test]
fn any_packets_in_any_order_make_a_report() {
    arbtest::arbtest(|u| {
        let mut play = Play::default();
        let mut lines: Vec<Line> = [80, 80, 8080].into_iter().map(|port| play.line(port)).collect();
        let texts: [&[u8]; 6] = [
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            b"\x17\x03\x03",
            b"HTTP/1.1 200 OK\r\n",
            b"x",
        ];
        while !u.is_empty() && play.packets.len() < 60 {
            let line = u.choose_index(lines.len())?;
            let line = &mut lines[line];
            let flags = Flags(u.arbitrary()?);
            let text = *u.choose(&texts)?;
            let at = u.int_in_range(0..=5000)?;
            play.send(line, u.int_in_range(0..=1)?, at, flags, text);
            let last = play.packets.last_mut().expect("it was pushed");
            last.seq = last.seq.wrapping_add(u.int_in_range(0..=20)?);
            last.ack = last.ack.wrapping_add(u.int_in_range(0..=200)?);
            last.captured = u.int_in_range(0..=60)?;
            last.window = u.arbitrary()?;
        }
        let sent = play.packets.len() as u64;
        let (report, rows) = play.run(Options::default());
        assert_eq!(report.packets + report.skipped.total(), sent);
        let requests: u64 = report.tiers.iter().map(|tier| tier.requests).sum();
        assert_eq!(rows.requests.len() as u64, requests);
        for tier in &report.tiers {
            assert_eq!(tier.slices.iter().map(|slice| slice.arrivals).sum::<u64>(), tier.requests);
        }
        Ok(())
    });
}

/// The play as a pcap file of Ethernet frames.
fn file(play: &Play) -> Vec<u8> {
    let mut out = Vec::new();
    for value in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend(value.to_le_bytes());
    }
    for packet in &play.packets {
        let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) =
            (packet.from.ip(), packet.to.ip())
        else {
            panic!("plays are IPv4")
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
    let input = crate::Input::from_stream("test", Box::new(std::io::Cursor::new(bytes)));
    let mut capture = crate::Capture::new(input.expect("bytes")).expect("a capture");
    let mut model = Model::new(Options::default(), None);
    while capture.step(&mut |packet| model.packet(packet)).expect("memory can be read") {}
    let mut report = model.report();
    report.skipped.merge(&capture.skipped());
    (report, capture.records())
}

#[test]
fn a_damaged_capture_is_read_as_far_as_it_goes() {
    let mut play = Play::default();
    for client in 0..4 {
        let line = &mut play.open(if client % 2 == 0 { 80 } else { 8080 }, client * 5, 1);
        (0..6).for_each(|n| play.exchange(line, 40 + 20 * n, &format!("/item/{n}"), 5));
    }
    play.packets.sort_by_key(|packet| packet.ts);
    let whole = file(&play);
    assert_eq!(read(whole.clone()).0.tiers.iter().map(|tier| tier.responses).sum::<u64>(), 24);
    let test = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let mut bytes = whole.clone();
        for _ in 0..u.int_in_range(1..=40)? {
            let at = u.int_in_range(24..=bytes.len() - 1)?;
            bytes[at] = u.arbitrary()?;
        }
        bytes.truncate(u.int_in_range(24..=bytes.len())?);
        let (report, records) = read(bytes);
        // What cannot be read is counted: one more for where reading ended.
        let used = report.packets + report.skipped.total();
        assert!(used >= records && used <= records + 1, "{used} {records}");
        Ok(())
    };
    // `cargo xtask test --long` sets the rounds: seconds of mutations.
    let seconds = std::env::var("WEIR_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    arbtest::arbtest(test).budget(std::time::Duration::from_secs(seconds));
}

/// What a tap gives that looks every 100 ms and takes slices that are a second old.
fn taken(mut play: Play, until: i64) -> Vec<crate::judge::RipeSlice> {
    play.packets.sort_by_key(|packet| packet.ts);
    let mut packets = play.packets.iter().peekable();
    let mut model = Model::new(Options::default(), None);
    let mut found = Vec::new();
    for at in (0..=until).step_by(100) {
        let now = BEGIN + at * MS;
        while let Some(packet) = packets.next_if(|packet| packet.ts <= now) {
            model.packet(&view(packet));
        }
        found.extend(model.take_slices(now - 1000 * MS));
        assert!(model.world.slice <= 1, "nothing grows");
    }
    found
}

#[test]
fn slices_taken_while_packets_come_are_those_of_the_whole() {
    let mut play = Play::default();
    let line = &mut play.open(80, 0, 1);
    play.exchange(line, 500, "/long", 2000);
    play.exchange(line, 4000, "/short", 200);
    let found = taken(play, 7000);
    let get = |measure: fn(&crate::judge::SliceReport) -> u64| {
        found.iter().map(|ripe| measure(&ripe.slice)).collect::<Vec<_>>()
    };
    assert_eq!(get(|slice| slice.arrivals), [1, 0, 0, 0, 1, 0]);
    assert_eq!(get(|slice| slice.completions), [0, 0, 1, 0, 1, 0]);
    // What is under way counts although nobody knows yet when it ends.
    assert_eq!(get(|slice| slice.weighted_us), [500_000, 1_000_000, 500_000, 0, 200_000, 0]);
    assert_eq!(get(|slice| slice.busy_us), [500_000, 1_000_000, 500_000, 0, 200_000, 0]);
    // The long one ended when its own slice was gone: its duration is in the first that was there.
    assert_eq!(get(|slice| slice.sum_us), [0, 2_000_000, 0, 0, 200_000, 0]);
    let little: Vec<bool> = found.iter().map(|ripe| ripe.slice.little_error.is_some()).collect();
    assert_eq!(little, [false, false, true, false, true, false], "no law for halves");
    let starts: Vec<i64> = found.iter().map(|ripe| (ripe.slice.start_ns - BEGIN) / MS).collect();
    assert_eq!(starts, [0, 1000, 2000, 3000, 4000, 5000]);
}

#[test]
fn a_tap_that_runs_for_hours_stays_small_and_goes_on_to_count() {
    let mut play = Play::default();
    for minute in 0..180 {
        let at = minute * 60_000;
        let mut line = play.open(80, at, 1);
        play.exchange(&mut line, at + 10, &format!("/page-{minute}"), 20);
        play.send(&mut line, CLIENT, at + 50, Flags::FIN | Flags::ACK, b"");
        play.send(&mut line, SERVER, at + 51, Flags::FIN | Flags::ACK, b"");
    }
    let found = taken(play, 180 * 60_000);
    assert_eq!(found.iter().map(|ripe| ripe.slice.arrivals).sum::<u64>(), 180);
    assert_eq!(found.iter().map(|ripe| ripe.slice.new_connections).sum::<u32>(), 180);
    assert!(found.len() >= 180 * 60 - 2, "a slice a second, also without packets: {}", found.len());
}

#[test]
fn a_connection_is_over_although_no_packet_says_that_time_goes_on() {
    let mut play = Play::default();
    let mut line = play.open(80, 0, 1);
    play.exchange(&mut line, 10, "/", 20);
    play.send(&mut line, CLIENT, 50, Flags::FIN | Flags::ACK, b"");
    play.send(&mut line, SERVER, 51, Flags::FIN | Flags::ACK, b"");
    let rows = Arc::new(Mutex::new(Rows::default()));
    let mut model = Model::new(Options::default(), Some(Box::new(Keep(Arc::clone(&rows)))));
    play.packets.iter().for_each(|packet| model.packet(&view(packet)));
    assert_eq!(rows.lock().expect("nobody panicked").connections.len(), 0);
    model.take_slices(BEGIN + 3000 * MS);
    assert_eq!(rows.lock().expect("nobody panicked").connections.len(), 1);
}
