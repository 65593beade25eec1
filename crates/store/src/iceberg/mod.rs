//! The tables as read-only Apache Iceberg tables, for engines that read files directly: metadata
//! beside the files, generated from the manifest on request. Layout: `docs/iceberg.md`.
//!
//! Requests without a change in between share one set of files. Files of older snapshots are
//! deleted after the readers' grace period.
//!
//! A hub of a cluster also writes the metadata to the shared place, because engines reach that and
//! not its disk. The hub's number is part of the names: each hub cleans up only its own files.

mod manifests;
mod metadata;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use serde_json::Value;
use weir_tables::TableSpec;

use manifests::{FileBounds, ManifestEntry};
use metadata::IcebergSnapshot;
use weir_datafile::{DataFile, ErrorKind, StoreError, Tier};
use weir_tier::{FileLocations, file_url};

/// An Iceberg table.
#[derive(Debug)]
pub struct IcebergTable {
    /// Location of the metadata file: `file:///…/iceberg/request/….metadata.json`.
    pub metadata_location: String,
    /// Table metadata in format version 2.
    pub metadata: Value,
}

/// Writes the metadata of one store.
#[derive(Debug)]
pub(crate) struct Iceberg {
    /// Absolute path of the root.
    root: PathBuf,
    places: FileLocations,
    /// Number of this hub in a cluster.
    hub: Option<i64>,
    /// Grace period of files of older snapshots.
    grace: Duration,
    newest: Mutex<NewestTables>,
}

/// The newest metadata of each table with its snapshot; locked while writing, so that no two
/// requests write the same files.
type NewestTables = HashMap<&'static str, (i64, Arc<IcebergTable>)>;

impl Iceberg {
    pub(crate) fn new(places: FileLocations, hub: Option<i64>, grace: Duration) -> Self {
        let root = std::path::absolute(&places.root).unwrap_or_else(|_| places.root.clone());
        Self { root, places, hub, grace, newest: Mutex::default() }
    }

    /// The metadata of a table with these files.
    ///
    /// # Errors
    /// `Io`, `Full`: it cannot be written. `Io` when a file is in a cold tier that is not
    /// configured.
    pub(crate) fn table(
        &self,
        table: &'static TableSpec,
        files: &[Arc<DataFile>],
    ) -> Result<Arc<IcebergTable>, StoreError> {
        let entries = files.iter().map(|file| self.entry(file)).collect::<Result<Vec<_>, _>>()?;
        let id = snapshot_id(&entries);
        let mut newest = self.newest.lock();
        let last = newest.get(table.name);
        if let Some((last, found)) = last
            && *last == id
        {
            return Ok(Arc::clone(found));
        }
        if self.hub.is_some() {
            // An unmounted disk would otherwise receive the files.
            self.places.check()?;
        }
        let last = last.map(|(last, _)| self.stem(*last));
        self.clear(&self.dir(table), &self.stem(id), last.as_deref());
        let made = Arc::new(self.write(table, id, &entries)?);
        newest.insert(table.name, (id, Arc::clone(&made)));
        Ok(made)
    }

    fn entry(&self, file: &DataFile) -> Result<ManifestEntry, StoreError> {
        let location = match file.tier {
            Tier::Local => file_url(&self.root.join(&file.path)),
            Tier::Slow => self.places.slow()?.location(&file.path),
        };
        let ts = file.table.column("ts").map_or(0, |column| column.id);
        Ok(ManifestEntry {
            location,
            sequence: file.id,
            row_count: file.row_count.cast_signed(),
            byte_count: file.byte_count.cast_signed(),
            millis: file.arrival_ts / 1000,
            ts: (ts, file.min_ts, file.max_ts),
        })
    }

    fn dir(&self, table: &TableSpec) -> PathBuf {
        self.root.join("iceberg").join(table.name)
    }

