//! Quantile sketch: a mergeable histogram on a logarithmic scale (DDSketch; Masson, Rim, Lee: VLDB
//! 2019), small while it has few values. Any percentile is within 1 % of the true value.
//!
//! A bin counts the numbers from its lower bound up to 2.02 % above it. Bins of negative numbers
//! mirror those of positive ones; magnitudes below 10⁻⁹ count as zero. The minimum and the maximum
//! are stored exactly.
//!
//! # Example
//! The values 1, 10 and 100 fall into three bins. The median has rank 1 of 0 to 2, so the result is
//! the middle of the second bin: a number between 9.9 and 10.1. The percentiles 0 and 1 are exactly
//! 1 and 100.

/// Relative accuracy of a percentile.
const ACCURACY: f64 = 0.01;
const GAMMA: f64 = (1.0 + ACCURACY) / (1.0 - ACCURACY);
const SMALLEST: f64 = 1e-9;
/// Values buffered before they are counted in bins.
const PENDING_MAX: usize = 128;
/// Bytes of a bin and its count as [`Sketch::encode`] writes them.
const ENTRY_BYTES: usize = 10;

/// Sketch of one group.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    least: f64,
    most: f64,
    /// Bins of buffered values, in input order.
    pending: Vec<i16>,
    /// Bins and their counts, ascending.
    counts: Vec<(i16, u64)>,
}

impl Default for Sketch {
    fn default() -> Self {
        let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { least, most, pending: Vec::new(), counts: Vec::new() }
    }
}

impl Sketch {
    /// Adds a number; NaN is ignored.
    #[inline]
    pub(super) fn push(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        if self.pending.len() >= PENDING_MAX {
            self.count();
        }
        self.pending.push(bin(value));
    }

    /// Merges an encoded sketch ([`Sketch::encode`]); `None` for malformed bytes.
    pub(super) fn merge(&mut self, bytes: &[u8]) -> Option<()> {
        let (least, rest) = bytes.split_first_chunk::<8>()?;
        let (most, rest) = rest.split_first_chunk::<8>()?;
        self.least = self.least.min(f64::from_le_bytes(*least));
        self.most = self.most.max(f64::from_le_bytes(*most));
        let (is_counted, rest) = rest.split_first()?;
        if *is_counted == 0 {
            let (bins, rest) = rest.as_chunks::<2>();
            if self.pending.len() + bins.len() > PENDING_MAX {
                self.count();
            }
            self.pending.extend(bins.iter().map(|bin| i16::from_le_bytes(*bin)));
            return rest.is_empty().then_some(());
        }
        let (entries, rest) = rest.as_chunks::<ENTRY_BYTES>();
        let entries = entries.iter().map(|[b0, b1, count @ ..]| {
            (i16::from_le_bytes([*b0, *b1]), u64::from_le_bytes(*count))
        });
        self.count();
        self.add(&entries.collect::<Vec<_>>());
        rest.is_empty().then_some(())
    }

    fn count(&mut self) {
        let mut bins = std::mem::take(&mut self.pending);
        bins.sort_unstable();
        let runs = bins.chunk_by(|one, other| one == other);
        let runs: Vec<_> = runs.map(|run| (run[0], run.len() as u64)).collect();
        self.add(&runs);
        bins.clear();
        self.pending = bins;
    }

    /// Merges ascending counts.
    fn add(&mut self, other: &[(i16, u64)]) {
        if self.counts.is_empty() {
            self.counts = other.to_vec();
            return;
        }
        let mut merged = Vec::with_capacity(self.counts.len() + other.len());
        let mut mine = self.counts.iter().copied().peekable();
        for (bin, count) in other {
            while let Some(entry) = mine.next_if(|entry| entry.0 < *bin) {
                merged.push(entry);
            }
            let same = mine.next_if(|entry| entry.0 == *bin).map_or(0, |entry| entry.1);
            merged.push((*bin, count + same));
        }
        merged.extend(mine);
        self.counts = merged;
    }

    /// The number below which `fraction` (0 to 1) of all values are; `None` without values.
    pub(super) fn percentile(&mut self, fraction: f64) -> Option<f64> {
        self.count();
        let total: u64 = self.counts.iter().map(|entry| entry.1).sum();
        let last = total.checked_sub(1)?;
        let rank = rank_of(fraction, last);
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += count;
            seen > rank
        });
        // Minimum and maximum are exact.
        Some(match rank {
            0 => self.least,
            rank if rank == last => self.most,
            _ => middle(found?.0).clamp(self.least, self.most),
        })
    }

    /// Encodes the sketch for another thread or machine: both ends, then either 0 and the buffered
    /// bins, or 1 and bins with their counts.
    pub(super) fn encode(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.least.to_le_bytes());
        out.extend_from_slice(&self.most.to_le_bytes());
        if self.counts.is_empty() {
            out.push(0);
            self.pending.iter().for_each(|bin| out.extend_from_slice(&bin.to_le_bytes()));
            return;
        }
        self.count();
        out.push(1);
        for (bin, count) in &self.counts {
            out.extend_from_slice(&bin.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
        }
    }

    /// Bytes on the heap.
    pub(super) fn byte_count(&self) -> usize {
        self.pending.capacity() * size_of::<i16>()
            + self.counts.capacity() * size_of::<(i16, u64)>()
    }
}

