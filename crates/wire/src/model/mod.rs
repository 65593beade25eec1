//! The model: takes packets in time order and produces requests, connections, slices and verdicts.
//!
//! ```text
//!  Packet ─► admission ─┬─► shard 0  ─ events ─┐
//!    slices, which      ├─► shard 1  ─────────►├─► sequencer ─► rows, report
//!    end serves         └─► … by connection ──►┘    numbers, pairs, arrivals
//! ```
//! A shard holds the connections of one hash value: `connection_tracker` follows TCP,
//! `request_tracker` follows requests. The sequencer takes their events in packet order. Results
//! are byte-for-byte equal with one thread and with several (`worker_pool`).
//!
//! Example: a client sends `GET /a` in packet 5 and the server answers in packet 9. The shard of
//! that connection emits `Begin` at 5, `Details` with the path at 5, and `Answered` and `Completed`
//! at 9 or when the client acknowledges. The sequencer numbers the request at 5, when the order of
//! the capture is known, looks for an edge request with the same id, and adds the times to the
//! slice of packet 5.
//!
//! Memory is bounded by live connections, slices and URL templates; each limit documents what happens
//! beyond it.

mod crew;
mod entry;
mod event;
mod exchange;
mod gate;
mod ledger;
mod output;
mod pair;
mod ripe;
mod seen;
mod shard;
mod slice;
mod talk;
mod tier;
mod track;
mod urls;

pub use seen::{ConnectionSeen, End, RequestSeen, Sink, WireTier};

pub(crate) use gate::Gate;
pub(crate) use ledger::Ledger;
pub(crate) use ripe::{Harvest, Ripe};
pub(crate) use slice::{Sealed, Slice};
pub(crate) use tier::{Tier, Traffic, Transport};

use std::net::IpAddr;
use std::sync::Arc;

use crate::filter::Filter;
use crate::packet::Packet;
use crew::Crew;
use gate::shard_of;
use shard::Shard;

/// Selection of packets, and the granularity of the result.
#[derive(Debug, Clone)]
pub struct Options {
    /// Width of a slice in nanoseconds.
    pub slice_ns: i64,
    /// Server ports to analyse; all when empty.
    pub ports: Vec<u16>,
    /// Restricts the analysis to one server.
    pub server: Option<IpAddr>,
    /// Additional filter on packets.
    pub filter: Option<Filter>,
    /// Packets before this time are skipped; nanoseconds since 1970.
    pub from_ns: Option<i64>,
    /// Packets from this time on are skipped.
    pub to_ns: Option<i64>,
    /// Connections followed at once; beyond it, idle ones are evicted.
    pub connections_max: usize,
    /// Seeds the connection hash.
    pub seed: u64,
    /// Threads, the caller's included; the result does not depend on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slice_ns: 1_000_000_000,
            ports: Vec::new(),
            server: None,
            filter: None,
            from_ns: None,
            to_ns: None,
            connections_max: 1_000_000,
            seed: 0,
            threads: 1,
        }
    }
}

/// Slices of one capture: more than a day of seconds.
pub(crate) const SLICES_MAX: i64 = 100_000;
/// Non-empty slices of all tiers together.
const FILLED_SLICES_MAX: u32 = 400_000;
/// How much older than the first a packet may be: several CPUs write one capture.
const DISORDER_NS: i64 = 10_000_000_000;
/// The year 2223. Later times are invalid; sums of times stay far from overflow.
const LATEST_NS: i64 = 8_000_000_000_000_000_000;
/// Ports with a tier; all others share tier 0.
const TIERS_MAX: usize = 64;
/// How long a closed connection is remembered for stragglers.
const LINGER_NS: i64 = 2_000_000_000;
/// Servers remembered by address.
const SERVERS_MAX: usize = 65_536;
/// Number of shards: constant, so that the result does not depend on the number of threads.
const SHARDS: usize = 16;
/// Packets after which a block ends; [`BLOCK_BYTES`] of payload or [`BLOCK_NS`] also end it.
const BLOCK_PACKETS: u32 = 2048;
const BLOCK_BYTES: usize = 1 << 20;
const BLOCK_NS: i64 = 2_000_000_000;

/// Reconstructs connections and requests from packets.
pub struct Model {
    gate: Gate,
    hands: Hands,
    block: Block,
}

/// Where the shards are processed.
enum Hands {
    /// On the caller's thread, packet by packet.
    Own(Vec<Shard>, Box<Ledger>),
    /// On several threads, block by block.
    Crew(Box<Crew>),
}

impl Hands {
    /// Waits for all blocks and moves the work to the caller's thread.
    fn end_crew(&mut self) {
        if let Self::Crew(crew) = self {
            let (shards, ledger) = crew.finish();
            let ledger = ledger.expect("a crew that nobody ended has its ledger");
            *self = Self::Own(shards, Box::new(ledger));
        }
    }
}

