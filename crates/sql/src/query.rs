//! Runs SQL: read-only, within limits, on its own threads, over one snapshot of all tables.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use weir_datafile::{CutoffSide, DataFile, ErrorKind, Snapshot, StoreError, VisibilityCutoff};
use weir_tables::{Clock, TableSpec};
use weir_tier::{BucketStats, FileLocations, TieredStore};

use crate::bounds::{WideConstants, wrap_functions};
use crate::columns::{ColumnCache, DictionaryGroups, NewestMorsels};
use crate::condition::Condition;
use crate::cooperative_joins::CooperativeJoins;
use crate::damage::DamageSearch;
use crate::distributed::{QueryDistributor, QueryWorker};
use crate::drop_unused_ordering::DropUnusedOrdering;
use crate::file_access::{FileAccess, ScanPart};
use crate::file_reader::CountingReaders;
use crate::forecast::{Forecast, forecast};
use crate::limits::{
    CountingStore, EndedQueries, EndedQuery, LimitKind, MeteredFuture, QueryClasses,
    QueryEnvironment, QueryUsage, ReadQuotas, RunningQuery, SpillSpace, USAGE, watch_tasks,
};
use crate::options::{Asker, EngineOptions, QueryLimits};
use crate::own_files::OwnFiles;
use crate::peer_set::PeerSet;
use crate::peers::PeerRowSource;
use crate::plan_cache::PlanCache;
use crate::planning::{AbortOnDrop, CATALOG, catalogs, crash};
use crate::postgres::{self, Described, Postgres, PostgresQuery};
use crate::pushdown_by_name;
use crate::query_request::{Query, QueryMode};
use crate::query_session::QuerySession;
use crate::query_stream::{QueryStream, SpawnedQuery, query_output};
use crate::reverse_scan::ReverseScan;
use crate::spilling_joins::NonEquiJoinRule;
use crate::table_provider::{scan_files, sort_order};
use crate::tables::{SCHEMA, TableCatalog};

/// DataFusion with weir's settings and its own threads.
pub struct QueryEngine {
    classes: QueryClasses,
    template: SessionState,
    /// Single-partition state: rules' queries are small and many, and distributing them costs more
    /// than it saves.
    rules_template: SessionState,
    postgres: Postgres,
    pub(crate) kept: Arc<PlanCache>,
    files: Option<FileAccess>,
    clock: Arc<dyn Clock>,
    future: Duration,
    ended: Arc<EndedQueries>,
    readers: ReadQuotas,
    /// Other hubs of the cluster; `None` for a single hub.
    pub peer_set: Option<Arc<PeerSet>>,
    spread: Option<Arc<QueryDistributor>>,
}

