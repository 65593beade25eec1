//! Tests of the model on scripted traffic: counts, times and verdicts are known in advance.

mod checks;
mod copies;
mod databases;
mod http2;
mod limits;
mod live;
mod odd_connections;
mod odd_http;
mod offload;
mod peer;
mod protocols;
mod requests;
mod taps;
mod tls_servers;
mod uninvited;
mod unread;
mod verdicts;
mod whose_fault;

use std::sync::{Arc, Mutex};

use super::{Model, ModelOptions, ObservedConnection, ObservedRequest, RequestEnd, RowSink};
use crate::judge::{DelayVerdict, Report};
use weir_capture::SkipReason;
use weir_capture::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};

const MS: i64 = 1_000_000;
const BEGIN: i64 = 1_700_000_000_000_000_000;

struct OwnedPacket {
    ts: i64,
    from: Endpoint,
    to: Endpoint,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    sent_ms: i64,
    /// Tick of the sender's timestamps; 0 for none.
    tick_us: i64,
    ip_id: u16,
    dsack: Option<SackBlock>,
    segment_bytes_max: Option<u16>,
    is_join: bool,
    payload: Vec<u8>,
    captured: usize,
}

#[derive(Default)]
struct TrafficScript {
    packets: Vec<OwnedPacket>,
    clients: u16,
}

/// One connection of a script; times are milliseconds since the start.
#[derive(Clone, Copy)]
struct ScriptedConnection {
    ends: [Endpoint; 2],
    next: [u32; 2],
    ids: [u16; 2],
    /// Milliseconds that the network holds the client's packets before the tap.
    held_ms: i64,
    window: u16,
}
const CLIENT: usize = 0;
const SERVER: usize = 1;

fn end(last: u8, port: u16) -> Endpoint {
    Endpoint::new(std::net::Ipv4Addr::new(192, 0, 2, last).into(), port)
}

impl TrafficScript {
    fn line(&mut self, server_port: u16) -> ScriptedConnection {
        self.clients += 1;
        let (client, server) = match server_port {
            8080 => (end(2, 20_000 + self.clients), end(3, 8080)),
            port => (end(1, 20_000 + self.clients), end(2, port)),
        };
        let isn = u32::from(self.clients).wrapping_mul(0x1234_5677);
        ScriptedConnection {
            ends: [client, server],
            next: [isn, !isn],
            ids: [self.clients, 7],
            held_ms: 0,
            window: 500,
        }
    }

