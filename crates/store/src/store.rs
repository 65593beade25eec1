//! The store's public interface.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot, watch};
use weir_datafile::{
    ErrorKind, FileMaker, RECORD_BYTES_MAX, Snapshot, StoreError, Tier, table_index,
};
use weir_sql::{EndedQuery, Query, QueryEngine, QueryWorker};
use weir_tables::{Clock, Micros, Parcel, StreamId, TABLES, TableSpec};
use weir_tier::{CacheSpace, FileLocations, SlowOptions};

use crate::cluster::{self, Cluster, ClusterEntry};
use crate::copies::CopyRegistry;
use crate::directory::Directory;
use crate::iceberg::{Iceberg, IcebergTable};
use crate::maintenance::cold_tier::TierMaintenance;
use crate::maintenance::scrub::FileScrub;
use crate::maintenance::{Maintenance, MaintenanceTask, RetiredFile};
use crate::manifest::{Manifest, PostgresManifest, SqliteManifest};
use crate::opening::{
    clean, default_reserve, follow, iceberg, own_state, recover, refuse_older_manifest,
    spill_space, trusted_clock,
};
use crate::options::StoreOptions;
use crate::stats::StoreStats;
use crate::store_query::StoreQuery;
use crate::write_path::adapt::adapt;
use crate::write_path::shared::StoreState;
use crate::write_path::streams::StreamPositions;
use crate::write_path::wal::Wal;
use crate::write_path::writer::{AppendRequest, Appended, LogWriter, WriterCommand, WriterLog};

/// Stores rows and answers SQL. One per data directory.
pub struct Store {
    pub(crate) shared: Arc<StoreState>,
    pub(crate) engine: Arc<QueryEngine>,
    /// `None` for a store without files.
    pub(crate) copies: Option<CopyRegistry>,
    /// `None` for a store without files.
    iceberg: Option<Arc<Iceberg>>,
    /// `None` for a single hub.
    pub(crate) cluster: Option<Arc<Cluster>>,
    memory_limit: usize,
    has_files: bool,
    /// Permits for bytes waiting for the writer, in KiB.
    queue: Arc<Semaphore>,
    /// Permits for parcels that are decoded and not in the queue yet, in KiB.
    decoding: Arc<Semaphore>,
    threads: Mutex<StoreThreads>,
}

/// Channels to the threads; taken when the store closes.
#[derive(Default)]
struct StoreThreads {
    commands: Option<Sender<WriterCommand>>,
    tasks: Option<Sender<MaintenanceTask>>,
    _scrub: Option<FileScrub>,
    /// The maintenance thread, which waits for the writer; the writer itself in a store without
    /// files.
    last: Option<JoinHandle<()>>,
}

const NO_PANIC: &str = "no thread panics while it holds the lock";
/// Limit on the size of waiting parcels, in KiB.
const QUEUE_KIB: usize = 64 << 10;
/// Limit on the size of parcels being decoded, in KiB.
const DECODING_KIB: usize = 512 << 10;
/// How many times its content a parcel counts while it is decoded: NULL columns that it leaves out
/// take memory as well.
const DECODED_RATIO: u64 = 8;
/// Largest parcel that is made in this process. What is logged must be readable at the next start,
/// which takes up to 256 MiB.
const PARCEL_BYTES_MAX: u64 = 192 << 20;
/// Time that an append waits for memory or for the queue.
const PATIENCE: Duration = Duration::from_secs(10);

impl Store {
    /// Opens the store in `options.dir`, replays the log, and starts the threads.
    ///
    /// # Errors
    /// `Locked`, `NewerVersion`, `Corrupt`, `Io`, `Full`; the message contains a hint.
    pub fn open(options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let directory = Directory::open(&options.dir)?;
        if let Some(cluster) = &options.cluster {
            if options.slow.is_none() {
                let text = "cannot enter the cluster: no place is named that all hubs have for their files";
                return Err(StoreError::new(ErrorKind::Io, text).with_hint(
                    "set `store.slow_path` to a bucket, or to a directory that all hubs mount",
                ));
            }
            let ClusterEntry { cluster, manifest, follows } =
                ClusterEntry::new(&directory, cluster)?;
            refuse_older_manifest(&directory, &manifest)?;
            let begun = StartState {
                shared: Some((cluster, follows)),
                ..StartState::new(directory, manifest)
            };
            return Self::start(options, begun);
        }
        cluster::refuse_cluster(&options.dir)?;
        let mut manifest = Manifest::Own(SqliteManifest::open(&directory.manifest())?);
        refuse_older_manifest(&directory, &manifest)?;
        let retired = clean(&options, &directory, &mut manifest)?;
        let moving = options.slow.clone();
        Self::start(options, StartState { retired, moving, ..StartState::new(directory, manifest) })
    }

