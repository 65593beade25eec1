//! Query classes: users, and weir's own rules. Each class has its own threads and memory, so that
//! no user's query can starve the rules; both yield to the write path.

use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnv;
use tokio::runtime::{Handle, Runtime};
use weir_datafile::{ErrorKind, StoreError};

use super::memory::{MemoryBudget, QueryPool};
use super::spill::SpillFactory;
use super::{QueryUsage, SpillSpace};
use crate::options::{Asker, EngineOptions};
use weir_dialect::STACK_BYTES;

/// Threads and memory of one class.
pub(crate) struct QueryClass {
    runtime: Option<Runtime>,
    memory: Arc<MemoryBudget>,
}

/// All query classes.
pub(crate) struct QueryClasses {
    users: QueryClass,
    rules: QueryClass,
    spill: Option<Arc<SpillSpace>>,
}

/// Threads per partition of a user's query: joins occupy a thread for seconds without yielding, and
/// a small query must not wait for that.
const USERS_THREADS: usize = 4;
/// Nice value: users yield to rules, rules to writers.
const USERS_NICE: i32 = 10;
const RULES_NICE: i32 = 5;

impl QueryClass {
    fn new(
        name: &'static str,
        threads: usize,
        nice: i32,
        memory_bytes: usize,
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(threads * 4)
            .thread_name(name)
            .thread_stack_size(STACK_BYTES)
            // Best effort: without a nice value, threads only compete.
            .on_thread_start(move || {
                let _ = rustix::process::nice(nice);
            })
            .enable_time()
            .build();
        let runtime = runtime.map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot start the query engine: {error}"))
        })?;
        Ok(Self { runtime: Some(runtime), memory: MemoryBudget::new(memory_bytes) })
    }

    /// Runtime handle for the class's queries.
    pub(crate) fn handle(&self) -> Result<&Handle, StoreError> {
        self.runtime.as_ref().map(Runtime::handle).ok_or_else(StoreError::closed)
    }
}

/// Shut down in the background: blocking on the runtime is forbidden inside another runtime.
impl Drop for QueryClass {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Query class and runtime environment of a query.
pub(crate) struct QueryEnvironment<'a> {
    pub(crate) class: &'a QueryClass,
    pub(crate) env: Arc<RuntimeEnv>,
}

impl QueryClasses {
    /// Rules get memory equal to a quarter of the users' memory, in addition to it.
    pub(crate) fn new(
        options: &EngineOptions,
        spill: Option<Arc<SpillSpace>>,
    ) -> Result<Self, StoreError> {
        let threads = options.query_threads.max(1);
        let memory = options.query_memory_bytes;
        Ok(Self {
            users: QueryClass::new("weir-query", threads * USERS_THREADS, USERS_NICE, memory)?,
            rules: QueryClass::new("weir-rules", threads, RULES_NICE, memory / 4)?,
            spill,
        })
    }

    /// Removes spill files; running queries can no longer spill.
    pub(crate) fn close(&self) {
        if let Some(space) = &self.spill {
            space.close();
        }
    }

    /// The class of rules, which maintenance reads share.
    pub(crate) fn rules(&self) -> &QueryClass {
        &self.rules
    }

    /// The class of users' queries and of other hubs' subplans.
    pub(crate) fn users(&self) -> &QueryClass {
        &self.users
    }

    /// Class, memory and disk of one query, with the caches of `env`.
    pub(crate) fn guard(&self, usage: &Arc<QueryUsage>, env: &RuntimeEnv) -> QueryEnvironment<'_> {
        let class = match usage.limits.asker {
            Asker::User => &self.users,
            Asker::Rule => &self.rules,
        };
        let limit = usage.limits.memory_bytes.min(class.memory.limit());
        let env = RuntimeEnv {
            memory_pool: Arc::new(QueryPool::new(limit, &class.memory, usage)),
            disk_manager: Arc::new(self.disk(usage)),
            cache_manager: Arc::clone(&env.cache_manager),
            object_store_registry: Arc::clone(&env.object_store_registry),
        };
        QueryEnvironment { class, env: Arc::new(env) }
    }

    fn disk(&self, usage: &Arc<QueryUsage>) -> DiskManager {
        let mode = match &self.spill {
            Some(space) => DiskManagerMode::Custom(Arc::new(SpillFactory {
                space: Arc::clone(space),
                usage: Arc::clone(usage),
            })),
            None => DiskManagerMode::Disabled,
        };
        let disk = DiskManagerBuilder::default().with_mode(mode).build();
        disk.expect("neither of these modes touches the disk")
    }
}
