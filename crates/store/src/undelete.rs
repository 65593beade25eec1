//! Restores files that expired by their age and are not deleted yet.

use std::path::Path;

use weir_datafile::{StoreError, Tier};
use weir_tables::Clock;
use weir_tier::{FileLocations, SlowOptions};

use crate::cluster::ManifestOptions;
use crate::directory::Directory;
use crate::manifest::{Manifest, PostgresManifest, QueuedDeletion, SqliteManifest};
use crate::options::StoreOptions;

/// What was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredFiles {
    /// Number of files that are part of their tables again.
    pub file_count: u64,
    /// Bytes of these files.
    pub byte_count: u64,
    /// Paths of files that are gone already.
    pub missing: Vec<String>,
}

/// Puts files that expired by their age, and were not deleted yet, back into their tables.
///
/// # Errors
/// `Locked` while a weir has the directory open; `Io`, `Full`, `Corrupt`. Nothing was changed.
pub fn undelete(options: &StoreOptions) -> Result<RestoredFiles, StoreError> {
    let directory = Directory::open(&options.dir)?;
    let mut manifest = Manifest::Own(SqliteManifest::open(&directory.manifest())?);
    let places =
        FileLocations::new(&options.dir, options.slow.as_ref(), manifest.slow_id()?, None)?;
    restore(&mut manifest, &places, options.clock.as_ref())
}

/// As [`undelete`], for a cluster, whose hubs keep running.
///
/// # Errors
/// `Io`, `NewerVersion`. Nothing was changed.
pub fn undelete_cluster(
    dir: &Path,
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    clock: &dyn Clock,
) -> Result<RestoredFiles, StoreError> {
    let manifest = PostgresManifest::look(cluster)?;
    let places = FileLocations::new(dir, slow, manifest.slow_id()?, None)?;
    places.check()?;
    restore(&mut Manifest::Shared(Box::new(manifest)), &places, clock)
}

fn restore(
    manifest: &mut Manifest,
    places: &FileLocations,
    clock: &dyn Clock,
) -> Result<RestoredFiles, StoreError> {
    let waiting: Vec<QueuedDeletion> =
        manifest.gc_queue()?.into_iter().filter(|file| file.is_restorable).collect();
    if waiting.iter().any(|file| file.tier == Tier::Slow) {
        places.check()?;
    }
    let is_there = |file: &QueuedDeletion| {
        places.open(&file.path, file.tier).is_ok_and(|found| found.length() == file.byte_count)
    };
    let (found, gone): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_there);
    let ids: Vec<i64> = found.iter().map(|file| file.id).collect();
    if !ids.is_empty() {
        manifest.undelete(&ids, clock.now())?;
    }
    Ok(RestoredFiles {
        file_count: found.len() as u64,
        byte_count: found.iter().map(|file| file.byte_count).sum(),
        missing: gone.into_iter().map(|file| file.path).collect(),
    })
}