    /// Opens a connection with a handshake of `rtt` ms to the client.
    fn open(&mut self, server_port: u16, at: i64, rtt: i64) -> ScriptedConnection {
        let mut line = self.line(server_port);
        self.send(&mut line, CLIENT, at, Flags::SYN, b"");
        self.send(&mut line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        self.send(&mut line, CLIENT, at + rtt, Flags::ACK, b"");
        line
    }

    fn send(
        &mut self,
        line: &mut ScriptedConnection,
        who: usize,
        at: i64,
        flags: Flags,
        payload: &[u8],
    ) {
        let held = if who == CLIENT { line.held_ms } else { 0 };
        line.ids[who] = line.ids[who].wrapping_add(1);
        self.packets.push(OwnedPacket {
            ts: BEGIN + (at + held) * MS,
            from: line.ends[who],
            to: line.ends[1 - who],
            seq: line.next[who],
            ack: line.next[1 - who],
            flags,
            window: if who == CLIENT { line.window } else { 500 },
            sent_ms: at + i64::from(line.ends[who].port) * 1000,
            tick_us: 1000,
            ip_id: line.ids[who],
            dsack: None,
            segment_bytes_max: None,
            is_join: false,
            payload: payload.to_vec(),
            captured: usize::MAX,
        });
        let takes_number = flags.has(Flags::SYN) || flags.has(Flags::FIN);
        let length = u32::try_from(payload.len()).expect("short") + u32::from(takes_number);
        line.next[who] = line.next[who].wrapping_add(length);
    }

    fn data(
        &mut self,
        line: &mut ScriptedConnection,
        who: usize,
        at: i64,
        payload: impl AsRef<[u8]>,
    ) {
        self.send(line, who, at, Flags::ACK | Flags::PSH, payload.as_ref());
    }

    fn ack(&mut self, line: &mut ScriptedConnection, who: usize, at: i64) {
        self.send(line, who, at, Flags::ACK, b"");
    }

    /// Repeats the last packet `later` ms later.
    fn again(&mut self, later: i64) -> &mut OwnedPacket {
        let last = self.packets.last().expect("there is one");
        let again = OwnedPacket {
            ts: last.ts + later * MS,
            sent_ms: last.sent_ms + later,
            payload: last.payload.clone(),
            ip_id: last.ip_id.wrapping_add(1),
            ..*last
        };
        self.packets.push(again);
        self.packets.last_mut().expect("it was pushed")
    }

    /// A request answered after `think` ms, and acknowledged.
    fn exchange(&mut self, line: &mut ScriptedConnection, at: i64, path: &str, think: i64) {
        self.data(line, CLIENT, at, get(path));
        self.data(line, SERVER, at + think, ok(20));
        self.ack(line, CLIENT, at + think + 1);
    }

    /// Runs the script with one thread, and checks that three threads give the same result.
    fn run(mut self, options: ModelOptions) -> (Report, ObservedRows) {
        self.packets.sort_by_key(|packet| packet.ts);
        let run = |threads| {
            let rows = Arc::new(Mutex::new(ObservedRows::default()));
            let options = ModelOptions { threads, ..options.clone() };
            let mut model = Model::new(options, Some(Box::new(CollectingSink(Arc::clone(&rows)))));
            self.packets.iter().for_each(|packet| model.packet(&view(packet)));
            let report = model.report();
            (report, std::mem::take(&mut *rows.lock().expect("nobody panicked")))
        };
        let (alone, together) = (run(1), run(3));
        assert_eq!(format!("{alone:?}"), format!("{together:?}"));
        peer::record(&self.packets, &alone.1);
        alone
    }
}

fn view_with(script: &TrafficScript, options: ModelOptions) -> Report {
    let mut packets: Vec<&OwnedPacket> = script.packets.iter().collect();
    packets.sort_by_key(|packet| packet.ts);
    let mut model = Model::new(options, None);
    packets.into_iter().for_each(|packet| model.packet(&view(packet)));
    model.report()
}

fn view(owned: &OwnedPacket) -> Packet<'_> {
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
        segment_bytes_max: owned.segment_bytes_max,
        is_join: owned.is_join,
        timestamps: (owned.tick_us > 0).then(|| Timestamps {
            value: u32::try_from((owned.sent_ms * 1000 / owned.tick_us) & 0xffff_ffff)
                .expect("masked"),
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

impl OwnedPacket {
    /// The same packet again, as a capture copies it `later_us` microseconds later.
    fn copy(&self, later_us: i64) -> Self {
        Self { ts: self.ts + later_us * 1000, payload: self.payload.clone(), ..*self }
    }
}

/// A request as compared by tests: path, status, think ms, total ms, end.
type RequestRow = (String, Option<u16>, i64, i64, RequestEnd);

#[derive(Debug, Default)]
struct ObservedRows {
    requests: Vec<RequestRow>,
    parents: Vec<Option<u64>>,
    databases: Vec<(String, String)>,
    connections: Vec<ObservedConnection>,
}

struct CollectingSink(Arc<Mutex<ObservedRows>>);

impl RowSink for CollectingSink {
    fn request(&mut self, seen: &ObservedRequest<'_>) {
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
        rows.databases.push((seen.method.to_owned(), seen.error.to_owned()));
    }

    fn connection(&mut self, seen: &ObservedConnection) {
        self.0.lock().expect("nobody panicked").connections.push(*seen);
    }
}

fn row(path: &str, [think, total]: [i64; 2]) -> RequestRow {
    (path.to_owned(), Some(200), think, total, RequestEnd::Ok)
}
