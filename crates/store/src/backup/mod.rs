//! Incremental backups of a data directory or of a cluster, and their restore. Snapshots share the
//! files that they have in common. Layout: `docs/formats/backup.md`.
//!
//! Data files never change, so a snapshot is a copy of the manifest plus the files that no earlier
//! snapshot has. A backup runs from outside, whether a weir has the directory open or not: when a
//! merge removes a file meanwhile, the backup reads the manifest again. A snapshot appears under
//! its name once everything that it names is durable.

mod bucket;
mod directory;
mod object;
mod restore;
mod restore_cluster;
mod source;
mod target;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use weir_tables::Micros;

use crate::cluster::{ManifestOptions, ReaderLease};
use crate::manifest::{Hubs, PostgresManifest};
use object::{KnownObjects, ObjectCatalog, object_of_file};
use source::BackupSource;
use target::BackupTarget;
use weir_datafile::{BackupObject, ErrorKind, SnapshotList, StoreError, create_own};
use weir_tier::{SlowOptions, SlowPlace};

pub use restore::{RestoreSummary, restore};
pub use restore_cluster::restore_cluster;

/// The result of a backup.
#[derive(Clone, Debug)]
pub struct BackupSummary {
    /// The snapshot's name.
    pub snapshot: String,
    /// Files of the snapshot.
    pub file_count: usize,
    /// Bytes of the snapshot's files.
    pub byte_count: u64,
    /// Files that were copied because no earlier snapshot has them.
    pub new_files: usize,
    /// Bytes of the copied files.
    pub new_bytes: u64,
    /// Snapshots that were removed.
    pub removed: Vec<String>,
}

/// A snapshot in a backup.
#[derive(Clone, Debug)]
pub struct BackupSnapshot {
    /// Snapshot name, its creation time: `2026-11-22T00-15-00Z`.
    pub name: String,
    /// Number of files; `None` when the list cannot be read.
    pub file_count: Option<usize>,
    /// Bytes of the files.
    pub byte_count: u64,
}

/// The result of checking every byte of a backup.
#[derive(Clone, Debug, Default)]
pub struct BackupCheck {
    /// Snapshots that were checked.
    pub snapshots: usize,
    /// Files whose bytes match their checksum.
    pub file_count: usize,
    /// Bytes of the intact files.
    pub byte_count: u64,
    /// One message per damaged file, with the snapshots that need it.
    pub problems: Vec<String>,
}

/// Attempts to read the manifest while merges remove files.
const TRIES: usize = 20;

/// Backs up the data directory `dir`, with its cold tier in `slow`, into the backup `to`; keeps the
/// newest `keep` snapshots, or all when `None`.
///
/// # Errors
/// `Locked` when another backup writes there, `Full`, `Io`, `Corrupt`. Earlier snapshots stay
/// intact.
pub fn backup(
    dir: &Path,
    slow: Option<&SlowOptions>,
    to: impl Into<SlowPlace>,
    now: Micros,
    keep: Option<usize>,
) -> Result<BackupSummary, StoreError> {
    source::refuse_other(dir)?;
    write_snapshot(|| BackupSource::directory(dir, slow), &to.into(), now, keep)
}

/// Backs up the files of a cluster, which are in `slow`, from any machine that reaches them; the
/// hubs keep running meanwhile.
///
/// # Errors
/// As [`backup`].
pub fn backup_cluster(
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    to: impl Into<SlowPlace>,
    now: Micros,
    keep: Option<usize>,
) -> Result<BackupSummary, StoreError> {
    // Take the lease before reading the manifest: the files that it names then stay until the end.
    let _hold = ReaderLease::new(cluster)?;
    write_snapshot(|| BackupSource::cluster(slow, cluster), &to.into(), now, keep)
}

/// Lists the hubs of a cluster; each may have rows in memory that are in no file yet.
///
/// # Errors
/// `Io`, `NewerVersion`.
pub fn cluster_hubs(cluster: &ManifestOptions) -> Result<Hubs, StoreError> {
    PostgresManifest::look(cluster)?.hubs()
}

fn write_snapshot(
    source: impl FnOnce() -> Result<BackupSource, StoreError>,
    to: &SlowPlace,
    now: Micros,
    keep: Option<usize>,
) -> Result<BackupSummary, StoreError> {
    let mut target = target::open(to, true)?;
    let known = known(&*target);
    let mut objects = ObjectCatalog::new(&mut *target, known);
    let list = copy_all(&source()?, &mut objects, now)?;
    let ObjectCatalog { new_files, new_bytes, .. } = objects;
    let snapshot = free_name(&target.names()?, now);
    target.publish(&snapshot, &list)?;
    let removed = thin(&mut *target, keep)?;
    Ok(BackupSummary {
        snapshot,
        file_count: list.entries.len(),
        byte_count: list.byte_count(),
        new_files,
        new_bytes,
        removed,
    })
}

/// Lists the snapshots of a backup, oldest first.
///
/// # Errors
/// `Io`, `Corrupt`.
pub fn backup_snapshots(backup: impl Into<SlowPlace>) -> Result<Vec<BackupSnapshot>, StoreError> {
    let target = target::open(&backup.into(), false)?;
    Ok(target
        .names()?
        .into_iter()
        .map(|name| {
            let list = target.list(&name).ok();
            let byte_count = list.as_ref().map_or(0, SnapshotList::byte_count);
            BackupSnapshot { name, file_count: list.map(|list| list.entries.len()), byte_count }
        })
        .collect())
}

