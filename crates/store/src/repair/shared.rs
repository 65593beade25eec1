//! Repairs the files of a running cluster from any machine that reaches them.
//!
//! ```text
//! damaged file ─► copy to lost/ ─► readable rows to new files ─► one commit: new in, damaged out
//!                                    ▲ kill here: a hub deletes them an hour later
//! ```
//!
//! A row is in one file, or in the log of a hub that has not flushed it, so the rows of a damaged
//! file are nowhere else. When hubs merge or drop the file meanwhile, the commit is rejected.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use weir_datafile::{
    DataFile, ErrorKind, FileCheck, FileMaker, Inspection, ROW_GROUP_ROWS, StoreError,
    read_undamaged, sync_dir,
};
use weir_tables::{Clock, Micros};
use weir_tier::{FileLocations, SlowOptions};

use super::{FileRepair, fetch, free_place, of_entry};
use crate::cluster::{ManifestOptions, ReaderLease, first_id};
use crate::directory::lock_file;
use crate::manifest::{ManifestChange, PostgresManifest};

/// Directory below the data directory for new files until their upload.
const DRAFTS: &str = "mending";
/// Rows of a damaged file that are buffered in memory.
const ROWS_MAX: usize = 2 * ROW_GROUP_ROWS;

/// Repairs the files of a cluster, which are all in `slow`, while its hubs keep running; damaged
/// files are kept below `dir`.
///
/// Files that the manifest does not name are left alone: a hub may have their rows in its log.
///
/// # Errors
/// `Io`, `NewerVersion`: the cluster or its files cannot be reached; `Full`; `Locked`: another
/// repair has `dir`. Completed steps stay in effect.
pub fn repair_cluster(
    dir: &Path,
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    clock: &dyn Clock,
) -> Result<Vec<FileRepair>, StoreError> {
    let looks = PostgresManifest::look(cluster)?;
    let places = FileLocations::new(dir, slow, looks.slow_id()?, None)?;
    // Without access to the tier, every file would be reported as damaged.
    places.check()?;
    let drafts = RepairWriters::take(dir.join(DRAFTS))?;
    let _hold = ReaderLease::new(cluster)?;
    let manifest = PostgresManifest::enter_to_mend(cluster)?;
    let maker = FileMaker::new(drafts.root.clone(), first_id(&manifest));
    let mender = ClusterRepair { dir, places, manifest, maker };
    let outcome = mender.mend_all(clock);
    // On failure the next repair does it; the result is reported in any case.
    drop(mender.manifest.leave_for_good());
    outcome
}

struct ClusterRepair<'a> {
    dir: &'a Path,
    places: FileLocations,
    manifest: PostgresManifest,
    maker: FileMaker,
}

impl ClusterRepair<'_> {
    fn mend_all(&self, clock: &dyn Clock) -> Result<Vec<FileRepair>, StoreError> {
        let mut mended = Vec::new();
        for file in self.manifest.files()?.0 {
            let look = FileCheck { places: &self.places, file: &file, is_thorough: true };
            let Err(why) = look.look(&mut Inspection::default()) else { continue };
            // An unreachable file is not lost, and a merged file is not damaged.
            self.places.check()?;
            if self.is_live(&file)? {
                mended.extend(self.mend(&file, why, clock.now())?);
            }
        }
        Ok(mended)
    }

    fn is_live(&self, file: &DataFile) -> Result<bool, StoreError> {
        Ok(self.manifest.files()?.0.iter().any(|live| live.id == file.id))
    }

    /// Repairs one file; `None` when hubs removed it from the tables first.
    fn mend(
        &self,
        file: &Arc<DataFile>,
        why: String,
        now: Micros,
    ) -> Result<Option<FileRepair>, StoreError> {
        let kept_at = free_place(self.dir, &file.path);
        let kept = self.dir.join(&kept_at);
        fetch(&self.places, &file.path, &kept)?;
        let mut places = kept.ancestors().skip(1).take_while(|place| place.starts_with(self.dir));
        if kept.exists() {
            places.try_for_each(sync_dir)?;
        }
        let mut mended = of_entry(file, why);
        let add = if kept.exists() { self.rewrite(file, &kept)? } else { Vec::new() };
        let rows_taken: u64 = add.iter().map(|file| file.row_count).sum();
        let add = self.publish(&add)?;
        let remove = std::slice::from_ref(file);
        let change = ManifestChange {
            reason: "repair",
            now,
            add: &add,
            remove,
            ..ManifestChange::default()
        };
        match self.manifest.commit(&change) {
            Ok(_) => {}
            // The uploaded files are deleted like those of a killed repair.
            Err(error) if error.kind == ErrorKind::Moved && !self.is_live(file)? => {
                drop(std::fs::remove_file(&kept));
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        mended.rows_taken = rows_taken;
        mended.rows_lost = mended.rows_lost.map(|rows| rows.saturating_sub(rows_taken));
        mended.kept_at = kept.exists().then_some(kept_at);
        Ok(Some(mended))
    }

    /// Writes the readable rows of a damaged file to new files.
    fn rewrite(&self, file: &DataFile, kept: &Path) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let mut files = Vec::new();
        let mut rows: Vec<RecordBatch> = Vec::new();
        let mut write = |rows: &mut Vec<RecordBatch>| -> Result<(), StoreError> {
            if !rows.is_empty() {
                files.extend(self.maker.write(file.table, rows, Micros(file.arrival_ts))?);
                rows.clear();
            }
            Ok(())
        };
        read_undamaged(kept, file.table, |more| {
            rows.push(more.clone());
            let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
            if count < ROWS_MAX { Ok(()) } else { write(&mut rows) }
        })?;
        write(&mut rows)?;
        Ok(files)
    }

    /// Uploads new files to the shared place.
    fn publish(&self, files: &[Arc<DataFile>]) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        self.manifest.seen()?;
        self.manifest.note_pending(&paths)?;
        let moved = self.places.slow()?.put_each(files, |path| self.maker.place(path))?;
        self.maker.discard(files);
        Ok(moved)
    }
}

/// Writers for new files in a directory that one repair uses at a time.
struct RepairWriters {
    root: PathBuf,
    _lock: File,
}

impl RepairWriters {
    fn take(root: PathBuf) -> Result<Self, StoreError> {
        std::fs::create_dir_all(&root).map_err(|error| StoreError::io("make", &root, &error))?;
        let lock = lock_file(&root.join("lock"), || {
            let text = format!("cannot use `{}`: another repair has it", root.display());
            StoreError::new(ErrorKind::Locked, text)
                .with_hint("wait for its end, or name another directory with `--data`")
        })?;
        // Leftovers of a killed repair.
        drop(std::fs::remove_dir_all(root.join("data")));
        Ok(Self { root, _lock: lock })
    }
}

impl Drop for RepairWriters {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.root));
    }
}
