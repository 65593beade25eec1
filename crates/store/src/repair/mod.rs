//! Repairs a data directory that no weir has open: unreadable files, entries without a file, files
//! without an entry.
//!
//! ```text
//! entry, file damaged ──► file.damaged, entry out of the manifest ─┐
//! file without entry ──────────────────────────────────────────────┤
//!                readable rows that exist nowhere else ─► append, flush ──► file to lost/
//! ```
//!
//! Nothing is deleted, and every step is idempotent: after a kill, the next repair finds the same
//! files and skips the rows that were already appended.

mod salvage;
mod shared;

use std::io::Write;
use std::path::{Path, PathBuf};

use weir_tables::{Micros, TableSpec};

use crate::directory::Directory;
use crate::manifest::{Manifest, SqliteManifest};
use crate::options::StoreOptions;
use crate::store::Store;
use salvage::{SalvageReport, salvage};
use weir_datafile::{
    DataFile, ErrorKind, FileCheck, Inspection, StoreError, Tier, data_files, file_number, sync_dir,
};
use weir_tier::FileLocations;

pub use shared::repair_cluster;

/// The result of repairing one file.
#[derive(Clone, Debug)]
pub struct FileRepair {
    /// Path below the data directory.
    pub path: String,
    /// Table of the file; `None` for a table that this weir does not know.
    pub table: Option<&'static str>,
    /// Description of the damage.
    pub why: String,
    /// Rows that were read and appended to the table.
    pub rows_taken: u64,
    /// Rows that were read and are already in the table.
    pub rows_known: u64,
    /// Unreadable rows; `None` when their number is unknown.
    pub rows_lost: Option<u64>,
    /// Time range of the file's rows, if known.
    pub times: Option<(Micros, Micros)>,
    /// New path of the file, below the data directory; `None` without a file.
    pub kept_at: Option<String>,
}

/// Bytes per read from the cold tier.
const FETCH_BYTES: usize = 1 << 20;
/// Extension of a damaged file until its rows are read.
const DAMAGED: &str = "damaged";

/// Repairs the store in `options.dir`.
///
/// # Errors
/// `Locked` while a weir has it open; `Io`, `Full`, `Corrupt` of the manifest or the log. Completed
/// steps stay in effect.
pub fn repair(options: &StoreOptions) -> Result<Vec<FileRepair>, StoreError> {
    let (mut mended, paths) = take_out(options)?;
    let store = Store::open_keeping(options.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| {
        StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
    })?;
    for path in &paths {
        let salvaged = salvage(&store, &runtime, &options.dir, path)?;
        note(&mut mended, path, salvaged);
    }
    runtime.block_on(store.flush())?;
    for path in &paths {
        let kept_at = set_aside(&options.dir, path)?;
        if let Some(entry) = mended.iter_mut().find(|entry| is_of(entry, path)) {
            entry.kept_at = Some(kept_at);
        }
    }
    runtime.block_on(store.close())?;
    Ok(mended)
}

/// Removes damaged files from the manifest; returns them, and the files to read before the store
/// creates new ones.
fn take_out(options: &StoreOptions) -> Result<(Vec<FileRepair>, Vec<String>), StoreError> {
    let directory = Directory::open(&options.dir)?;
    let mut manifest = Manifest::Own(SqliteManifest::open(&directory.manifest())?);
    let places =
        FileLocations::new(&options.dir, options.slow.as_ref(), manifest.slow_id()?, None)?;
    let files = manifest.load()?.files;
    if files.iter().any(|file| file.tier == Tier::Slow) {
        // An unreachable file is not lost.
        places.check()?;
    }
    bring_home(&places, &manifest)?;
    let mut mended = Vec::new();
    for file in files {
        let is_own = file_number(&file.path) == Some(file.id);
        let look = FileCheck { places: &places, file: &file, is_thorough: true };
        let why = match is_own {
            true => look.look(&mut Inspection::default()).err(),
            false => Some("has the path of no data file".to_owned()),
        };
        let Some(why) = why else { continue };
        let path = directory.file(&file.path);
        if !is_own {
            tracing::warn!(path = file.path, "the path is not touched");
        } else if file.tier == Tier::Slow {
            fetch(&places, &file.path, &path.with_added_extension(DAMAGED))?;
        } else if path.exists() {
            let damaged = path.with_added_extension(DAMAGED);
            let moved = std::fs::rename(&path, &damaged);
            moved.map_err(|error| StoreError::io("rename", &path, &error))?;
            sync_parent(&damaged)?;
        }
        manifest.forget(&[file.id])?;
        mended.push(of_entry(&file, why));
    }
    let waiting = manifest.gc_queue()?.into_iter();
    let odd = waiting.filter(|file| file_number(&file.path) != Some(file.id)).map(|file| file.id);
    manifest.forget(&odd.collect::<Vec<_>>())?;
    manifest.seal()?;
    // An entry of a newer weir's table is not removed, so its path still has to be one.
    manifest.check()?;
    Ok((mended, stray_files(&options.dir, &manifest)?))
}

