//! The thread that keeps up with the cluster: says twice a second that this hub is there, learns who else is, brings the
//! view to the newest change, and leaves out streams that another hub took over.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_datafile::{ErrorKind, StoreError};
use weir_tables::StreamId;

use super::{Cluster, PurgedStream};
use crate::manifest::{ClusterPulse, PostgresManifest};
use crate::write_path::shared::StoreState;
use crate::write_path::writer::WriterCommand;

/// How often.
const BEAT: Duration = Duration::from_millis(500);
/// Rows stay in memory for so long after they came into files, for others that have not seen that change yet.
const KEPT: Duration = Duration::from_secs(5);

/// The thread; it ends when this is dropped.
pub(crate) struct ClusterFollower {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ClusterFollower {
    /// # Errors
    /// `Io` when the system refuses to start a thread.
    pub(crate) fn start(
        cluster: Arc<Cluster>,
        shared: Arc<StoreState>,
        manifest: PostgresManifest,
        commands: Sender<WriterCommand>,
    ) -> Result<Self, StoreError> {
        let (stop, stopped) = channel::<()>();
        let work = move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let outcome = cluster.beat(&shared, &manifest, &commands);
                cluster.note(outcome);
            }
            // Others need not wait for the lease to end.
            drop(manifest.leave());
        };
        let thread = std::thread::Builder::new().name("weir-cluster".into()).spawn(work);
        let thread = thread.map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ClusterFollower {
    fn drop(&mut self) {
        self.stop.take();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Cluster {
    fn beat(
        &self,
        shared: &StoreState,
        manifest: &PostgresManifest,
        commands: &Sender<WriterCommand>,
    ) -> Result<(), StoreError> {
        self.learn(manifest.pulse()?, commands)?;
        self.catch_up(shared, manifest)?;
        shared.forget_flushed(KEPT);
        Ok(())
    }

    /// Takes in what the server says; as at the start of a hub, before anybody asks it.
    ///
    /// # Errors
    /// `Io`, `Full`, `Closed`: the log cannot be read again.
    pub(crate) fn learn(
        &self,
        pulse: ClusterPulse,
        commands: &Sender<WriterCommand>,
    ) -> Result<(), StoreError> {
        let ClusterPulse { is_leader, peers, lost } = pulse;
        self.peer_set.replace(peers);
        let mut lease = self.lease.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        lease.renewed = Some(Instant::now());
        drop(lease);
        if self.is_leader.swap(is_leader, std::sync::atomic::Ordering::Relaxed) != is_leader {
            let now = if is_leader { "does" } else { "leaves to another one" };
            tracing::info!(
                "this hub {now} what one hub of the cluster does: merging, deleting, rules"
            );
        }
        self.leave_out(&lost, commands)
    }

    /// Leaves out what the log and the memory have of streams that another hub took over.
    ///
    /// # Errors
    /// `Io`, `Full`, `Closed`.
    pub(crate) fn leave_out(
        &self,
        lost: &[StreamId],
        commands: &Sender<WriterCommand>,
    ) -> Result<(), StoreError> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut purged = self.purged();
        let before: HashSet<StreamId> = purged.iter().map(|known| known.stream).collect();
        let new: HashSet<StreamId> =
            lost.iter().copied().filter(|stream| !before.contains(stream)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let (reply, answer) = channel();
        // The log, which is read again for it, may still have rows of those that were left out before.
        let all: HashSet<StreamId> = before.union(&new).copied().collect();
        commands
            .send(WriterCommand::LeaveOut(Arc::new(all), reply))
            .map_err(|_| StoreError::closed())?;
        let segment = answer.recv().map_err(|_| StoreError::closed())??;
        let count = new.len();
        tracing::info!(
            "{count} streams go through another hub now; what they had beyond files is sent there again"
        );
        purged.extend(new.into_iter().map(|stream| PurgedStream { stream, segment }));
        Ok(())
    }

    /// Brings the view to the newest change.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn catch_up(
        &self,
        shared: &StoreState,
        manifest: &PostgresManifest,
    ) -> Result<(), StoreError> {
        let mut seen = self.seen();
        if seen.is_in_doubt {
            return Ok(());
        }
        if let Some(news) = manifest.news(seen.snapshot)? {
            shared.advance(&news, None);
            seen.snapshot = news.snapshot;
        }
        Ok(())
    }

    /// The same for a question that knows of a later change than the view; blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn hurry(&self, shared: &StoreState) -> Result<(), StoreError> {
        self.catch_up(shared, &self.claims)
    }

    /// Said once when it begins and once when it is over.
    fn note(&self, outcome: Result<(), StoreError>) {
        let why = outcome.err().map(|error| error.to_string());
        let mut lease = self.lease.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (&lease.trouble, &why) {
            (before, Some(why)) if before.as_ref() != Some(why) => tracing::error!("{why}"),
            (Some(_), None) => tracing::info!("the manifest in PostgreSQL can be used again"),
            _ => {}
        }
        lease.trouble = why;
    }
}
