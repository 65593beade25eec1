//! One query's session: plans it, runs it on this hub or on several, and collects its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use weir_datafile::{ErrorKind, StoreError, row_bytes};

use crate::bounds::{SMALL_BATCH_ROWS, has_joins, limit_row_width};
use crate::distributed::{FailedPeers, QueryDistributor, RemoteUsage};
use crate::explain::explain;
use crate::forecast::beside_plan;
use crate::limits::{LimitKind, QueryUsage};
use crate::peers::Peer;
use crate::plan_cache::PlanCache;
use crate::planning::{catalogs, plan_query, verify};
use crate::postgres;
use crate::query_request::QueryMode;
use crate::spilling_joins::{self, all_given_back};
use crate::tables::TableCatalog;

/// A query restarts without lost hubs, and on this hub alone after this many attempts.
const SPREAD_TRIES: usize = 3;

/// One query's snapshot of the tables, with its memory and disk.
pub(crate) struct QuerySession {
    pub(crate) state: SessionState,
    pub(crate) env: Arc<RuntimeEnv>,
    pub(crate) mode: QueryMode,
    pub(crate) kept: Arc<PlanCache>,
    pub(crate) tables: TableCatalog,
    pub(crate) spread: Option<Arc<QueryDistributor>>,
}

/// Schema, rows, and whether rows were cut off.
type CollectedRows = (SchemaRef, Vec<RecordBatch>, bool);

/// Rows of a plan: read as the plan makes them, or collected before.
pub(crate) struct QueryRows {
    schema: SchemaRef,
    source: RowOrigin,
    is_truncated: bool,
}

enum RowOrigin {
    Plan(LimitedStream),
    Collected(std::vec::IntoIter<RecordBatch>),
}

impl QueryRows {
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether rows were cut off; known after the last batch.
    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    pub(crate) async fn next(
        &mut self,
        session: &QuerySession,
        sql: &str,
        usage: &QueryUsage,
    ) -> Result<Option<RecordBatch>, StoreError> {
        match &mut self.source {
            RowOrigin::Collected(batches) => Ok(batches.next()),
            RowOrigin::Plan(stream) => {
                let batch = stream.next(session, sql, usage).await?;
                self.is_truncated = stream.is_truncated;
                Ok(batch)
            }
        }
    }
}

/// Rows of a plan up to the limits of rows and bytes.
struct LimitedStream {
    stream: SendableRecordBatchStream,
    /// Rows left up to the limit.
    left: usize,
    bytes: usize,
    is_truncated: bool,
}

impl LimitedStream {
    fn new(stream: SendableRecordBatchStream, usage: &QueryUsage) -> Self {
        Self { stream, left: usage.limits.rows, bytes: 0, is_truncated: false }
    }

    async fn next(
        &mut self,
        session: &QuerySession,
        sql: &str,
        usage: &QueryUsage,
    ) -> Result<Option<RecordBatch>, StoreError> {
        if self.is_truncated {
            return Ok(None);
        }
        let Some(batch) = self.stream.next().await else { return Ok(None) };
        let batch = batch.map_err(|error| session.tell(&error, sql, usage))?;
        self.is_truncated = batch.num_rows() > self.left;
        let batch = if self.is_truncated { batch.slice(0, self.left) } else { batch };
        self.bytes += row_bytes(&batch);
        if self.bytes > usage.limits.answer_bytes {
            return Err(usage.exceed(LimitKind::Answer));
        }
        self.left -= batch.num_rows();
        Ok(Some(batch))
    }
}

