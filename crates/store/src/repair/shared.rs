//! Mends the files of a cluster, beside its hubs, from any machine that reaches them.
//!
//! ```text
//! damaged file ─► all that can be read of it to lost/ ─► readable rows to new files ─► one change: these in, that one out
//!                                                     ▲ kill here: an hour later a hub deletes them
//! ```
//!
//! A row is in one file, or in the log of the hub that has not filed it yet, so what is in a damaged file is nowhere else. When
//! hubs merge or drop the file meanwhile, the change does not happen.

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

use super::{Mended, fetch, free_place, of_entry};
use crate::cluster::{ManifestOptions, ReaderLease, first_id};
use crate::directory::lock_file;
use crate::manifest::{ManifestChange, PostgresManifest};

/// Below the data directory: new files, until they are where all hubs have theirs.
const DRAFTS: &str = "mending";
/// Rows of a damaged file that are in memory at once.
const ROWS_MAX: usize = 2 * ROW_GROUP_ROWS;

/// Mends the files of a cluster, which are all in `slow`, while its hubs go on; what is set aside goes below `dir`.
///
/// Files that the manifest does not name are left alone: a hub may have their rows in its log.
///
/// # Errors
/// `Io`, `NewerVersion`: the cluster or its files cannot be reached; `Full`; `Locked`: another repair has `dir`. What was
/// done stays done.
pub fn repair_cluster(
    dir: &Path,
    slow: Option<&SlowOptions>,
    cluster: &ManifestOptions,
    clock: &dyn Clock,
) -> Result<Vec<Mended>, StoreError> {
    let looks = PostgresManifest::look(cluster)?;
    let places = FileLocations::new(dir, slow, looks.slow_id()?, None)?;
    // Who cannot see any of them would find each of them wrong.
    places.check()?;
    let drafts = RepairWriters::take(dir.join(DRAFTS))?;
    let _hold = ReaderLease::new(cluster)?;
    let manifest = PostgresManifest::enter_to_mend(cluster)?;
    let maker = FileMaker::new(drafts.root.clone(), first_id(&manifest));
    let mender = ClusterRepair { dir, places, manifest, maker };
    let outcome = mender.mend_all(clock);
    // Otherwise the next repair does it; what was mended is told in any case.
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
    fn mend_all(&self, clock: &dyn Clock) -> Result<Vec<Mended>, StoreError> {
        let mut mended = Vec::new();
        for file in self.manifest.files()?.0 {
            let look = FileCheck { places: &self.places, file: &file, is_thorough: true };
            let Err(why) = look.look(&mut Inspection::default()) else { continue };
            // What is out of reach is not lost, and what was merged away is not damaged.
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

    /// `None` when hubs had taken the file out of the tables before this did.
    fn mend(
        &self,
        file: &Arc<DataFile>,
        why: String,
        now: Micros,
    ) -> Result<Option<Mended>, StoreError> {
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
            // The files that were published are deleted as those of a repair that was killed.
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

    /// Writes what can be read of a damaged file to new ones.
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

    /// Moves new files to where all hubs have theirs.
    fn publish(&self, files: &[Arc<DataFile>]) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        self.manifest.seen()?;
        self.manifest.note_pending(&paths)?;
        let moved = self.places.slow()?.put_each(files, |path| self.maker.place(path))?;
        self.maker.discard(files);
        Ok(moved)
    }
}

/// A directory for new files, of one repair at a time.
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
        // Of a repair that was killed.
        drop(std::fs::remove_dir_all(root.join("data")));
        Ok(Self { root, _lock: lock })
    }
}

impl Drop for RepairWriters {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.root));
    }
}
