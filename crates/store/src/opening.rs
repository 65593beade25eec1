//! The steps of opening a store: deletes leftovers, refuses a manifest that is too old, restores
//! rows and positions from manifest and WAL.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use weir_datafile::{ErrorKind, Snapshot, StoreError, Tier, data_files, space, table_index};
use weir_sql::SpillSpace;
use weir_tables::{Micros, Parcel, TABLES};
use weir_tier::FileLocations;

use crate::cluster::{self, Cluster, ClusterFollower, SharedWork};
use crate::copies::CopyRegistry;
use crate::directory::Directory;
use crate::iceberg::Iceberg;
use crate::maintenance::trusted_clock::{CLOCK_FILE, ClockReading, TrustedClock};
use crate::maintenance::{RetiredFile, delete};
use crate::manifest::{Manifest, ManifestContent, PostgresManifest, QueuedDeletion};
use crate::options::StoreOptions;
use crate::write_path::adapt::adapt;
use crate::write_path::shared::StoreState;
use crate::write_path::streams::StreamPositions;
use crate::write_path::wal::{self, Wal, WalOptions};
use crate::write_path::writer::WriterCommand;

/// Spill directory; `None` when queries may use memory only.
pub(crate) fn spill_space(
    options: &StoreOptions,
    reserve: u64,
) -> Result<Option<Arc<SpillSpace>>, StoreError> {
    let bytes = options.query_spill_bytes;
    (bytes > 0).then(|| SpillSpace::open(options.dir.join("spill"), bytes, reserve)).transpose()
}

/// The number of the next file, and the file with the positions of copies.
pub(crate) fn own_state(
    manifest: &Manifest,
    directory: &Directory,
    content: &ManifestContent,
) -> Result<(i64, PathBuf), StoreError> {
    Ok(match manifest {
        Manifest::Own(_) => (next_file_id(&directory.root, content), directory.manifest()),
        Manifest::Shared(manifest) => {
            (cluster::next_id(manifest, content)?, directory.root.join("copies.sqlite"))
        }
    })
}

/// Opens the Iceberg writer. Each hub of a cluster writes separate metadata, which stays as long as
/// the files that it names.
pub(crate) fn iceberg(
    manifest: &Manifest,
    places: &FileLocations,
    options: &StoreOptions,
) -> Iceberg {
    let (hub, grace) = match manifest {
        Manifest::Own(_) => (None, options.gc_grace),
        Manifest::Shared(manifest) => (Some(manifest.hub()), cluster::grace(options)),
    };
    Iceberg::new(places.clone(), hub, grace)
}

/// Learns the cluster's state and starts the follower.
pub(crate) fn follow(
    (cluster, follows): (Arc<Cluster>, PostgresManifest),
    shared: &Arc<StoreState>,
    commands: &Sender<WriterCommand>,
) -> Result<SharedWork, StoreError> {
    cluster.learn(follows.pulse()?, commands)?;
    let (shared, commands) = (Arc::clone(shared), commands.clone());
    let follower = ClusterFollower::start(Arc::clone(&cluster), shared, follows, commands)?;
    Ok(SharedWork::new(cluster, follower))
}

/// Default reserve: 256 MiB or 1 % of the file system, whichever is smaller.
pub(crate) fn default_reserve(dir: &Path) -> u64 {
    space(dir).map_or(0, |(_, total)| (total / 100).min(256 << 20))
}

/// The time by which files expire, as the last run kept it.
pub(crate) fn trusted_clock(options: &StoreOptions, content: &ManifestContent) -> TrustedClock {
    let newest = content.files.iter().map(|file| Micros(file.arrival_ts)).max();
    let reading = ClockReading { wall: options.clock.now(), monotonic: options.clock.monotonic() };
    TrustedClock::open(options.dir.join(CLOCK_FILE), newest, reading)
}

