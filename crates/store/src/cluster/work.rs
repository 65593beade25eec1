//! Maintenance in a cluster: files go to the shared place, a manifest commit advances the view, and
//! only the leader merges, expires and deletes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_datafile::{DataFile, ErrorKind, StoreError};
use weir_tables::{Micros, StreamId};

use super::{Cluster, ClusterFollower};
use crate::maintenance::Maintenance;
use crate::manifest::{Manifest, ManifestChange, PostgresManifest};
use crate::options::StoreOptions;
use crate::write_path::shared::StoreState;
use crate::write_path::writer::WriterCommand;

/// Minimum grace period of unneeded files: other hubs may still read them.
const GRACE_MIN: Duration = Duration::from_secs(60);

/// Grace period of files that are no longer part of the tables.
pub(crate) fn grace(options: &StoreOptions) -> Duration {
    options.gc_grace.max(GRACE_MIN)
}

/// Maintenance state of a clustered hub.
pub(crate) struct SharedWork {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) follower: Option<ClusterFollower>,
    /// Streams purged from the files of the immutable memtable.
    left_out: Vec<StreamId>,
    /// Whether the shared place was checked.
    has_place: bool,
    /// Files of this hub that are not in the manifest, with the time of their discovery.
    stray: HashMap<String, Micros>,
}

impl SharedWork {
    pub(crate) fn new(cluster: Arc<Cluster>, follower: ClusterFollower) -> Self {
        Self {
            cluster,
            follower: Some(follower),
            left_out: Vec::new(),
            has_place: false,
            stray: HashMap::new(),
        }
    }
}

impl Maintenance {
    fn postgres(&self) -> Result<&PostgresManifest, StoreError> {
        match &self.manifest {
            Manifest::Shared(manifest) => Ok(manifest),
            Manifest::Own(_) => Err(StoreError::closed()),
        }
    }

    fn left_out(&self) -> Vec<StreamId> {
        self.shared_work.as_ref().map(|work| work.left_out.clone()).unwrap_or_default()
    }

    fn work(&mut self) -> Result<&mut SharedWork, StoreError> {
        self.shared_work.as_mut().ok_or_else(StoreError::closed)
    }

    /// Flushes the immutable memtable to the shared place and commits the files with the positions
    /// of this hub's streams.
    pub(crate) fn flush_shared(&mut self) -> Result<(), StoreError> {
        let cluster = &self.work()?.cluster.clone();
        for _ in 0..2 {
            match self.try_flush(cluster) {
                // Streams were taken over meanwhile: repeat without them.
                Err(error) if error.kind == ErrorKind::Moved => {
                    tracing::info!("files are written again: {}", error.message);
                    self.written = None;
                    let lost = self.postgres()?.lost_streams()?;
                    let commands = self.commands.clone().ok_or_else(StoreError::closed)?;
                    cluster.leave_out(&lost, &commands)?;
                }
                outcome => return outcome,
            }
        }
        self.try_flush(cluster)
    }

    fn try_flush(&mut self, cluster: &Arc<Cluster>) -> Result<(), StoreError> {
        if self.frozen.is_some() && self.written.is_none() {
            self.work()?.left_out = cluster.purged().iter().map(|purged| purged.stream).collect();
            let files = self.write_frozen()?;
            self.written = Some(self.publish(files)?);
        }
        let (Some(frozen), Some(files)) = (&self.frozen, &self.written) else { return Ok(()) };
        let (floor, left_out) = (frozen.wal_floor, self.left_out());
        // Hold the lock until the log is updated: a purge in between would replay rows that are in
        // files by then.
        let mut purged = cluster.purged();
        let (cleared, positions): (Vec<StreamId>, Vec<(StreamId, u64)>) = {
            let positions = self.shared.positions();
            (
                left_out
                    .iter()
                    .copied()
                    .filter(|stream| {
                        purged.iter().any(|known| known.stream == *stream && known.segment <= floor)
                    })
                    .collect(),
                frozen
                    .positions
                    .iter()
                    .filter(|entry| {
                        positions.owns(entry.0)
                            && positions.filed(entry.0) != Some(entry.1)
                            && !left_out.contains(&entry.0)
                    })
                    .copied()
                    .collect(),
            )
        };
        let change = ManifestChange {
            reason: "flush",
            now: self.shared.now(),
            add: files,
            positions: &positions,
            wal_floor: Some(floor),
            purged: &left_out,
            cleared: &cleared,
            ..ManifestChange::default()
        };
        commit(&mut self.manifest, cluster, &self.shared, &change, true)?;
        purged.retain(|known| !cleared.contains(&known.stream));
        (self.frozen, self.written) = (None, None);
        self.command(WriterCommand::Release(floor))
    }

