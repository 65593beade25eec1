//! Where old files go, which ones, and what reading them costs.

use std::path::PathBuf;
use std::time::Duration;

use crate::objects::BucketOptions;

/// Files that are old, or that the fast disk has no room for, move to a slower and cheaper place; queries read them there.
#[derive(Clone, Debug)]
pub struct SlowOptions {
    /// The place.
    pub place: SlowPlace,
    /// What moves.
    pub rule: SlowRule,
    /// Tables that differ.
    pub by_table: Vec<(String, SlowRule)>,
    /// All files on the fast disk together stay below this; the oldest move first. Default: no limit.
    pub fast_bytes: u64,
}

/// A slow tier.
#[derive(Clone, Debug)]
pub enum SlowPlace {
    /// A directory on another disk.
    Directory(PathBuf),
    /// A bucket of a service that speaks S3.
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

/// A bucket as a slow tier.
#[derive(Clone, Debug)]
pub struct SlowBucketOptions {
    /// The bucket and how it is reached; `timeout` is for a request with all its tries.
    pub bucket: BucketOptions,
    /// Names of objects begin so; may be empty. Default: empty.
    pub prefix: String,
    /// Requests that may be under way at a time, of all queries and moves together. Default 64.
    pub requests: usize,
    /// A read that has no answer after this is asked once more, of a hundred at most five. Default 500 ms; `None`: never.
    pub hedge_after: Option<Duration>,
    /// Ranges of a file that are nearer to each other than this are read with one request. Default 128 KiB.
    pub join_bytes: u64,
    /// Footers and text indexes of its files are kept below the data directory up to so many bytes; 0: none. Default 10 GiB.
    pub cache_bytes: u64,
    /// What reading from it costs.
    pub prices: ReadPrices,
}

/// What reading from a bucket costs, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadPrices {
    /// Of a million requests. Default 0.4.
    pub per_million_requests: f64,
    /// Of 10⁹ bytes. Default 0.
    pub per_gigabyte: f64,
}

impl Default for ReadPrices {
    fn default() -> Self {
        Self { per_million_requests: 0.4, per_gigabyte: 0.0 }
    }
}

impl SlowBucketOptions {
    /// The defaults for a bucket.
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

/// Which files of a table move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRule {
    /// Those whose last row came in longer ago. Default 7 days.
    pub after: Duration,
    /// The oldest, while the table's files on the fast disk are larger. Default: no limit.
    pub fast_bytes: u64,
}

impl Default for SlowRule {
    fn default() -> Self {
        Self { after: Duration::from_secs(7 * 86_400), fast_bytes: u64::MAX }
    }
}

impl SlowOptions {
    /// The defaults for a place.
    pub fn new(place: SlowPlace) -> Self {
        let (rule, by_table) = (SlowRule::default(), Vec::new());
        Self { place, rule, by_table, fast_bytes: u64::MAX }
    }

    pub(crate) fn rule_of(&self, table: &str) -> SlowRule {
        self.by_table.iter().find(|(name, _)| name == table).map_or(self.rule, |entry| entry.1)
    }
}
