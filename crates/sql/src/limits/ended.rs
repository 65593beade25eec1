//! Log of ended queries: slow ones, and those stopped at a limit, until the caller takes them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_datafile::{ErrorKind, StoreError};
use weir_tables::Micros;

use super::{LimitKind, QueryUsage};
use crate::options::Asker;

/// Outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryEnd {
    /// Completed with a result.
    Answered,
    /// Cancelled: the client disconnected.
    Cancelled,
    /// Timed out.
    Time,
    /// Exceeded a memory limit, its own or that of all queries.
    Memory,
    /// Out of disk space for spilling.
    Spill,
    /// Exceeded its limit of bytes read from files.
    Read,
    /// Exceeded its user's limit of bytes read within an hour.
    UserRead,
    /// Exceeded its limit of result bytes.
    Answer,
    /// Failed with another error.
    Failed,
}

impl QueryEnd {
    /// Value of `slow_query.ended_by`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answer",
            Self::Cancelled => "cancelled",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Spill => "spill",
            Self::Read => "read",
            Self::UserRead => "user_read",
            Self::Answer => "answer_bytes",
            Self::Failed => "error",
        }
    }

    fn of(outcome: Result<(), &StoreError>, usage: &QueryUsage) -> Self {
        let Err(error) = outcome else { return Self::Answered };
        match usage.met().filter(|_| error.kind == ErrorKind::QueryLimit) {
            Some(LimitKind::Memory | LimitKind::SharedMemory) => Self::Memory,
            Some(LimitKind::Spill) => Self::Spill,
            Some(LimitKind::Time) => Self::Time,
            Some(LimitKind::Read) => Self::Read,
            Some(LimitKind::UserRead) => Self::UserRead,
            Some(LimitKind::Answer) => Self::Answer,
            None => Self::Failed,
        }
    }
}

/// One ended query.
#[derive(Clone, Debug)]
pub struct EndedQuery {
    /// Start time.
    pub ts: Micros,
    /// User: a login or an address; `weir` for weir itself.
    pub user: String,
    /// Query class.
    pub asker: Asker,
    /// SQL text, truncated to 4 KiB.
    pub sql: String,
    /// Outcome.
    pub end: QueryEnd,
    /// Error message, if it failed.
    pub error: Option<String>,
    /// Time from start to end.
    pub duration: Duration,
    /// CPU time of its operators.
    pub cpu: Duration,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Byte ranges read.
    pub reads: u64,
    /// Peak memory in bytes.
    pub memory_bytes: u64,
    /// Bytes spilled to disk.
    pub spilled_bytes: u64,
    /// Rows of the result.
    pub rows: u64,
}

/// Queries retained until taken; beyond that the oldest are dropped and counted.
const KEPT_MAX: usize = 1000;
const SQL_BYTES_MAX: usize = 4 << 10;

/// Ended queries that deserve a row in `slow_query`.
#[derive(Debug)]
pub(crate) struct EndedQueries {
    /// Queries that took at least this long are retained.
    slow: Duration,
    kept: Mutex<(VecDeque<EndedQuery>, u64)>,
}

impl EndedQueries {
    pub(crate) fn new(slow: Duration) -> Arc<Self> {
        Arc::new(Self { slow, kept: Mutex::default() })
    }

    /// Takes the queries since the last call, and the number of dropped ones.
    pub(crate) fn take(&self) -> (Vec<EndedQuery>, u64) {
        let (kept, dropped) = std::mem::take(&mut *self.kept.lock());
        (kept.into(), dropped)
    }

    fn push(&self, query: EndedQuery) {
        let is_stopped =
            !matches!(query.end, QueryEnd::Answered | QueryEnd::Failed | QueryEnd::Cancelled);
        if query.duration < self.slow && !is_stopped {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.0.len() >= KEPT_MAX {
            kept.0.pop_front();
            kept.1 += 1;
        }
        kept.0.push_back(query);
    }
}

/// A running query. If it is dropped before its end, its reader left, or stalled until the query
/// reached its time limit.
pub(crate) struct RunningQuery {
    pub(crate) usage: Arc<QueryUsage>,
    ended: Arc<EndedQueries>,
    ts: Micros,
    started: Instant,
    user: String,
    sql: String,
    is_told: bool,
}

impl RunningQuery {
    pub(crate) fn start(
        ended: &Arc<EndedQueries>,
        usage: &Arc<QueryUsage>,
        ts: Micros,
        user: &str,
        sql: &str,
    ) -> Self {
        let cut = (0..=SQL_BYTES_MAX.min(sql.len())).rev().find(|at| sql.is_char_boundary(*at));
        Self {
            usage: Arc::clone(usage),
            ended: Arc::clone(ended),
            ts,
            started: Instant::now(),
            user: user.to_owned(),
            sql: sql[..cut.unwrap_or(0)].to_owned(),
            is_told: false,
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records the outcome; a query that failed has no rows.
    pub(crate) fn end(mut self, outcome: Result<(), &StoreError>, rows: u64) {
        let end = QueryEnd::of(outcome, &self.usage);
        let rows = outcome.map_or(0, |()| rows);
        self.tell(end, outcome.err().map(|error| error.message.clone()), rows);
    }

    fn tell(&mut self, end: QueryEnd, error: Option<String>, rows: u64) {
        self.is_told = true;
        let usage = &self.usage;
        self.ended.push(EndedQuery {
            ts: self.ts,
            user: std::mem::take(&mut self.user),
            asker: usage.limits.asker,
            sql: std::mem::take(&mut self.sql),
            end,
            error,
            duration: self.started.elapsed(),
            cpu: usage.cpu(),
            read_bytes: usage.read_bytes(),
            reads: usage.reads(),
            memory_bytes: usage.memory_peak(),
            spilled_bytes: usage.spilled_bytes(),
            rows,
        });
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.usage.end();
        if self.is_told {
            return;
        }
        if self.usage.met() == Some(LimitKind::Time) {
            let error = self.usage.explain(LimitKind::Time);
            self.tell(QueryEnd::Time, Some(error.message), 0);
        } else {
            self.tell(QueryEnd::Cancelled, None, 0);
        }
    }
}
