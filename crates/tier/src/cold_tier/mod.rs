//! The slow tier: where files are kept that are old, or that the fast disk has no room for.
//!
//! A file moves as a copy under a new number; one change of the manifest puts the copy in its place, and the old file waits
//! for its last reader. So whatever happens in between, the manifest names a file that is whole.
//!
//! ```text
//! copy, sync, read back, name ─► one manifest transaction ─► show the copy ─► old file deleted after its grace period
//!     ▲ kill here: nobody names it,     ▲ kill here: the copy is in,
//!     └ the next start deletes it       └ the old file is in the queue
//! ```
//!
//! A file `WEIR` in it says whose it is: a disk that is not mounted looks like an empty directory.

mod bucket;
mod cache;
mod cached_store;
mod directory;
mod file_locations;
mod mover;
mod plan;
mod range_reader;
mod requests;
mod tiered_store;

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use object_store::ObjectStore;

use crate::options::{ReadPrices, SlowOptions, SlowPlace};
use crate::stats::BucketStats;
use cache::IndexCache;
use directory::DirectoryTier;
use weir_datafile::{DataFile, ErrorKind, FileSource, StoreError, Tier};

pub use bucket::BucketTier;
pub use file_locations::FileLocations;
pub use mover::{MoverJob, MoverReport, TierMover};
pub use plan::to_move;
pub use range_reader::RangeReader;
pub use tiered_store::TieredStore;

/// The file that says whose place this is.
const MARK: &str = "WEIR";
/// Its first line.
const MARK_VERSION: &str = "weir slow tier 1";
/// After so many files in a row that cannot be deleted no more are tried for now.
const REFUSED_MAX: u32 = 16;

/// What a slow tier has to be able to do. Paths are those of the manifest.
trait TierBackend: fmt::Debug + Send + Sync {
    /// For messages: the directory or the address.
    fn name(&self) -> String;
    /// Where a file is, for others: `file:///…`, `s3://…`.
    fn location(&self, path: &str) -> String;
    /// What to do when it is not there.
    fn hint(&self) -> &'static str;
    /// The text of [`MARK`]; `None` when it is not there.
    fn mark(&self) -> Result<Option<String>, StoreError>;
    fn set_mark(&self, text: &str) -> Result<(), StoreError>;
    /// Copies a file; when it returns the copy is durable and has given back what was written.
    fn put(&self, from: &Path, path: &str, stop: &AtomicBool) -> Result<(), StoreError>;
    fn open(&self, path: &str) -> std::io::Result<FileSource>;
    /// One that is not there is deleted already.
    fn delete(&self, path: &str) -> Result<(), StoreError>;
    /// Every file, also halves that a kill left.
    fn list(&self) -> Result<Vec<String>, StoreError>;
    /// Whether reading costs money and time, so that nothing is read only to say more about an error.
    fn is_far(&self) -> bool {
        false
    }
    /// Forgets what is kept here of files that are not in `known`.
    fn keep_only(&self, _known: &HashSet<String>) {}
    /// What reading costs; `None` where that is nothing.
    fn prices(&self) -> Option<ReadPrices> {
        None
    }
    /// What is really read for ranges of a file that are asked for together.
    fn reads(&self, _path: &str, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        ranges
    }
    /// What was asked of it, when that is counted.
    fn stats(&self) -> Option<BucketStats> {
        None
    }
    /// Ends what waits for the place, from now on.
    fn stop(&self) {}
    /// For queries.
    fn store(&self) -> object_store::Result<Arc<dyn ObjectStore>>;
}

/// Where pieces of files in a bucket may be kept.
pub struct CacheSpace<'a> {
    /// The data directory.
    pub dir: &'a Path,
    /// Bytes that stay free on its disk.
    pub reserve: u64,
}

/// The slow tier of one store.
#[derive(Debug)]
pub struct ColdTier {
    place: Box<dyn TierBackend>,
    /// As the manifest has it; 0: nothing was ever kept here.
    id: AtomicI64,
}

impl ColdTier {
    /// Looks at nothing yet.
    ///
    /// # Errors
    /// `Io`: what is wrong with the options.
    pub fn new(
        options: &SlowOptions,
        id: i64,
        cache: Option<&CacheSpace<'_>>,
    ) -> Result<Self, StoreError> {
        let place: Box<dyn TierBackend> = match &options.place {
            SlowPlace::Directory(root) => Box::new(DirectoryTier::new(root.clone())),
            SlowPlace::Bucket(options) => {
                let cache = cache.filter(|_| options.cache_bytes > 0).map(|room| {
                    let dir = room.dir.join("cache").join("slow");
                    Arc::new(IndexCache::open(dir, options.cache_bytes, room.reserve))
                });
                Box::new(BucketTier::new(options, cache)?)
            }
        };
        Ok(Self { place, id: AtomicI64::new(id) })
    }

