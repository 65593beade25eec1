//! Restores a data directory from a snapshot. The manifest comes last: until then no weir opens the
//! directory, and the file `RESTORING` explains why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weir_datafile::{ErrorKind, ListEntry, StoreError, sync_dir};
use weir_tier::SlowPlace;

use crate::backup::object::write_copy;
use crate::backup::target::{self, BackupTarget};
use crate::backup::{full, make_dir, manifest_of, rename, sync_file, write};
use crate::directory::RESTORING;
use crate::manifest::SqliteManifest;

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct RestoreSummary {
    /// Name of the restored snapshot.
    pub snapshot: String,
    /// Number of restored files.
    pub file_count: usize,
    /// Bytes of the restored files.
    pub byte_count: u64,
}

/// Restores the data directory `dir` from a snapshot of `backup`: the one named `at`, or the newest
/// that is not later than the time `at` (`2026-11-22T00:15:00Z`), or the newest of all.
///
/// # Errors
/// `Io` when there is no such snapshot or `dir` is not empty, `Corrupt` when the backup is damaged,
/// `Full`.
pub fn restore(
    backup: impl Into<SlowPlace>,
    at: Option<&str>,
    dir: &Path,
) -> Result<RestoreSummary, StoreError> {
    let target = target::open(&backup.into(), false)?;
    let snapshot = choose(&*target, at)?;
    refuse_used(dir)?;
    let list = target.list(&snapshot)?;
    let from = manifest_of(&*target, &snapshot, &list)?;
    make_dir(dir)?;
    write(&dir.join(RESTORING), format!("{snapshot}\n").as_bytes())?;
    let mut changed = BTreeSet::new();
    for entry in &list.entries {
        let to = dir.join(&entry.path);
        bring(&*target, entry, &to)?;
        changed.extend(
            to.ancestors().skip(1).take_while(|path| path.starts_with(dir)).map(PathBuf::from),
        );
    }
    changed.iter().try_for_each(|path| sync_dir(path))?;
    let (draft, manifest) = (dir.join("manifest.new"), dir.join("manifest.sqlite"));
    std::fs::copy(from, &draft).map_err(|error| full(StoreError::io("copy", &draft, &error)))?;
    SqliteManifest::forget_removed(&draft)?;
    sync_file(&draft)?;
    rename(&draft, &manifest)?;
    let mark = dir.join(RESTORING);
    std::fs::remove_file(&mark).map_err(|error| StoreError::io("remove", &mark, &error))?;
    sync_dir(dir)?;
    let byte_count = list.byte_count();
    Ok(RestoreSummary { snapshot, file_count: list.entries.len(), byte_count })
}

pub(super) fn choose(target: &dyn BackupTarget, at: Option<&str>) -> Result<String, StoreError> {
    let names = target.names()?;
    let found = match at {
        None => names.last().cloned(),
        Some(at) if names.iter().any(|name| name == at) => Some(at.to_owned()),
        // Snapshot names sort by time.
        Some(at) => {
            let wanted = at.replace(':', "-");
            let wanted = wanted.split('.').next().unwrap_or_default().trim_end_matches('Z');
            let is_time = wanted.len() >= 10 && wanted.starts_with(|c: char| c.is_ascii_digit());
            names
                .iter()
                .rfind(|name: &&String| {
                    let start = name.get(..wanted.len().min(name.len()));
                    is_time && start.is_some_and(|start| start <= wanted)
                })
                .cloned()
        }
    };
    found.ok_or_else(|| {
        let what = at.map_or("snapshot".to_owned(), |at| format!("snapshot of `{at}` or before"));
        let text = format!("cannot restore from `{}`: there is no {what}", target.name());
        StoreError::new(ErrorKind::Io, text).with_hint("`weir backup PLACE --list` lists them")
    })
}

fn refuse_used(dir: &Path) -> Result<(), StoreError> {
    let is_used = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if !is_used || dir.join(RESTORING).exists() {
        return Ok(());
    }
    let text = format!("cannot restore into `{}`: it is not empty", dir.display());
    Err(StoreError::new(ErrorKind::Io, text).with_hint("name a new directory with `--data`"))
}

fn bring(target: &dyn BackupTarget, entry: &ListEntry, to: &Path) -> Result<(), StoreError> {
    let place = target.place(&entry.object);
    let mut from = target.open(&entry.object).map_err(|error| {
        StoreError::io("read", Path::new(&place), &error).with_hint(other_snapshot(entry))
    })?;
    make_dir(to.parent().unwrap_or(to))?;
    // The list of a backup may be of an older weir, or forged.
    let written = write_copy(&mut from, to, entry.mode & 0o600);
    let written = written.map_err(|error| full(StoreError::io("write", to, &error)))?;
    let same = entry.object.compare(&place, &written);
    same.map_err(|why| StoreError::new(ErrorKind::Corrupt, why).with_hint(other_snapshot(entry)))
}

pub(super) fn other_snapshot(entry: &ListEntry) -> String {
    format!(
        "it is `{}`; `weir backup PLACE --verify` names every damaged file and the snapshots that need it: restore another with `--at`",
        entry.path
    )
}
