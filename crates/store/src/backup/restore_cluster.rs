//! A new cluster from a snapshot, be that of a cluster or of a hub alone. PostgreSQL learns of files when all of them are
//! there; until then a setting `restoring` keeps hubs out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weir_datafile::{ErrorKind, StoreError};
use weir_tables::Micros;
use weir_tier::{Places, Slow, SlowOptions, SlowPlace};

use crate::backup::depot::{self, Depot};
use crate::backup::list::Entry;
use crate::backup::restore::{choose, other_snapshot};
use crate::backup::{Restored, manifest_of};
use crate::cluster::{ManifestOptions, random};
use crate::manifest::{Moving, Postgres};

/// Makes a cluster of a snapshot of `backup`, chosen as in [`restore`](crate::restore): its files go to `slow`, its manifest
/// to PostgreSQL. Of the files beside the tables those come along that `is_shared` says all hubs have.
///
/// # Errors
/// `Io` when there is no such snapshot, or something is where the cluster is to be; `Corrupt` when the backup is damaged;
/// `Locked`, `Full`. When it is run again it goes on.
pub fn restore_cluster(
    backup: impl Into<SlowPlace>,
    at: Option<&str>,
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    is_shared: &dyn Fn(&str) -> bool,
    now: Micros,
) -> Result<Restored, StoreError> {
    let depot = depot::open(&backup.into(), false)?;
    let snapshot = choose(&*depot, at)?;
    let list = depot.list(&snapshot)?;
    let all = Moving::read(&manifest_of(&*depot, &snapshot, &list)?)?;
    let (manifest, places) = begin(slow, cluster)?;
    let slow = places.slow()?;
    let mut entries: HashMap<&str, &Entry> =
        list.entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let mut files = HashMap::new();
    for file in &all.files {
        let entry = entries.remove_entry(file.path.as_str()).ok_or_else(|| {
            let from = format!("{}/snapshots/{snapshot}", depot.name());
            let text = format!("`{from}` is damaged: `{}` is not in it", file.path);
            StoreError::new(ErrorKind::Corrupt, text)
        })?;
        files.extend([entry]);
    }
    // What was left by one of another snapshot that did not end.
    let others = slow.unknown(|path| files.contains_key(path.as_str()))?;
    slow.delete_each(others, |path| path)?;
    for entry in files.values() {
        bring(&*depot, entry, slow)?;
    }
    let shared = entries.into_values().filter(|entry| is_shared(&entry.path));
    let content = |entry: &Entry| {
        let object = whole(&*depot, entry)?;
        let content =
            std::fs::read(&object).map_err(|error| StoreError::io("read", &object, &error))?;
        Ok::<_, StoreError>((entry.path.clone(), content))
    };
    let shared = shared.map(content).collect::<Result<Vec<_>, _>>()?;
    manifest.end_restore(&all, &shared, now)?;
    let byte_count = files.values().map(|entry| entry.object.byte_count).sum();
    Ok(Restored { snapshot, file_count: files.len(), byte_count })
}

/// Takes an empty schema and an empty place, or goes on where both are of a restore.
fn begin(
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
) -> Result<(Postgres, Places), StoreError> {
    if slow.is_none() {
        let text =
            "cannot restore into the cluster: no place is named that all hubs have for their files";
        return Err(StoreError::new(ErrorKind::Io, text).with_hint(
            "set `store.slow_path` to a bucket, or to a directory that all hubs mount",
        ));
    }
    let begun = Postgres::restoring(cluster)?;
    let id = begun.unwrap_or_else(|| random("place"));
    let places = Places::new(Path::new(""), slow, Some(id), None)?;
    if begun.is_none() {
        places.slow()?.refuse_used()?;
    }
    let manifest = Postgres::begin_restore(cluster, id)?;
    places.slow()?.take(false)?;
    Ok((manifest, places))
}

fn bring(depot: &dyn Depot, entry: &Entry, slow: &Slow) -> Result<(), StoreError> {
    let is_inside =
        entry.path.starts_with("data/") && !entry.path.split('/').any(|part| part == "..");
    if !is_inside {
        let text = format!("cannot restore `{}`: it is no path of a data file", entry.path);
        return Err(StoreError::new(ErrorKind::Corrupt, text));
    }
    slow.put(&whole(depot, entry)?, &entry.path, &AtomicBool::new(false))
}

/// Where the bytes of an entry are, which are what was written.
fn whole(depot: &dyn Depot, entry: &Entry) -> Result<PathBuf, StoreError> {
    let whole = depot.whole(&entry.object);
    whole.map_err(|why| StoreError::new(ErrorKind::Corrupt, why).with_hint(other_snapshot(entry)))
}