/// Rank of the percentile among the sorted values 0 to `last`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is between 0 and the count; beyond 2^53 it may be off by one"
)]
fn rank_of(fraction: f64, last: u64) -> u64 {
    (fraction * last as f64).round() as u64
}

/// Percentile of values without NaN, consistent with a sketch of them but without building one: the
/// value of that rank is in the bin that the sketch would select.
pub(super) fn percentile_of(values: &mut [f64], fraction: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let rank = usize::try_from(rank_of(fraction, last as u64)).unwrap_or(last);
    let least = || values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = || values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if rank == 0 {
        return Some(least());
    }
    if rank == last {
        return Some(most());
    }
    let (least, most) = (least(), most());
    let (_, found, _) = values.select_nth_unstable_by(rank, f64::total_cmp);
    Some(middle(bin(*found)).clamp(least, most))
}

#[expect(clippy::cast_possible_truncation, reason = "it is clamped to the range")]
#[inline]
fn bin(value: f64) -> i16 {
    const BINS_PER_E: f64 = 49.998_333_27;
    let size = value.abs();
    if size < SMALLEST {
        return 0;
    }
    let number = ((size / SMALLEST).ln() * BINS_PER_E).floor() + 1.0;
    let number = number.min(f64::from(i16::MAX)) as i16;
    if value < 0.0 { -number } else { number }
}

/// Representative number of a bin: no number of the bin differs from it by more than the accuracy.
fn middle(bin: i16) -> f64 {
    if bin == 0 {
        return 0.0;
    }
    let upper = SMALLEST * (f64::from(bin.unsigned_abs()) * GAMMA.ln()).exp();
    let size = upper * 2.0 / (GAMMA + 1.0);
    if bin < 0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(values: &[f64]) -> Sketch {
        let mut sketch = Sketch::default();
        values.iter().for_each(|value| sketch.push(*value));
        sketch
    }

    fn check(values: &[f64], sketch: &mut Sketch) {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        for fraction in [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few thousand"
            )]
            let rank = (fraction * (sorted.len() - 1) as f64).round() as usize;
            let (true_value, found) = (sorted[rank], sketch.percentile(fraction).unwrap());
            let error = (found - true_value).abs();
            assert!(
                error <= true_value.abs() * (ACCURACY + 1e-6) + SMALLEST,
                "{fraction} of {}: {found}, not {true_value}",
                values.len()
            );
        }
    }

    #[test]
    fn scale_is_that_of_the_accuracy() {
        let bins_per_e = 1.0 / GAMMA.ln();
        assert!((bins_per_e - 49.998_333_27).abs() < 1e-6, "{bins_per_e}");
    }

    #[test]
    fn percentiles_are_within_one_percent_however_sketches_are_merged() {
        arbtest::arbtest(|u| {
            let count = u.int_in_range(1..=3000)?;
            let values = (0..count).map(|_| value(u)).collect::<Result<Vec<f64>, _>>()?;
            let mut merged = Sketch::default();
            let mut rest = values.as_slice();
            while !rest.is_empty() {
                let (part, after) = rest.split_at(u.int_in_range(1..=rest.len())?);
                let mut bytes = Vec::new();
                sketch(part).encode(&mut bytes);
                merged.merge(&bytes).unwrap();
                rest = after;
            }
            check(&values, &mut sketch(&values));
            check(&values, &mut merged);
            Ok(())
        })
        .budget_ms(1500);
    }

    fn value(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<f64> {
        let size = 10_f64.powi(u.int_in_range(-7..=7)?) * f64::from(u.int_in_range(0..=999)?);
        Ok(if u.ratio(1, 5)? { -size } else { size })
    }

    #[test]
    fn what_is_no_sketch_is_refused_and_what_is_no_number_is_left_out() {
        assert!(Sketch::default().merge(&[0; 16]).is_none());
        assert!(Sketch::default().merge(&[0; 18]).is_none());
        assert_eq!(sketch(&[f64::NAN]).percentile(0.5), None);
        assert_eq!(sketch(&[0.003; 500]).percentile(0.99), Some(0.003), "one value is exact");
        assert_eq!(sketch(&[f64::MAX, f64::MIN, 0.0]).percentile(0.5), Some(0.0));
    }
}
