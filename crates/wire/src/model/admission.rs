//! Admission of packets, in capture order and before any connection state: applies the filters,
//! assigns the time slice, learns which ports serve, and picks the connection's shard.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::{
    DISORDER_NS, FILLED_SLICES_MAX, LATEST_NS, ModelOptions, SERVERS_MAX, SHARDS, SLICES_MAX,
};
use crate::http::{is_request_start, is_response_start, proxy_header};
use crate::http2::is_preface;
use weir_capture::packet::{Endpoint, Flags, Packet};
use weir_capture::{SkipCounts, SkipReason};

/// Context of an admitted packet. Small enough for a register.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacketHints {
    pub(crate) slice: u32,
    /// For a connection seen mid-stream: whether the sender looks like the server.
    pub(crate) is_from_server: bool,
    /// Whether readable requests were seen at the sender's port and at the receiver's.
    pub(crate) is_readable: [bool; 2],
    /// Whether the capture holds headers only.
    pub(crate) is_mute: bool,
}

pub(crate) struct Admission {
    pub(crate) options: ModelOptions,
    /// Whether all packets are admitted.
    is_open: bool,
    pub(crate) skipped: SkipCounts,
    pub(crate) first_ts: Option<i64>,
    pub(crate) start_ns: i64,
    pub(crate) last_ts: i64,
    /// How far time went back at most, nanoseconds.
    pub(crate) backward_ns: i64,
    pub(crate) slice: u32,
    slice_begin: i64,
    filled: u32,
    servers: HashSet<Endpoint, BuildHasherDefault<FxHasher>>,
    /// Ports that accept connections; `readable` are those with readable requests.
    answering: PortSet,
    readable: PortSet,
    /// Packets without captured payload, until the first that has some.
    mute: u32,
    has_payload: bool,
}

/// A capture has headers only once this many packets came without captured payload.
const MUTE_PACKETS: u32 = 32;

struct PortSet(Box<[u64; 1024]>);

impl PortSet {
    fn new() -> Self {
        Self(Box::new([0; 1024]))
    }

    #[inline]
    fn add(&mut self, port: u16) {
        self.0[usize::from(port >> 6)] |= 1 << (port & 63);
    }

    #[inline]
    fn has(&self, port: u16) -> bool {
        self.0[usize::from(port >> 6)] >> (port & 63) & 1 == 1
    }
}

