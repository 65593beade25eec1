//! Slices of a running model: each is judged and evicted once it is old enough.

use super::report::{BaselineTimes, SliceReport, SliceWindow, report_slice};
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
    /// when it ends. Moves the work to the caller's thread, whatever `ModelOptions::threads`
    /// says.
    pub fn take_slices(&mut self, until_ns: i64) -> Vec<CompletedSlice> {
        let EvictedSlices { slices, tiers, width_ns, begin_ns } = self.evict_slices(until_ns);
        let begin_ns = begin_ns.unwrap_or(i64::MIN);
        let reports = slices.iter().filter_map(|evicted| {
            let tier = &tiers[usize::from(evicted.tier)];
            let start_ns = evicted.start_ns;
            let observed_ns = start_ns + width_ns - start_ns.max(begin_ns);
            let observed_ns = observed_ns.clamp(0, width_ns);
            let window = SliceWindow { start_ns, observed_ns, width_ns };
            tier.is_used().then(|| report(evicted, tier, window))
        });
        reports.collect()
    }
}

fn report(evicted: &EvictedSlice, tier: &Tier, window: SliceWindow) -> CompletedSlice {
    let mut slice = report_slice(&evicted.slice, window, &BaselineTimes::of(tier));
    if !evicted.is_whole {
        slice.little_error = None;
    }
    CompletedSlice { port: tier.port, is_upstream: tier.is_upstream(), slice }
}