    /// Uploads local files to the shared place. Leftovers of a failure are deleted later.
    fn publish(&mut self, files: Vec<Arc<DataFile>>) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let published = self.publish_each(&files);
        self.maker.discard(&files);
        published
    }

    fn publish_each(&mut self, files: &[Arc<DataFile>]) -> Result<Vec<Arc<DataFile>>, StoreError> {
        self.take_place()?;
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        self.postgres()?.note_pending(&paths)?;
        self.places.slow()?.put_each(files, |path| self.directory.file(path))
    }

    /// Checks once that the place exists and belongs to the cluster; claims an empty one.
    fn take_place(&mut self) -> Result<(), StoreError> {
        if !self.work()?.has_place {
            let is_used = self.shared.view().tables.iter().any(|table| !table.files.is_empty());
            self.places.slow()?.take(is_used)?;
            self.work()?.has_place = true;
        }
        Ok(())
    }

    pub(crate) fn replace_shared(
        &mut self,
        reason: &'static str,
        remove: &[Arc<DataFile>],
        add: &[Arc<DataFile>],
    ) -> Result<(), StoreError> {
        let cluster = &self.work()?.cluster.clone();
        let add = self.publish(add.to_vec())?;
        let change = ManifestChange {
            reason,
            now: self.shared.now(),
            add: &add,
            remove,
            ..ManifestChange::default()
        };
        commit(&mut self.manifest, cluster, &self.shared, &change, false)
    }

    /// Deletes expired files and files that never reached the manifest.
    pub(crate) fn collect_shared_garbage(&mut self, is_leader: bool) -> Result<(), StoreError> {
        self.take_place()?;
        let written: Vec<&String> = self.written.iter().flatten().map(|file| &file.path).collect();
        let mut stray = self.postgres()?.pending(false)?;
        stray.retain(|path| !written.contains(&path));
        let (now, grace) = (self.shared.now(), grace(&self.options));
        // A bucket may still process a request that was given up; an object written after its
        // deletion would be orphaned.
        let known = &mut self.work()?.stray;
        known.retain(|path, _| stray.contains(path));
        stray.retain(|path| *known.entry(path.clone()).or_insert(now) + grace <= now);
        if is_leader {
            stray.extend(self.postgres()?.pending(true)?);
        }
        let slow = self.places.slow()?;
        let gone = slow.delete_each(stray, |path| path)?;
        if !gone.is_empty() {
            self.postgres()?.forget_pending(&gone)?;
        }
        if !is_leader {
            return Ok(());
        }
        let mut due = self.manifest.gc_queue()?;
        let restorable = grace.max(self.options.retention.restorable);
        due.retain(|waiting| {
            waiting.since + if waiting.is_restorable { restorable } else { grace } <= now
        });
        // Check leases after reading the queue: a later lease does not cover the queued files,
        // which had already left the tables.
        if !due.is_empty() && self.postgres()?.is_held()? {
            due.clear();
        }
        let gone = slow.delete_each(due, |waiting| &waiting.path)?;
        let ids: Vec<i64> = gone.iter().map(|waiting| waiting.id).collect();
        if ids.is_empty() { Ok(()) } else { self.manifest.forget(&ids) }
    }
}

/// Commits one transaction and then updates the view: the files of this snapshot and of foreign
/// ones appear at once, and with `is_flush` the immutable memtable is dropped.
fn commit(
    manifest: &mut Manifest,
    cluster: &Cluster,
    shared: &StoreState,
    change: &ManifestChange<'_>,
    is_flush: bool,
) -> Result<(), StoreError> {
    let Manifest::Shared(manifest) = manifest else { return Err(StoreError::closed()) };
    let mut seen = cluster.seen();
    if seen.is_in_doubt && !is_flush {
        // Otherwise the view would get the files of the flush beside its rows.
        let text = "cannot change the manifest: whether it has the last flush is not known yet";
        return Err(StoreError::new(ErrorKind::Io, text).with_hint("it is retried automatically"));
    }
    let outcome = manifest.commit(change).and_then(|snapshot| {
        let news = manifest.news(seen.snapshot)?;
        Ok((snapshot, news))
    });
    // A commit without a response may have succeeded. If so, its files must not appear beside the
    // rows.
    seen.is_in_doubt =
        is_flush && outcome.as_ref().is_err_and(|error| error.kind != ErrorKind::Moved);
    let (snapshot, news) = outcome?;
    if let Some(news) = news {
        let thaw = is_flush.then_some((snapshot, change.positions));
        shared.advance(&news, thaw);
        seen.snapshot = news.snapshot;
    }
    Ok(())
}
