//! CPU time of queries: measured by the thread clock around each poll of a query's tasks.
//!
//! DataFusion lets one hook wrap every task that it starts (`set_join_set_tracer`). The hook runs
//! in the task that starts another, so a task inherits its parent's query. Local files are read on
//! threads of the object store, which are not counted.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{QueryUsage, USAGE};

/// A future whose CPU time is charged to its query.
pub(crate) struct MeteredFuture<F> {
    inner: Pin<Box<F>>,
    usage: Arc<QueryUsage>,
}

impl<F> MeteredFuture<F> {
    pub(crate) fn new(inner: F, usage: Arc<QueryUsage>) -> Self {
        Self { inner: Box::pin(inner), usage }
    }
}

impl<F: Future> Future for MeteredFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread_cpu();
        let outcome = self.inner.as_mut().poll(context);
        self.usage.add_cpu(thread_cpu().saturating_sub(before));
        outcome
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Installs the hook that charges DataFusion's new tasks to the query that started them.
pub(crate) fn watch_tasks() {
    // Already installed by an earlier store of this process.
    let _ = set_join_set_tracer(&CpuTracer);
}

struct CpuTracer;

type ErasedOutput = Box<dyn Any + Send>;

impl JoinSetTracer for CpuTracer {
    fn trace_future(
        &self,
        task: BoxFuture<'static, ErasedOutput>,
    ) -> BoxFuture<'static, ErasedOutput> {
        let Ok(usage) = USAGE.try_with(Arc::clone) else { return task };
        let metered = MeteredFuture { inner: Box::pin(task), usage: Arc::clone(&usage) };
        USAGE.scope(usage, metered).boxed()
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> ErasedOutput + Send>,
    ) -> Box<dyn FnOnce() -> ErasedOutput + Send> {
        let Ok(usage) = USAGE.try_with(Arc::clone) else { return work };
        Box::new(move || {
            let before = thread_cpu();
            let outcome = USAGE.sync_scope(Arc::clone(&usage), work);
            usage.add_cpu(thread_cpu().saturating_sub(before));
            outcome
        })
    }
}