    /// Opens the store without deleting any file, not even files that the manifest does not name.
    pub(crate) fn open_keeping(options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let directory = Directory::open(&options.dir)?;
        let manifest = Manifest::Own(SqliteManifest::open(&directory.manifest())?);
        Self::start(options, StartState::new(directory, manifest))
    }

    fn start(options: StoreOptions, begun: StartState) -> Result<Arc<Self>, StoreError> {
        let StartState { directory, mut manifest, retired, moving, shared: of_several } = begun;
        let content = manifest.load()?;
        let min_free_bytes =
            options.min_free_bytes.unwrap_or_else(|| default_reserve(&options.dir));
        // Rows come first: spill and caches stop long before free space is so low that writes stop.
        let reserve = min_free_bytes.saturating_mul(2);
        let room = CacheSpace { dir: &options.dir, reserve };
        let places = FileLocations::new(
            &options.dir,
            options.slow.as_ref(),
            manifest.slow_id()?,
            Some(&room),
        )?;
        let slow = tier_maintenance(moving, &places, &mut manifest)?;
        let names_unknown_tables = content.paths.len() > content.files.len();
        let needs_slow = content.files.iter().any(|file| file.tier == Tier::Slow);
        let (next_id, copies_in) = own_state(&manifest, &directory, &content)?;
        let maker = FileMaker::new(options.dir.clone(), next_id);
        let copies = CopyRegistry::open(&directory, &copies_in, options.copies.as_deref())?;
        let clock = trusted_clock(&options, &content);
        let (floor, snapshot) = (content.wal_floor, content.snapshot);
        let lost: Vec<StreamId> = content.lost.iter().copied().collect();
        let (shared, mut wal) = recover(&options, &directory, content, &copies)?;
        if let Some((cluster, _)) = &of_several {
            begin_in_cluster(cluster, snapshot, &lost, &mut wal)?;
        }
        let log = WriterLog { wal, dir: options.dir.clone(), min_free_bytes };
        let spill = spill_space(&options, reserve)?;
        if needs_slow {
            note_missing_tier(&places, &shared);
        }
        let cluster = of_several.as_ref().map(|(cluster, _)| Arc::clone(cluster));
        let engine = QueryEngine::new(&options.engine(), Some(places.clone()), spill)?;
        let peer_set = cluster.as_ref().map(|cluster| Arc::clone(&cluster.peer_set));
        let engine = Arc::new(engine.in_cluster(peer_set));
        let iceberg = iceberg(&manifest, &places, &options);
        let (writer, commands) = LogWriter::new(Arc::clone(&shared), Some(log), floor);
        let writer = spawn("weir-writer", move || writer.run())?;
        let shared_work = of_several.map(|parts| follow(parts, &shared, &commands)).transpose()?;
        let scrub = FileScrub::start(&shared, &places, options.scrub)?;
        let (task_sender, tasks) = std::sync::mpsc::channel();
        let maintenance = Maintenance {
            shared: Arc::clone(&shared),
            engine: Arc::clone(&engine),
            commands: Some(commands.clone()),
            tasks,
            maker,
            manifest,
            directory,
            writer: Some(writer),
            frozen: None,
            broken: HashSet::new(),
            written: None,
            doubtful: Vec::new(),
            retired,
            clock,
            places,
            slow,
            names_unknown_tables,
            shared_work,
            options: options.clone(),
        };
        let last = spawn("weir-files", move || maintenance.run())?;
        let mut threads = StoreThreads { _scrub: Some(scrub), ..StoreThreads::default() };
        (threads.commands, threads.tasks, threads.last) =
            (Some(commands), Some(task_sender), Some(last));
        let store = Self::assemble(&options, shared, engine, threads, Some((copies, iceberg)));
        Ok(Arc::new(store.with_cluster(cluster)))
    }

