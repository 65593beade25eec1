//! Distributed queries: a query over much data is split over all hubs; each scans some of the files
//! and returns its partial result.
//!
//! ```text
//!   coordinating hub: plan ──► subplan 1 here           files 1, 4, 7 ─┐
//!                          ├──► subplan 2 at another hub files 2, 5, 8 ─┼──► final plan, here
//!                          └──► subplan 3 at a third     files 3, 6, 9 ─┘
//! ```
//!
//! A subplan names its files, which all hubs can read. The hub that runs it plans it with its own
//! footers, text indexes and caches. Rows in memory stay with the coordinating hub. When a hub
//! fails, the query restarts without it, and finally on this hub alone.

mod channel;
mod codec;
mod grammar;
mod remote_usage;
mod scan;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, DistributedLeafExec,
    ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, SessionStateBuilderExt, Worker,
};
use futures::future::join_all;

use crate::file_access::FileAccess;
use crate::forecast::forecast;
use crate::limits::QueryUsage;
use crate::peer_set::PeerSet;
use crate::peers::Peer;

pub(crate) use channel::FailedPeers;
use channel::{PeerChannels, QueryHubs, url_of};
pub use channel::{QueryChannel, query_channel};
use codec::ScanCodec;
pub(crate) use grammar::is_accepted;
use remote_usage::RemoteQueries;
pub(crate) use remote_usage::RemoteUsage;
pub(crate) use scan::{DistributedScan, ScanSpec};
pub use worker::QueryWorker;
use worker::WorkerSessions;

/// A hub that does not respond within this time counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(2);

/// Distributes queries to other hubs and runs their subplans.
pub(crate) struct QueryDistributor {
    peer_set: Arc<PeerSet>,
    pub(crate) files: Arc<WorkerFiles>,
    queries: Arc<RemoteQueries>,
    worker: Worker,
}

/// Access to the files of a subplan on this hub.
pub(crate) struct WorkerFiles {
    pub(crate) access: FileAccess,
    /// Session state for single-partition plans.
    pub(crate) template: SessionState,
}

impl fmt::Debug for WorkerFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl QueryDistributor {
    /// A distributor whose subplans share memory and disk of `env`.
    pub(crate) fn new(
        peer_set: Arc<PeerSet>,
        access: FileAccess,
        template: SessionState,
        env: Arc<RuntimeEnv>,
    ) -> Self {
        let files = Arc::new(WorkerFiles { access, template });
        let queries = Arc::<RemoteQueries>::default();
        let sessions = WorkerSessions {
            peer_set: Arc::downgrade(&peer_set),
            files: Arc::clone(&files),
            queries: Arc::clone(&queries),
        };
        let worker = Worker::from_session_builder(sessions).with_runtime_env(env);
        Self { peer_set, files, queries, worker }
    }

    /// Hubs over which a plan should be distributed; empty if it reads little, or no other hub is
    /// reachable.
    pub(crate) async fn hubs_for(&self, plan: &Arc<dyn ExecutionPlan>) -> Vec<Peer> {
        let hubs = self.peer_set.reachable();
        if hubs.is_empty() {
            return hubs;
        }
        // A failed estimate counts as little.
        let told = forecast(plan, &self.files.access).await.unwrap_or_default();
        let is_much = told.fast.bytes + told.slow.bytes >= self.peer_set.spread_bytes;
        if is_much && told.fast.files + told.slow.files > 1 { hubs } else { Vec::new() }
    }

    /// Charges to `usage` what `hubs` use for the query.
    pub(crate) fn count(&self, hubs: &[Peer], usage: &Arc<QueryUsage>) -> RemoteUsage<'_> {
        RemoteUsage::new(&self.peer_set, &self.queries, hubs, usage)
    }

    /// Session state that plans for this hub and others; hubs that fail are added to `failed`.
    pub(crate) fn state(
        &self,
        state: &SessionState,
        hubs: &[Peer],
        counted: &RemoteUsage<'_>,
        failed: &FailedPeers,
    ) -> Result<SessionState, DataFusionError> {
        let own = url_of(&self.peer_set.address)?;
        let channels = PeerChannels::new(Arc::downgrade(&self.peer_set), Some(failed));
        let urls = QueryHubs::new(&own, hubs)?;
        let count = hubs.len() + 1;
        let builder = SessionStateBuilder::new_from_existing(state.clone())
            .with_physical_optimizer_rules(PhysicalOptimizer::new().rules)
            .with_distributed_worker_resolver(urls)
            .with_distributed_channel_resolver(channels)
            .with_distributed_local_worker_context(self.worker.to_local_worker_context(own))
            .with_distributed_user_codec(ScanCodec::new(&self.files))
            .with_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
                event.plan.downcast_ref::<DistributedScan>()?;
                Some(Ok(DesiredTaskCountEventResponse::desired(count)))
            })
            .with_distributed_scale_up_leaf_node_handler(deal)
            .with_distributed_passthrough_headers(counted.headers())?
            .with_distributed_metrics_collection(false)?;
        Ok(builder.with_distributed_planner().build())
    }

    /// Whether one of the failed hubs is unreachable; it is then skipped for a short time.
    pub(crate) async fn has_lost(&self, failed: &FailedPeers) -> bool {
        let failed = failed.take();
        let looks = failed.iter().map(|peer| async move {
            let look = channel::is_there(&self.peer_set, peer);
            match tokio::time::timeout(PATIENCE, look).await {
                Ok(Ok(())) => false,
                Ok(Err(why)) => self.note_gone(peer, &why),
                Err(_) => self.note_gone(peer, "it does not answer"),
            }
        });
        join_all(looks).await.contains(&true)
    }

    fn note_gone(&self, peer: &Peer, why: &str) -> bool {
        self.peer_set.note_reached(peer, Some(why));
        true
    }
}

/// Assigns files to each task.
fn deal(
    event: ScaleUpLeafNodeEvent<'_>,
) -> Option<Result<ScaleUpLeafNodeEventResponse, DataFusionError>> {
    let scan = event.plan.downcast_ref::<DistributedScan>()?;
    let pieces = scan.deal(event.task_count).into_iter().map(|piece| Arc::new(piece) as _);
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), pieces);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}
