//! Copies of a data directory, or of a cluster, that share what they have in common, and the way back. Layout:
//! `docs/formats/backup.md`.
//!
//! Data files never change, so a copy is a copy of the manifest and of the files that no earlier one has. It is made from
//! outside, whether a weir has the directory or not: when a file goes away meanwhile, because it was merged, the manifest is
//! read anew. A snapshot shows up under its name when everything that it names is on the disk.

mod list;
mod object;
mod origin;
mod restore;
mod restore_cluster;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use weir_tables::Micros;

use crate::cluster::{Hold, ManifestOptions};
use crate::directory::{lock_file, sync_dir};
use crate::error::{ErrorKind, StoreError};
use crate::manifest::{Hubs, Postgres};
use crate::options::SlowOptions;
use list::{Entry, List};
use object::{Known, Object, Objects};
use origin::Origin;

pub use restore::{Restored, restore};
pub use restore_cluster::restore_cluster;

/// What a backup did.
#[derive(Clone, Debug)]
pub struct BackedUp {
    /// The snapshot's name.
    pub snapshot: String,
    /// Files of the snapshot.
    pub file_count: usize,
    /// Their bytes.
    pub byte_count: u64,
    /// Files that were copied because no earlier snapshot has them.
    pub new_files: usize,
    /// Their bytes.
    pub new_bytes: u64,
    /// Snapshots that were removed.
    pub removed: Vec<String>,
}

/// A snapshot in a backup.
#[derive(Clone, Debug)]
pub struct BackupSnapshot {
    /// Its name: when it was made, `2026-11-22T00-15-00Z`.
    pub name: String,
    /// Its files; `None` when its list cannot be read.
    pub file_count: Option<usize>,
    /// Their bytes.
    pub byte_count: u64,
}

/// What a look at every byte found.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Snapshots that were looked at.
    pub snapshots: usize,
    /// Files that are as they were written.
    pub file_count: usize,
    /// Their bytes.
    pub byte_count: u64,
    /// What is not: in words, with the snapshots that need it.
    pub problems: Vec<String>,
}

/// The first line of `VERSION` in a backup.
const VERSION: &str = "weir backup 1";
/// How often the manifest is read anew when files go away meanwhile.
const TRIES: usize = 20;

/// Copies the data directory `dir`, with its files in `slow`, into the backup `to`; of its snapshots the newest `keep` stay, all without.
///
/// # Errors
/// `Locked` when another backup writes there, `Full`, `Io`, `Corrupt`. Earlier snapshots stay whole.
pub fn backup(
    dir: &Path,
    slow: Option<&SlowOptions>,
    to: &Path,
    now: Micros,
    keep: Option<usize>,
) -> Result<BackedUp, StoreError> {
    origin::refuse_other(dir)?;
    write_snapshot(|| Origin::directory(dir, slow), to, now, keep)
}

/// Copies what the hubs of a cluster have in files, which are in `slow`, from any machine that reaches them; the hubs go on
/// meanwhile.
///
/// # Errors
/// As [`backup`].
pub fn backup_cluster(
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    to: &Path,
    now: Micros,
    keep: Option<usize>,
) -> Result<BackedUp, StoreError> {
    // Before the manifest is read: what it names then stays there until the end.
    let _hold = Hold::new(cluster)?;
    write_snapshot(|| Origin::cluster(slow, cluster), to, now, keep)
}

/// The hubs of a cluster, which have rows that are in no file yet.
///
/// # Errors
/// `Io`, `NewerVersion`.
pub fn cluster_hubs(cluster: &ManifestOptions) -> Result<Hubs, StoreError> {
    Postgres::look(cluster)?.hubs()
}

fn write_snapshot(
    origin: impl FnOnce() -> Result<Origin, StoreError>,
    to: &Path,
    now: Micros,
    keep: Option<usize>,
) -> Result<BackedUp, StoreError> {
    let place = Place::open(to, true)?;
    place.remove_drafts()?;
    let draft = place.snapshots().join(".new");
    make_dir(&draft)?;
    let mut objects = Objects::new(to, place.known());
    let list = copy_all(&origin()?, &draft, &mut objects, now)?;
    objects.sync()?;
    list.write(&draft.join("list"))?;
    sync_file(&draft.join("manifest.sqlite"))?;
    sync_dir(&draft)?;
    let snapshot = place.free_name(now);
    let whole = place.snapshots().join(&snapshot);
    rename(&draft, &whole)?;
    sync_dir(&place.snapshots())?;
    let removed = place.thin(keep)?;
    Ok(BackedUp {
        snapshot,
        file_count: list.entries.len(),
        byte_count: list.byte_count(),
        new_files: objects.new_files,
        new_bytes: objects.new_bytes,
        removed,
    })
}