    /// Opens a store without files: rows live in memory until it is dropped.
    ///
    /// # Panics
    /// When the system refuses to start threads.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Arc<Self> {
        // Replayed rows may have any time.
        let options =
            StoreOptions { future: Duration::MAX, ..StoreOptions::new(PathBuf::new(), clock) };
        let engine = Arc::new(
            QueryEngine::new(&options.engine(), None, None).expect("threads can be started"),
        );
        let shared =
            Arc::new(StoreState::new(Snapshot::new(), StreamPositions::default(), &options));
        let (writer, commands) = LogWriter::new(Arc::clone(&shared), None, 0);
        let last = spawn("weir-writer", move || writer.run()).expect("threads can be started");
        let last = Some(last);
        let threads = StoreThreads { commands: Some(commands), last, ..StoreThreads::default() };
        Arc::new(Self::assemble(&options, shared, engine, threads, None))
    }

    fn assemble(
        options: &StoreOptions,
        shared: Arc<StoreState>,
        engine: Arc<QueryEngine>,
        threads: StoreThreads,
        files: Option<(CopyRegistry, Iceberg)>,
    ) -> Self {
        let (copies, iceberg) = files.unzip();
        Self {
            shared,
            cluster: None,
            engine,
            memory_limit: options.hot_bytes_limit,
            has_files: copies.is_some(),
            copies,
            iceberg: iceberg.map(Arc::new),
            queue: Arc::new(Semaphore::new(QUEUE_KIB)),
            decoding: Arc::new(Semaphore::new(DECODING_KIB)),
            threads: Mutex::new(threads),
        }
    }

    fn with_cluster(mut self, cluster: Option<Arc<Cluster>>) -> Self {
        self.cluster = cluster;
        self
    }

    /// Appends a parcel; returns once its rows and its stream's position survive a power loss and
    /// queries see them.
    ///
    /// # Errors
    /// `Behind`, `Full`, `Busy`, `BadParcel`, `Io`, `Closed`; nothing of the parcel is stored then.
    pub async fn append(&self, parcel: Parcel) -> Result<Appended, StoreError> {
        let parcel = adapt(parcel)?;
        let encoded = if self.has_files { parcel.encode(false) } else { Vec::new() };
        let bytes = encoded.len() as u64 + parcel.null_bytes();
        if bytes > PARCEL_BYTES_MAX {
            let limit = PARCEL_BYTES_MAX >> 20;
            let text =
                format!("the parcel needs {} MiB of memory, more than {limit} MiB", bytes >> 20);
            return Err(StoreError::bad_parcel(text).with_hint("send fewer rows at once"));
        }
        self.submit(parcel, encoded, bytes, None).await
    }

    /// Appends a parcel encoded by [`Parcel::encode`]; the same bytes go to the log.
    ///
    /// # Errors
    /// As [`Store::append`]; `BadParcel` when the bytes are not a parcel.
    pub async fn append_encoded(&self, bytes: Vec<u8>) -> Result<Appended, StoreError> {
        self.append_checked(bytes, |_| Ok(())).await
    }

    /// Appends an encoded parcel if `check` admits its rows.
    ///
    /// # Errors
    /// As [`Store::append_encoded`], and the error of `check`.
    pub async fn append_checked(
        &self,
        bytes: Vec<u8>,
        check: impl FnOnce(&Parcel) -> Result<(), StoreError>,
    ) -> Result<Appended, StoreError> {
        let kib = (Parcel::announced_bytes(&bytes) * DECODED_RATIO) >> 10;
        let share = u32::try_from(kib.clamp(1, DECODING_KIB as u64)).expect("clamped");
        let turn = tokio::time::timeout(PATIENCE, self.decoding.acquire_many(share)).await;
        let turn = turn.map_err(|_| busy())?.map_err(|_| StoreError::closed())?;
        let (parcel, memory) = Parcel::decode_measured(&bytes).map_err(StoreError::bad_parcel)?;
        check(&parcel)?;
        let parcel = adapt(parcel)?;
        self.submit(parcel, bytes, memory, Some(turn)).await
    }

    async fn submit(
        &self,
        parcel: Parcel,
        encoded: Vec<u8>,
        memory: u64,
        decoding: Option<SemaphorePermit<'_>>,
    ) -> Result<Appended, StoreError> {
        if encoded.len() > RECORD_BYTES_MAX {
            let text =
                format!("the parcel has {} bytes, more than {RECORD_BYTES_MAX}", encoded.len());
            return Err(StoreError::bad_parcel(text));
        }
        let (reply, answer) = oneshot::channel();
        let range = parcel.range;
        let hand_over = async move {
            let bytes = encoded.len().max(usize::try_from(memory).unwrap_or(usize::MAX));
            let room = tokio::time::timeout(PATIENCE, self.room(bytes)).await;
            let room = room.map_err(|_| busy())??;
            drop(decoding);
            let encoded = if self.has_files { encoded } else { Vec::new() };
            self.send(WriterCommand::Append(AppendRequest { parcel, encoded, reply, _room: room }))
        };
        self.in_turn(range, hand_over).await?;
        answer.await.map_err(|_| StoreError::closed())?
    }

    /// Waits for free memory and for space in the queue.
    async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        loop {
            let freed = self.shared.room.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.shared.memory_bytes() < self.memory_limit {
                break;
            }
            if !self.has_files {
                return Err(busy());
            }
            freed.await;
        }
        let share = u32::try_from((bytes >> 10).clamp(1, QUEUE_KIB)).expect("clamped");
        Arc::clone(&self.queue).acquire_many_owned(share).await.map_err(|_| StoreError::closed())
    }

    fn send(&self, command: WriterCommand) -> Result<(), StoreError> {
        let threads = self.threads.lock().expect(NO_PANIC);
        let sender = threads.commands.as_ref().ok_or_else(StoreError::closed)?;
        sender.send(command).map_err(|_| StoreError::closed())
    }

    /// Durable positions of streams; unknown streams are omitted, and in a cluster those of other
    /// hubs.
    pub fn positions(&self, streams: &[StreamId]) -> Vec<(StreamId, u64)> {
        let positions = self.shared.positions();
        streams.iter().filter_map(|stream| Some((*stream, positions.durable(*stream)?))).collect()
    }

    /// Positions of streams in files, which survive even the loss of the log; streams without
    /// flushed rows are omitted.
    pub fn committed(&self, streams: &[StreamId]) -> Vec<(StreamId, u64)> {
        let positions = self.shared.positions();
        streams.iter().filter_map(|stream| Some((*stream, positions.filed(*stream)?))).collect()
    }

    /// Notifies after each flush that advanced [`Store::committed`].
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.shared.commits.subscribe()
    }

    /// A query over all rows acknowledged before it starts.
    pub fn query(&self, query: Query) -> StoreQuery<'_> {
        StoreQuery { store: self, query }
    }

    /// Queries since the last call that were slow or exceeded a limit (at most 1,000), and how many
    /// more were dropped.
    pub fn take_ended_queries(&self) -> (Vec<EndedQuery>, u64) {
        self.engine.take_ended()
    }

    /// The Iceberg metadata of a table, for engines that read files directly: it covers the flushed
    /// rows. Writes it beside the files if they have changed; outdated metadata stays for the
    /// store's grace period.
    ///
    /// # Errors
    /// `Io`, `Full`: it cannot be written, or files are in a cold tier that is not configured; `Io`
    /// for a store without files.
    pub async fn iceberg_table(
        &self,
        table: &'static TableSpec,
    ) -> Result<Arc<IcebergTable>, StoreError> {
        let Some(iceberg) = self.iceberg.clone() else {
            return Err(StoreError::new(ErrorKind::Io, "this store has no files"));
        };
        let (view, horizon) = (self.shared.view(), self.engine.horizon());
        let files = view.tables[table_index(table)].files.iter();
        let files: Vec<_> = files.filter(|file| horizon.shows_file(file)).cloned().collect();
        let made = tokio::task::spawn_blocking(move || iceberg.table(table, &files));
        made.await.map_err(|_| StoreError::closed())?
    }

    /// Flushes all rows to files now. Does nothing without files.
    ///
    /// # Errors
    /// `Full`, `Io`, `Closed`; the rows stay in the log and in memory, and the flush is retried.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let tasks = self.threads.lock().expect(NO_PANIC).tasks.clone();
        if self.has_files { ask(tasks, MaintenanceTask::Flush).await } else { Ok(()) }
    }

    /// Current statistics of the store.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            wal_bytes: self.shared.wal_bytes(),
            lost_records: self.shared.lost_records(),
            is_full: self.shared.is_full(),
            faults: self.shared.faults(),
            bucket: self.engine.bucket_stats(),
            message: self.shared.message().or_else(|| self.cluster.as_ref()?.trouble()),
            ..StoreStats::of(&self.shared.view(), self.engine.horizon())
        }
    }

    /// Time of a table's oldest row; `None` when it has no rows, or there is no such table.
    pub fn oldest(&self, table: &str) -> Option<Micros> {
        let place = TABLES.iter().position(|spec| spec.name == table)?;
        self.shared.view().tables[place].oldest().map(Micros)
    }

    /// The worker that runs fragments of other hubs' queries; `None` for a single hub.
    ///
    /// # Errors
    /// `Closed`.
    pub fn query_worker(&self) -> Result<Option<QueryWorker>, StoreError> {
        self.engine.worker()
    }

    /// Number of query fragments run for other hubs.
    pub fn pieces(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |cluster| cluster.peer_set.pieces())
    }

    /// Flushes, ends the threads and unlocks the directory; later appends fail with `Closed`.
    ///
    /// # Errors
    /// As [`Store::flush`]; the store is closed all the same, and the log keeps the rows.
    pub async fn close(&self) -> Result<(), StoreError> {
        let StoreThreads { commands, tasks, last, .. } =
            std::mem::take(&mut *self.threads.lock().expect(NO_PANIC));
        drop(commands);
        self.engine.close();
        let outcome =
            if tasks.is_some() { ask(tasks, MaintenanceTask::Close).await } else { Ok(()) };
        if let Some(last) = last {
            drop(tokio::task::spawn_blocking(move || last.join()).await);
        }
        outcome
    }
}