impl QueryEngine {
    /// Creates an engine over the files at `places`, with spill space.
    pub fn new(
        options: &EngineOptions,
        places: Option<FileLocations>,
        spill: Option<Arc<SpillSpace>>,
    ) -> Result<Self, StoreError> {
        watch_tasks();
        let classes = QueryClasses::new(options, spill)?;
        let template = session_state(options.query_threads, MERGE_MEMORY_BYTES);
        let columns = Arc::new(ColumnCache::new(options.column_cache_bytes));
        let files =
            places.map(|places| file_access(places, template.runtime_env(), columns)).transpose();
        let files = files.map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot start the query engine: {error}"))
        })?;
        let (clock, ended) = (Arc::clone(&options.clock), EndedQueries::new(options.slow_query));
        let mut rules_template = template.clone();
        rules_template.config_mut().options_mut().execution.target_partitions = 1;
        // Ratios of rules may be infinite; those of users' queries fail, as in PostgreSQL.
        rules_template.config_mut().options_mut().execution.enable_ansi_mode = false;
        let future = options.future;
        let (postgres, kept) = (Postgres::default(), Arc::default());
        Ok(Self {
            classes,
            template,
            rules_template,
            postgres,
            kept,
            files,
            clock,
            future,
            ended,
            readers: ReadQuotas::new(options.user_read_bytes),
            peer_set: None,
            spread: None,
        })
    }

    /// Adds rows of other hubs, and distributed execution.
    pub fn in_cluster(self, peer_set: Option<Arc<PeerSet>>) -> Self {
        let spread = peer_set.as_ref().zip(self.files.clone()).map(|(peer_set, access)| {
            let usage = QueryUsage::new(QueryLimits::default());
            let QueryEnvironment { env, .. } =
                self.classes.guard(&usage, self.template.runtime_env());
            let template = self.rules_template.clone();
            Arc::new(QueryDistributor::new(Arc::clone(peer_set), access, template, env))
        });
        Self { peer_set, spread, ..self }
    }

    /// Worker for subplans of other hubs; `None` for a single hub.
    ///
    /// # Errors
    /// `Closed`.
    pub fn worker(&self) -> Result<Option<QueryWorker>, StoreError> {
        let Some(spread) = &self.spread else { return Ok(None) };
        Ok(Some(QueryWorker::new(spread, self.classes.users().handle()?.clone())))
    }

    /// Queries since the last call that were slow or stopped at a limit, and the number of those
    /// dropped.
    pub fn take_ended(&self) -> (Vec<EndedQuery>, u64) {
        self.ended.take()
    }

    /// Closes the spill space; running queries can use memory only.
    pub fn close(&self) {
        self.classes.close();
    }

    /// Number of requests to the cold tier's bucket so far; `None` without one.
    pub fn bucket_stats(&self) -> Option<BucketStats> {
        self.files.as_ref()?.places.slow.as_ref()?.stats()
    }

    /// Current visibility cutoff of the tables.
    pub fn horizon(&self) -> VisibilityCutoff {
        let ahead = i64::try_from(self.future.as_micros()).unwrap_or(i64::MAX);
        VisibilityCutoff { ts: self.clock.now().0.saturating_add(ahead), side: CutoffSide::Past }
    }

    /// Merges the rows of sorted files into one order and passes them to `sink`. Blocks, so it must
    /// not run on a runtime's threads.
    pub fn read_sorted(
        &self,
        table: &'static TableSpec,
        files: &[Arc<DataFile>],
        mut sink: impl FnMut(&RecordBatch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let runtime = self.classes.rules().handle()?;
        let mut stream = self.merge_stream(table, files).map_err(|error| broken_files(&error))?;
        while let Some(rows) = runtime.block_on(stream.next()) {
            sink(&rows.map_err(|error| broken_files(&error))?)?;
        }
        Ok(())
    }

    fn merge_stream(
        &self,
        table: &'static TableSpec,
        files: &[Arc<DataFile>],
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let access = self.files.as_ref().expect("only stores with files merge them");
        let groups: Vec<_> = files.iter().map(|file| vec![ScanPart::whole(file)]).collect();
        let scan = scan_files(access, table, &groups, None, None)?;
        let order = sort_order(table).expect("every table is sorted");
        let merge = SortPreservingMergeExec::new(order, scan);
        merge.execute(0, self.template.task_ctx())
    }

    /// Runs a query over the snapshot `view`, and returns once its first rows can be read. Dropping
    /// the stream, or the future, cancels the query.
    ///
    /// # Errors
    /// Whatever ends the query before its first rows.
    pub async fn stream(&self, view: Snapshot, query: Query) -> Result<QueryStream, StoreError> {
        let Query { sql, caller, limits, .. } = &query;
        let quota = caller.as_ref().and_then(|caller| self.readers.of(caller));
        let usage = QueryUsage::for_reader(*limits, quota);
        let user = caller.as_deref().unwrap_or(OWN_USER);
        let running = RunningQuery::start(&self.ended, &usage, self.clock.now(), user, sql);
        match self.spawn(view, &query, &usage) {
            Ok(parts) => parts.start(running).await,
            Err(error) => {
                running.end(Err(&error), 0);
                Err(error)
            }
        }
    }

    /// Starts the task of a query.
    fn spawn(
        &self,
        view: Snapshot,
        query: &Query,
        usage: &Arc<QueryUsage>,
    ) -> Result<SpawnedQuery, StoreError> {
        let QueryEnvironment { class, env } =
            self.classes.guard(usage, self.template.runtime_env());
        let session = self.session(view, env, usage, query.mode()?);
        let (sql, own_usage) = (query.sql.clone(), Arc::clone(usage));
        let (output, receivers) = query_output(usage);
        let work = async move { output.send(session, &sql).await };
        let work = MeteredFuture::new(work, Arc::clone(usage));
        let task = class.handle()?.spawn(USAGE.scope(own_usage, work));
        let places = self.files.as_ref().map(|files| files.places.clone());
        let damage = DamageSearch { places, runtime: self.classes.rules().handle()?.clone() };
        Ok(SpawnedQuery { receivers, task, damage })
    }

    /// Describes the parameters and result columns of a statement from PostgreSQL's clients.
    pub async fn describe(
        &self,
        view: Snapshot,
        query: &Query,
        known: &[Option<DataType>],
    ) -> Result<Described, StoreError> {
        let (sql, usage) = (&query.sql, QueryUsage::new(query.limits));
        let QueryEnvironment { class, env } =
            self.classes.guard(&usage, self.template.runtime_env());
        let settings = query.settings.clone();
        let mode = QueryMode::Postgres(PostgresQuery::new(Vec::new(), settings.clone()));
        let session = self.session(view, env, &usage, mode);
        let (sql, known, limit) = (sql.clone(), known.to_vec(), usage.limits.timeout);
        let (own_usage, told_usage) = (Arc::clone(&usage), Arc::clone(&usage));
        let work = async move {
            let described = postgres::describe(&session.state, &sql, &known, &settings).await;
            described.map_err(|error| session.tell(&error, &sql, &told_usage))
        };
        // On the query threads, which have the stack that planning needs.
        let work = tokio::time::timeout(limit, work);
        let task = class.handle()?.spawn(USAGE.scope(own_usage, work));
        let _stop_when_dropped = AbortOnDrop(task.abort_handle());
        let outcome = task.await.map_err(|error| crash(&error))?;
        outcome.map_err(|_| usage.explain(LimitKind::Time))?
    }

    /// Estimates what a query will read, without running it.
    pub async fn forecast(&self, view: Snapshot, query: &Query) -> Result<Forecast, StoreError> {
        let Some(access) = self.files.clone() else { return Ok(Forecast::default()) };
        let places = Some(access.places.clone());
        let usage = QueryUsage::new(query.limits);
        let QueryEnvironment { class, env } =
            self.classes.guard(&usage, self.template.runtime_env());
        let session = self.session(view, env, &usage, QueryMode::Once);
        let (sql, own_usage) = (query.sql.clone(), Arc::clone(&usage));
        let work = async move {
            let told = |error: DataFusionError| session.tell(&error, &sql, &own_usage);
            let plan = session.plan(&sql).await.map_err(told)?;
            forecast(&plan, &access).await.map_err(told)
        };
        let work = tokio::time::timeout(usage.limits.timeout, work);
        let task = class.handle()?.spawn(USAGE.scope(Arc::clone(&usage), work));
        let _stop_when_dropped = AbortOnDrop(task.abort_handle());
        match task.await.map_err(|error| crash(&error))? {
            Ok(Err(error)) if error.kind == ErrorKind::Io => {
                let runtime = self.classes.rules().handle()?.clone();
                Err(DamageSearch { places, runtime }.find(&usage).await.unwrap_or(error))
            }
            Ok(outcome) => outcome,
            Err(_) => Err(usage.explain(LimitKind::Time)),
        }
    }

    /// Compiles a condition on rows of `table`.
    ///
    /// # Errors
    /// `BadQuery`.
    pub fn condition(&self, table: &'static TableSpec, sql: &str) -> Result<Condition, StoreError> {
        Condition::new(table, sql, &SessionContext::new_with_state(self.template.clone()))
    }

    /// Built by hand: DataFusion's builders register every function again, which is a fifth of the
    /// time of a rule's condition.
    fn session(
        &self,
        view: Snapshot,
        env: Arc<RuntimeEnv>,
        usage: &QueryUsage,
        mode: QueryMode,
    ) -> QuerySession {
        let snapshot = view.snapshot;
        let peers = self.peer_set.clone().map(|peer_set| PeerRowSource { peer_set, snapshot });
        let (files, horizon) = (self.files.clone(), self.horizon());
        let tables = TableCatalog { view, files, horizon, peers, spread: None };
        let mut state = match (usage.limits.asker, &mode) {
            (Asker::Rule, _) => self.rules_template.clone(),
            (Asker::User, QueryMode::Once | QueryMode::At { .. }) => self.template.clone(),
            (Asker::User, QueryMode::Postgres(_)) => self.postgres.state(&self.template),
        };
        if let QueryMode::Postgres(query) = &mode {
            query.settings.apply(&mut state);
        }
        state.register_catalog_list(catalogs(&tables, &mode));
        state.mark_start_execution();
        reserve_for_merging(&mut state, usage.limits.memory_bytes);
        let is_users = usage.limits.asker == Asker::User && !matches!(mode, QueryMode::At { .. });
        let spread = self.spread.clone().filter(|_| is_users);
        QuerySession { state, env, mode, kept: Arc::clone(&self.kept), tables, spread }
    }
}

