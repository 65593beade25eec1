//! What was asked of a bucket.

/// Reads of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketStats {
    /// Requests, all tries.
    pub gets: u64,
    /// Of these, those that were made because an answer was late.
    pub hedged: u64,
    /// Bytes of answers.
    pub bytes: u64,
    /// Tries of reads and writes that failed.
    pub failed: u64,
}
