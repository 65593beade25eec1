//! The maintenance thread: flushes the memtable to files, merges small files, deletes expired ones.
//!
//! ```text
//! freeze ─► sort, write, sync files ─► manifest commit ─► show files ─► remove log segments
//!   ▲         kill here: orphans;       kill here: files     kill here: segments below
//!   └──────── log and memtable intact   are in, log skipped  the floor go at next start
//! ```

pub(crate) mod cold_tier;
mod compaction;
mod retention;
pub(crate) mod scrub;
mod trash;
pub(crate) mod trusted_clock;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use tokio::sync::oneshot;
use weir_datafile::{
    DataFile, ErrorKind, FileCheck, FileMaker, Inspection, StoreError, Tier, is_inside,
};
use weir_sql::QueryEngine;
use weir_tables::{Micros, TABLES};
use weir_tier::FileLocations;

use cold_tier::TierMaintenance;

use crate::cluster::SharedWork;
use crate::directory::Directory;
use crate::manifest::{Manifest, ManifestChange};
use crate::options::StoreOptions;
use crate::write_path::shared::StoreState;
use crate::write_path::writer::{FrozenRows, WriterCommand};
use retention::RetentionRun;
use trusted_clock::{ClockReading, TrustedClock};

/// Requests to the maintenance thread, beside its periodic work.
pub(crate) enum MaintenanceTask {
    Flush(oneshot::Sender<Result<(), StoreError>>),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

pub(crate) struct Maintenance {
    pub(crate) options: StoreOptions,
    pub(crate) shared: Arc<StoreState>,
    pub(crate) engine: Arc<QueryEngine>,
    pub(crate) commands: Option<Sender<WriterCommand>>,
    pub(crate) tasks: Receiver<MaintenanceTask>,
    pub(crate) maker: FileMaker,
    pub(crate) manifest: Manifest,
    pub(crate) directory: Directory,
    pub(crate) writer: Option<JoinHandle<()>>,
    /// The immutable memtable that is being flushed.
    pub(crate) frozen: Option<FrozenRows>,
    /// Written files of the immutable memtable: a failed commit is retried with them.
    pub(crate) written: Option<Vec<Arc<DataFile>>>,
    /// Unneeded files of a failed commit. They stay until the next successful commit: after a power
    /// loss a failed commit may reappear, and only overwriting it rules that out.
    pub(crate) doubtful: Vec<Arc<DataFile>>,
    /// Unreadable files, which are excluded from merges.
    pub(crate) broken: HashSet<i64>,
    /// Files out of the tables that queries may still read, or that can be restored.
    pub(crate) retired: Vec<RetiredFile>,
    /// The time by which files expire.
    pub(crate) clock: TrustedClock,
    pub(crate) places: FileLocations,
    pub(crate) slow: Option<TierMaintenance>,
    /// Whether the manifest has files of tables that this weir does not know.
    pub(crate) names_unknown_tables: bool,
    /// Cluster state; `None` for a single hub.
    pub(crate) shared_work: Option<SharedWork>,
}

/// A file that is no longer in the tables.
pub(crate) struct RetiredFile {
    pub(crate) id: i64,
    pub(crate) path: String,
    pub(crate) tier: Tier,
    pub(crate) since: Micros,
    pub(crate) byte_count: u64,
    /// Whether it expired by its age: it then stays for a day.
    pub(crate) is_restorable: bool,
    /// The file while queries of this process may read it; `None` for a file of an earlier run.
    pub(crate) file: Option<Arc<DataFile>>,
}

impl RetiredFile {
    fn new(file: Arc<DataFile>, since: Micros, reason: &str) -> Self {
        let (path, tier, byte_count) = (file.path.clone(), file.tier, file.byte_count);
        let is_restorable = reason == RETENTION;
        Self { id: file.id, path, tier, since, byte_count, is_restorable, file: Some(file) }
    }
}

/// Interval between checks of sizes and ages.
const TICK: Duration = Duration::from_millis(100);
/// Reason of a change of the manifest: files expired, and can be restored for a while.
pub(crate) const RETENTION: &str = "retention";
/// Delay before a failed flush is retried.
const RETRY: Duration = Duration::from_secs(2);

impl Maintenance {
    /// Runs until the store is closed or dropped; unlocks the directory at the end.
    pub(crate) fn run(mut self) {
        let _ = rustix::process::nice(2);
        let mut next_round = Instant::now();
        let mut next_flush = Instant::now();
        loop {
            match self.tasks.recv_timeout(TICK.min(self.options.maintenance_interval)) {
                Ok(MaintenanceTask::Flush(reply)) => {
                    drop(reply.send(self.flush()));
                    self.catch_up();
                }
                Ok(MaintenanceTask::Close(reply)) => {
                    let outcome = self.flush();
                    self.end();
                    drop(reply.send(outcome));
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            if Instant::now() >= next_flush && self.is_flush_due() {
                let is_done = self.flush().is_ok();
                self.catch_up();
                next_flush = Instant::now() + if is_done { Duration::ZERO } else { RETRY };
            }
            self.go_on_with_slow_tier();
            if Instant::now() >= next_round {
                self.round();
                next_round = Instant::now() + self.options.maintenance_interval;
            }
        }
    }

    /// Waits for the cold tier's current operation, then for the writer, whose last sender this
    /// thread holds.
    fn end(&mut self) {
        self.slow.take();
        if let Some(work) = &mut self.shared_work {
            work.follower.take();
        }
        self.commands.take();
        drop(self.writer.take().map(JoinHandle::join));
    }

    fn is_flush_due(&self) -> bool {
        let age = self.shared.hot_since().map(|since| self.shared.now().seconds_since(since));
        self.frozen.is_some()
            || self.has_purged()
            || self.shared.hot_bytes() > self.options.hot_bytes_max
            || self.shared.wal_bytes() > self.options.wal_bytes_max
            || age.is_some_and(|age| age > self.options.hot_age_max.as_secs_f64())
    }

    /// Flushes all rows to files, including those of an earlier failed flush.
    fn flush(&mut self) -> Result<(), StoreError> {
        let outcome = self.flush_frozen().and_then(|()| {
            self.frozen = self.freeze()?;
            self.flush_frozen()
        });
        if let Err(error) = &outcome {
            tracing::warn!("cannot write rows to files, they stay in the log: {error}");
        }
        self.shared.set_flush_failure(outcome.as_ref().err().map(ToString::to_string));
        outcome
    }

    /// Merges until no day has too many small files: rows that arrive meanwhile wait in memory,
    /// then appends block.
    fn catch_up(&mut self) {
        let lag = |this: &Self| {
            let view = this.shared.view();
            let of = |files: &[Arc<DataFile>]| {
                let whole = files.iter().filter(|file| !this.broken.contains(&file.id)).cloned();
                compaction::most_small(&whole.collect::<Vec<_>>(), &this.options)
            };
            view.tables.iter().map(|table| of(&table.files)).max().unwrap_or_default()
        };
        let mut before = usize::MAX;
        let mut now = lag(self);
        while self.is_for_all()
            && now > self.options.small_files_max.max(self.options.small_file_count)
            && now < before
        {
            tracing::info!("{now} small files of one table and day: merging comes first");
            if let Err(error) = self.compact() {
                tracing::warn!("cannot merge small files: {error}");
                return;
            }
            (before, now) = (now, lag(self));
        }
    }

    fn freeze(&self) -> Result<Option<FrozenRows>, StoreError> {
        let (reply, answer) = channel();
        let is_needed = self.has_purged();
        self.command(WriterCommand::Freeze { is_needed, reply })?;
        answer.recv().map_err(|_| StoreError::closed())?
    }

    /// Whether the manifest must learn that streams of other hubs are purged.
    fn has_purged(&self) -> bool {
        self.shared_work.as_ref().is_some_and(|work| work.cluster.has_purged())
    }

    /// Whether this hub merges and deletes: a single hub, or the leader.
    fn is_for_all(&self) -> bool {
        self.shared_work.as_ref().is_none_or(|work| work.cluster.is_leader())
    }

    pub(crate) fn command(&self, command: WriterCommand) -> Result<(), StoreError> {
        let sender = self.commands.as_ref().ok_or_else(StoreError::closed)?;
        sender.send(command).map_err(|_| StoreError::closed())
    }

    fn flush_frozen(&mut self) -> Result<(), StoreError> {
        if self.shared_work.is_some() {
            return self.flush_shared();
        }
        if self.frozen.is_some() && self.written.is_none() {
            self.written = Some(self.write_frozen()?);
        }
        let (Some(frozen), Some(files)) = (&self.frozen, &self.written) else { return Ok(()) };
        let change = ManifestChange {
            reason: "flush",
            now: self.shared.now(),
            add: files,
            positions: &frozen.positions,
            wal_floor: Some(frozen.wal_floor),
            ..ManifestChange::default()
        };
        self.manifest.commit(&change)?;
        let floor = frozen.wal_floor;
        self.shared.thaw(files, &frozen.positions);
        (self.frozen, self.written) = (None, None);
        self.forget_doubtful();
        self.command(WriterCommand::Release(floor))
    }

    pub(crate) fn write_frozen(&self) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let view = self.shared.view();
        let ClockReading { wall, monotonic } = self.reading();
        // A clock that is behind must not make new rows old.
        let arrival = wall.max(self.clock.at(monotonic));
        let mut files = Vec::new();
        for (spec, table) in TABLES.iter().zip(&view.tables) {
            let batches: Vec<RecordBatch> =
                table.frozen.iter().map(|batch| batch.rows.clone()).collect();
            if !batches.is_empty() {
                files.extend(
                    self.maker
                        .write(spec, &batches, arrival)
                        .inspect_err(|_| self.maker.discard(&files))?,
                );
            }
        }
        Ok(files)
    }

    fn reading(&self) -> ClockReading {
        ClockReading { wall: self.shared.now(), monotonic: self.options.clock.monotonic() }
    }

    /// Runs compaction, retention and deletion; a failure of one does not stop the others.
    fn round(&mut self) {
        if self.is_for_all() {
            self.expire()
                .unwrap_or_else(|error| tracing::warn!("cannot apply the retention: {error}"));
            self.compact()
                .unwrap_or_else(|error| tracing::warn!("cannot merge small files: {error}"));
        }
        self.look_at_slow_tier();
        self.collect_garbage()
            .unwrap_or_else(|error| tracing::warn!("cannot delete old files: {error}"));
    }

    fn expire(&mut self) -> Result<(), StoreError> {
        let reading = self.reading();
        let view = self.shared.view();
        let files: Vec<_> =
            view.tables.iter().flat_map(|table| table.files.iter().cloned()).collect();
        let retention = &self.options.retention;
        let run = RetentionRun::new(&mut self.clock, reading, &files, retention);
        self.clock.save();
        self.shared.set_held_files(run.held.map(|held| held.message()));
        if run.expired.is_empty() { Ok(()) } else { self.replace(RETENTION, run.expired, &[]) }
    }

    fn forget_doubtful(&mut self) {
        let (slow, local): (Vec<_>, Vec<_>) =
            self.doubtful.drain(..).partition(|file| file.tier == Tier::Slow);
        self.maker.discard(&local);
        self.retired.extend(slow.iter().map(RetiredFile::unnamed));
    }

    fn compact(&mut self) -> Result<(), StoreError> {
        if !self.doubtful.is_empty() {
            self.replace("retry", Vec::new(), &[])?;
        }
        let view = self.shared.view();
        for (spec, table) in TABLES.iter().zip(&view.tables) {
            let whole = table.files.iter().filter(|file| !self.broken.contains(&file.id)).cloned();
            for group in compaction::plan(&whole.collect::<Vec<_>>(), &self.options) {
                match compaction::merge(&self.engine, &self.places, &self.maker, spec, &group) {
                    Ok(merged) => self.replace("compaction", group, &[merged])?,
                    Err(error) if error.kind == ErrorKind::Full => return Err(error),
                    Err(error) => self.leave_out_broken(&group, &error),
                }
            }
        }
        Ok(())
    }

    /// Excludes a damaged file, so that the others are still merged.
    fn leave_out_broken(&mut self, group: &[Arc<DataFile>], error: &StoreError) {
        tracing::warn!("cannot merge small files: {error}");
        for file in group {
            let look = FileCheck { places: &self.places, file, is_thorough: true };
            if let Err(why) = look.look(&mut Inspection::default()) {
                let path = &file.path;
                tracing::error!("`{path}` {why}\nhint: `weir store repair` sets it aside");
                self.broken.insert(file.id);
            }
        }
    }

    /// Commits one transaction, updates the view, then queues the old files until their last reader
    /// is done.
    pub(crate) fn replace(
        &mut self,
        reason: &'static str,
        remove: Vec<Arc<DataFile>>,
        add: &[Arc<DataFile>],
    ) -> Result<(), StoreError> {
        if self.shared_work.is_some() {
            return self.replace_shared(reason, &remove, add);
        }
        let now = self.shared.now();
        let change =
            ManifestChange { reason, now, add, remove: &remove, ..ManifestChange::default() };
        if let Err(error) = self.manifest.commit(&change) {
            self.doubtful.extend_from_slice(add);
            return Err(error);
        }
        self.forget_doubtful();
        self.shared.replace(&remove, add);
        self.retired.extend(remove.into_iter().map(|file| RetiredFile::new(file, now, reason)));
        Ok(())
    }

    fn collect_garbage(&mut self) -> Result<(), StoreError> {
        if self.shared_work.is_some() {
            return self.collect_shared_garbage(self.is_for_all());
        }
        let rule = self.deletion_rule();
        let (due, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.retired)
            .into_iter()
            .partition(|retired| retired.tier == Tier::Local && rule.is_due(retired));
        self.retired = kept;
        let gone: Vec<i64> = due
            .iter()
            .filter(|retired| delete(&self.directory, &retired.path))
            .map(|retired| retired.id)
            .collect();
        if gone.is_empty() { Ok(()) } else { self.manifest.forget(&gone) }
    }
}

/// Deletes a file below the data directory; returns whether it is gone. The next start deletes
/// leftovers.
pub(crate) fn delete(directory: &Directory, path: &str) -> bool {
    if !is_inside(path) {
        tracing::error!(path, "a file outside of the data directory is not deleted");
        return true;
    }
    match std::fs::remove_file(directory.file(path)) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path, %error, "cannot delete a file");
            false
        }
    }
}
