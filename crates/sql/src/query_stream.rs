//! A running query's rows, batch by batch.
//!
//! The query runs as a task of its class and waits while [`BATCHES_AHEAD`] batches are unread. Its
//! time limit covers the time that it works; a reader that takes no batch for as long ends it too.
//! The query is running until its stream ends or is dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use weir_datafile::{ErrorKind, StoreError};

use crate::damage::DamageSearch;
use crate::limits::{LimitKind, QueryUsage, RunningQuery};
use crate::planning::{AbortOnDrop, crash};
use crate::query_session::QuerySession;

/// Batches of a query that may wait for their reader.
const BATCHES_AHEAD: usize = 1;

/// Result of a query.
#[derive(Clone, Debug)]
pub struct QueryResult {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// Result rows.
    pub batches: Vec<RecordBatch>,
    /// Whether rows were cut off because of [`crate::QueryLimits::rows`].
    pub is_truncated: bool,
    /// Time from the call to the last row.
    pub elapsed: Duration,
}

impl QueryResult {
    /// Total number of rows.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Rows of a running query. Dropping it cancels the query.
pub struct QueryStream {
    schema: SchemaRef,
    task: QueryTask,
    rows: u64,
    is_truncated: bool,
    elapsed: Duration,
}

impl QueryStream {
    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether rows were cut off at [`crate::QueryLimits::rows`]; known after the last batch.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Time from the call to the last row; known after the last batch.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Waits for the next batch; `None` after the last.
    ///
    /// # Errors
    /// `QueryLimit` when the query exceeds a limit, `Io` and `Corrupt` when files cannot be read. The
    /// rows read before are incomplete then.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        if let Some(batch) = self.task.batches.recv().await {
            self.rows += batch.num_rows() as u64;
            return Ok(Some(batch));
        }
        if let Some((is_truncated, elapsed)) = self.task.end(self.rows).await? {
            (self.is_truncated, self.elapsed) = (is_truncated, elapsed);
        }
        Ok(None)
    }

    /// Collects the whole result.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn collect(mut self) -> Result<QueryResult, StoreError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await? {
            batches.push(batch);
        }
        let Self { schema, is_truncated, elapsed, .. } = self;
        Ok(QueryResult { schema, batches, is_truncated, elapsed })
    }
}

/// Task of a query as its reader has it.
struct QueryTask {
    batches: mpsc::Receiver<RecordBatch>,
    /// `None` after its end.
    running: Option<(RunningQuery, JoinHandle<Result<bool, StoreError>>)>,
    _abort: AbortOnDrop,
    damage: DamageSearch,
}

impl QueryTask {
    /// Waits for the task's end and records its outcome: whether rows were cut off, and the time
    /// that it took. `None` when it was recorded before.
    async fn end(&mut self, rows: u64) -> Result<Option<(bool, Duration)>, StoreError> {
        let Some((running, task)) = self.running.take() else { return Ok(None) };
        let outcome = match task.await {
            Ok(Err(error)) if error.kind == ErrorKind::Io => {
                Err(self.damage.find(&running.usage).await.unwrap_or(error))
            }
            Ok(outcome) => outcome,
            Err(error) => {
                Err(self.damage.find(&running.usage).await.unwrap_or_else(|| crash(&error)))
            }
        };
        let elapsed = running.elapsed();
        running.end(outcome.as_ref().map(|_| ()), rows);
        outcome.map(|is_truncated| Some((is_truncated, elapsed)))
    }
}

/// A query's task before its first rows.
pub(crate) struct SpawnedQuery {
    pub(crate) receivers: QueryReceivers,
    pub(crate) task: JoinHandle<Result<bool, StoreError>>,
    pub(crate) damage: DamageSearch,
}

impl SpawnedQuery {
    /// Waits until the query's columns are known.
    pub(crate) async fn start(self, running: RunningQuery) -> Result<QueryStream, StoreError> {
        let QueryReceivers { schema, batches } = self.receivers;
        let abort = AbortOnDrop(self.task.abort_handle());
        let running = Some((running, self.task));
        let mut task = QueryTask { batches, running, _abort: abort, damage: self.damage };
        match schema.await {
            Ok(schema) => {
                let elapsed = Duration::ZERO;
                Ok(QueryStream { schema, task, rows: 0, is_truncated: false, elapsed })
            }
            Err(_) => match task.end(0).await {
                Err(error) => Err(error),
                Ok(_) => Err(StoreError::closed()),
            },
        }
    }
}

/// The reader's side of a [`QueryOutput`].
pub(crate) struct QueryReceivers {
    schema: oneshot::Receiver<SchemaRef>,
    batches: mpsc::Receiver<RecordBatch>,
}

/// Where a query's task sends its result.
pub(crate) struct QueryOutput {
    schema: oneshot::Sender<SchemaRef>,
    batches: mpsc::Sender<RecordBatch>,
    usage: Arc<QueryUsage>,
}

/// Both sides of a query's result.
pub(crate) fn query_output(usage: &Arc<QueryUsage>) -> (QueryOutput, QueryReceivers) {
    let (schema_sender, schema) = oneshot::channel();
    let (batch_sender, batches) = mpsc::channel(BATCHES_AHEAD);
    let usage = Arc::clone(usage);
    let output = QueryOutput { schema: schema_sender, batches: batch_sender, usage };
    (output, QueryReceivers { schema, batches })
}

impl QueryOutput {
    /// Runs the query and sends its rows; returns whether rows were cut off.
    pub(crate) async fn send(
        self,
        mut session: QuerySession,
        sql: &str,
    ) -> Result<bool, StoreError> {
        let Self { schema, batches, usage } = self;
        let mut timer = WorkTimer { left: usage.limits.timeout, usage: &usage };
        let mut rows = timer.limit(session.run(sql, &usage)).await?;
        // It fails only while the task is being cancelled.
        let _ = schema.send(rows.schema());
        while let Some(batch) = timer.limit(rows.next(&session, sql, &usage)).await? {
            let sent = tokio::time::timeout(usage.limits.timeout, batches.send(batch)).await;
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(StoreError::closed()),
                Err(_) => return Err(usage.exceed(LimitKind::Time)),
            }
        }
        Ok(rows.is_truncated())
    }
}

/// Time that a query may still work.
struct WorkTimer<'a> {
    left: Duration,
    usage: &'a QueryUsage,
}

impl WorkTimer<'_> {
    async fn limit<T>(
        &mut self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let outcome = tokio::time::timeout(self.left, work).await;
        self.left = self.left.saturating_sub(began.elapsed());
        outcome.unwrap_or_else(|_| Err(self.usage.exceed(LimitKind::Time)))
    }
}
