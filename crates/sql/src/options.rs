//! Options of the query engine, and limits of one query.

use std::sync::Arc;
use std::time::Duration;

use weir_tables::Clock;

/// Limits of all queries together.
#[derive(Clone)]
pub struct EngineOptions {
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Threads that run queries.
    pub query_threads: usize,
    /// Memory of all running queries of users together; rules have a quarter of it in addition.
    pub query_memory_bytes: usize,
    /// Bytes that all queries of one user together may read from files within an hour; 0 means no
    /// limit.
    pub user_read_bytes: u64,
    /// Capacity of the column cache; 0 disables it.
    pub column_cache_bytes: usize,
    /// Queries that take at least this long are retained for [`crate::QueryEngine::take_ended`].
    pub slow_query: Duration,
    /// Rows whose `ts` is further ahead of the clock than this are in the tables of the schema
    /// `future`.
    pub future: Duration,
}

impl EngineOptions {
    /// The default options.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            query_threads: std::thread::available_parallelism().map_or(2, usize::from),
            query_memory_bytes: 512 << 20,
            user_read_bytes: 0,
            column_cache_bytes: 256 << 20,
            slow_query: Duration::from_secs(1),
            future: Duration::from_secs(86_400),
        }
    }
}

/// Class of a query; each has its own threads and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A person or a program, through the API.
    User,
    /// weir itself: rules and their supporting queries.
    Rule,
}

/// Limits of one query.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    /// Rows of the result; the rest is cut off and `is_truncated` is set.
    pub rows: usize,
    /// Timeout of the query.
    pub timeout: Duration,
    /// Memory; a query that needs more spills to disk or is stopped.
    pub memory_bytes: usize,
    /// Bytes read from files; a query that needs more is stopped.
    pub read_bytes: u64,
    /// Bytes of the result in memory; a query with a larger result is stopped.
    pub answer_bytes: usize,
    /// Query class.
    pub asker: Asker,
}

/// 10,000 rows, 30 s, 384 MiB of memory, 64 MiB of result, unlimited reads.
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
    /// Limits of weir's own queries.
    pub fn of_rule(rows: usize, timeout: Duration) -> Self {
        Self { rows, timeout, asker: Asker::Rule, ..Self::default() }
    }
}