/// Without [`Store::close`] the rows stay in the log; the directory is unlocked afterwards.
impl Drop for Store {
    fn drop(&mut self) {
        let StoreThreads { commands, tasks, last, .. } =
            std::mem::take(&mut *self.threads.lock().expect(NO_PANIC));
        drop((commands, tasks));
        drop(last.map(JoinHandle::join));
    }
}

/// The inputs of a start.
struct StartState {
    directory: Directory,
    manifest: Manifest,
    retired: Vec<RetiredFile>,
    /// Configuration of the cold tier, if files are to move there.
    moving: Option<SlowOptions>,
    /// Cluster membership; `None` for a single hub.
    shared: Option<(Arc<Cluster>, PostgresManifest)>,
}

impl StartState {
    fn new(directory: Directory, manifest: Manifest) -> Self {
        Self { directory, manifest, retired: Vec::new(), moving: None, shared: None }
    }
}

async fn ask(
    tasks: Option<Sender<MaintenanceTask>>,
    task: impl FnOnce(oneshot::Sender<Result<(), StoreError>>) -> MaintenanceTask,
) -> Result<(), StoreError> {
    let (reply, answer) = oneshot::channel();
    let tasks = tasks.ok_or_else(StoreError::closed)?;
    tasks.send(task(reply)).map_err(|_| StoreError::closed())?;
    drop(tasks);
    answer.await.map_err(|_| StoreError::closed())?
}

