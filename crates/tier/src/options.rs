//! Configuration of the cold tier: location, rules and prices.

use std::path::PathBuf;
use std::time::Duration;

use crate::objects::BucketOptions;

/// Cold tier options. Files that are old, or that exceed the fast disk's limit, move to slower and
/// cheaper storage; queries read them there.
#[derive(Clone, Debug)]
pub struct SlowOptions {
    /// Location of the cold tier.
    pub place: SlowPlace,
    /// Default rule for tables.
    pub rule: SlowRule,
    /// Rules of single tables.
    pub by_table: Vec<(String, SlowRule)>,
    /// Size limit of all files on the fast disk; the oldest move first. Default: no limit.
    pub fast_bytes: u64,
}

/// Location of a cold tier.
#[derive(Clone, Debug)]
pub enum SlowPlace {
    /// Directory on another disk.
    Directory(PathBuf),
    /// Bucket of a service that speaks S3.
    Bucket(Box<SlowBucketOptions>),
}

impl From<&std::path::Path> for SlowPlace {
    fn from(dir: &std::path::Path) -> Self {
        Self::Directory(dir.to_owned())
    }
}

impl From<&PathBuf> for SlowPlace {
    fn from(dir: &PathBuf) -> Self {
        Self::Directory(dir.clone())
    }
}

impl From<&Self> for SlowPlace {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

/// A bucket as cold tier.
#[derive(Clone, Debug)]
pub struct SlowBucketOptions {
    /// Bucket connection; `timeout` covers a request with all its retries.
    pub bucket: BucketOptions,
    /// Prefix of object names; may be empty. Default: empty.
    pub prefix: String,
    /// Maximum concurrent requests of all queries and moves. Default 64.
    pub requests: usize,
    /// Delay after which a read is hedged with a second request, for at most 5 % of requests.
    /// `None` disables hedging. Default 500 ms.
    pub hedge_after: Option<Duration>,
    /// Ranges of a file with a smaller gap are joined into one request. Default 128 KiB.
    pub join_bytes: u64,
    /// Size limit of the local cache for footers and text indexes; 0 disables it. Default 10 GiB.
    pub cache_bytes: u64,
    /// Prices of reads.
    pub prices: ReadPrices,
}

/// Prices of reads from a bucket, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadPrices {
    /// Price of a million requests. Default 0.4.
    pub per_million_requests: f64,
    /// Price of 10⁹ bytes. Default 0.
    pub per_gigabyte: f64,
}

impl Default for ReadPrices {
    fn default() -> Self {
        Self { per_million_requests: 0.4, per_gigabyte: 0.0 }
    }
}

impl SlowBucketOptions {
    /// Default options of a bucket.
    pub fn new(bucket: BucketOptions) -> Self {
        Self {
            bucket,
            prefix: String::new(),
            requests: 64,
            hedge_after: Some(Duration::from_millis(500)),
            join_bytes: 128 << 10,
            cache_bytes: 10 << 30,
            prices: ReadPrices::default(),
        }
    }
}

/// Rule that selects a table's files to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRule {
    /// Age at which files move, by the arrival of their last row. Default 7 days.
    pub after: Duration,
    /// Size limit of the table's files on the fast disk; the oldest move first. Default: no limit.
    pub fast_bytes: u64,
}

impl Default for SlowRule {
    fn default() -> Self {
        Self { after: Duration::from_secs(7 * 86_400), fast_bytes: u64::MAX }
    }
}

impl SlowOptions {
    /// Default options of a location.
    pub fn new(place: SlowPlace) -> Self {
        let (rule, by_table) = (SlowRule::default(), Vec::new());
        Self { place, rule, by_table, fast_bytes: u64::MAX }
    }

    pub(crate) fn rule_of(&self, table: &str) -> SlowRule {
        self.by_table.iter().find(|(name, _)| name == table).map_or(self.rule, |entry| entry.1)
    }
}
