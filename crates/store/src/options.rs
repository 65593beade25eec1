//! What of the store can be set; every limit has a default, a unit and a reason.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::Clock;

use crate::cluster::ClusterOptions;
use crate::objects::BucketOptions;

/// Where the store lives and what it may use.
#[derive(Clone)]
pub struct StoreOptions {
    /// The data directory; made when it is missing.
    pub dir: PathBuf,
    /// The time of day: ages and retention, never the order of rows.
    pub clock: Arc<dyn Clock>,
    /// Hot rows above this are flushed to files. Default 128 MiB: files of a few MiB each, seconds of replay.
    pub hot_bytes_max: usize,
    /// Appends wait while hot rows and rows being flushed are above this. Default 384 MiB.
    pub hot_bytes_limit: usize,
    /// Hot rows older than this are flushed. Default 5 min, so that other readers of the files are not far behind.
    pub hot_age_max: Duration,
    /// A write-ahead log above this is flushed. Default 512 MiB: bounds the replay after a crash.
    pub wal_bytes_max: u64,
    /// Segments of the write-ahead log roll above this. Default 64 MiB.
    pub wal_segment_bytes: u64,
    /// Writing stops while fewer bytes are free. Default: 256 MiB or 1 % of the file system, whichever is smaller.
    pub min_free_bytes: Option<u64>,
    /// What is deleted when.
    pub retention: Retention,
    /// Files below this count as small. Default 32 MiB.
    pub small_file_bytes: u64,
    /// More small files than this of one table and day are merged. Default 16.
    pub small_file_count: usize,
    /// Rows are not written to more files while a table and day has more small ones than this: merging comes first, and
    /// appends wait when memory is full meanwhile. Default 64.
    pub small_files_max: usize,
    /// Files that no query needs any more stay this long for other readers, also over a restart. Default 60 s.
    pub gc_grace: Duration,
    /// How often compaction, retention and deletion look for work. Default 60 s.
    pub maintenance_interval: Duration,
    /// Memory of all running queries of users together; rules have a quarter of it beside that. Default 512 MiB.
    pub query_memory_bytes: usize,
    /// Disk space of all running queries together for what does not fit into memory; 0: none. Default 4 GiB.
    pub query_spill_bytes: usize,
    /// Bytes that all queries of one user together may read from files within an hour; 0: no limit. Default 0.
    pub user_read_bytes: u64,
    /// Columns of files that queries asked for stay in memory up to this, so that the next ones need not read and decode
    /// them; 0: none, and files are read from end to end. Default 256 MiB.
    pub column_cache_bytes: usize,
    /// Queries that take at least this long are kept for [`crate::Store::take_ended_queries`]. Default 1 s.
    pub slow_query: Duration,
    /// Names of the copies that will go on, so that the log keeps what they need; others are forgotten. Default: all that there
    /// were are kept.
    pub copies: Option<Vec<String>>,
    /// Rows that are further ahead of the clock than this are not in tables but in those of the schema `future`, until
    /// their time comes. Default 1 day.
    pub future: Duration,
    /// Where old files go. Default: nowhere.
    pub slow: Option<SlowOptions>,
    /// One of several hubs: all their files are in the place of `slow`. Default: a hub alone.
    pub cluster: Option<ClusterOptions>,
    /// Threads that run queries. Default: the cores of the machine.
    pub query_threads: usize,
}

impl StoreOptions {
    /// The defaults for a store in `dir`.
    pub fn new(dir: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self {
            dir: dir.into(),
            clock,
            hot_bytes_max: 128 << 20,
            hot_bytes_limit: 384 << 20,
            hot_age_max: Duration::from_secs(300),
            wal_bytes_max: 512 << 20,
            wal_segment_bytes: 64 << 20,
            min_free_bytes: None,
            retention: Retention::default(),
            small_file_bytes: 32 << 20,
            small_file_count: 16,
            small_files_max: 64,
            gc_grace: Duration::from_secs(60),
            maintenance_interval: Duration::from_secs(60),
            query_memory_bytes: 512 << 20,
            query_spill_bytes: 4 << 30,
            user_read_bytes: 0,
            column_cache_bytes: 256 << 20,
            slow_query: Duration::from_secs(1),
            copies: None,
            future: Duration::from_secs(86_400),
            slow: None,
            cluster: None,
            query_threads: std::thread::available_parallelism().map_or(2, usize::from),
        }
    }
}

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

/// How long rows are kept: whole files, by when the last row of them came in. What rows say of their time does not
/// matter: clocks can be wrong.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Days that rows of a table are kept. Default 30.
    pub days: u32,
    /// Tables that differ: name and days. Default: `finding` 400 days, since one looks back at last year's.
    pub days_by_table: Vec<(String, u32)>,
    /// All files together stay below this; the oldest go first, `finding` never. Default 100 GiB.
    pub total_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { days: 30, days_by_table: vec![("finding".into(), 400)], total_bytes: 100 << 30 }
    }
}

impl Retention {
    /// Days that rows of `table` are kept.
    pub(crate) fn days_of(&self, table: &str) -> u32 {
        self.days_by_table.iter().find(|(name, _)| name == table).map_or(self.days, |entry| entry.1)
    }
}

/// Who asks; each has threads and memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A person or a program, by way of the API.
    User,
    /// weir itself: rules and what keeps them going.
    Rule,
}

/// What one query may use.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    /// Rows of the answer; more are cut and `is_truncated` is set.
    pub rows: usize,
    /// The query is stopped after this.
    pub timeout: Duration,
    /// Memory; what needs more is done on disk, or stopped.
    pub memory_bytes: usize,
    /// Bytes read from files; a query that needs more is stopped.
    pub read_bytes: u64,
    /// Bytes of the answer's rows in memory; a query with a larger one is stopped.
    pub answer_bytes: usize,
    /// Who asks.
    pub asker: Asker,
}

/// 10,000 rows, 30 s, 384 MiB of memory, 64 MiB of answer, no limit of reading.
impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            rows: 10_000,
            timeout: Duration::from_secs(30),
            memory_bytes: 384 << 20,
            read_bytes: u64::MAX,
            answer_bytes: 64 << 20,
            asker: Asker::User,
        }
    }
}

impl QueryLimits {
    /// For weir's own queries, beside those of users.
    pub fn of_rule(rows: usize, timeout: Duration) -> Self {
        Self { rows, timeout, asker: Asker::Rule, ..Self::default() }
    }
}