/// The snapshots of a backup, the oldest first.
///
/// # Errors
/// `Io`, `Corrupt`.
pub fn backup_snapshots(backup: &Path) -> Result<Vec<BackupSnapshot>, StoreError> {
    let place = Place::open(backup, false)?;
    let one = |name: String| {
        let list = List::read(&place.snapshots().join(&name).join("list")).ok();
        let byte_count = list.as_ref().map_or(0, List::byte_count);
        BackupSnapshot { name, file_count: list.map(|list| list.entries.len()), byte_count }
    };
    Ok(place.names()?.into_iter().map(one).collect())
}

/// Reads every byte of every snapshot and compares it with its checksum.
///
/// # Errors
/// `Io`, `Corrupt` when this is no backup. What is wrong with files is in the answer.
pub fn verify_backup(backup: &Path) -> Result<Verified, StoreError> {
    let place = Place::open(backup, false)?;
    let mut found = Verified::default();
    let mut wanted: HashMap<Object, (String, Vec<String>)> = HashMap::new();
    for name in place.names()? {
        found.snapshots += 1;
        let snapshot = place.snapshots().join(&name);
        match List::read(&snapshot.join("list")) {
            Err(error) => found.problems.push(error.message),
            Ok(list) => {
                if let Err(error) = list.check_manifest(&snapshot.join("manifest.sqlite")) {
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
        match object.check(backup) {
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

/// The directory of a backup, locked.
struct Place {
    root: PathBuf,
    _lock: Option<File>,
}

impl Place {
    fn open(root: &Path, is_written: bool) -> Result<Self, StoreError> {
        let version = root.join("VERSION");
        if is_written && !version.exists() {
            refuse_other(root)?;
            make_dir(&root.join("snapshots"))?;
            make_dir(&root.join("objects"))?;
            write(&root.join("VERSION.new"), format!("{VERSION}\n").as_bytes())?;
            rename(&root.join("VERSION.new"), &version)?;
            sync_dir(root)?;
        }
        let text = std::fs::read_to_string(&version).map_err(|error| {
            StoreError::io("read", &version, &error).with_hint("name the directory of a backup")
        })?;
        if text.trim() != VERSION {
            let text = format!("cannot use `{}`: it is `{}`", root.display(), text.trim());
            return Err(StoreError::new(ErrorKind::NewerVersion, text)
                .with_hint("run the newer weir that wrote it"));
        }
        let lock = if is_written { Some(lock(root)?) } else { None };
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// Names of whole snapshots, the oldest first.
    fn names(&self) -> Result<Vec<String>, StoreError> {
        let path = self.snapshots();
        let entries =
            std::fs::read_dir(&path).map_err(|error| StoreError::io("read", &path, &error))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        Ok(names)
    }

    /// What was left by a backup that was killed.
    fn remove_drafts(&self) -> Result<(), StoreError> {
        for name in [".new", ".old"] {
            let path = self.snapshots().join(name);
            if path.exists() {
                std::fs::remove_dir_all(&path)
                    .map_err(|error| StoreError::io("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    /// Files of the newest snapshot.
    fn known(&self) -> Known {
        let newest = self.names().unwrap_or_default().pop();
        let list =
            newest.and_then(|name| List::read(&self.snapshots().join(name).join("list")).ok());
        let entries = list.map(|list| list.entries).unwrap_or_default();
        let key = |entry: &Entry| (entry.path.clone(), entry.object.byte_count, entry.modified);
        entries.into_iter().map(|entry| (key(&entry), entry.object)).collect()
    }

    /// The name of a snapshot of this time that there is not yet.
    fn free_name(&self, now: Micros) -> String {
        let time = now.to_string().replace(':', "-");
        let second = time.split('.').next().unwrap_or(&time).to_owned();
        let names = (1..).map(|number| match number {
            1 => format!("{second}Z"),
            number => format!("{second}Z-{number}"),
        });
        let mut free = names.filter(|name| !self.snapshots().join(name).exists());
        free.next().expect("there are as many names as numbers")
    }

    /// Removes the oldest snapshots, and files that no snapshot has; gives their names.
    fn thin(&self, keep: Option<usize>) -> Result<Vec<String>, StoreError> {
        let mut names = self.names()?;
        let surplus = keep.map_or(0, |keep| names.len().saturating_sub(keep.max(1)));
        let removed: Vec<String> = names.drain(..surplus).collect();
        for name in &removed {
            // Not whole from here on: it must not show up as if it were.
            let old = self.snapshots().join(".old");
            rename(&self.snapshots().join(name), &old)?;
            self.remove_drafts()?;
        }
        let mut needed = HashSet::new();
        for name in names {
            match List::read(&self.snapshots().join(&name).join("list")) {
                Ok(list) => needed.extend(list.entries.into_iter().map(|entry| entry.object)),
                // Nobody knows what it needs, so everything stays.
                Err(_) => return Ok(removed),
            }
        }
        object::remove_others(&self.root, &needed)?;
        Ok(removed)
    }
}

/// Copies the manifest and what it names, again when files went away meanwhile.
fn copy_all(
    origin: &Origin,
    draft: &Path,
    objects: &mut Objects<'_>,
    now: Micros,
) -> Result<List, StoreError> {
    let copy = draft.join("manifest.sqlite");
    let name = &origin.name;
    for _ in 0..TRIES {
        drop(std::fs::remove_file(&copy));
        let files = origin.copy_manifest(&copy, now)?;
        let mut list = List::new(&copy)?;
        let mut is_whole = true;
        for (path, tier) in files {
            match objects.take(&origin.places, &path, tier)? {
                Some(entry) => list.entries.push(entry),
                None => is_whole = false,
            }
        }
        if is_whole {
            origin.take_others(objects, &mut list)?;
            return Ok(list);
        }
        if let Some(missing) = origin.missing()? {
            let text = format!("cannot back up {name}: `{missing}` is not there");
            return Err(StoreError::new(ErrorKind::Corrupt, text)
                .with_hint("`weir store check` looks at every file, `weir store repair` mends"));
        }
    }
    let text = format!("cannot back up {name}: its files change all the time");
    Err(StoreError::new(ErrorKind::Busy, text).with_hint("try again"))
}

/// A new backup begins in an empty directory.
fn refuse_other(root: &Path) -> Result<(), StoreError> {
    make_dir(root)?;
    let is_ours = |name: &str| ["VERSION.new", "objects", "snapshots", "lock"].contains(&name);
    let entries = std::fs::read_dir(root).map_err(|error| StoreError::io("read", root, &error))?;
    let other = entries.flatten().find(|entry| !is_ours(&entry.file_name().to_string_lossy()));
    let Some(other) = other else { return Ok(()) };
    let text = format!(
        "cannot back up into `{}`: it is no backup, and has `{}` in it",
        root.display(),
        other.file_name().to_string_lossy()
    );
    Err(StoreError::new(ErrorKind::Io, text).with_hint("name an empty directory, or a backup"))
}

fn lock(root: &Path) -> Result<File, StoreError> {
    lock_file(&root.join("lock"), || {
        let text = format!("cannot back up into `{}`: another backup does", root.display());
        StoreError::new(ErrorKind::Locked, text).with_hint("wait for it")
    })
}

fn make_dir(path: &Path) -> Result<(), StoreError> {
    std::fs::create_dir_all(path).map_err(|error| full(StoreError::io("make", path, &error)))
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    std::fs::rename(from, to).map_err(|error| full(StoreError::io("rename", from, &error)))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    std::fs::write(path, bytes).map_err(|error| full(StoreError::io("write", path, &error)))?;
    sync_file(path)
}

fn sync_file(path: &Path) -> Result<(), StoreError> {
    let sync = File::open(path).and_then(|file| file.sync_all());
    sync.map_err(|error| full(StoreError::io("sync", path, &error)))
}

/// What to do when there is no room.
fn full(error: StoreError) -> StoreError {
    match error.kind {
        ErrorKind::Full => error.with_hint(
            "make room and run it again: what was copied is not copied again, and earlier snapshots are whole; `--keep` removes old ones",
        ),
        _ => error,
    }
}
