//! State shared by the writer, maintenance and queries: the view, the positions, and counters.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use weir_datafile::{DataFile, FlushedRows, Snapshot, table_index};
use weir_tables::{Clock, Micros, Parcel, StreamId};

use crate::condition_watch::WatchRegistry;
use crate::manifest::ManifestNews;
use crate::options::StoreOptions;
use crate::stats::StoreFault;
use crate::write_path::damage::LogDamage;
use crate::write_path::streams::StreamPositions;

/// Shared state; every lock is held briefly, never during I/O.
pub(crate) struct StoreState {
    view: RwLock<Snapshot>,
    positions: Mutex<StreamPositions>,
    clock: Arc<dyn Clock>,
    /// Bytes of the memtable.
    hot_bytes: AtomicUsize,
    /// Bytes of the immutable memtable.
    frozen_bytes: AtomicUsize,
    wal_bytes: AtomicU64,
    /// Arrival time of the oldest row of the memtable.
    hot_since: Mutex<Option<Micros>>,
    /// Reason why appends are refused.
    full: Mutex<Option<String>>,
    /// Error of the last failed flush.
    flush_failure: Mutex<Option<String>>,
    /// Watched conditions of rules, evaluated on each row.
    pub(crate) watching: WatchRegistry,
    /// Reason why files do not move to the cold tier.
    slow_failure: Mutex<Option<String>>,
    /// Records that the start left out of the log, and why.
    log_damage: Mutex<LogDamage>,
    /// Why expired files are not deleted yet.
    held_files: Mutex<Option<String>>,
    /// Files that the manifest names and that are not there.
    missing_files: Mutex<Vec<String>>,
    /// Files that a check found damaged, and why.
    damaged_files: Mutex<BTreeMap<String, String>>,
    /// Notified when memory is released.
    pub(crate) room: Notify,
    /// Counts the flushes that advanced positions in files.
    pub(crate) commits: watch::Sender<u64>,
}

const NO_PANIC: &str = "no thread panics while it holds the lock";

impl StoreState {
    pub(crate) fn new(view: Snapshot, positions: StreamPositions, options: &StoreOptions) -> Self {
        let clock = Arc::clone(&options.clock);
        let (_, hot_bytes) = view.hot_totals();
        let hot_bytes = usize::try_from(hot_bytes).unwrap_or(usize::MAX);
        let hot_since = (hot_bytes > 0).then(|| clock.now());
        Self {
            view: RwLock::new(view),
            positions: Mutex::new(positions),
            clock,
            hot_bytes: AtomicUsize::new(hot_bytes),
            frozen_bytes: AtomicUsize::new(0),
            wal_bytes: AtomicU64::new(0),
            hot_since: Mutex::new(hot_since),
            full: Mutex::new(None),
            flush_failure: Mutex::new(None),
            watching: WatchRegistry::new(options.future),
            slow_failure: Mutex::new(None),
            log_damage: Mutex::default(),
            held_files: Mutex::default(),
            missing_files: Mutex::default(),
            damaged_files: Mutex::default(),
            room: Notify::new(),
            commits: watch::Sender::new(0),
        }
    }

    /// The current snapshot for a query.
    pub(crate) fn view(&self) -> Snapshot {
        self.view.read().expect(NO_PANIC).clone()
    }

    pub(crate) fn now(&self) -> Micros {
        self.clock.now()
    }

