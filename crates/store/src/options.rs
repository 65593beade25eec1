//! What of the store can be set; every limit has a default, a unit and a reason.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_sql::{EngineOptions, Peers};
use weir_tables::Clock;
use weir_tier::SlowOptions;

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
        let engine = EngineOptions::new(clock);
        Self {
            dir: dir.into(),
            clock: engine.clock,
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
            query_memory_bytes: engine.query_memory_bytes,
            query_spill_bytes: 4 << 30,
            user_read_bytes: engine.user_read_bytes,
            column_cache_bytes: engine.column_cache_bytes,
            slow_query: engine.slow_query,
            copies: None,
            future: engine.future,
            slow: None,
            cluster: None,
            query_threads: engine.query_threads,
        }
    }

    /// The part of them that is the query engine's.
    pub(crate) fn engine(&self) -> EngineOptions {
        EngineOptions {
            clock: Arc::clone(&self.clock),
            query_threads: self.query_threads,
            query_memory_bytes: self.query_memory_bytes,
            user_read_bytes: self.user_read_bytes,
            column_cache_bytes: self.column_cache_bytes,
            slow_query: self.slow_query,
            future: self.future,
        }
    }
}

/// The manifest of several hubs.
#[derive(Clone)]
pub struct ManifestOptions {
    /// Where PostgreSQL is: `postgresql://weir@db/weir`, or libpq's words. `sslmode=require` encrypts and verifies.
    pub url: String,
    /// Its password.
    pub password: Option<String>,
    /// An authority (PEM) that its certificate may be of, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The schema of its tables. Default `weir`.
    pub schema: String,
}

/// How a hub is one of several.
#[derive(Clone)]
pub struct ClusterOptions {
    /// What all hubs know.
    pub manifest: ManifestOptions,
    /// What this hub is called; no other has the name.
    pub name: String,
    /// Where other hubs reach it: a URL.
    pub address: String,
    /// How it reaches the others.
    pub peers: Arc<dyn Peers>,
    /// A query that reads more bytes than this is dealt out to all hubs.
    pub spread_bytes: u64,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions").field("name", &self.name).finish_non_exhaustive()
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