/// Extent of the current block; where it ends depends on the packets alone.
#[derive(Default)]
struct Block {
    packets: u32,
    bytes: usize,
    begin_ts: i64,
    /// Shards with at least one packet; one bit each.
    shards: u32,
}

impl Block {
    fn add(&mut self, shard: usize, packet: &Packet<'_>) {
        if self.packets == 0 {
            self.begin_ts = packet.ts_ns;
        }
        self.packets += 1;
        self.bytes += packet.payload.len();
        self.shards |= 1 << shard;
    }

    fn is_full(&self, ts: i64) -> bool {
        self.packets >= BLOCK_PACKETS || self.bytes >= BLOCK_BYTES || ts - self.begin_ts >= BLOCK_NS
    }
}

impl Model {
    /// Creates an empty model; `sink` receives rows, if given.
    pub fn new(options: Options, sink: Option<Box<dyn Sink>>) -> Self {
        let ledger = Ledger::new(options.slice_ns, sink);
        let shard = |number| Shard::new(number, &options, ledger.has_sink());
        let shards = (0..SHARDS).map(shard).collect();
        let hands = match options.threads {
            0 | 1 => Hands::Own(shards, Box::new(ledger)),
            threads => Hands::Crew(Box::new(Crew::new(shards, ledger, threads - 1))),
        };
        Self { gate: Gate::new(options), hands, block: Block::default() }
    }

    /// Processes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.take(packet, None);
    }

    /// Processes the next packet, whose payload may lie in `buffer`: other threads read it there.
    #[inline]
    pub(crate) fn packet_in(&mut self, packet: &Packet<'_>, buffer: &Arc<Vec<u8>>) {
        self.take(packet, Some(buffer));
    }

    #[inline]
    fn take(&mut self, packet: &Packet<'_>, buffer: Option<&Arc<Vec<u8>>>) {
        let Self { gate, hands, block } = self;
        let Some(pass) = gate.pass(packet) else { return };
        let number = shard_of(packet.from, packet.to);
        match hands {
            Hands::Own(shards, ledger) => {
                let shard = &mut shards[number];
                shard.packet(block.packets, packet, pass, gate.start_ns);
                if !shard.world.out.events.is_empty() {
                    (ledger.slice, ledger.start_ns) = (pass.slice, gate.start_ns);
                    ledger.take(number, &mut shard.world.out);
                }
            }
            Hands::Crew(crew) => crew.add(number, packet, pass, buffer),
        }
        block.add(number, packet);
        if block.is_full(packet.ts_ns) {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let Self { gate, hands, block } = self;
        let Block { shards: used, .. } = std::mem::take(block);
        match hands {
            Hands::Own(shards, ledger) => {
                (ledger.start_ns, ledger.slice) = (gate.start_ns, gate.slice);
                for (number, shard) in shards.iter_mut().enumerate() {
                    if used >> number & 1 == 1 {
                        shard.end_block(gate.last_ts);
                        ledger.take(number, &mut shard.world.out);
                        ledger.add_slices(number, shard.take_slices(gate.slice));
                    }
                }
                ledger.end_block(gate.slice);
            }
            Hands::Crew(crew) => crew.end_block(gate.start_ns, gate.last_ts, gate.slice),
        }
    }

    /// Connections followed on the caller's thread.
    #[cfg(test)]
    fn connections(&self) -> usize {
        match &self.hands {
            Hands::Own(shards, _) => shards.iter().map(Shard::connections).sum(),
            Hands::Crew(_) => 0,
        }
    }

    /// Ends the capture: cuts requests in flight and finishes all counts.
    pub(crate) fn end(mut self) -> (Gate, Ledger) {
        self.end_block();
        let Self { gate, mut hands, .. } = self;
        hands.end_crew();
        let Hands::Own(mut shards, mut ledger) = hands else { unreachable!("no crew is left") };
        (ledger.start_ns, ledger.slice) = (gate.start_ns, gate.slice);
        for (number, shard) in shards.iter_mut().enumerate() {
            shard.end();
            ledger.take(number, &mut shard.world.out);
            ledger.add_slices(number, shard.take_slices(u32::MAX));
            ledger.absorb(number, shard);
        }
        ledger.skipped.merge(&gate.skipped);
        ledger.end(gate.options.threads);
        (gate, *ledger)
    }
}

/// Calls `each` with every slice that `[from, to)` overlaps and the overlap in nanoseconds.
pub(crate) fn each_slice(
    start_ns: i64,
    width_ns: i64,
    from: i64,
    to: i64,
    mut each: impl FnMut(u32, i64),
) {
    let mut at = from.max(start_ns);
    while at < to {
        let number = (at - start_ns) / width_ns;
        if number >= SLICES_MAX {
            return;
        }
        let end = (start_ns + (number + 1) * width_ns).min(to);
        each(u32::try_from(number).unwrap_or(0), end - at);
        at = end;
    }
}

#[cfg(test)]
mod tests;
