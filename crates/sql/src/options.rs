//! What the query engine may use, and what one query may.

use std::sync::Arc;
use std::time::Duration;

use weir_tables::Clock;

/// What all queries together may use.
#[derive(Clone)]
pub struct EngineOptions {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Threads that run queries.
    pub query_threads: usize,
    /// Memory of all running queries of users together; rules have a quarter of it beside that.
    pub query_memory_bytes: usize,
    /// Bytes that all queries of one user together may read from files within an hour; 0: no limit.
    pub user_read_bytes: u64,
    /// Columns of files stay in memory up to this; 0: none.
    pub column_cache_bytes: usize,
    /// Queries that take at least this long are kept for [`crate::QueryEngine::take_ended`].
    pub slow_query: Duration,
    /// Rows further ahead of the clock than this are in the tables of the schema `future`.
    pub future: Duration,
}

impl EngineOptions {
    /// The defaults.
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
