//! Runs subplans of other hubs' queries.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use async_trait::async_trait;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext, WorkerSessionBuilder,
};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use tokio::runtime::Handle;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, StdError};
use tower::Service;

use super::channel::PeerChannels;
use super::codec::ScanCodec;
use super::remote_usage::{PATH, RemoteQueries};
use super::{QueryDistributor, WorkerFiles};
use crate::bounds::limit_row_width;
use crate::limits::USAGE;
use crate::peer_set::PeerSet;
use crate::query::register_functions;

/// Request path for the rows of a subplan.
const EXECUTE: &str = "/ExecuteTask";

/// Session factory for subplans. A worker retains finished subplans for minutes, and they retain
/// the worker: a hub that closes in between must not keep its connections open because of that.
pub(super) struct WorkerSessions {
    pub(super) peer_set: Weak<PeerSet>,
    pub(super) files: Arc<WorkerFiles>,
    pub(super) queries: Arc<RemoteQueries>,
}

#[async_trait]
impl WorkerSessionBuilder for WorkerSessions {
    async fn build_session_state(
        &self,
        context: WorkerQueryContext,
    ) -> Result<SessionState, DataFusionError> {
        let mut builder = context.builder;
        let usage = self.queries.of(&context.headers);
        builder.config().get_or_insert_default().set_extension(usage);
        let builder = builder
            .with_distributed_user_codec(ScanCodec::new(&self.files))
            .with_distributed_channel_resolver(PeerChannels::new(Weak::clone(&self.peer_set), None))
            .with_distributed_worker_plan_rewrite_handler(only_tables);
        let mut state = builder.build();
        register_functions(&mut state);
        Ok(state)
    }
}

/// Rejects subplans that read other files or write: subplans only read tables. Their joins measure
/// rows as those of whole plans do; a query that fails for it runs on its own hub alone.
fn only_tables(
    event: WorkerPlanRewriteEvent<'_>,
) -> Result<WorkerPlanRewriteEventResponse, DataFusionError> {
    event.plan.apply(refuse_other_sources)?;
    Ok(WorkerPlanRewriteEventResponse::new(limit_row_width(event.plan)?))
}

fn refuse_other_sources(
    node: &Arc<dyn ExecutionPlan>,
) -> Result<TreeNodeRecursion, DataFusionError> {
    let source = node.downcast_ref::<DataSourceExec>();
    if node.is::<DataSinkExec>() || source.is_some_and(|source| !is_memory(source)) {
        return exec_err!("a piece of a query has `{}`, which is not run for others", node.name());
    }
    Ok(TreeNodeRecursion::Continue)
}

fn is_memory(source: &DataSourceExec) -> bool {
    source.data_source().is::<MemorySourceConfig>()
}

/// Serves requests of a [`QueryChannel`](super::QueryChannel), which arrive over HTTP/2, on the
/// query threads.
#[derive(Clone)]
pub struct QueryWorker {
    peer_set: Arc<PeerSet>,
    queries: Arc<RemoteQueries>,
    worker: Worker,
    threads: Handle,
}

impl QueryWorker {
    pub(crate) fn new(spread: &QueryDistributor, threads: Handle) -> Self {
        let (peer_set, queries) = (Arc::clone(&spread.peer_set), Arc::clone(&spread.queries));
        Self { peer_set, queries, worker: spread.worker.clone(), threads }
    }
}

impl<B> Service<Request<B>> for QueryWorker
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    B::Data: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.uri().path() == PATH {
            let answer = self.queries.answer(request.headers());
            return Box::pin(async move { Ok(answer) });
        }
        if request.uri().path().ends_with(EXECUTE) {
            self.peer_set.count_piece();
        }
        let mut server = self.worker.clone().into_worker_server();
        let usage = self.queries.of(request.headers());
        let answer = async move { server.call(request).await };
        let answer = self.threads.spawn(USAGE.scope(usage, answer));
        Box::pin(async move {
            let Ok(Ok(answer)) = answer.await else {
                let mut broken = Response::new(Body::empty());
                *broken.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok(broken);
            };
            Ok(answer)
        })
    }
}
