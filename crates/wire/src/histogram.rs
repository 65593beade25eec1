//! Distributions in little memory: a log-linear histogram, and exact samples that are thinned
//! beyond a limit.

/// Counts of microseconds in log-linear buckets: each power of two is split into `2^BITS` buckets,
/// so a quantile is at most `2^-BITS` of its value too high.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Histogram<const BITS: u32> {
    counts: Vec<u32>,
    count: u64,
    max: u64,
    sum: u64,
}

/// For printed figures: error up to 0.8 %.
pub(crate) type FineHistogram = Histogram<7>;
/// For numerous series such as URLs: error up to 6 %.
pub(crate) type CoarseHistogram = Histogram<4>;

/// Values are capped here (12 days).
const VALUE_MAX: u64 = 1 << 40;

impl<const BITS: u32> Histogram<BITS> {
    #[inline]
    fn bucket(value: u64) -> usize {
        let exponent = (value | 1).ilog2().max(BITS);
        let shift = exponent - BITS;
        let bucket = (u64::from(shift) << BITS) + (value >> shift);
        usize::try_from(bucket).unwrap_or(usize::MAX)
    }

    /// Maximum value of a bucket.
    fn upper(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let shift = (bucket >> BITS).saturating_sub(1);
        let base = bucket - (shift << BITS);
        ((base + 1) << shift) - 1
    }

    pub(crate) fn add(&mut self, value: u64) {
        let value = value.min(VALUE_MAX);
        let bucket = Self::bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    /// Adds all values of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Halves every count, so that the past fades.
    pub(crate) fn halved(mut self) -> Self {
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.count = self.counts.iter().map(|count| u64::from(*count)).sum();
        self.sum /= 2;
        self
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Smallest value that at least `ratio` of all values do not exceed; `None` when empty.
    pub(crate) fn quantile(&self, ratio: f64) -> Option<u64> {
        let rank = rank(self.count, ratio)?;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(Self::upper(bucket).min(self.max));
            }
        }
        Some(self.max)
    }
}

/// Rank of a quantile among `count` values, from 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts are below 2^53 and the ratio is between 0 and 1"
)]
fn rank(count: u64, ratio: f64) -> Option<u64> {
    (count > 0).then(|| ((count as f64 * ratio).ceil() as u64).clamp(1, count))
}

/// Exact values in microseconds up to a limit; beyond it every second, then every fourth, and so
/// on.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThinnedSamples {
    values: Vec<u32>,
    /// One of `2^thinning` values is kept.
    thinning: u32,
    offered: u64,
}

/// Values kept per slice.
const SAMPLES_MAX: usize = 16_384;

impl ThinnedSamples {
    /// Adds a value, capped at an hour and eleven minutes.
    pub(crate) fn add(&mut self, value: u64) {
        self.offered += 1;
        if self.offered & ((1 << self.thinning) - 1) != 0 {
            return;
        }
        if self.values.len() == SAMPLES_MAX {
            self.thin();
        }
        self.values.push(u32::try_from(value).unwrap_or(u32::MAX));
    }

    fn thin(&mut self) {
        let mut at = 0;
        self.values.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        self.thinning += 1;
    }

    /// Merges another set, at the coarser thinning of both.
    pub(crate) fn merge(&mut self, mut other: Self) {
        if other.offered == 0 {
            return;
        }
        if self.offered == 0 {
            return *self = other;
        }
        while other.thinning < self.thinning {
            other.thin();
        }
        while self.thinning < other.thinning || self.values.len() + other.values.len() > SAMPLES_MAX
        {
            self.thin();
            if other.thinning < self.thinning {
                other.thin();
            }
        }
        self.values.append(&mut other.values);
        self.offered += other.offered;
    }

    /// p50, p95 and p99; drops the values.
    pub(crate) fn take_quantiles(&mut self) -> Option<[u64; 3]> {
        std::mem::take(self).quantiles([0.5, 0.95, 0.99])
    }

    /// Quantiles for ascending ratios; `None` when empty.
    pub(crate) fn quantiles<const N: usize>(&mut self, ratios: [f64; N]) -> Option<[u64; N]> {
        let count = self.values.len() as u64;
        let (mut found, mut rest) = ([0; N], self.values.as_mut_slice());
        // From the largest down, each within the values below the previous one: cheaper than
        // sorting.
        for (found, ratio) in found.iter_mut().zip(ratios).rev() {
            let at = usize::try_from(rank(count, ratio)? - 1).ok()?.min(rest.len() - 1);
            *found = u64::from(*rest.select_nth_unstable(at).1);
            rest = &mut rest[..=at];
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::{CoarseHistogram, FineHistogram, ThinnedSamples};

    #[test]
    fn quantiles_are_off_by_less_than_a_bucket() {
        arbtest::arbtest(|u| {
            let mut values: Vec<u64> =
                u.arbitrary::<Vec<u32>>()?.into_iter().map(u64::from).collect();
            values.push(u.int_in_range(0..=1000)?);
            let (mut fine, mut coarse) = (FineHistogram::default(), CoarseHistogram::default());
            for value in &values {
                fine.add(*value);
                coarse.add(*value);
            }
            values.sort_unstable();
            for ratio in [0.5, 0.95, 0.99, 1.0] {
                let rank = super::rank(values.len() as u64, ratio).expect("there are some");
                let exact = values[usize::try_from(rank).expect("small") - 1];
                let (fine, coarse) = (fine.quantile(ratio), coarse.quantile(ratio));
                let is_near = |found: Option<u64>, bits: u32| {
                    let found = found.expect("there are some");
                    found >= exact && found - exact <= exact >> bits
                };
                assert!(is_near(fine, 7), "{fine:?} {exact}");
                assert!(is_near(coarse, 4), "{coarse:?} {exact}");
            }
            Ok(())
        });
    }

    #[test]
    fn many_samples_thin_out_evenly() {
        let mut samples = ThinnedSamples::default();
        (0..1_000_000).for_each(|value| samples.add(value));
        let [p50, p99] = samples.quantiles([0.5, 0.99]).expect("there are some");
        assert!(p50.abs_diff(500_000) < 500 && p99.abs_diff(990_000) < 500, "{p50} {p99}");
        assert_eq!(ThinnedSamples::default().quantiles([0.5]), None);
    }
}
