//! Slices of a model that goes on: each is judged and taken out when it is old enough.

use super::report::{SliceReport, Usual, report_slice};
use crate::model::{Model, Ripe, Tier};

/// One slice of one server port, finished.
#[derive(Debug, Clone)]
pub struct RipeSlice {
    /// The server's port; 0 for what has none of its own.
    pub port: u16,
    /// Whether it is mostly asked by another port of this host.
    pub is_upstream: bool,
    /// What happened in it.
    pub slice: SliceReport,
}

impl Model {
    /// Takes out the slices that end at `until_ns` or before, oldest first. Requests that last longer than the caller
    /// waits count in concurrency exactly; their duration counts in the slice that is current when they end.
    pub fn take_slices(&mut self, until_ns: i64) -> Vec<RipeSlice> {
        let width_ns = self.world.options.slice_ns;
        let begin_ns = self.world.first_ts.unwrap_or(i64::MIN);
        self.take_ripe(until_ns)
            .into_iter()
            .filter(|ripe| {
                let tier = &self.world.tiers[usize::from(ripe.tier)];
                tier.requests > 0 || tier.connections > 0
            })
            .map(|ripe| {
                let tier = &self.world.tiers[usize::from(ripe.tier)];
                report(&ripe, tier, width_ns, begin_ns)
            })
            .collect()
    }
}

fn report(ripe: &Ripe, tier: &Tier, width_ns: i64, begin_ns: i64) -> RipeSlice {
    let usual = Usual {
        delay_us: tier.delay.quantile(0.5).unwrap_or(0),
        think_us: tier.think.quantile(0.5).unwrap_or(0),
    };
    let end = ripe.start_ns + width_ns;
    let observed = (end - ripe.start_ns.max(begin_ns)).clamp(0, width_ns);
    let mut slice = report_slice(&ripe.slice, ripe.start_ns, observed, width_ns, &usual);
    if !ripe.is_whole {
        slice.little_error = None;
    }
    RipeSlice {
        port: tier.port,
        is_upstream: tier.requests > 0 && 2 * tier.with_parent >= tier.requests,
        slice,
    }
}
