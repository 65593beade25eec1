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

mod admission;
mod connection_times;
mod connection_tracker;
mod copies;
mod detection;
mod entry;
mod event;
mod eviction;
mod exchange;
mod observed;
mod output;
mod pair;
mod request_events;
mod request_tracker;
mod sequencer;
mod shard;
mod shard_context;
mod slice;
mod streams;
mod tier;
mod turns;
mod urls;
mod worker_pool;

pub use observed::{ObservedConnection, ObservedRequest, RequestEnd, RowSink, WireTier};

pub(crate) use admission::Admission;
pub(crate) use eviction::{EvictedSlice, EvictedSlices};
pub(crate) use sequencer::{Sequencer, UnopenedCount};
pub(crate) use slice::{SliceQuantiles, TimeSlice};
pub(crate) use tier::{BIN_NS, SideCounters, Tier, TransportCounters};

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use admission::shard_of;
use output::BlockEnd;
use shard::Shard;
use weir_capture::packet::Packet;
use weir_capture::{Filter, PacketSink};
use worker_pool::WorkerPool;

/// Selection of packets, and the granularity of the result.
#[derive(Debug, Clone)]
pub struct ModelOptions {
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

impl Default for ModelOptions {
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
    admission: Admission,
    workers: ShardWorkers,
    block: BlockExtent,
}

/// Where the shards are processed.
enum ShardWorkers {
    /// On the caller's thread, packet by packet.
    Inline(Vec<Shard>, Box<Sequencer>),
    /// On several threads, block by block.
    Pool(Box<WorkerPool>),
}

impl ShardWorkers {
    /// Waits for all blocks and moves the work to the caller's thread.
    fn end_pool(&mut self) {
        if let Self::Pool(pool) = self {
            let (shards, sequencer) = pool.finish();
            let sequencer = sequencer.expect("an active pool has its sequencer");
            *self = Self::Inline(shards, Box::new(sequencer));
        }
    }
}

/// Extent of the current block; where it ends depends on the packets alone.
#[derive(Default)]
struct BlockExtent {
    packets: u32,
    bytes: usize,
    begin_ts: i64,
    shards: u32,
}

impl BlockExtent {
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
    pub fn new(options: ModelOptions, sink: Option<Box<dyn RowSink>>) -> Self {
        let sequencer = Sequencer::new(options.slice_ns, sink);
        let has_sink = sequencer.has_sink();
        let shards = (0..SHARDS).map(|number| Shard::new(number, &options, has_sink)).collect();
        let workers = match options.threads {
            0 | 1 => ShardWorkers::Inline(shards, Box::new(sequencer)),
            threads => {
                ShardWorkers::Pool(Box::new(WorkerPool::new(shards, sequencer, threads - 1)))
            }
        };
        Self { admission: Admission::new(options), workers, block: BlockExtent::default() }
    }

    /// Processes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.take(packet, None);
    }

    #[inline]
    fn take(&mut self, packet: &Packet<'_>, buffer: Option<&Arc<Vec<u8>>>) {
        let Self { admission, workers, block } = self;
        let Some(hints) = admission.admit(packet) else { return };
        let number = shard_of(packet.from, packet.to);
        match workers {
            ShardWorkers::Inline(shards, sequencer) => {
                let shard = &mut shards[number];
                shard.packet(block.packets, packet, hints, admission.start_ns);
                if !shard.context.out.events.is_empty() {
                    (sequencer.slice, sequencer.start_ns) = (hints.slice, admission.start_ns);
                    sequencer.take(number, &mut shard.context.out);
                }
            }
            ShardWorkers::Pool(pool) => pool.add(number, packet, hints, buffer),
        }
        block.add(number, packet);
        if block.is_full(packet.ts_ns) {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let Self { admission, workers, block } = self;
        let BlockExtent { shards: used, .. } = std::mem::take(block);
        match workers {
            ShardWorkers::Inline(shards, sequencer) => {
                (sequencer.start_ns, sequencer.slice) = (admission.start_ns, admission.slice);
                for (number, shard) in shards.iter_mut().enumerate() {
                    if used >> number & 1 == 1 {
                        shard.end_block(admission.last_ts);
                        sequencer.take(number, &mut shard.context.out);
                        sequencer.add_slices(number, shard.take_slices(admission.slice));
                    }
                }
                sequencer.end_block(admission.slice);
            }
            ShardWorkers::Pool(pool) => pool.end_block(BlockEnd {
                start_ns: admission.start_ns,
                now: admission.last_ts,
                slice: admission.slice,
            }),
        }
    }

    #[cfg(test)]
    fn connections(&self) -> usize {
        match &self.workers {
            ShardWorkers::Inline(shards, _) => shards.iter().map(Shard::connections).sum(),
            ShardWorkers::Pool(_) => 0,
        }
    }

    /// Ends the capture: cuts requests in flight and finishes all counts.
    pub(crate) fn end(mut self) -> (Admission, Sequencer) {
        self.end_block();
        let Self { admission, mut workers, .. } = self;
        workers.end_pool();
        let ShardWorkers::Inline(mut shards, mut sequencer) = workers else {
            unreachable!("no pool is left")
        };
        (sequencer.start_ns, sequencer.slice) = (admission.start_ns, admission.slice);
        for (number, shard) in shards.iter_mut().enumerate() {
            shard.end(admission.last_ts);
            sequencer.take(number, &mut shard.context.out);
            sequencer.add_slices(number, shard.take_slices(u32::MAX));
            sequencer.absorb(number, shard);
        }
        sequencer.skipped.merge(&admission.skipped);
        sequencer.end(admission.options.threads);
        (admission, *sequencer)
    }
}

/// Other threads read the payload in the reader's buffer.
impl PacketSink for Model {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.take(packet, None);
    }

    #[inline]
    fn packet_in(&mut self, packet: &Packet<'_>, buffer: &Arc<Vec<u8>>) {
        self.take(packet, Some(buffer));
    }
}

/// Division of time into slices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SliceGrid {
    pub(crate) start_ns: i64,
    pub(crate) width_ns: i64,
}

impl SliceGrid {
    /// Calls `each` with every slice that `span` overlaps and the overlap in nanoseconds.
    pub(crate) fn each_slice(self, span: Range<i64>, mut each: impl FnMut(u32, i64)) {
        let mut at = span.start.max(self.start_ns);
        while at < span.end {
            let number = (at - self.start_ns) / self.width_ns;
            if number >= SLICES_MAX {
                return;
            }
            let end = (self.start_ns + (number + 1) * self.width_ns).min(span.end);
            each(u32::try_from(number).unwrap_or(0), end - at);
            at = end;
        }
    }
}

#[cfg(test)]
mod tests;
