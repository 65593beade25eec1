//! Restores a new cluster from a snapshot of a cluster or of a single hub. PostgreSQL learns of the
//! files once all of them are in place; until then the setting `restoring` keeps hubs out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weir_datafile::{ErrorKind, ListEntry, StoreError};
use weir_tables::Micros;
use weir_tier::{ColdTier, FileLocations, SlowOptions, SlowPlace};

use crate::backup::restore::{choose, other_snapshot};
use crate::backup::target::{self, BackupTarget};
use crate::backup::{RestoreSummary, manifest_of};
use crate::cluster::{ManifestOptions, random};
use crate::manifest::{ManifestExport, PostgresManifest};

/// Restores a cluster from a snapshot of `backup`, chosen as in [`restore`](crate::restore): files
/// go to `slow`, the manifest to PostgreSQL. Of the files beside the tables, only files that
/// `is_shared` accepts are restored.
///
/// # Errors
/// `Io` when there is no such snapshot, or the target is not empty; `Corrupt` when the backup is
/// damaged; `Locked`, `Full`. Run it again to resume.
pub fn restore_cluster(
    backup: impl Into<SlowPlace>,
    at: Option<&str>,
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    is_shared: &dyn Fn(&str) -> bool,
    now: Micros,
) -> Result<RestoreSummary, StoreError> {
    let target = target::open(&backup.into(), false)?;
    let snapshot = choose(&*target, at)?;
    let list = target.list(&snapshot)?;
    let all = ManifestExport::read(&manifest_of(&*target, &snapshot, &list)?)?;
    let (manifest, places) = begin(slow, cluster)?;
    let slow = places.slow()?;
    let mut entries: HashMap<&str, &ListEntry> =
        list.entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let mut files = HashMap::new();
    for file in &all.files {
        let entry = entries.remove_entry(file.path.as_str()).ok_or_else(|| {
            let from = format!("{}/snapshots/{snapshot}", target.name());
            let text = format!("`{from}` is damaged: `{}` is not in it", file.path);
            StoreError::new(ErrorKind::Corrupt, text)
        })?;
        files.extend([entry]);
    }
    // Leftovers of an interrupted restore of another snapshot.
    let others = slow.unknown(|path| files.contains_key(path.as_str()))?;
    slow.delete_each(others, |path| path)?;
    for entry in files.values() {
        bring(&*target, entry, slow)?;
    }
    let shared = entries.into_values().filter(|entry| is_shared(&entry.path));
    let shared = shared
        .map(|entry| {
            let object = whole(&*target, entry)?;
            let content =
                std::fs::read(&object).map_err(|error| StoreError::io("read", &object, &error))?;
            Ok::<_, StoreError>((entry.path.clone(), content))
        })
        .collect::<Result<Vec<_>, _>>()?;
    manifest.end_restore(&all, &shared, now)?;
    let byte_count = files.values().map(|entry| entry.object.byte_count).sum();
    Ok(RestoreSummary { snapshot, file_count: files.len(), byte_count })
}

/// Takes an empty schema and an empty tier, or resumes where both belong to a restore.
fn begin(
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
) -> Result<(PostgresManifest, FileLocations), StoreError> {
    if slow.is_none() {
        let text =
            "cannot restore into the cluster: no place is named that all hubs have for their files";
        return Err(StoreError::new(ErrorKind::Io, text).with_hint(
            "set `store.slow_path` to a bucket, or to a directory that all hubs mount",
        ));
    }
    let begun = PostgresManifest::restoring(cluster)?;
    let id = begun.unwrap_or_else(|| random("place"));
    let places = FileLocations::new(Path::new(""), slow, Some(id), None)?;
    if begun.is_none() {
        places.slow()?.refuse_used()?;
    }
    let manifest = PostgresManifest::begin_restore(cluster, id)?;
    places.slow()?.take(false)?;
    Ok((manifest, places))
}

fn bring(target: &dyn BackupTarget, entry: &ListEntry, slow: &ColdTier) -> Result<(), StoreError> {
    if !entry.path.starts_with("data/") {
        let text = format!("cannot restore `{}`: it is not the path of a data file", entry.path);
        return Err(StoreError::new(ErrorKind::Corrupt, text));
    }
    slow.put(&whole(target, entry)?, &entry.path, &AtomicBool::new(false))
}

/// Fetches the bytes of an entry and checks them against the list.
fn whole(target: &dyn BackupTarget, entry: &ListEntry) -> Result<PathBuf, StoreError> {
    let whole = target.whole(&entry.object);
    whole.map_err(|why| StoreError::new(ErrorKind::Corrupt, why).with_hint(other_snapshot(entry)))
}