impl QuerySession {
    /// Runs the query up to its first rows. Queries that may have to restart, which is too late once
    /// rows are sent, are collected: joins that run out of memory restart with spilling, joins of
    /// wide rows with small batches, and distributed queries without the hubs that fail.
    pub(crate) async fn run(
        &mut self,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<QueryRows, StoreError> {
        let plan = self.plan(sql).await.map_err(|error| self.tell(&error, sql, usage))?;
        let may_go_on = self.env.disk_manager.tmp_files_enabled() && spilling_joins::has_any(&plan);
        let is_explain = plan.downcast_ref::<ExplainExec>().is_some();
        let may_restart =
            may_go_on || has_joins(&plan) || self.spread.is_some() || self.tables.peers.is_some();
        if !is_explain && !may_restart {
            let stream = self.stream(plan).map_err(|error| self.tell(&error, sql, usage))?;
            let schema = self.named(&stream.schema());
            let stream = LimitedStream::new(stream, usage);
            return Ok(QueryRows { schema, source: RowOrigin::Plan(stream), is_truncated: false });
        }
        let (schema, batches, is_truncated) = if is_explain {
            self.run_explain(plan, sql, usage).await?
        } else {
            self.run_restarting(plan, may_go_on, sql, usage).await?
        };
        let (schema, source) = (self.named(&schema), RowOrigin::Collected(batches.into_iter()));
        Ok(QueryRows { schema, source, is_truncated })
    }

    /// The schema with the names that the client expects.
    fn named(&self, schema: &SchemaRef) -> SchemaRef {
        match &self.mode {
            QueryMode::Postgres(query) => query.named(schema),
            _ => Arc::clone(schema),
        }
    }

    async fn run_restarting(
        &mut self,
        plan: Arc<dyn ExecutionPlan>,
        may_go_on: bool,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<CollectedRows, StoreError> {
        let mut outcome = self.run_plan(plan, sql, usage).await;
        if outcome.is_err() && usage.has_wide_row() {
            all_given_back(&self.env.memory_pool).await;
            let config = std::mem::take(self.state.config_mut());
            *self.state.config_mut() = config.with_batch_size(SMALL_BATCH_ROWS);
            let Ok(plan) = self.plan(sql).await else { return outcome };
            outcome = self.run_plan(plan, sql, usage).await;
        }
        if !may_go_on || !outcome.as_ref().is_err_and(|error| usage.lacks_memory(error)) {
            return outcome;
        }
        all_given_back(&self.env.memory_pool).await;
        usage.share_evenly();
        spilling_joins::prefer(&mut self.state);
        // Hubs that run subplans do not share memory evenly.
        self.spread = None;
        // A query that cannot be planned this way keeps its memory error.
        let Ok(plan) = self.plan(sql).await else { return outcome };
        spilling_joins::reserve_for_sorts(&mut self.state, &plan, &self.env.memory_pool);
        self.run_plan(plan, sql, usage).await
    }

    /// Runs `explain`: the plan as text, with the forecast of its reads.
    async fn run_explain(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<CollectedRows, StoreError> {
        let (schema, mut batches, is_truncated) = self.run_plan(plan, sql, usage).await?;
        if let Some(access) = &self.tables.files {
            let told = |error: DataFusionError| self.tell(&error, sql, usage);
            let logical = self.logical_plan(&self.state, sql).await.map_err(told)?;
            let reads = beside_plan(&logical, &self.state, access, &schema).await.map_err(told)?;
            batches.extend(reads);
        }
        Ok((schema, batches, is_truncated))
    }

    /// Collects the whole result of a plan.
    async fn run_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<CollectedRows, StoreError> {
        if let Some(answer) = self.run_spread(&plan, sql, usage).await? {
            return Ok(answer);
        }
        let stream = self.stream(plan).map_err(|error| self.tell(&error, sql, usage))?;
        self.collect(stream, sql, usage).await
    }

    /// Runs a plan with other hubs while any are reachable; `None` if it has to run on this hub.
    async fn run_spread(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<Option<CollectedRows>, StoreError> {
        let spread = self.spread.as_ref().filter(|_| !spilling_joins::reads_again(plan));
        let Some(spread) = spread else { return Ok(None) };
        for _ in 0..SPREAD_TRIES {
            let hubs = spread.hubs_for(plan).await;
            if hubs.is_empty() {
                break;
            }
            let failed = FailedPeers::default();
            let mut counted = spread.count(&hubs, usage);
            let stream = self.spread_stream(spread, &hubs, &counted, &failed, sql).await;
            let outcome = match stream {
                Ok(stream) => tokio::select! {
                    answer = self.collect(stream, sql, usage) => answer,
                    error = counted.watch() => Err(error),
                },
                Err(error) => Err(self.tell(&error, sql, usage)),
            };
            // Also if a hub stopped its subplan because the query's total reached the limit.
            counted.take_in().await.map_err(|limit| usage.explain(limit))?;
            let error = match outcome {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if error.kind == ErrorKind::QueryLimit => return Err(error),
                Err(error) => error,
            };
            if !spread.has_lost(&failed).await {
                tracing::debug!("a query is not dealt out to other hubs: {error}");
                break;
            }
        }
        Ok(None)
    }

    async fn spread_stream(
        &self,
        spread: &QueryDistributor,
        hubs: &[Peer],
        counted: &RemoteUsage<'_>,
        failed: &FailedPeers,
        sql: &str,
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let mut state = spread.state(&self.state, hubs, counted, failed)?;
        let tables =
            TableCatalog { spread: Some(Arc::clone(&spread.files)), ..self.tables.clone() };
        state.register_catalog_list(catalogs(&tables, &self.mode));
        let plan = self.logical_plan(&state, sql).await?;
        let plan = state.create_physical_plan(&plan).await?;
        let context = TaskContext::from(&state).with_runtime(Arc::clone(&self.env));
        execute_stream(plan, Arc::new(context))
    }

    async fn collect(
        &self,
        stream: SendableRecordBatchStream,
        sql: &str,
        usage: &QueryUsage,
    ) -> Result<CollectedRows, StoreError> {
        let (schema, mut batches) = (stream.schema(), Vec::new());
        let mut stream = LimitedStream::new(stream, usage);
        while let Some(batch) = stream.next(self, sql, usage).await? {
            batches.push(batch);
        }
        Ok((schema, batches, stream.is_truncated))
    }

    /// The error in words, with the limit behind it if there is one.
    pub(crate) fn tell(
        &self,
        error: &DataFusionError,
        sql: &str,
        usage: &QueryUsage,
    ) -> StoreError {
        let context = || SessionContext::new_with_state(self.state.clone());
        usage.limit_behind(error).unwrap_or_else(|| explain(error, sql, &context()))
    }

    fn stream(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let plan = limit_row_width(plan)?;
        // Only plans from elsewhere refer to functions by name; these contain theirs.
        let (scalar, higher) = (HashMap::new(), HashMap::new());
        let (aggregate, window) = (HashMap::new(), HashMap::new());
        let id = self.state.session_id().to_owned();
        let config = self.state.config().clone();
        let env = Arc::clone(&self.env);
        let task = TaskContext::new(None, id, config, scalar, higher, aggregate, window, env);
        execute_stream(plan, Arc::new(task))
    }

    /// Plans the query, or takes its cached plan.
    pub(crate) async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        if let QueryMode::At { template, now } = &self.mode {
            let kept = self.kept.plan(&self.state, template, *now, &self.tables).await;
            let physical = match kept {
                Some(plan) => {
                    let planner = self.state.query_planner();
                    planner.create_physical_plan(&plan, &self.state).await.ok()
                }
                None => None,
            };
            if let Some(plan) = physical {
                return Ok(plan);
            }
        }
        self.state.create_physical_plan(&self.logical_plan(&self.state, sql).await?).await
    }

    /// Plans the query in the dialect of `state`.
    pub(crate) async fn logical_plan(
        &self,
        state: &SessionState,
        sql: &str,
    ) -> Result<LogicalPlan, DataFusionError> {
        let QueryMode::Postgres(query) = &self.mode else {
            return plan_query(state, sql).await;
        };
        let plan = postgres::plan(state, sql, query).await?;
        verify(&plan)?;
        Ok(plan)
    }
}