/// Memory of a merge: a batch of each of 64 files.
const MERGE_MEMORY_BYTES: usize = 512 << 20;

/// User name of weir's own queries.
const OWN_USER: &str = "weir";

/// Memory that a sort reserves for merging its spill files: it must not be most of a small budget.
fn reserve_for_merging(state: &mut SessionState, memory_bytes: usize) {
    let execution = &state.config().options().execution;
    let bytes = memory_bytes / (8 * execution.target_partitions.max(1));
    if bytes < execution.sort_spill_reservation_bytes {
        state.config_mut().options_mut().execution.sort_spill_reservation_bytes = bytes;
    }
}

fn session_state(threads: usize, memory_bytes: usize) -> SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads.max(1))
        .with_information_schema(true)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_collect_statistics(true);
    let options = config.options_mut();
    options.execution.time_zone = Some("+00:00".into());
    options.execution.enable_ansi_mode = true;
    options.execution.parquet.pushdown_filters = true;
    options.execution.parquet.reorder_filters = true;
    // The optimizer removes rows that another `min` or `max` of the same query still needs: of an
    // expression, or of a column without a value so far (DataFusion 55).
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // `lead(…) ignore nulls` needs rows behind the limit (apache/datafusion#25471).
    options.optimizer.enable_window_limits = false;
    // Two columns of a `union` may differ in metadata, such as the field id in files.
    options.execution.skip_physical_aggregate_schema_check = true;
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(memory_bytes)))
        .with_object_store_registry(Arc::new(OwnFiles::default()))
        .with_disk_manager_builder(
            DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
        )
        .build_arc()
        .expect("nothing here touches the disk");
    let mut rules = PhysicalOptimizer::new().rules;
    rules.insert(0, Arc::new(DropUnusedOrdering));
    let distribution = rules.iter().position(|rule| rule.name() == "EnsureRequirements");
    let before = distribution.unwrap_or(rules.len());
    rules.splice(before..before, [Arc::new(NewestMorsels) as _, Arc::new(DictionaryGroups) as _]);
    rules.push(Arc::new(ReverseScan));
    rules.push(Arc::new(NonEquiJoinRule));
    pushdown_by_name::guard(&mut rules);
    rules.push(Arc::new(CooperativeJoins));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_optimizer_rule(Arc::new(WideConstants))
        .with_physical_optimizer_rules(rules)
        .build();
    register_functions(&mut state);
    let rewrite = Arc::new(weir_functions::SearchRewrite);
    state.register_function_rewrite(rewrite).expect("this registry takes rewrites");
    weir_semantics::register(&mut state).expect("this registry takes functions and rewrites");
    wrap_functions(&mut state).expect("this registry takes functions and rewrites");
    state
}

/// Registers weir's own functions.
pub(crate) fn register_functions(state: &mut SessionState) {
    for function in weir_functions::all() {
        state.register_udf(Arc::new(function)).expect("this registry takes functions");
    }
    for function in weir_functions::aggregates() {
        state.register_udaf(Arc::new(function)).expect("this registry takes functions");
    }
}

fn file_access(
    places: FileLocations,
    runtime: &RuntimeEnv,
    columns: Arc<ColumnCache>,
) -> Result<FileAccess, DataFusionError> {
    let local = Arc::new(LocalFileSystem::new_with_prefix(&places.root)?);
    let both = TieredStore::new(local, places.clone());
    let store: Arc<dyn ObjectStore> = Arc::new(CountingStore::new(Arc::new(both)));
    let url = ObjectStoreUrl::parse("weir://data")?;
    runtime.register_object_store(url.as_ref(), Arc::clone(&store));
    let footers = runtime.cache_manager.get_file_metadata_cache();
    let reader = CountingReaders::new(Arc::clone(&store), Arc::clone(&footers));
    Ok(FileAccess { places, url, store, footers, reader: Arc::new(reader), columns })
}

fn broken_files(error: &DataFusionError) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot read files: {}", error.strip_backtrace()))
}