    /// The directory or the address, for messages.
    pub fn name(&self) -> String {
        self.place.name()
    }

    /// Where a file is, for others: `file:///…`, `s3://…`.
    pub fn location(&self, path: &str) -> String {
        self.place.location(path)
    }

    /// Whether reading costs money and time.
    pub fn is_far(&self) -> bool {
        self.place.is_far()
    }

    /// As `TierBackend::prices`.
    pub fn prices(&self) -> Option<ReadPrices> {
        self.place.prices()
    }

    /// What is really read for ranges of a file that are asked for together.
    pub fn reads(&self, path: &str, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        self.place.reads(path, ranges)
    }

    /// Requests so far; `None` where they are not counted.
    pub fn stats(&self) -> Option<BucketStats> {
        self.place.stats()
    }

    /// As `TierBackend::put`.
    pub fn put(&self, from: &Path, path: &str, stop: &AtomicBool) -> Result<(), StoreError> {
        self.place.put(from, path, stop)
    }

    /// Copies files that are at `from` of their paths, and gives them as files of this tier.
    ///
    /// # Errors
    /// As `TierBackend::put`; those before the one that failed are copied.
    pub fn put_each(
        &self,
        files: &[Arc<DataFile>],
        from: impl Fn(&str) -> PathBuf,
    ) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let go_on = AtomicBool::new(false);
        let put = |file: &Arc<DataFile>| {
            self.put(&from(&file.path), &file.path, &go_on)?;
            Ok(Arc::new(DataFile { tier: Tier::Slow, ..(**file).clone() }))
        };
        files.iter().map(put).collect()
    }

    /// As `TierBackend::delete`.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.place.delete(path)
    }

    /// Deletes files and gives those that are gone: one that cannot be deleted holds up none of the others.
    ///
    /// # Errors
    /// When the tier is not there.
    pub fn delete_each<T>(
        &self,
        files: Vec<T>,
        path: impl Fn(&T) -> &str,
    ) -> Result<Vec<T>, StoreError> {
        let mut gone = Vec::with_capacity(files.len());
        let mut refused = 0;
        for file in files {
            match self.place.delete(path(&file)) {
                Ok(()) => {
                    refused = 0;
                    gone.push(file);
                }
                Err(error) => {
                    self.check()?;
                    tracing::warn!("cannot delete a file, this is tried again: {error}");
                    refused += 1;
                    if refused == REFUSED_MAX {
                        break;
                    }
                }
            }
        }
        Ok(gone)
    }

    /// Number that the manifest gave the tier.
    pub fn set_id(&self, id: i64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Whether the tier is there and is this store's.
    ///
    /// # Errors
    /// `Io`, `Corrupt`: why it cannot be used, with its name.
    pub fn check(&self) -> Result<(), StoreError> {
        match self.place.mark().map_err(|error| self.gone(&error.message))? {
            Some(text) if text == mark_of(self.id.load(Ordering::Relaxed)) => Ok(()),
            Some(text) if text.starts_with(MARK_VERSION) => Err(self.foreign()),
            Some(_) => Err(self.gone(&format!("its file `{MARK}` is damaged"))),
            None => Err(self.gone(&format!("it has no file `{MARK}`"))),
        }
    }

    /// The same for one that may be new: `is_used` says whether the manifest names a file in it.
    pub fn take(&self, is_used: bool) -> Result<(), StoreError> {
        let mark = self.place.mark().map_err(|error| self.gone(&error.message))?;
        if mark.is_none() && !is_used {
            if self.place.list().is_ok_and(|files| !files.is_empty()) {
                return Err(self.foreign());
            }
            self.place.set_mark(&mark_of(self.id.load(Ordering::Relaxed)))?;
        }
        self.check()
    }

    /// # Errors
    /// `Io`: somebody has files there, or it cannot be looked at.
    pub fn refuse_used(&self) -> Result<(), StoreError> {
        let mark = self.place.mark().map_err(|error| self.gone(&error.message))?;
        let has_files = || self.place.list().is_ok_and(|files| !files.is_empty());
        if mark.is_some() || has_files() { Err(self.foreign()) } else { Ok(()) }
    }

    fn gone(&self, why: &str) -> StoreError {
        let text = format!("the slow tier `{}` cannot be used: {why}", self.name());
        StoreError::new(ErrorKind::Io, text).with_hint(self.place.hint())
    }

    fn foreign(&self) -> StoreError {
        let name = self.name();
        let text = format!("the slow tier `{name}` cannot be used: it has files of another weir");
        StoreError::new(ErrorKind::Io, text).with_hint(
            "name a place that is empty, or the one that this weir had: `store.slow_path`",
        )
    }

    /// Opens a file by its path in the manifest.
    ///
    /// # Errors
    /// As the system or the service has them.
    pub fn open(&self, path: &str) -> std::io::Result<FileSource> {
        self.place.open(path)
    }

    /// Files that nobody names; half ones too.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn unknown(&self, is_known: impl Fn(&String) -> bool) -> Result<Vec<String>, StoreError> {
        Ok(self.place.list()?.into_iter().filter(|path| !is_known(path)).collect())
    }
}