    fn write(
        &self,
        table: &TableSpec,
        id: i64,
        entries: &[ManifestEntry],
    ) -> Result<IcebergTable, StoreError> {
        let dir = self.dir(table);
        std::fs::create_dir_all(&dir).map_err(|error| StoreError::io("make", &dir, &error))?;
        let stem = self.stem(id);
        let location = match self.hub {
            Some(_) => self.places.slow()?.location(&format!("iceberg/{}", table.name)),
            None => file_url(&dir),
        };
        let list = format!("{stem}-list.avro");
        if !entries.is_empty() {
            let schema = metadata::schema(table).to_string();
            let manifest = manifests::manifest(&FileBounds { snapshot: id, schema }, entries)
                .map_err(|error| unwritten(&dir, &error))?;
            let name = format!("{stem}-manifest.avro");
            let place = format!("{location}/{name}");
            let text = manifests::manifest_list(id, (&place, manifest.len()), entries)
                .map_err(|error| unwritten(&dir, &error))?;
            self.put(&dir, &name, &manifest)?;
            self.put(&dir, &list, &text)?;
        }
        let snapshot = (!entries.is_empty()).then(|| IcebergSnapshot {
            id,
            sequence: entries.iter().map(|entry| entry.sequence).max().unwrap_or_default(),
            millis: entries.iter().map(|entry| entry.millis).max().unwrap_or_default(),
            list: format!("{location}/{list}"),
            files: entries.len(),
            row_count: entries.iter().map(|entry| entry.row_count).sum(),
            byte_count: entries.iter().map(|entry| entry.byte_count).sum(),
        });
        let uuid = uuid(&location);
        let place = (&*location, &*uuid);
        let metadata = metadata::metadata(table, place, snapshot.as_ref());
        let name = format!("{stem}.metadata.json");
        self.put(&dir, &name, metadata.to_string().as_bytes())?;
        Ok(IcebergTable { metadata_location: format!("{location}/{name}"), metadata })
    }

    /// Deletes files of older snapshots after their grace period. The period of `last` begins now:
    /// an engine may have received it just before, however old its files are. A file that cannot be
    /// deleted is retried next time.
    fn clear(&self, dir: &Path, kept: &str, last: Option<&str>) {
        let Ok(files) = std::fs::read_dir(dir) else { return };
        let is_over = |time: SystemTime| time.elapsed().is_ok_and(|age| age > self.grace);
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.starts_with(kept) {
                continue;
            }
            if last.is_some_and(|last| name.starts_with(last)) {
                let _its_older_time = utimensat(CWD, file.path(), &NOW, AtFlags::empty());
            }
            let written = file.metadata().and_then(|about| about.modified());
            if written.is_ok_and(is_over) && self.unpublish(&file.path()).is_ok() {
                drop(std::fs::remove_file(file.path()));
            }
        }
    }

    /// Name prefix of a snapshot's files.
    fn stem(&self, snapshot: i64) -> String {
        match self.hub {
            Some(hub) => format!("{hub}-{snapshot:016x}"),
            None => format!("{snapshot:016x}"),
        }
    }

    /// Writes a file atomically: readers may request it during a rewrite.
    fn put(&self, dir: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (path, half) = (dir.join(name), dir.join(format!("{name}.new")));
        let written = std::fs::write(&half, bytes).and_then(|()| std::fs::rename(&half, &path));
        written.map_err(|error| StoreError::io("write", &path, &error))?;
        let Some(shared) = self.shared(&path) else { return Ok(()) };
        self.places.slow()?.put(&path, &shared, &AtomicBool::new(false))
    }

    fn unpublish(&self, path: &Path) -> Result<(), StoreError> {
        let Some(shared) = self.shared(path) else { return Ok(()) };
        self.places.slow()?.delete(&shared)
    }

    /// Name of a file in the shared place; `None` for a single hub.
    fn shared(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.root).ok()?.to_str()?;
        self.hub.map(|_| name.to_owned())
    }
}

const NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
};

/// Derives the snapshot id from the entries: equal files have an equal id.
fn snapshot_id(entries: &[ManifestEntry]) -> i64 {
    let mut text = String::new();
    for entry in entries {
        let _infallible = writeln!(text, "{}", entry.location);
    }
    let hash = digest(&SHA256, text.as_bytes());
    let (first, _) = hash.as_ref().split_first_chunk().expect("a hash has 32 bytes");
    // Snapshot ids are positive.
    (i64::from_be_bytes(*first) & i64::MAX).max(1)
}

/// Derives a stable 128-bit name from a location, as a version 8 UUID.
fn uuid(location: &str) -> String {
    let hash = digest(&SHA256, location.as_bytes());
    let hash: String = hash.as_ref().iter().fold(String::new(), |mut hash, byte| {
        let _infallible = write!(hash, "{byte:02x}");
        hash
    });
    let [first, second, third, fourth, fifth] =
        [&hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..32]];
    format!("{first}-{second}-8{third}-8{fourth}-{fifth}")
}

fn unwritten(dir: &Path, error: &apache_avro::Error) -> StoreError {
    StoreError::new(
        ErrorKind::Io,
        format!("cannot write manifests in `{}`: {error}", dir.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form_that_readers_ask_for() {
        let one = uuid("file:///var/lib/weir/iceberg/request");
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
        assert_eq!((&one[14..15], &one[19..20]), ("8", "8"));
        assert_ne!(one, uuid("file:///var/lib/weir/iceberg/host"));
    }
}