/// Copies files of the cold tier without an entry into the data directory, where they are salvaged
/// like others. The next start deletes the originals.
fn bring_home(places: &FileLocations, manifest: &Manifest) -> Result<(), StoreError> {
    let Some(slow) = places.slow.as_ref().filter(|slow| slow.check().is_ok()) else {
        return Ok(());
    };
    let named = manifest.places()?;
    let waiting = manifest.gc_queue()?;
    let unknown = slow
        .unknown(|path: &String| {
            named.iter().any(|(known, _)| known == path)
                || waiting.iter().any(|file| file.path == *path)
        })?
        .into_iter();
    for path in unknown.filter(|path| path.ends_with(".parquet")) {
        fetch(places, &path, &places.root.join(&path))?;
    }
    Ok(())
}

/// Copies the readable part of a file of the cold tier; does nothing when it is missing.
fn fetch(places: &FileLocations, path: &str, to: &Path) -> Result<(), StoreError> {
    let file = match places.open(path, Tier::Slow) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("read", Path::new(path), &error)),
    };
    let fail = |error: &std::io::Error| StoreError::io("write", to, error);
    let parent = to.parent().map(PathBuf::from).unwrap_or_default();
    std::fs::create_dir_all(&parent).map_err(|error| fail(&error))?;
    let draft = to.with_added_extension("new");
    let mut copy = std::fs::File::create(&draft).map_err(|error| fail(&error))?;
    let mut bytes = vec![0; FETCH_BYTES];
    let mut at = 0;
    while at < file.length() {
        let count =
            usize::try_from(file.length() - at).map_or(FETCH_BYTES, |left| left.min(FETCH_BYTES));
        bytes[..count].fill(0);
        if let Err(error) = file.read_exact_at(&mut bytes[..count], at) {
            // An unreadable part of a file on disk stays zero: the rest may be good. A bucket
            // returns all of an object or nothing.
            places.check()?;
            if places.slow()?.is_far() {
                return Err(StoreError::io("read", Path::new(path), &error));
            }
        }
        copy.write_all(&bytes[..count]).map_err(|error| fail(&error))?;
        at += count as u64;
    }
    copy.sync_all().map_err(|error| fail(&error))?;
    std::fs::rename(&draft, to).map_err(|error| fail(&error))?;
    sync_parent(to)
}

fn of_entry(file: &DataFile, why: String) -> FileRepair {
    FileRepair {
        path: file.path.clone(),
        table: Some(file.table.name),
        why,
        rows_taken: 0,
        rows_known: 0,
        rows_lost: Some(file.row_count),
        times: Some((Micros(file.min_ts), Micros(file.max_ts))),
        kept_at: None,
    }
}

/// Files that the manifest does not name, and damaged files of this or an interrupted repair.
fn stray_files(dir: &Path, manifest: &Manifest) -> Result<Vec<String>, StoreError> {
    let named = manifest.load()?.paths;
    let waiting = manifest.gc_queue()?;
    let is_named =
        |path: &String| named.contains(path) || waiting.iter().any(|file| file.path == *path);
    let whole = data_files(dir, "parquet").into_iter().filter(|path| !is_named(path));
    Ok(data_files(dir, DAMAGED).into_iter().chain(whole).collect())
}

fn is_of(entry: &FileRepair, path: &str) -> bool {
    entry.path == path.strip_suffix(".damaged").unwrap_or(path)
}

/// Adds the salvage result of a file to its report.
fn note(mended: &mut Vec<FileRepair>, path: &str, salvaged: SalvageReport) {
    let SalvageReport { table, taken, known, times, broken } = salvaged;
    let table = table.map(|table: &TableSpec| table.name);
    let at = mended.iter().position(|entry| is_of(entry, path));
    if let Some(at) = at {
        let entry = &mut mended[at];
        (entry.rows_taken, entry.rows_known) = (taken, known);
        entry.rows_lost = entry.rows_lost.map(|rows| rows.saturating_sub(taken + known));
        return;
    }
    let rows_lost = broken.is_none().then_some(0);
    let why = match broken {
        None => "was not in the manifest".to_owned(),
        Some(why) => format!("was not in the manifest, and {why}"),
    };
    let path = path.strip_suffix(".damaged").unwrap_or(path).to_owned();
    let (rows_taken, rows_known) = (taken, known);
    mended.push(FileRepair {
        path,
        table,
        why,
        rows_taken,
        rows_known,
        rows_lost,
        times,
        kept_at: None,
    });
}

/// Picks a free name below `lost/`.
fn free_place(dir: &Path, path: &str) -> String {
    let name = path.strip_prefix("data/").unwrap_or(path);
    let free = (0..)
        .map(|number| match number {
            0 => format!("lost/{name}"),
            _ => format!("lost/{name}.{number}"),
        })
        .find(|to| !dir.join(to).exists());
    free.unwrap_or_else(|| format!("lost/{name}"))
}

/// Moves a file below `lost/`.
fn set_aside(dir: &Path, path: &str) -> Result<String, StoreError> {
    let from = dir.join(path);
    let to = free_place(dir, path);
    let full = dir.join(&to);
    let parent = full.parent().map(PathBuf::from).unwrap_or_default();
    let made = std::fs::create_dir_all(&parent);
    made.map_err(|error| StoreError::io("make", &parent, &error))?;
    std::fs::rename(&from, &full).map_err(|error| StoreError::io("move", &from, &error))?;
    sync_parent(&full)?;
    sync_parent(&from)?;
    Ok(to)
}

fn sync_parent(path: &Path) -> Result<(), StoreError> {
    path.parent().map_or(Ok(()), sync_dir)
}