/// Shard of the packets between two endpoints, equal for both directions. Not seeded, so that
/// counts are reproducible; the connection index within a shard is.
#[inline]
pub(crate) fn shard_of(a: Endpoint, b: Endpoint) -> usize {
    let both = mix(a).wrapping_add(mix(b));
    ((both ^ both >> 29).wrapping_mul(ODD) >> 32) as usize % SHARDS
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[expect(clippy::cast_possible_truncation, reason = "halves of a number are taken on purpose")]
#[inline]
fn mix(end: Endpoint) -> u64 {
    let folded = end.address as u64 ^ ((end.address >> 64) as u64).rotate_left(32);
    (folded ^ u64::from(end.port) << 40).wrapping_mul(ODD)
}

impl Admission {
    pub(crate) fn new(options: ModelOptions) -> Self {
        let ModelOptions { ports, server, filter, from_ns, to_ns, .. } = &options;
        let is_open = ports.is_empty()
            && server.is_none()
            && filter.is_none()
            && from_ns.is_none()
            && to_ns.is_none();
        Self {
            options,
            is_open,
            skipped: SkipCounts::default(),
            first_ts: None,
            start_ns: 0,
            last_ts: i64::MIN,
            backward_ns: 0,
            slice: 0,
            slice_begin: 0,
            filled: 0,
            servers: HashSet::default(),
            answering: PortSet::new(),
            readable: PortSet::new(),
            mute: 0,
            has_payload: false,
        }
    }

    /// Admits a packet, or counts the reason why not.
    #[inline]
    pub(crate) fn admit(&mut self, packet: &Packet<'_>) -> Option<PacketHints> {
        if !self.is_open && !self.is_asked_for(packet) {
            self.skipped.add(SkipReason::Filter);
            return None;
        }
        if !self.enter_slice(packet.ts_ns) {
            self.skipped.add(SkipReason::Time);
            return None;
        }
        let is_from_server = self.looks_like_server(packet.from, packet.to);
        let readable =
            |admission: &Self| [packet.from, packet.to].map(|end| admission.readable.has(end.port));
        let mut is_readable = readable(self);
        if packet.flags.has(Flags::SYN | Flags::ACK) {
            self.learn_server(packet.from);
        } else if !packet.payload.is_empty() && is_readable == [false; 2] {
            self.learn_language(packet, is_from_server);
            is_readable = readable(self);
        }
        // `tcpdump -q` has no payload either, but too little else to tell turns.
        if !self.has_payload && packet.payload_length > 0 && packet.is_sequence_known {
            self.has_payload = !packet.payload.is_empty();
            self.mute = self.mute.saturating_add(1);
        }
        let is_mute = !self.has_payload && self.mute > MUTE_PACKETS;
        Some(PacketHints { slice: self.slice, is_from_server, is_readable, is_mute })
    }

    fn is_asked_for(&self, packet: &Packet<'_>) -> bool {
        let options = &self.options;
        let ends = [packet.from, packet.to];
        (options.ports.is_empty() || ends.iter().any(|end| options.ports.contains(&end.port)))
            && options
                .server
                .is_none_or(|server| ends.iter().any(|end| end.ip() == server.to_canonical()))
            && options.from_ns.is_none_or(|from| packet.ts_ns >= from)
            && options.to_ns.is_none_or(|to| packet.ts_ns < to)
            && options.filter.as_ref().is_none_or(|filter| filter.matches(packet))
    }

    /// Moves to the slice of `ts`; false when it is too far away.
    #[inline]
    fn enter_slice(&mut self, ts: i64) -> bool {
        let width = self.options.slice_ns;
        let earliest = self.first_ts.map_or(0, |first| first - DISORDER_NS);
        if !(earliest..LATEST_NS).contains(&ts) {
            return false;
        }
        if self.first_ts.is_none() {
            self.first_ts = Some(ts);
            self.start_ns = ts.div_euclid(width).saturating_mul(width);
            self.slice_begin = self.start_ns;
        }
        if ts < self.last_ts {
            self.backward_ns = self.backward_ns.max(self.last_ts - ts);
        } else {
            self.last_ts = ts;
        }
        if (0..width).contains(&ts.saturating_sub(self.slice_begin)) {
            return true;
        }
        // With several CPUs, packets may be slightly out of order, even before the first.
        let number = ts.saturating_sub(self.start_ns).max(0) / width;
        if number >= SLICES_MAX || self.filled >= FILLED_SLICES_MAX {
            self.last_ts = self.start_ns + (i64::from(self.slice) + 1) * width - 1;
            return false;
        }
        self.filled += 1;
        self.slice = u32::try_from(number).unwrap_or(0);
        self.slice_begin = self.start_ns + number * width;
        true
    }

    /// Renumbers slices: slice 0 now begins at `start_ns`, `count` slices later.
    pub(crate) fn begin_at(&mut self, start_ns: i64, count: u32) {
        self.start_ns = start_ns;
        self.first_ts = Some(start_ns);
        self.slice = self.slice.saturating_sub(count);
        self.slice_begin = start_ns + i64::from(self.slice) * self.options.slice_ns;
        self.filled = 0;
    }

    /// For a connection seen mid-stream: whether `a`, not `b`, is the server.
    #[inline]
    fn looks_like_server(&self, a: Endpoint, b: Endpoint) -> bool {
        let has_answered = [a, b].map(|end| self.answering.has(end.port));
        // Fast path: exactly one of the two ports serves.
        if has_answered == [true, false] && self.options.ports.is_empty() {
            return true;
        }
        if has_answered == [false, true] && self.options.ports.is_empty() {
            return false;
        }
        let (first, second) = (self.rank(a), self.rank(b));
        if first == second { a.port < b.port } else { first > second }
    }

    fn rank(&self, end: Endpoint) -> u8 {
        const KNOWN: [u16; 15] = [
            80, 443, 8080, 8000, 8443, 8081, 3000, 5000, 9000, 9200, 3306, 5432, 6379, 27017, 50051,
        ];
        if self.options.ports.contains(&end.port) {
            3
        } else if self.answering.has(end.port) && self.servers.contains(&end) {
            2
        } else {
            u8::from(KNOWN.contains(&end.port))
        }
    }

    /// Remembers an endpoint that accepts connections.
    fn learn_server(&mut self, server: Endpoint) {
        if self.servers.len() < SERVERS_MAX && self.servers.insert(server) {
            self.answering.add(server.port);
        }
    }

    /// Remembers ports whose requests are readable.
    #[inline]
    fn learn_language(&mut self, packet: &Packet<'_>, is_from_server: bool) {
        let header = proxy_header(packet.payload)
            .map_or(0, |header| header.proxy_bytes(packet.payload, packet.payload_length));
        let server = match packet.payload.get(header as usize..).unwrap_or_default() {
            bytes if is_request_start(bytes) || is_preface(bytes) => packet.to,
            bytes if is_response_start(bytes) => packet.from,
            [0x14..=0x17, 3, 0..=4, ..] if is_from_server => packet.from,
            [0x14..=0x17, 3, 0..=4, ..] => packet.to,
            _ => return,
        };
        self.readable.add(server.port);
    }
}