/// A path of this machine as a URL.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn mark_of(id: i64) -> String {
    format!("{MARK_VERSION}\n{id:016x}\n")
}

/// The store closes.
fn stopped() -> StoreError {
    StoreError::new(ErrorKind::Closed, "the copy was stopped")
}

/// What a store says that queries read through, and nobody writes through.
fn read_only<T>() -> object_store::Result<T> {
    Err(object_store::Error::NotSupported { source: "queries only read".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(root: &Path, id: i64) -> ColdTier {
        let options = SlowOptions::new(SlowPlace::Directory(root.to_owned()));
        ColdTier::new(&options, id, None).unwrap()
    }

    fn why(outcome: Result<(), StoreError>) -> String {
        outcome.unwrap_err().message
    }

    #[test]
    fn empty_place_is_taken_once_and_then_only_its_owner_may_use_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("slow");
        slow(&root, 7).take(false).unwrap();
        slow(&root, 7).take(true).unwrap();
        let told = why(slow(&root, 8).take(false));
        assert!(told.ends_with("it has files of another weir"), "{told}");
    }

    #[test]
    fn place_that_lost_its_mark_is_taken_for_an_unmounted_disk() {
        let dir = tempfile::tempdir().unwrap();
        let told = why(slow(dir.path(), 7).take(true));
        assert!(told.ends_with("it has no file `WEIR`"), "{told}");
        std::fs::write(dir.path().join(MARK), "x").unwrap();
        assert!(why(slow(dir.path(), 7).check()).ends_with("is damaged"));
        assert!(!dir.path().join("data").exists());
    }

    #[test]
    fn what_cannot_be_deleted_holds_up_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let tier = slow(dir.path(), 7);
        tier.take(false).unwrap();
        let day = dir.path().join("data/log/2026-01-01");
        std::fs::create_dir_all(day.join("1.parquet")).unwrap();
        std::fs::write(day.join("2.parquet"), "x").unwrap();
        let paths = [1, 2, 3].map(|number| format!("data/log/2026-01-01/{number}.parquet"));
        let gone = tier.delete_each(paths.to_vec(), |path| path).unwrap();
        assert_eq!(gone, paths[1..], "what is not there is gone as well");
        std::fs::remove_file(dir.path().join(MARK)).unwrap();
        let told = tier.delete_each(paths.to_vec(), |path| path).unwrap_err();
        assert!(told.message.ends_with("it has no file `WEIR`"), "{told}");
    }

    #[test]
    fn copy_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (root, from) = (dir.path().join("slow"), dir.path().join("from"));
        std::fs::write(&from, vec![7; 3_000_000]).unwrap();
        let place = slow(&root, 7).place;
        let path = "data/log/2026-01-01/000000000001.parquet";
        let stop = AtomicBool::new(true);
        assert_eq!(place.put(&from, path, &stop).unwrap_err().kind, ErrorKind::Closed);
        assert_eq!(place.list().unwrap(), [""; 0]);
        stop.store(false, Ordering::Relaxed);
        place.put(&from, path, &stop).unwrap();
        assert_eq!(place.list().unwrap(), [path]);
        assert_eq!(std::fs::read(root.join(path)).unwrap(), std::fs::read(&from).unwrap());
        place.delete(path).unwrap();
        place.delete(path).unwrap();
        assert_eq!(place.list().unwrap(), [""; 0]);
    }
}
