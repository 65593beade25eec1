//! A model that never ends: what is finished is taken out of it again and again, so that it stays small.
//!
//! A slice is ripe when most requests that arrived in it are over; the caller says how long that is. What is still under
//! way then counts in the concurrency of the slices that it has crossed; its duration counts in the first slice that is
//! still there when it ends. Numbers of slices begin at 0 anew each time, `World::taken` keeps the sum.

use super::slice::Slice;
use super::{Model, Tier, World, each_slice};

/// Slices after which totals and templates are halved or forgotten, so that "usual" means the last minutes.
const WINDOW_SLICES: u32 = 600;
/// Templates that make forgetting worth it.
const URLS_MANY: usize = 2048;

/// One slice of one tier, taken out.
pub(crate) struct Ripe {
    pub(crate) tier: u16,
    pub(crate) start_ns: i64,
    pub(crate) slice: Slice,
    /// Whether all requests that arrived in it have ended in it or since, and none from before counts in it.
    pub(crate) is_whole: bool,
}

impl Model {
    /// Slices of all tiers that end at `until_ns` or before, oldest first.
    pub(crate) fn take_ripe(&mut self, until_ns: i64) -> Vec<Ripe> {
        // On a quiet port no packet says that time goes on.
        self.forget_closed(until_ns);
        let world = &mut self.world;
        let width = world.options.slice_ns;
        if world.first_ts.is_none() || until_ns < world.start_ns + width {
            return Vec::new();
        }
        let count = (until_ns - world.start_ns) / width;
        let cut = world.start_ns + count * width;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        world.count_under_way(cut);
        let mut ripe = Vec::new();
        for number in 0..world.tiers.len() {
            world.settle_idle(number, cut);
            let (start_ns, tier) = (world.start_ns, &mut world.tiers[number]);
            let number_of_tier = u16::try_from(number).expect("there are few");
            let taken = tier.slices.take(count);
            ripe.extend(taken.into_iter().map(|(at, mut slice)| {
                slice.seal();
                let is_whole = slice.timed == slice.arrivals && !slice.has_late;
                let start_ns = start_ns + i64::from(at) * width;
                Ripe { tier: number_of_tier, start_ns, slice: *slice, is_whole }
            }));
        }
        world.begin_at(cut, count);
        ripe.sort_by_key(|ripe| (ripe.start_ns, ripe.tier));
        ripe
    }

    /// Hands over the rows that wait.
    pub fn flush(&mut self) {
        if let Some(sink) = &mut self.world.sink {
            sink.flush();
        }
    }
}

impl World {
    /// What is under way, or over and not yet counted, was so in the slices before `cut` as well.
    fn count_under_way(&mut self, cut: i64) {
        let (start, width) = (self.start_ns, self.options.slice_ns);
        for exchange in self.pool.in_use() {
            let [asked, _] = exchange.asked;
            // What has an end waits for the client's acknowledgement only.
            let end = if exchange.end_seq != 0 { exchange.answered[1].min(cut) } else { cut };
            if asked == 0 || end <= asked.max(start) {
                continue;
            }
            let Tier { slices, idle, .. } = &mut self.tiers[usize::from(exchange.tier)];
            each_slice(start, width, asked, end, |slice, ns| {
                let slice = slices.at(slice);
                slice.weighted_ns += ns;
                // Its duration will be in another slice, so Little's law cannot hold in this one.
                slice.has_late = true;
            });
            idle.fill(asked, end, &mut |from, to| {
                each_slice(start, width, from, to, |slice, ns| slices.at(slice).idle_ns += ns);
            });
        }
    }

    /// Idle time before `cut` becomes final.
    fn settle_idle(&mut self, tier: usize, cut: i64) {
        let (start, width) = (self.start_ns, self.options.slice_ns);
        let Tier { slices, idle, .. } = &mut self.tiers[tier];
        idle.settle(cut, &mut |from, to| {
            each_slice(start, width, from, to, |slice, ns| slices.at(slice).idle_ns += ns);
        });
    }

    /// Slice 0 begins at `cut` from now on.
    fn begin_at(&mut self, cut: i64, count: u32) {
        self.start_ns = cut;
        self.first_ts = Some(cut);
        self.slice = self.slice.saturating_sub(count);
        self.slice_begin = cut + i64::from(self.slice) * self.options.slice_ns;
        self.filled = 0;
        let window = self.taken / WINDOW_SLICES;
        self.taken = self.taken.wrapping_add(count);
        for tier in &mut self.tiers {
            tier.rhythm.seconds.clear();
        }
        if self.taken / WINDOW_SLICES != window {
            self.age();
        }
    }

    /// Lets the past count half, and forgets what would only grow.
    fn age(&mut self) {
        self.worst.clear();
        if self.urls.len() > URLS_MANY {
            self.urls = super::Urls::default();
            self.pool.in_use().for_each(|exchange| exchange.url = super::urls::OTHER);
        }
        for tier in &mut self.tiers {
            let old = std::mem::take(tier);
            *tier = Tier {
                port: old.port,
                slices: old.slices,
                idle: old.idle,
                rhythm: old.rhythm.anew(),
                requests: old.requests / 2,
                with_parent: old.with_parent / 2,
                connections: old.connections / 2,
                http: old.http / 2,
                tls: old.tls / 2,
                opaque: old.opaque / 2,
                think: old.think.halved(),
                delay: old.delay.halved(),
                ..Tier::default()
            };
        }
    }
}