/// Reads every byte of every snapshot and compares it with its checksum.
///
/// # Errors
/// `Io`, `Corrupt` when this is no backup. Damaged files are part of the result.
pub fn verify_backup(backup: impl Into<SlowPlace>) -> Result<BackupCheck, StoreError> {
    let target = target::open(&backup.into(), false)?;
    let mut found = BackupCheck::default();
    let mut wanted: HashMap<BackupObject, (String, Vec<String>)> = HashMap::new();
    for name in target.names()? {
        found.snapshots += 1;
        match target.list(&name) {
            Err(error) => found.problems.push(error.message),
            Ok(list) => {
                if let Err(error) = manifest_of(&*target, &name, &list) {
                    found.problems.push(error.message);
                }
                for entry in list.entries {
                    let file = wanted.entry(entry.object).or_insert((entry.path, Vec::new()));
                    file.1.push(name.clone());
                }
            }
        }
    }
    for (object, (path, snapshots)) in wanted {
        match target.check(&object) {
            Ok(()) => {
                found.file_count += 1;
                found.byte_count += object.byte_count;
            }
            Err(why) => {
                let of = snapshots.join("`, `");
                found.problems.push(format!("{why}; it is `{path}` of the snapshots `{of}`"));
            }
        }
    }
    found.problems.sort();
    Ok(found)
}

/// Fetches a snapshot's manifest and checks that it matches the list.
fn manifest_of(
    target: &dyn BackupTarget,
    snapshot: &str,
    list: &SnapshotList,
) -> Result<PathBuf, StoreError> {
    let path = target.manifest(snapshot)?;
    let place = format!("{}/snapshots/{snapshot}/manifest.sqlite", target.name());
    list.check_manifest(&object_of_file(&path)?, &place)?;
    Ok(path)
}

/// Collects the objects of the newest snapshot.
fn known(target: &dyn BackupTarget) -> KnownObjects {
    let newest = target.names().unwrap_or_default().pop();
    let list = newest.and_then(|name| target.list(&name).ok());
    let entries = list.map(|list| list.entries).unwrap_or_default();
    entries
        .into_iter()
        .map(|entry| ((entry.path, entry.object.byte_count, entry.modified), entry.object))
        .collect()
}

/// Picks a snapshot name for this time that is not taken.
fn free_name(names: &[String], now: Micros) -> String {
    let time = now.to_string().replace(':', "-");
    let second = time.split('.').next().unwrap_or(&time).to_owned();
    let all = (1..).map(|number| match number {
        1 => format!("{second}Z"),
        number => format!("{second}Z-{number}"),
    });
    let mut free = all.filter(|name| !names.contains(name));
    free.next().expect("there are as many names as numbers")
}

/// Removes the oldest snapshots and all objects that no snapshot needs; returns the removed names.
fn thin(target: &mut dyn BackupTarget, keep: Option<usize>) -> Result<Vec<String>, StoreError> {
    let mut names = target.names()?;
    let surplus = keep.map_or(0, |keep| names.len().saturating_sub(keep.max(1)));
    let removed: Vec<String> = names.drain(..surplus).collect();
    removed.iter().try_for_each(|name| target.remove(name))?;
    let mut needed = HashSet::new();
    for name in names {
        match target.list(&name) {
            Ok(list) => needed.extend(list.entries.into_iter().map(|entry| entry.object)),
            // The objects of an unreadable snapshot are unknown, so keep everything.
            Err(_) => return Ok(removed),
        }
    }
    target.remove_others(&needed)?;
    Ok(removed)
}

/// Copies the manifest and the files it names; starts over when files were removed meanwhile.
fn copy_all(
    source: &BackupSource,
    objects: &mut ObjectCatalog<'_>,
    now: Micros,
) -> Result<SnapshotList, StoreError> {
    let copy = objects.target.draft().join("manifest.sqlite");
    let name = &source.name;
    for _ in 0..TRIES {
        drop(std::fs::remove_file(&copy));
        let files = source.copy_manifest(&copy, now)?;
        let mut list = SnapshotList::new(object_of_file(&copy)?);
        let mut is_whole = true;
        for (path, tier) in files {
            match objects.take(&source.places, &path, tier)? {
                Some(entry) => list.entries.push(entry),
                None => is_whole = false,
            }
        }
        if is_whole {
            source.take_others(objects, &mut list)?;
            return Ok(list);
        }
        if let Some(missing) = source.missing()? {
            let text = format!("cannot back up {name}: `{missing}` is not there");
            return Err(StoreError::new(ErrorKind::Corrupt, text)
                .with_hint("`weir store check` looks at every file, `weir store repair` mends"));
        }
    }
    let text = format!("cannot back up {name}: its files change all the time");
    Err(StoreError::new(ErrorKind::Busy, text).with_hint("try again"))
}

fn make_dir(path: &Path) -> Result<(), StoreError> {
    std::fs::create_dir_all(path).map_err(|error| full(StoreError::io("make", path, &error)))
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    std::fs::rename(from, to).map_err(|error| full(StoreError::io("rename", from, &error)))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let written = create_own(path, 0o600).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| full(StoreError::io("write", path, &error)))
}

fn sync_file(path: &Path) -> Result<(), StoreError> {
    let sync = File::open(path).and_then(|file| file.sync_all());
    sync.map_err(|error| full(StoreError::io("sync", path, &error)))
}

/// Adds a hint to an error about missing space.
fn full(error: StoreError) -> StoreError {
    match error.kind {
        ErrorKind::Full => error.with_hint(
            "make room and run it again: what was copied is not copied again, and earlier snapshots are whole; `--keep` removes old ones",
        ),
        _ => error,
    }
}
