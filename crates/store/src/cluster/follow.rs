//! The cluster follower, a thread that runs twice a second: sends a heartbeat, learns the live
//! peers, advances the view to the newest snapshot, and purges streams that another hub took over.

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

/// Interval between heartbeats.
const BEAT: Duration = Duration::from_millis(500);
/// Flushed rows stay in memory this long for hubs that have not seen the snapshot yet.
const KEPT: Duration = Duration::from_secs(5);

/// The follower thread; it ends when this is dropped.
pub(crate) struct ClusterFollower {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ClusterFollower {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Io` when the system refuses to start a thread.
    pub(crate) fn start(
        cluster: Arc<Cluster>,
        shared: Arc<StoreState>,
        manifest: PostgresManifest,
        commands: Sender<WriterCommand>,
    ) -> Result<Self, StoreError> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("weir-cluster".into()).spawn(move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let outcome = cluster.beat(&shared, &manifest, &commands);
                cluster.note(outcome);
            }
            // Releases the lease so that others need not wait for its expiry.
            drop(manifest.leave());
        });
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

    /// Applies the server's state; used at the start of a hub, before it answers queries.
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
        let mut lease = self.lease.write();
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

    /// Purges rows of streams that another hub took over from the log and from memory.
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
        // The log is read again and may still have rows of streams purged earlier.
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

    /// Advances the view to the newest snapshot.
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

    /// Advances the view for a query that knows a newer snapshot; blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn hurry(&self, shared: &StoreState) -> Result<(), StoreError> {
        self.catch_up(shared, &self.claims)
    }

    /// Logs a failure once when it begins and once when it is over.
    fn note(&self, outcome: Result<(), StoreError>) {
        let why = outcome.err().map(|error| error.to_string());
        let mut lease = self.lease.write();
        match (&lease.trouble, &why) {
            (before, Some(why)) if before.as_ref() != Some(why) => tracing::error!("{why}"),
            (Some(_), None) => tracing::info!("the manifest in PostgreSQL can be used again"),
            _ => {}
        }
        lease.trouble = why;
    }
}
