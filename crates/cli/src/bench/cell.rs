//! One measurement of the grid, and what came of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) nodes: usize,
    /// Of each node.
    pub(super) concurrency: usize,
    pub(super) range_bytes: u64,
    pub(super) seconds: u64,
    pub(super) objects: usize,
    pub(super) object_bytes: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, concurrency, range_bytes, .. } = self;
        write!(f, "{nodes} processes, {concurrency} requests at a time, {range_bytes} bytes")
    }
}

/// How long reads took, to a hundredth; and how many failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Reads by the logarithm of their microseconds.
    pub(super) reads: BTreeMap<u32, u64>,
    /// Reads that ended in an error, after all tries.
    pub(super) errors: u64,
    /// Tries that failed: cut off, refused, or without an answer in time.
    pub(super) failed: u64,
    /// The last error.
    pub(super) why: Option<String>,
}

/// Neighbouring steps differ by a hundredth.
const STEP: f64 = 1.01;

impl Counts {
    pub(super) fn add(&mut self, seconds: f64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let step = (seconds * 1e6).max(1.0).log(STEP).round() as u32;
        *self.reads.entry(step).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (step, count) in other.reads {
            *self.reads.entry(step).or_default() += count;
        }
        self.errors += other.errors;
        self.failed += other.failed;
        self.why = other.why.or(self.why.take());
    }

    pub(super) fn total(&self) -> u64 {
        self.reads.values().sum()
    }

    /// Seconds that so many of a hundred reads took at most.
    pub(super) fn quantile(&self, of_hundred: u64) -> f64 {
        let wanted = (self.total() * of_hundred).div_ceil(100).max(1);
        let mut seen = 0;
        for (step, count) in &self.reads {
            seen += count;
            if seen >= wanted {
                return STEP.powf(f64::from(*step)) / 1e6;
            }
        }
        0.0
    }
}

/// What came of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) cell: Cell,
    pub(super) counts: Counts,
}

impl Measured {
    /// Reads a second, of all nodes.
    pub(super) fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let (reads, seconds) = (self.counts.total() as f64, self.cell.seconds as f64);
        reads / seconds
    }

    /// All requests under way.
    pub(super) fn in_flight(&self) -> usize {
        self.cell.nodes * self.cell.concurrency
    }

    /// The part of what would be read if every read took `seconds`.
    pub(super) fn of_ideal(&self, seconds: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let ideal = self.in_flight() as f64 / seconds.max(1e-9);
        self.rate() / ideal
    }
}

/// Seconds that the middle read of this size took with the fewest under way.
pub(super) fn alone(measured: &[Measured], range_bytes: u64) -> f64 {
    let of_size = measured.iter().filter(|one| one.cell.range_bytes == range_bytes);
    of_size.min_by_key(|one| one.in_flight()).map_or(0.0, |one| one.counts.quantile(50))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_hundredth_and_merge() {
        let (mut one, mut other) = (Counts::default(), Counts::default());
        for at in 1..=100 {
            let counts = if at % 2 == 0 { &mut one } else { &mut other };
            counts.add(f64::from(at) / 1000.0);
        }
        one.merge(other);
        assert_eq!(one.total(), 100);
        for of_hundred in [1_u32, 50, 95, 99] {
            let exact = f64::from(of_hundred) / 1000.0;
            let found = one.quantile(of_hundred.into());
            assert!((found / exact - 1.0).abs() < 0.011, "{found} for {exact}");
        }
        assert!(Counts::default().quantile(99) < 1e-9);
    }
}
