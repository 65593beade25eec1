//! Channels to other hubs for subplans.

use std::future::Future;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerResolver, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderMap, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tonic::transport::Endpoint;
use url::Url;

use crate::peer_set::PeerSet;
use crate::peers::Peer;

/// Requests to another hub's [`QueryWorker`](super::QueryWorker), over one connection that
/// reconnects automatically.
pub type QueryChannel = BoxCloneSyncChannel;

/// Timeout of the liveness check of a hub during a query.
const ALIVE: Duration = Duration::from_secs(2);

/// A channel over the connections that `connect` opens, driven by threads of `runtime`.
pub fn query_channel<F, C, S>(runtime: &Handle, connect: F) -> QueryChannel
where
    F: Fn() -> C + Send + 'static,
    C: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let _entered = runtime.enter();
    // Placeholder: `connect` knows the real address.
    let endpoint = Endpoint::from_static("http://hub")
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE);
    let connector = tower::service_fn(move |_: Uri| {
        let stream = connect();
        async move { stream.await.map(TokioIo::new) }
    });
    QueryChannel::new(endpoint.connect_with_connector_lazy(connector))
}

pub(super) fn url_of(address: &str) -> Result<Url> {
    Url::parse(address)
        .map_err(|error| exec_datafusion_err!("`{address}` is not the address of a hub: {error}"))
}

/// Hubs that failed to run their subplan of one query.
#[derive(Clone, Default)]
pub(crate) struct FailedPeers(Arc<Mutex<Vec<Peer>>>);

impl FailedPeers {
    fn add(&self, peer: &Peer) {
        let mut failed = self.0.lock();
        if !failed.contains(peer) {
            failed.push(peer.clone());
        }
    }

    pub(super) fn take(&self) -> Vec<Peer> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Hubs of one query, this one first.
pub(super) struct QueryHubs(Vec<Url>);

impl QueryHubs {
    pub(super) fn new(own: &Url, others: &[Peer]) -> Result<Self> {
        let others = others.iter().map(|peer| url_of(&peer.address));
        let all = std::iter::once(Ok(own.clone())).chain(others);
        Ok(Self(all.collect::<Result<_>>()?))
    }
}

impl WorkerResolver for QueryHubs {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// Resolves a hub's address to its channel.
pub(super) struct PeerChannels {
    peer_set: Weak<PeerSet>,
    failed: FailedPeers,
}

impl PeerChannels {
    pub(super) fn new(peer_set: Weak<PeerSet>, failed: Option<&FailedPeers>) -> Self {
        Self { peer_set, failed: failed.cloned().unwrap_or_default() }
    }
}

#[async_trait]
impl ChannelResolver for PeerChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let peer_set = self.peer_set.upgrade();
        let peer_set = peer_set.ok_or_else(|| exec_datafusion_err!("this hub is closed"))?;
        let peers = peer_set.all();
        let peer =
            peers.iter().find(|peer| url_of(&peer.address).is_ok_and(|address| address == *url));
        let peer = peer.ok_or_else(|| exec_datafusion_err!("there is no hub at {url}"))?.clone();
        let inner = create_worker_client(peer_set.channel(&peer));
        Ok(Box::new(WatchedChannel { inner, peer, failed: self.failed.clone() }))
    }
}

/// Checks that a hub runs subplans.
///
/// # Errors
/// The transport's error text.
pub(super) async fn is_there(peer_set: &PeerSet, peer: &Peer) -> std::result::Result<(), String> {
    let mut client = create_worker_client(peer_set.channel(peer));
    let Err(error) = client.get_worker_info(GetWorkerInfoRequest {}).await else { return Ok(()) };
    Err(match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<tonic::Status>() {
            Some(status) => status.message().to_owned(),
            None => inner.to_string(),
        },
        other => other.strip_backtrace(),
    })
}

/// Records the hub in [`FailedPeers`] when a request fails.
struct WatchedChannel {
    inner: Box<dyn WorkerChannel>,
    peer: Peer,
    failed: FailedPeers,
}

impl WatchedChannel {
    fn watch<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.failed.add(&self.peer);
        }
        outcome
    }

    fn watch_stream<T: 'static>(
        &self,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let (peer, failed) = (self.peer.clone(), self.failed.clone());
        stream
            .map(move |outcome| {
                if outcome.is_err() {
                    failed.add(&peer);
                }
                outcome
            })
            .boxed()
    }
}

#[async_trait]
impl WorkerChannel for WatchedChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let outcome = self.inner.coordinator_channel(headers, plan, stream, metrics, context).await;
        self.watch(outcome).map(|stream| self.watch_stream(stream))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let outcome = self.inner.execute_task(headers, request, metrics, context).await;
        let streams = self.watch(outcome)?;
        Ok(streams.into_iter().map(|stream| self.watch_stream(stream)).collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await
    }
}
