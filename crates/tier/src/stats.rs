//! Request counters of a bucket.

/// Counters of bucket reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketStats {
    /// Requests, including every try.
    pub gets: u64,
    /// Hedged requests, sent because a response was late.
    pub hedged: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Failed tries of reads and writes.
    pub failed: u64,
}
