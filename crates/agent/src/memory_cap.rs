//! The agent's memory limit, and the share of it that each buffer may use.
//!
//! Source: /proc/self/status in proc(5). What grows with the work is bounded by a share of the cap;
//! what is left, parsers of thousands of logs and what the allocator keeps, is met by the last
//! resort: reading waits until less is resident.

use std::time::{Duration, Instant};

use weir_config::Values;

/// No agent works with less.
const BYTES_MIN: u64 = 32 << 20;
/// How often the resident set is read.
const LOOK: Duration = Duration::from_millis(20);

/// The cap.
#[derive(Debug)]
pub(crate) struct MemoryCap {
    /// 0 sets no limit.
    bytes: u64,
    looked: Option<(Instant, bool)>,
}

impl MemoryCap {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes: if bytes == 0 { 0 } else { bytes.max(BYTES_MIN) }, looked: None }
    }

    /// The cap divided by `divisor`.
    fn share(&self, divisor: u64) -> u64 {
        if self.bytes == 0 { u64::MAX } else { self.bytes / divisor }
    }

    /// Whether so much is resident that nothing more should be begun.
    pub(crate) fn is_reached(&mut self) -> bool {
        if self.bytes == 0 {
            return false;
        }
        if let Some((at, is_reached)) = self.looked
            && at.elapsed() < LOOK
        {
            return is_reached;
        }
        let is_reached = resident_bytes().is_some_and(|resident| resident > self.bytes / 8 * 7);
        self.looked = Some((Instant::now(), is_reached));
        is_reached
    }
}

/// The values, with each buffer limited to its share of `agent.memory_bytes`.
pub(crate) fn within(values: &Values) -> Values {
    let cap = MemoryCap::new(values.agent.memory_bytes);
    let mut values = values.clone();
    let (collect, agent) = (&mut values.collect, &mut values.agent);
    collect.in_flight_bytes = collect.in_flight_bytes.min(cap.share(8));
    agent.window_bytes = agent.window_bytes.min(cap.share(16));
    agent.buffer_bytes = agent.buffer_bytes.min(cap.share(16));
    values
}

/// Bytes of a chunk of lines.
pub(crate) fn chunk_bytes(values: &Values, wanted: usize) -> usize {
    let cap = MemoryCap::new(values.agent.memory_bytes);
    usize::try_from(cap.share(256)).map_or(wanted, |share| wanted.min(share))
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_gets_a_share_of_the_cap() {
        let mut values = Values::default();
        values.agent.memory_bytes = 64 << 20;
        let within = within(&values);
        assert_eq!(within.collect.in_flight_bytes, 8 << 20);
        assert_eq!(within.agent.window_bytes, 4 << 20);
        assert_eq!(chunk_bytes(&values, 1 << 20), 256 << 10);
        values.agent.memory_bytes = 0;
        assert_eq!(super::within(&values).collect.in_flight_bytes, 16 << 20);
        assert_eq!(chunk_bytes(&values, 1 << 20), 1 << 20);
    }

    #[test]
    fn a_cap_below_what_is_resident_is_reached() {
        let resident = resident_bytes().expect("Linux tells");
        assert!(resident > 1 << 20, "{resident}");
        assert!(MemoryCap { bytes: resident / 2, looked: None }.is_reached());
        assert!(!MemoryCap::new(1 << 40).is_reached());
        assert!(!MemoryCap::new(0).is_reached());
    }
}