/// Starts moving files to the cold tier, if one is configured and reachable.
fn tier_maintenance(
    moving: Option<SlowOptions>,
    places: &FileLocations,
    manifest: &mut Manifest,
) -> Result<Option<TierMaintenance>, StoreError> {
    let parts = moving.zip(places.slow.clone());
    parts.map(|(options, slow)| TierMaintenance::start(slow, options, manifest)).transpose()
}

/// Enters the cluster at a snapshot. The WAL may hold records of streams that belong to another hub by now; these end
/// at the segment given.
fn begin_in_cluster(
    cluster: &Cluster,
    snapshot: i64,
    lost: &[StreamId],
    wal: &mut Wal,
) -> Result<(), StoreError> {
    let segment = if lost.is_empty() { wal.segment() } else { wal.roll()? };
    cluster.begin(snapshot, lost, segment);
    Ok(())
}

/// Notes why a cold tier with files of this store is missing. Maintenance checks a configured tier soon; opening does
/// not wait for it.
fn note_missing_tier(places: &FileLocations, shared: &StoreState) {
    if places.slow.is_none()
        && let Err(error) = places.check()
    {
        shared.set_slow_failure(Some(error.to_string()));
    }
}

fn busy() -> StoreError {
    let text =
        "the store has more rows in memory than it may: they come faster than they can be written";
    StoreError::new(ErrorKind::Busy, text).with_hint("send the same rows again in a few seconds")
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread
        .map_err(|error| StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}")))
}