    pub(crate) fn positions(&self) -> MutexGuard<'_, StreamPositions> {
        self.positions.lock().expect(NO_PANIC)
    }

    /// Makes durable rows visible to queries, and their positions to senders.
    pub(crate) fn publish<'a>(&self, parcels: impl Iterator<Item = &'a Parcel> + Clone) {
        let (batches, now) = (parcels.flat_map(|parcel| &parcel.batches), self.now());
        batches.clone().for_each(|batch| self.watching.see(batch, now));
        let mut view = self.view.write().expect(NO_PANIC);
        let grown: usize = batches.map(|batch| view.push(batch)).sum();
        self.hot_bytes.fetch_add(grown, Ordering::Relaxed);
        drop(view);
        self.positions().commit();
        if grown > 0 {
            self.hot_since.lock().expect(NO_PANIC).get_or_insert_with(|| self.clock.now());
        }
    }

    /// Turns the memtable into the immutable memtable.
    pub(crate) fn freeze(&self) {
        self.view.write().expect(NO_PANIC).freeze();
        let bytes = self.hot_bytes.swap(0, Ordering::Relaxed);
        self.frozen_bytes.store(bytes, Ordering::Relaxed);
        *self.hot_since.lock().expect(NO_PANIC) = None;
    }

    /// Replaces the immutable memtable by its flushed files, up to these positions.
    pub(crate) fn thaw(&self, files: &[Arc<DataFile>], positions: &[(StreamId, u64)]) {
        let mut view = self.view.write().expect(NO_PANIC);
        for table in &mut view.tables {
            table.frozen = Arc::default();
        }
        add(&mut view, files);
        drop(view);
        self.frozen_bytes.store(0, Ordering::Relaxed);
        self.room.notify_waiters();
        self.positions().file(positions);
        self.commits.send_modify(|count| *count += 1);
    }

    /// Replaces files atomically for every query that starts afterwards.
    pub(crate) fn replace(&self, remove: &[Arc<DataFile>], files: &[Arc<DataFile>]) {
        let mut view = self.view.write().expect(NO_PANIC);
        for file in remove {
            let list = Arc::make_mut(&mut view.tables[table_index(file.table)].files);
            list.retain(|other| other.id != file.id);
        }
        add(&mut view, files);
    }

    /// Advances the view to a later snapshot; cluster only. `thaw` is the snapshot that this hub's
    /// flush committed, with its positions: the immutable memtable is then in its files, but other
    /// hubs may still read it.
    pub(crate) fn advance(&self, news: &ManifestNews, thaw: Option<(i64, &[(StreamId, u64)])>) {
        let mut view = self.view.write().expect(NO_PANIC);
        if let Some((snapshot, _)) = thaw {
            let tables = view.tables.iter_mut().map(|table| std::mem::take(&mut table.frozen));
            let flushed = FlushedRows { snapshot, at: Instant::now(), tables: tables.collect() };
            Arc::make_mut(&mut view.flushed).push(flushed);
        }
        let added: HashSet<i64> = news.added.iter().map(|file| file.id).collect();
        let removed: HashSet<i64> = news.removed.iter().copied().collect();
        for table in &mut view.tables {
            let is_gone = |file: &DataFile| {
                if news.is_whole { !added.contains(&file.id) } else { removed.contains(&file.id) }
            };
            if table.files.iter().any(|file| is_gone(file)) {
                Arc::make_mut(&mut table.files).retain(|file| !is_gone(file));
            }
        }
        let is_new = |view: &Snapshot, file: &DataFile| {
            let files = &view.tables[table_index(file.table)].files;
            !files.iter().any(|known| known.id == file.id)
        };
        let new: Vec<_> = news.added.iter().filter(|file| is_new(&view, file)).cloned().collect();
        add(&mut view, &new);
        view.snapshot = news.snapshot;
        drop(view);
        if let Some((_, positions)) = thaw {
            self.frozen_bytes.store(0, Ordering::Relaxed);
            self.room.notify_waiters();
            self.positions().file(positions);
            self.commits.send_modify(|count| *count += 1);
        }
    }

    /// Drops flushed rows that were kept for other hubs longer than `kept`.
    pub(crate) fn forget_flushed(&self, kept: Duration) {
        if self.view.read().expect(NO_PANIC).flushed.is_empty() {
            return;
        }
        let mut view = self.view.write().expect(NO_PANIC);
        let is_over = |flushed: &FlushedRows| flushed.at.elapsed() > kept;
        let over = view.flushed.iter().filter(|flushed| is_over(flushed));
        if let Some(newest) = over.map(|flushed| flushed.snapshot).max() {
            view.forgotten = newest;
            Arc::make_mut(&mut view.flushed).retain(|flushed| flushed.snapshot > newest);
        }
    }

    /// Replaces the rows in memory.
    pub(crate) fn put_in_memory(&self, frozen: Snapshot, hot: Snapshot) {
        let mut view = self.view.write().expect(NO_PANIC);
        let bytes = [&frozen, &hot].map(|rows| usize::try_from(rows.hot_totals().1));
        let [frozen_bytes, hot_bytes] = bytes.map(|bytes| bytes.unwrap_or(usize::MAX));
        for ((table, frozen), hot) in view.tables.iter_mut().zip(frozen.tables).zip(hot.tables) {
            (table.frozen, table.hot) = (frozen.hot, hot.hot);
        }
        drop(view);
        self.hot_bytes.store(hot_bytes, Ordering::Relaxed);
        self.frozen_bytes.store(frozen_bytes, Ordering::Relaxed);
        self.room.notify_waiters();
    }

    pub(crate) fn hot_bytes(&self) -> usize {
        self.hot_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the memtable and the immutable memtable.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.hot_bytes() + self.frozen_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn wal_bytes(&self) -> u64 {
        self.wal_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_wal_bytes(&self, bytes: u64) {
        self.wal_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn hot_since(&self) -> Option<Micros> {
        *self.hot_since.lock().expect(NO_PANIC)
    }

    /// Sets the reason why appends are refused; `None` when they are accepted.
    pub(crate) fn set_message(&self, why: Option<String>) {
        let mut full = self.full.lock().expect(NO_PANIC);
        match (&*full, &why) {
            (None, Some(why)) => tracing::error!("{why}"),
            (Some(_), None) => tracing::info!("the disk has free space again"),
            _ => {}
        }
        *full = why;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.lock().expect(NO_PANIC).is_some()
    }

    pub(crate) fn set_log_damage(&self, damage: &LogDamage) {
        *self.log_damage.lock().expect(NO_PANIC) = damage.clone();
    }

    /// Records that the start left out of the log.
    pub(crate) fn lost_records(&self) -> u64 {
        self.log_damage.lock().expect(NO_PANIC).records
    }

    pub(crate) fn set_flush_failure(&self, why: Option<String>) {
        *self.flush_failure.lock().expect(NO_PANIC) = why;
    }

    /// Logs a failure once when it begins and once when it is over.
    pub(crate) fn set_slow_failure(&self, why: Option<String>) {
        let mut failure = self.slow_failure.lock().expect(NO_PANIC);
        match (&*failure, &why) {
            (before, Some(why)) if before.as_ref() != Some(why) => tracing::error!("{why}"),
            (Some(_), None) => tracing::info!("the cold tier is available again"),
            _ => {}
        }
        *failure = why;
    }

    /// Sets why expired files are not deleted yet; logs when that begins and ends.
    pub(crate) fn set_held_files(&self, why: Option<String>) {
        let mut held = self.held_files.lock().expect(NO_PANIC);
        match (&*held, &why) {
            (None, Some(why)) => tracing::error!("{why}"),
            (Some(_), None) => tracing::info!("files expire as usual again"),
            _ => {}
        }
        *held = why;
    }

    /// Why expired files are not deleted yet.
    pub(crate) fn held_files(&self) -> Option<String> {
        self.held_files.lock().expect(NO_PANIC).clone()
    }

    pub(crate) fn set_missing_files(&self, missing: Vec<String>) {
        let mut known = self.missing_files.lock().expect(NO_PANIC);
        for path in missing.iter().filter(|path| !known.contains(path)) {
            tracing::error!("`{path}` is gone or has another size than the manifest says");
        }
        *known = missing;
    }

    pub(crate) fn add_damaged_file(&self, path: String, why: String) {
        let mut known = self.damaged_files.lock().expect(NO_PANIC);
        if !known.contains_key(&path) {
            tracing::error!("`{path}` {why}");
        }
        known.insert(path, why);
    }

    /// What is wrong with files and log, beside a full disk.
    pub(crate) fn faults(&self) -> Vec<StoreFault> {
        let fault = |kind, path: Option<&String>, message| StoreFault {
            kind,
            path: path.cloned().unwrap_or_default(),
            message,
        };
        let missing = self.missing_files.lock().expect(NO_PANIC);
        let mut damaged = self.damaged_files.lock().expect(NO_PANIC);
        if !damaged.is_empty() {
            let view = self.view();
            let files = || view.tables.iter().flat_map(|table| table.files.iter());
            damaged.retain(|path, _| files().any(|file| file.path == *path));
        }
        let why = "is gone or has another size than the manifest says";
        let missing = missing.iter().map(|path| fault("missing_file", Some(path), why.to_owned()));
        let damaged =
            damaged.iter().map(|(path, why)| fault("damaged_file", Some(path), why.clone()));
        let log = self.log_damage.lock().expect(NO_PANIC).message();
        let held = self.held_files();
        missing
            .chain(damaged)
            .chain(log.map(|message| fault("damaged_log", None, message)))
            .chain(held.map(|message| fault("retention_held", None, message)))
            .collect()
    }

    /// Problem to show to the operator.
    pub(crate) fn message(&self) -> Option<String> {
        let full = self.full.lock().expect(NO_PANIC).clone();
        let flush = || self.flush_failure.lock().expect(NO_PANIC).clone();
        let damage = || self.log_damage.lock().expect(NO_PANIC).message();
        full.or_else(flush)
            .or_else(damage)
            .or_else(|| self.slow_failure.lock().expect(NO_PANIC).clone())
            .or_else(|| self.faults().first().map(StoreFault::text))
    }
}

fn add(view: &mut Snapshot, files: &[Arc<DataFile>]) {
    for file in files {
        Arc::make_mut(&mut view.tables[table_index(file.table)].files).push(Arc::clone(file));
    }
}
