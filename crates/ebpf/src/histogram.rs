//! Waits in buckets, sixteen for each power of two of microseconds, as the program in the kernel fills them.
//!
//! Below 16 µs a bucket is one microsecond; above, its width is a sixteenth of its octave's begin.

/// Buckets; the last one also has what is longer.
pub(crate) const BUCKETS: usize = 384;

/// What one listener's connections waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) buckets: [u32; BUCKETS],
    /// Sum of all waits, in microseconds.
    pub(crate) sum_us: u64,
    /// The longest, in microseconds, unless two processors measured at the same instant.
    pub(crate) max_us: u64,
}

impl Waits {
    /// How many were measured.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|count| u64::from(*count)).sum()
    }

    /// The longest wait in microseconds; `None` when none was measured.
    pub(crate) fn max(&self) -> Option<u64> {
        let last = self.buckets.iter().rposition(|count| *count > 0)?;
        Some(self.max_us.max(begin_of(last)))
    }

    /// The wait that a share `ratio` of all does not exceed, in microseconds: at most a sixteenth too long, never above the
    /// longest; `None` when none was measured.
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
        // The last bucket has no end.
        Some(if at + 1 == BUCKETS { max } else { (begin_of(at + 1) - 1).min(max) })
    }
}

/// The shortest wait of a bucket, in microseconds.
fn begin_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = bucket / 16;
    if octave == 0 { bucket } else { (16 + bucket % 16) << (octave - 1) }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Waits, begin_of};

    fn waits(all: &[(usize, u32)], max_us: u64) -> Waits {
        let mut buckets = [0; BUCKETS];
        for (bucket, count) in all {
            buckets[*bucket] = *count;
        }
        Waits { buckets, sum_us: 0, max_us }
    }

    #[test]
    fn buckets_follow_each_other_and_are_a_sixteenth_wide() {
        assert_eq!([0, 1, 15, 16, 17, 31, 32, 33].map(begin_of), [0, 1, 15, 16, 17, 31, 32, 34]);
        for bucket in 16..BUCKETS {
            let (begin, end) = (begin_of(bucket), begin_of(bucket + 1));
            assert!(end > begin && (end - begin) * 16 <= begin, "bucket {bucket}");
        }
        assert_eq!(begin_of(BUCKETS), 1 << 27);
    }

    #[test]
    fn quantiles_are_the_end_of_their_bucket_but_not_beyond_the_longest() {
        let waits = waits(&[(3, 90), (100, 9), (200, 1)], 50_000);
        assert_eq!(waits.quantile(0.5), Some(3));
        assert_eq!(waits.quantile(0.9), Some(3));
        assert_eq!(waits.quantile(0.99), Some(begin_of(101) - 1));
        assert_eq!(waits.quantile(1.0), Some(50_000));
        assert_eq!((waits.count(), waits.max()), (100, Some(50_000)));
    }

    #[test]
    fn nothing_measured_has_no_quantiles_and_the_last_bucket_no_end() {
        assert_eq!((waits(&[], 0).quantile(0.5), waits(&[], 0).max()), (None, None));
        assert_eq!(waits(&[(BUCKETS - 1, 1)], 1 << 40).quantile(0.5), Some(1 << 40));
    }
}
