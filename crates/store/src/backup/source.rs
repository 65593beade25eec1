//! The source of a backup: a data directory with its manifest, or a cluster whose manifest is in
//! PostgreSQL.

use std::path::{Path, PathBuf};

use weir_datafile::{ErrorKind, SnapshotList, StoreError, Tier};
use weir_ledger::SqliteLedger;
use weir_tables::Micros;
use weir_tier::{FileLocations, SlowOptions};

use crate::backup::object::ObjectCatalog;
use crate::cluster::ManifestOptions;
use crate::maintenance::trusted_clock::CLOCK_FILE;
use crate::manifest::{PostgresManifest, SqliteManifest};

/// Entries not backed up: rows of the log are in files by then; the rest belongs to one run.
const LEFT_OUT: [&str; 9] =
    ["cache", "copies", "data", "lock", "lost", "manifest.sqlite", CLOCK_FILE, "spill", "wal"];

/// The ledger of incidents and notices, beside which are its `-wal` and `-shm` files.
const LEDGER: &str = "actions.sqlite";

/// The manifest and the file locations of a backup's source.
pub(super) struct BackupSource {
    /// Name for messages.
    pub(super) name: String,
    pub(super) places: FileLocations,
    manifest: SourceManifest,
}

enum SourceManifest {
    Own(PathBuf),
    Shared(Box<PostgresManifest>),
}

impl BackupSource {
    /// Opens a data directory, whether a weir has it open or not.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `NewerVersion`: the manifest is missing or cannot be read.
    pub(super) fn directory(dir: &Path, slow: Option<&SlowOptions>) -> Result<Self, StoreError> {
        let manifest = dir.join("manifest.sqlite");
        let name = format!("`{}`", dir.display());
        let places =
            FileLocations::new(dir, slow, SqliteManifest::read(&manifest)?.slow_id()?, None)?;
        Ok(Self { name, places, manifest: SourceManifest::Own(manifest) })
    }

    /// Opens a cluster.
    ///
    /// # Errors
    /// `Io`, `NewerVersion`: the cluster cannot be reached or does not exist.
    pub(super) fn cluster(
        slow: Option<&SlowOptions>,
        cluster: &ManifestOptions,
    ) -> Result<Self, StoreError> {
        let manifest = PostgresManifest::look(cluster)?;
        let places = FileLocations::new(Path::new(""), slow, manifest.slow_id()?, None)?;
        let name = "the cluster".to_owned();
        Ok(Self { name, places, manifest: SourceManifest::Shared(Box::new(manifest)) })
    }

    /// Writes the current manifest into a new file; returns the files that it names.
    ///
    /// # Errors
    /// `Io`, `Full`; also when files are out of reach, because the copy would be incomplete.
    pub(super) fn copy_manifest(
        &self,
        to: &Path,
        now: Micros,
    ) -> Result<Vec<(String, Tier)>, StoreError> {
        match &self.manifest {
            SourceManifest::Own(path) => SqliteManifest::read(path)?.copy_to(to)?,
            SourceManifest::Shared(manifest) => manifest.moving()?.write(to, now)?,
        }
        let files = SqliteManifest::read(to)?.places()?;
        if files.iter().any(|(_, tier)| *tier == Tier::Slow) {
            self.places.check().map_err(|error| {
                let text = format!("cannot back up {}: {}", self.name, error.message);
                StoreError { message: text, ..error }
            })?;
        }
        Ok(files)
    }

    fn files(&self) -> Result<Vec<(String, Tier)>, StoreError> {
        match &self.manifest {
            SourceManifest::Own(path) => SqliteManifest::read(path)?.places(),
            SourceManifest::Shared(manifest) => manifest.places(),
        }
    }

    /// Finds a file that the manifest names now and that does not exist.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn missing(&self) -> Result<Option<String>, StoreError> {
        let is_gone = |(path, tier): &(String, Tier)| {
            let error = self.places.open(path, *tier).err();
            error.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let gone: Vec<(String, Tier)> = self.files()?.into_iter().filter(is_gone).collect();
        if gone.is_empty() {
            return Ok(None);
        }
        // A merge may have removed the file just now.
        let files = self.files()?;
        let gone = gone.into_iter().find(|file| files.contains(file) && is_gone(file));
        Ok(gone.map(|(path, _)| path))
    }

    /// Copies the files beside the tables: of a directory the hub's identity towards its agents and
    /// the version; of a cluster the shared files.
    ///
    /// # Errors
    /// `Io`, `Full`.
    pub(super) fn take_others(
        &self,
        objects: &mut ObjectCatalog<'_>,
        list: &mut SnapshotList,
    ) -> Result<(), StoreError> {
        match &self.manifest {
            SourceManifest::Own(_) => {
                for path in others(&self.places.root) {
                    list.entries.extend(objects.take(&self.places, &path, Tier::Local)?);
                }
                self.take_ledger(objects, list)?;
            }
            SourceManifest::Shared(manifest) => {
                for (name, content) in manifest.shared_files()? {
                    list.entries.push(objects.take_bytes(name, &content)?);
                }
            }
        }
        Ok(())
    }
}

impl BackupSource {
    /// Copies the ledger of incidents and notices as of one moment: a program may write it.
    fn take_ledger(
        &self,
        objects: &mut ObjectCatalog<'_>,
        list: &mut SnapshotList,
    ) -> Result<(), StoreError> {
        let copy = objects.target.draft().join("actions.copy");
        drop(std::fs::remove_file(&copy));
        let is_there = SqliteLedger::copy(&self.places.root, &copy).map_err(|error| {
            let text = format!("cannot back up {}: {error}", self.name);
            StoreError::new(ErrorKind::Io, text)
        })?;
        if is_there {
            let content = std::fs::read(&copy);
            let content = content.map_err(|error| StoreError::io("read", &copy, &error))?;
            std::fs::remove_file(&copy).map_err(|error| StoreError::io("remove", &copy, &error))?;
            list.entries.push(objects.take_bytes(LEDGER.to_owned(), &content)?);
        }
        Ok(())
    }
}

/// Rejects a bad source before the backup is created.
///
/// # Errors
/// `Io`: it is no data directory of a single hub.
pub(super) fn refuse_other(dir: &Path) -> Result<(), StoreError> {
    if dir.join("manifest.sqlite").exists() {
        return Ok(());
    }
    let text = format!("cannot back up `{}`: it has no `manifest.sqlite`", dir.display());
    Err(StoreError::new(ErrorKind::Io, text).with_hint("name a hub's data directory with `--data`"))
}

fn others(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(place) = waiting.pop() {
        for entry in std::fs::read_dir(&place).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(name) = path.strip_prefix(dir) else { continue };
            let Some(name) = name.to_str() else { continue };
            let is_out = LEFT_OUT.contains(&name)
                || name.starts_with("manifest.sqlite")
                || name.starts_with(LEDGER)
                || name.ends_with(".new");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_out => waiting.push(path),
                Ok(kind) if kind.is_file() && !is_out => found.push(name.to_owned()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
