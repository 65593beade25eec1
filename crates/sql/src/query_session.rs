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

use crate::distributed::{FailedPeers, QueryDistributor, RemoteUsage};
use crate::explain::explain;
use crate::forecast::beside_plan;
use crate::limits::{LimitKind, QueryUsage};
use crate::peers::Peer;
use crate::plan_cache::PlanCache;
use crate::postgres;
use crate::query::{QueryMode, catalogs, plan_query, verify};
use crate::spilling_joins::{self, all_given_back};
use crate::tables::TableCatalog;

/// A query restarts without lost hubs, and on this hub alone after this many attempts.
const SPREAD_TRIES: usize = 3;

/// One query's snapshot of the tables, with its memory and disk.
pub(crate) struct QuerySession {
    pub(crate) state: SessionState,
    pub(crate) env: Arc<RuntimeEnv>,
    pub(crate) asking: QueryMode,
    pub(crate) kept: Arc<PlanCache>,
    pub(crate) tables: TableCatalog,
    pub(crate) spread: Option<Arc<QueryDistributor>>,
}

/// Schema, rows, and whether the rows were truncated.
pub(crate) type QueryRows = (SchemaRef, Vec<RecordBatch>, bool);

impl QuerySession {
    /// Runs the query; joins that run out of memory are repeated with spilling.
    pub(crate) async fn run(
        mut self,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<QueryRows, StoreError> {
        let plan = self.plan(sql).await.map_err(|error| self.tell(&error, sql, usage))?;
        let may_go_on = self.env.disk_manager.tmp_files_enabled() && spilling_joins::has_any(&plan);
        if plan.downcast_ref::<ExplainExec>().is_some() {
            return self.run_explain(plan, sql, usage).await;
        }
        let outcome = self.run_plan(plan, sql, usage).await;
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
    ) -> Result<QueryRows, StoreError> {
        let (schema, mut batches, is_cut) = self.run_plan(plan, sql, usage).await?;
        if let Some(access) = &self.tables.files {
            let told = |error: DataFusionError| self.tell(&error, sql, usage);
            let question = self.logical_plan(&self.state, sql).await.map_err(told)?;
            let reads = beside_plan(&question, &self.state, access, &schema).await.map_err(told)?;
            batches.extend(reads);
        }
        Ok((schema, batches, is_cut))
    }

    /// Collects the whole result of a plan.
    async fn run_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        sql: &str,
        usage: &Arc<QueryUsage>,
    ) -> Result<QueryRows, StoreError> {
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
    ) -> Result<Option<QueryRows>, StoreError> {
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
        state.register_catalog_list(catalogs(&tables, &self.asking));
        let plan = self.logical_plan(&state, sql).await?;
        let plan = state.create_physical_plan(&plan).await?;
        let context = TaskContext::from(&state).with_runtime(Arc::clone(&self.env));
        execute_stream(plan, Arc::new(context))
    }

    async fn collect(
        &self,
        mut stream: SendableRecordBatchStream,
        sql: &str,
        usage: &QueryUsage,
    ) -> Result<QueryRows, StoreError> {
        let told = |error: DataFusionError| self.tell(&error, sql, usage);
        let schema = stream.schema();
        let (mut batches, mut left, mut bytes) = (Vec::new(), usage.limits.rows, 0);
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(told)?;
            let is_truncated = batch.num_rows() > left;
            let batch = if is_truncated { batch.slice(0, left) } else { batch };
            bytes += row_bytes(&batch);
            if bytes > usage.limits.answer_bytes {
                usage.meet(LimitKind::Answer);
                return Err(usage.explain(LimitKind::Answer));
            }
            left -= batch.num_rows();
            batches.push(batch);
            if is_truncated {
                return Ok((schema, batches, true));
            }
        }
        Ok((schema, batches, false))
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
        if let QueryMode::At { template, now } = &self.asking {
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
        let QueryMode::Postgres(parameters) = &self.asking else {
            return plan_query(state, sql).await;
        };
        let plan = postgres::plan(state, sql, parameters).await?;
        verify(&plan)?;
        Ok(plan)
    }
}
