//! Histogram of accept waits, filled by the eBPF program: 16 buckets per power of two.
//!
//! Buckets below 16 µs are 1 µs wide; above, a bucket is 1/16 of the start of its octave wide.

/// Number of buckets; the last one also holds every longer wait.
pub(crate) const BUCKETS: usize = 384;

/// Accept waits of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitHistogram {
    pub(crate) buckets: [u32; BUCKETS],
    /// Sum of all waits in microseconds.
    pub(crate) sum_us: u64,
    /// Longest wait in microseconds; approximate when two CPUs update it concurrently.
    pub(crate) max_us: u64,
}

impl WaitHistogram {
    /// Number of measured waits.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|count| u64::from(*count)).sum()
    }

    /// Longest wait in microseconds; `None` when the histogram is empty.
    pub(crate) fn max(&self) -> Option<u64> {
        let last = self.buckets.iter().rposition(|count| *count > 0)?;
        Some(self.max_us.max(lower_bound(last)))
    }

    /// Quantile in microseconds: at most 1/16 too high and never above the maximum.
    ///
    /// `None` when the histogram is empty.
    pub(crate) fn quantile(&self, ratio: f64) -> Option<u64> {
        let (count, max) = (self.count(), self.max()?);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank of at most 384 × 2^32"
        )]
        let rank = ((count as f64 * ratio).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let at = self.buckets.iter().position(|bucket| {
            seen += u64::from(*bucket);
            seen >= rank
        })?;
        // The last bucket has no upper bound.
        Some(if at + 1 == BUCKETS { max } else { (lower_bound(at + 1) - 1).min(max) })
    }
}

/// Lower bound of a bucket in microseconds.
fn lower_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = bucket / 16;
    if octave == 0 { bucket } else { (16 + bucket % 16) << (octave - 1) }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, WaitHistogram, lower_bound};

    fn waits(all: &[(usize, u32)], max_us: u64) -> WaitHistogram {
        let mut buckets = [0; BUCKETS];
        for (bucket, count) in all {
            buckets[*bucket] = *count;
        }
        WaitHistogram { buckets, sum_us: 0, max_us }
    }

    #[test]
    fn buckets_are_contiguous_and_a_sixteenth_wide() {
        assert_eq!([0, 1, 15, 16, 17, 31, 32, 33].map(lower_bound), [0, 1, 15, 16, 17, 31, 32, 34]);
        for bucket in 16..BUCKETS {
            let (lower, upper) = (lower_bound(bucket), lower_bound(bucket + 1));
            assert!(upper > lower && (upper - lower) * 16 <= lower, "bucket {bucket}");
        }
        assert_eq!(lower_bound(BUCKETS), 1 << 27);
    }

    #[test]
    fn quantile_is_the_upper_bound_of_its_bucket_capped_at_the_maximum() {
        let waits = waits(&[(3, 90), (100, 9), (200, 1)], 50_000);
        assert_eq!(waits.quantile(0.5), Some(3));
        assert_eq!(waits.quantile(0.9), Some(3));
        assert_eq!(waits.quantile(0.99), Some(lower_bound(101) - 1));
        assert_eq!(waits.quantile(1.0), Some(50_000));
        assert_eq!((waits.count(), waits.max()), (100, Some(50_000)));
    }

    #[test]
    fn empty_histogram_has_no_quantile_and_the_last_bucket_no_upper_bound() {
        assert_eq!((waits(&[], 0).quantile(0.5), waits(&[], 0).max()), (None, None));
        assert_eq!(waits(&[(BUCKETS - 1, 1)], 1 << 40).quantile(0.5), Some(1 << 40));
    }
}
