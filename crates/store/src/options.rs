//! Settings of the store; every limit has a default, a unit and a reason.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_sql::{EngineOptions, Peers};
use weir_tables::Clock;
use weir_tier::SlowOptions;

/// Where the store lives and what resources it may use.
#[derive(Clone)]
pub struct StoreOptions {
    /// The data directory; created when it is missing.
    pub dir: PathBuf,
    /// Clock for ages and retention, never for the order of rows.
    pub clock: Arc<dyn Clock>,
    /// A larger memtable is flushed to files. Default 128 MiB: files of a few MiB each, seconds of
    /// replay.
    pub hot_bytes_max: usize,
    /// Appends wait while the memtable and the immutable memtable exceed this. Default 384 MiB.
    pub hot_bytes_limit: usize,
    /// An older memtable is flushed. Default 5 min, so that other readers of the files are not far
    /// behind.
    pub hot_age_max: Duration,
    /// A larger write-ahead log triggers a flush. Default 512 MiB: bounds the replay after a crash.
    pub wal_bytes_max: u64,
    /// Size at which a segment of the write-ahead log rolls. Default 64 MiB.
    pub wal_segment_bytes: u64,
    /// Writing stops while fewer bytes are free. Default: 256 MiB or 1 % of the file system,
    /// whichever is smaller.
    pub min_free_bytes: Option<u64>,
    /// Rules for the deletion of files.
    pub retention: Retention,
    /// Files below this count as small. Default 32 MiB.
    pub small_file_bytes: u64,
    /// Number of small files of one table and day above which they are merged. Default 16.
    pub small_file_count: usize,
    /// Flushes pause while a table and day has more small files than this: merging comes first, and
    /// appends wait if memory fills up meanwhile. Default 64.
    pub small_files_max: usize,
    /// Time within which every data file of the data directory is read once as a check; zero turns
    /// it off. Default 30 days.
    pub scrub: Duration,
    /// Grace period of unneeded files for other readers, across restarts. Default 60 s.
    pub gc_grace: Duration,
    /// Interval between checks for compaction, retention and deletion. Default 60 s.
    pub maintenance_interval: Duration,
    /// Memory limit of all running user queries together; rules get another quarter of it. Default
    /// 512 MiB.
    pub query_memory_bytes: usize,
    /// Spill space on disk for all running queries together; 0 disables spilling. Default 4 GiB.
    pub query_spill_bytes: usize,
    /// Bytes that all queries of one user together may read from files within an hour; 0 disables
    /// the limit. Default 0.
    pub user_read_bytes: u64,
    /// Size of the cache of decoded file columns, which saves later queries the reading and
    /// decoding; 0 disables it, and queries read files from end to end. Default 256 MiB.
    pub column_cache_bytes: usize,
    /// Queries that take at least this long are recorded for [`crate::Store::take_ended_queries`].
    /// Default 1 s.
    pub slow_query: Duration,
    /// Names of the copies that will resume, so that the log keeps what they need; others are
    /// forgotten. Default: all existing copies are kept.
    pub copies: Option<Vec<String>>,
    /// Rows further ahead of the clock than this appear in the tables of the schema `future` until
    /// their time comes. Default 1 day.
    pub future: Duration,
    /// Cold tier for old files. Default: none.
    pub slow: Option<SlowOptions>,
    /// Cluster membership: all files are then in the place of `slow`. Default: a single hub.
    pub cluster: Option<ClusterOptions>,
    /// Number of query threads. Default: the number of cores.
    pub query_threads: usize,
}

impl StoreOptions {
    /// Default settings for a store in `dir`.
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
            scrub: 30 * DAY,
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

    /// The query engine's part of the settings.
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

/// Connection to the manifest of a cluster.
#[derive(Clone)]
pub struct ManifestOptions {
    /// PostgreSQL's address: `postgresql://weir@db/weir`, or libpq's keywords. `sslmode=require`
    /// encrypts and verifies.
    pub url: String,
    /// Password of the PostgreSQL user.
    pub password: Option<String>,
    /// CA certificate (PEM) that verifies the server, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The schema of its tables. Default `weir`.
    pub schema: String,
}

/// Settings of one hub in a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The manifest that all hubs share.
    pub manifest: ManifestOptions,
    /// Name of this hub, unique in the cluster.
    pub name: String,
    /// URL at which other hubs reach this hub.
    pub address: String,
    /// Client for the other hubs.
    pub peers: Arc<dyn Peers>,
    /// Queries that read more bytes than this are distributed over all hubs.
    pub spread_bytes: u64,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Retention applies to whole files, by the arrival of their last row. Times inside rows do not
/// matter: clocks can be wrong.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Retention of rows in days. Default 30.
    pub days: u32,
    /// Exceptions by table: name and days. Default: `finding` 400 days, for comparison with last
    /// year's.
    pub days_by_table: Vec<(String, u32)>,
    /// Limit on the size of all files together; the oldest are deleted first, `finding` never.
    /// Default 100 GiB.
    pub total_bytes: u64,
    /// How long a file that expired by its age can be restored; less when free space or
    /// `total_bytes` runs out. Default 1 day.
    pub restorable: Duration,
    /// How long the wall clock must stay ahead before files expire by a time that did not pass
    /// while weir ran. Default 1 day.
    pub clock_patience: Duration,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Default for Retention {
    fn default() -> Self {
        Self {
            days: 30,
            days_by_table: vec![("finding".into(), 400)],
            total_bytes: 100 << 30,
            restorable: DAY,
            clock_patience: DAY,
        }
    }
}

impl Retention {
    /// Retention of `table` in days.
    pub(crate) fn days_of(&self, table: &str) -> u32 {
        self.days_by_table.iter().find(|(name, _)| name == table).map_or(self.days, |entry| entry.1)
    }
}
