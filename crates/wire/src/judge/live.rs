//! Slices of a running model: each is judged and evicted once it is old enough.

use super::report::{BaselineTimes, SliceReport, report_slice};
use crate::model::{EvictedSlice, EvictedSlices, Model, Tier};

/// One completed slice of one server port.
#[derive(Debug, Clone)]
pub struct CompletedSlice {
    /// The server's port; 0 for tier 0.
    pub port: u16,
    /// Whether most of its requests come from another port of this host.
    pub is_upstream: bool,
    /// Measurements of the slice.
    pub slice: SliceReport,
}

impl Model {
    /// Evicts the slices that end at or before `until_ns`, oldest first. A request longer than the
    /// caller waits counts exactly in concurrency; its duration counts in the slice that is current
    /// when it ends. Moves the work to the caller's thread, whatever [`ModelOptions::threads`]
    /// says.
    pub fn take_slices(&mut self, until_ns: i64) -> Vec<CompletedSlice> {
        let EvictedSlices { slices, tiers, width_ns, begin_ns } = self.evict_slices(until_ns);
        let begin_ns = begin_ns.unwrap_or(i64::MIN);
        let tier_of = |ripe: &EvictedSlice| &tiers[usize::from(ripe.tier)];
        let is_used = |tier: &Tier| tier.requests > 0 || tier.transport.connections > 0;
        let used = slices.iter().filter(|ripe| is_used(tier_of(ripe)));
        used.map(|ripe| report(ripe, tier_of(ripe), width_ns, begin_ns)).collect()
    }
}

fn report(ripe: &EvictedSlice, tier: &Tier, width_ns: i64, begin_ns: i64) -> CompletedSlice {
    let baseline = BaselineTimes {
        delay_us: tier.transport.delay.quantile(0.5).unwrap_or(0),
        think_us: tier.think.quantile(0.5).unwrap_or(0),
    };
    let end = ripe.start_ns + width_ns;
    let observed = (end - ripe.start_ns.max(begin_ns)).clamp(0, width_ns);
    let mut slice = report_slice(&ripe.slice, ripe.start_ns, observed, width_ns, &baseline);
    if !ripe.is_whole {
        slice.little_error = None;
    }
    CompletedSlice {
        port: tier.port,
        is_upstream: tier.requests > 0 && 2 * tier.with_parent >= tier.requests,
        slice,
    }
}