/// Deletes leftovers of a killed run: files out of the manifest, and files that never reached it.
/// Returns those still in their grace period.
pub(crate) fn clean(
    options: &StoreOptions,
    directory: &Directory,
    manifest: &mut Manifest,
) -> Result<Vec<RetiredFile>, StoreError> {
    let now = options.clock.now();
    let queue = manifest.gc_queue()?.into_iter();
    let (due, kept): (Vec<_>, Vec<_>) = queue.partition(|waiting| {
        waiting.tier == Tier::Local
            && (!waiting.is_restorable || options.retention.restorable.is_zero())
            && waiting.since + options.gc_grace <= now
    });
    let gone: Vec<i64> =
        due.iter().filter(|file| delete(directory, &file.path)).map(|file| file.id).collect();
    if !gone.is_empty() {
        manifest.forget(&gone)?;
    }
    let waiting = kept.iter().map(|file| file.path.clone());
    let known: HashSet<String> = manifest.load()?.paths.into_iter().chain(waiting).collect();
    for table in TABLES {
        for day in entries(&directory.root.join("data").join(table.name)) {
            for file in entries(&day) {
                let path = file
                    .strip_prefix(&directory.root)
                    .map(|path| path.to_string_lossy().into_owned());
                let Ok(path) = path else { continue };
                if path.ends_with(".parquet") && !known.contains(&path) {
                    delete(directory, &path);
                }
            }
        }
    }
    Ok(kept
        .into_iter()
        .map(|QueuedDeletion { id, path, tier, since, byte_count, is_restorable }| RetiredFile {
            id,
            path,
            tier,
            since,
            byte_count,
            is_restorable,
            file: None,
        })
        .collect())
}

/// Rejects a manifest that was changed or is older than the log: it does not name the files that removed segments were
/// flushed to, and the start would delete them.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn refuse_older_manifest(
    directory: &Directory,
    manifest: &Manifest,
) -> Result<(), StoreError> {
    manifest.check()?;
    let floor = manifest.load()?.wal_floor;
    let Some(first) = wal::first_from(&directory.wal(), floor)?.filter(|first| *first > floor)
    else {
        return Ok(());
    };
    let text = format!(
        "cannot open `{}`: the manifest is of a time when the log began at segment {floor}, but it begins at {first}",
        directory.root.display()
    );
    let hint = if matches!(manifest, Manifest::Own(_)) {
        "put the newest `manifest.sqlite` and `manifest.sqlite-wal` back, or run `weir store repair`: it takes up rows of files that the manifest does not name"
    } else {
        "PostgreSQL was put back from a copy that is older than what this hub wrote: put back a newer one, or make a cluster of the newest backup with `weir restore`"
    };
    Err(StoreError::new(ErrorKind::Corrupt, text).with_hint(hint))
}

/// A file number above every file on disk, whether the manifest names it or not.
fn next_file_id(dir: &Path, content: &ManifestContent) -> i64 {
    let paths = ["parquet", "damaged"].into_iter().flat_map(|end| data_files(dir, end));
    let ids = paths.filter_map(|path| {
        let name = path.rsplit('/').next()?;
        name.split('.').next()?.parse::<i64>().ok().filter(|id| *id < i64::MAX)
    });
    ids.map(|id| id + 1).fold(content.next_file_id, i64::max)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Restores rows and positions from the manifest, then from the log.
pub(crate) fn recover(
    options: &StoreOptions,
    directory: &Directory,
    content: ManifestContent,
    copies: &CopyRegistry,
) -> Result<(Arc<StoreState>, Wal), StoreError> {
    let mut view = Snapshot::new();
    let mut positions = StreamPositions::new(content.positions, content.owned);
    view.snapshot = content.snapshot;
    view.forgotten = content.snapshot;
    let lost = content.lost;
    for file in content.files {
        let table = &mut view.tables[table_index(file.table)];
        Arc::make_mut(&mut table.files).push(file);
    }
    let segments = Arc::clone(&copies.segments);
    let wal_options =
        WalOptions { floor: content.wal_floor, segment_bytes_max: options.wal_segment_bytes };
    let had_log = options.dir.join(CLOCK_FILE).exists() && content.wal_floor > 0;
    let is_lost = had_log && wal::first_from(&directory.wal(), 0)?.is_none();
    let mut wal = Wal::open(&directory.wal(), wal_options, segments, |bytes| {
        let parcel = adapt(Parcel::decode(bytes).map_err(StoreError::bad_parcel)?)?;
        if parcel.range.is_some_and(|range| lost.contains(&range.stream)) {
            return Ok(());
        }
        for batch in &parcel.batches {
            view.push(batch);
        }
        if let Some(range) = parcel.range {
            positions.stage(range);
        }
        Ok(())
    })?;
    if is_lost {
        wal.damage.no_log(&directory.wal());
    }
    copies.damaged.iter().for_each(|name| wal.damage.copy_position(name));
    positions.commit();
    let shared = StoreState::new(view, positions, options);
    shared.set_wal_bytes(wal.byte_count());
    shared.set_log_damage(&wal.damage);
    Ok((Arc::new(shared), wal))
}
