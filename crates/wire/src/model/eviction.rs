//! Keeps a running model small: removes completed slices.
//!
//! A slice is evicted once most requests that arrived in it are complete; the caller decides how
//! long to wait. A request still in flight then counts in the concurrency of the slices it has
//! crossed; its duration counts in the first slice left when it ends. After each eviction slices
//! are renumbered from 0 in the admission, the shards and the sequencer; the shards then hold no
//! slice, and all totals are in the sequencer.

use super::exchange::Exchange;
use super::slice::TimeSlice;
use super::tier::TransportCounters;
use super::{Admission, Model, Sequencer, Shard, ShardWorkers, Tier};

/// Slices after which totals are halved and templates dropped, so that "usual" means recent
/// minutes.
const WINDOW_SLICES: u32 = 600;
/// Templates are dropped only above this number.
const URLS_MANY: usize = 2048;

/// One evicted slice of one tier.
pub(crate) struct EvictedSlice {
    pub(crate) tier: u16,
    pub(crate) start_ns: i64,
    pub(crate) slice: TimeSlice,
    /// Whether it holds exactly the durations of the requests that arrived in it.
    pub(crate) is_whole: bool,
}

pub(crate) struct EvictedSlices<'a> {
    pub(crate) slices: Vec<EvictedSlice>,
    /// Tiers by number, for their baselines.
    pub(crate) tiers: &'a [Tier],
    pub(crate) width_ns: i64,
    /// Time of the first packet that the slices may hold; `None` before any.
    pub(crate) begin_ns: Option<i64>,
}

impl Model {
    /// Evicts the slices that end at or before `until_ns`. Moves the work to the caller's thread.
    pub(crate) fn evict_slices(&mut self, until_ns: i64) -> EvictedSlices<'_> {
        let (admission, shards, sequencer) = self.own();
        for (number, shard) in shards.iter_mut().enumerate() {
            // On a quiet port no packet advances the clock.
            shard.end_block(until_ns);
            sequencer.take(number, &mut shard.context.out);
            sequencer.add_slices(number, shard.take_slices(u32::MAX));
            sequencer.absorb(number, shard);
        }
        let (begin_ns, width_ns) = (admission.first_ts, admission.options.slice_ns);
        let count = until_ns.saturating_sub(admission.start_ns) / width_ns;
        let mut slices = Vec::new();
        if begin_ns.is_some() && count > 0 {
            let cut = admission.start_ns + count * width_ns;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            for (number, shard) in shards.iter().enumerate() {
                let under_way = shard.context.pool.in_use();
                under_way.for_each(|exchange| sequencer.count_under_way(number, exchange, cut));
            }
            slices = sequencer.take_before(cut, count);
            admission.begin_at(cut, count);
            shards.iter_mut().for_each(|shard| shard.begin_at(cut, count));
            sequencer.slice = admission.slice;
            sequencer.begin_at(cut, count);
        }
        EvictedSlices { slices, tiers: &sequencer.tiers, width_ns, begin_ns }
    }

    /// Flushes buffered rows. Moves the work to the caller's thread.
    pub fn flush(&mut self) {
        let (_, _, sequencer) = self.own();
        sequencer.flush();
    }

    /// The parts, with all packets so far sequenced.
    fn own(&mut self) -> (&mut Admission, &mut [Shard], &mut Sequencer) {
        self.end_block();
        let Self { admission, workers, .. } = self;
        workers.end_pool();
        let ShardWorkers::Inline(shards, sequencer) = workers else {
            unreachable!("no pool is left")
        };
        (sequencer.start_ns, sequencer.slice) = (admission.start_ns, admission.slice);
        (admission, shards, sequencer)
    }
}

impl Sequencer {
    /// Counts a request in flight, or complete and not yet counted, in the slices before `cut`.
    fn count_under_way(&mut self, shard: usize, exchange: &Exchange, cut: i64) {
        let grid = self.grid();
        let [asked, _] = exchange.asked;
        // A request with an end only waits for the client's acknowledgement.
        let end = if exchange.end_seq != 0 { exchange.answered[1].min(cut) } else { cut };
        if end <= asked.max(grid.start_ns) {
            return;
        }
        let Tier { slices, idle, .. } = self.tier_of(shard, exchange.tier);
        grid.each_slice(asked..end, |slice, ns| {
            let slice = slices.at(slice);
            slice.weighted_ns += ns;
            // Its duration counts in another slice, so Little's law cannot hold in this one.
            slice.has_late = true;
        });
        idle.fill(asked..end, &mut |gap| {
            grid.each_slice(gap, |slice, ns| slices.at(slice).idle_ns += ns);
        });
    }

    /// Evicts the first `count` slices of each tier, which end at `cut`.
    fn take_before(&mut self, cut: i64, count: u32) -> Vec<EvictedSlice> {
        let grid = self.grid();
        let mut evicted = Vec::new();
        for (tier, Tier { slices, idle, .. }) in (0..).zip(&mut self.tiers) {
            // Idle time before the cut becomes final.
            idle.settle(cut, &mut |gap| {
                grid.each_slice(gap, |slice, ns| slices.at(slice).idle_ns += ns);
            });
            evicted.extend(slices.take(count).into_iter().map(|(at, mut slice)| {
                slice.seal();
                let is_whole = slice.timed == slice.arrivals && !slice.has_late;
                let start_ns = grid.start_ns + i64::from(at) * grid.width_ns;
                EvictedSlice { tier, start_ns, slice: *slice, is_whole }
            }));
        }
        evicted.sort_by_key(|evicted| (evicted.start_ns, evicted.tier));
        evicted
    }

    /// Renumbers slices: slice 0 now begins at `start_ns`, `count` slices later.
    fn begin_at(&mut self, start_ns: i64, count: u32) {
        self.start_ns = start_ns;
        let window = self.taken / WINDOW_SLICES;
        self.taken = self.taken.wrapping_add(count);
        for tier in &mut self.tiers {
            tier.rhythm.seconds.clear();
        }
        if self.taken / WINDOW_SLICES != window {
            self.age();
        }
    }

    /// Halves totals and drops what would only grow.
    fn age(&mut self) {
        self.worst.clear();
        if self.urls.len() > URLS_MANY {
            self.forget_urls();
        }
        for tier in &mut self.tiers {
            let old = std::mem::take(tier);
            let transport = TransportCounters {
                connections: old.transport.connections / 2,
                speaking: old.transport.speaking.map(|count| count / 2),
                delay: old.transport.delay.halved(),
                ..TransportCounters::default()
            };
            *tier = Tier {
                port: old.port,
                slices: old.slices,
                idle: old.idle,
                rhythm: old.rhythm.restarted(),
                transport,
                requests: old.requests / 2,
                with_parent: old.with_parent / 2,
                think: old.think.halved(),
                ..Tier::default()
            };
        }
    }
}
