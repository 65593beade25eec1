//! Inspects a data directory from outside, whether a weir has it open or not: size of its files,
//! and whether they match the manifest. Read-only.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use weir_datafile::{DataFile, ErrorKind, FileCheck, Inspection, StoreError, data_files};
use weir_tier::{FileLocations, SlowOptions};

use crate::cluster::ManifestOptions;
use crate::manifest::{PostgresManifest, SqliteManifest, odd_path};
use crate::write_path::log_check;

/// Inspects the store in `dir`, whose cold tier is `slow`; `is_thorough` reads every row of every
/// file.
///
/// # Errors
/// `Io`, `Corrupt` when no manifest can be read. Damaged files are part of the result.
pub fn inspect(
    dir: &Path,
    slow: Option<&SlowOptions>,
    is_thorough: bool,
) -> Result<Inspection, StoreError> {
    let manifest = dir.join("manifest.sqlite");
    if !manifest.exists() {
        let text = format!("cannot inspect `{}`: it has no `manifest.sqlite`", dir.display());
        return Err(StoreError::new(ErrorKind::Io, text)
            .with_hint("name a hub's data directory with `--data`"));
    }
    let places = FileLocations::new(dir, slow, SqliteManifest::read(&manifest)?.slow_id()?, None)?;
    let said = || {
        let manifest = SqliteManifest::read(&manifest)?;
        let (content, waiting) = (manifest.load()?, manifest.gc_queue()?);
        let waiting = waiting.into_iter().map(|file| file.path);
        Ok(ManifestListing {
            files: content.files,
            names: content.paths.into_iter().chain(waiting).collect(),
        })
    };
    let mut inspection = look_at(dir, &places, is_thorough, &said)?;
    if is_thorough {
        check_own_files(dir, &manifest, &mut inspection)?;
    }
    Ok(inspection)
}

/// Checks the manifest and the log of a single hub.
fn check_own_files(dir: &Path, path: &Path, inspection: &mut Inspection) -> Result<(), StoreError> {
    let manifest = SqliteManifest::read(path)?;
    if manifest.is_intact()? == Some(false) {
        let why = "changed after writing: the checksum differs".to_owned();
        inspection.problems.push(("manifest.sqlite".to_owned(), why));
    }
    let content = manifest.load()?;
    if let Some(path) = odd_path(&content, &manifest.gc_queue()?) {
        let why = format!("`{}` in it is no path of its file", path.escape_debug());
        inspection.problems.push(("manifest.sqlite".to_owned(), why));
    }
    let floor = content.wal_floor;
    inspection.problems.extend(log_check::problems(&dir.join("wal"), floor)?);
    Ok(())
}

/// Inspects the files of a cluster, which are all in `slow`, from any machine that reaches them;
/// `dir` receives temporary downloads.
///
/// # Errors
/// `Io`, `NewerVersion`. Damaged files are part of the result.
pub fn inspect_cluster(
    dir: &Path,
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    is_thorough: bool,
) -> Result<Inspection, StoreError> {
    let manifest = PostgresManifest::look(cluster)?;
    let places = FileLocations::new(dir, slow, manifest.slow_id()?, None)?;
    // Without access to the tier, every file would be reported as damaged.
    places.check()?;
    look_at(dir, &places, is_thorough, &|| {
        manifest.files().map(|(files, names)| ManifestListing { files, names })
    })
}

/// The content of a manifest at one moment.
struct ManifestListing {
    files: Vec<Arc<DataFile>>,
    /// Every name in the manifest, including files that no query reads any more.
    names: HashSet<String>,
}

fn look_at(
    dir: &Path,
    places: &FileLocations,
    is_thorough: bool,
    said: &dyn Fn() -> Result<ManifestListing, StoreError>,
) -> Result<Inspection, StoreError> {
    let mut inspection = Inspection::default();
    let ManifestListing { files, mut names } = said()?;
    for file in &files {
        let outcome = FileCheck { places, file, is_thorough }.look(&mut inspection);
        if let Err(why) = outcome {
            // A running weir may have merged it away in the meantime.
            if said()?.files.iter().any(|now| now.path == file.path) {
                inspection.problems.push((file.path.clone(), why));
            }
        }
    }
    let local = data_files(dir, "parquet");
    let slow = places.slow.as_ref().filter(|slow| slow.check().is_ok());
    let in_slow = slow.map(|slow| slow.unknown(|_| false)).transpose()?.unwrap_or_default();
    // Include files that were added since then.
    names.extend(said()?.names);
    let unknown = |path: &String| !names.contains(path);
    inspection.unknown_files = local.into_iter().filter(unknown).collect();
    if let Some(slow) = slow {
        let name = slow.name();
        let paths = in_slow.into_iter().filter(unknown);
        inspection.unknown_files.extend(paths.map(|path| format!("{name}/{path}")));
    }
    Ok(inspection)
}
