//! The cold tier: storage of files that are old or exceed the fast disk's limit.
//!
//! A file moves as a copy with a new number. One manifest transaction replaces the file by its
//! copy, and the old file is deleted once its grace period for readers is over. The manifest
//! therefore names a complete file at any time.
//!
//! ```text
//! copy, sync, read back, rename ─► manifest transaction ─► show the copy ─► delete the old file
//!     ▲ crash: not in the manifest,    ▲ crash: the copy is visible,        after its grace
//!     └ the next start deletes it      └ the old file is in the queue       period
//! ```
//!
//! The mark file `WEIR` identifies the tier's owner, and tells an unmounted disk from an empty
//! directory.

mod bucket;
mod cache;
mod cached_store;
#[cfg(test)]
mod damage_tests;
mod directory;
mod file_locations;
mod mover;
mod plan;
mod range_reader;
mod recent_ends;
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
use cache::{CacheLimits, IndexCache};
use directory::DirectoryTier;
use weir_datafile::{ChecksumCache, DataFile, ErrorKind, FileSource, StoreError, Tier};

pub use bucket::BucketTier;
pub use file_locations::FileLocations;
pub use mover::{MoverJob, MoverReport, TierMover};
pub use plan::to_move;
pub use range_reader::RangeReader;
pub use tiered_store::TieredStore;

/// Name of the mark file, which identifies the tier's owner.
const MARK: &str = "WEIR";
/// First line of the mark file.
const MARK_VERSION: &str = "weir slow tier 1";
/// Number of consecutive failed deletions after which the batch stops.
const REFUSED_MAX: u32 = 16;

/// Storage backend of a cold tier. Paths are those of the manifest.
trait TierBackend: fmt::Debug + Send + Sync {
    /// Display name: the directory or the URL.
    fn name(&self) -> String;
    /// URL of a file: `file:///…`, `s3://…`.
    fn location(&self, path: &str) -> String;
    /// Hint for errors when the tier is unavailable.
    fn hint(&self) -> &'static str;
    /// Text of the file [`MARK`]; `None` if it does not exist.
    fn mark(&self) -> Result<Option<String>, StoreError>;
    fn set_mark(&self, text: &str) -> Result<(), StoreError>;
    /// Copies a file; on return the copy is durable and was read back and verified.
    fn put(&self, from: &Path, path: &str, stop: &AtomicBool) -> Result<(), StoreError>;
    fn open(&self, path: &str) -> std::io::Result<FileSource>;
    /// Deletes a file; succeeds if it does not exist.
    fn delete(&self, path: &str) -> Result<(), StoreError>;
    /// Full path of a file, where the backend is a directory.
    fn local_path(&self, _path: &str) -> Option<PathBuf> {
        None
    }
    /// Lists all files, including partial copies left by a crash.
    fn list(&self) -> Result<Vec<String>, StoreError>;
    /// Whether reads cost money and latency: then nothing is read just to improve an error message.
    fn is_far(&self) -> bool {
        false
    }
    /// Drops cached data of files that are not in `known`.
    fn keep_only(&self, _known: &HashSet<String>) {}
    /// Prices of reads; `None` if they are free.
    fn prices(&self) -> Option<ReadPrices> {
        None
    }
    /// Ranges actually read for `ranges` of a file, which are requested together.
    fn reads(&self, _file: &DataFile, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        ranges
    }
    /// Request counters, if the backend counts requests.
    fn stats(&self) -> Option<BucketStats> {
        None
    }
    /// Cancels current and later waits for the backend.
    fn stop(&self) {}
    /// Object store for queries. That of a bucket takes locations as in
    /// [`SlowLocation`](weir_datafile::SlowLocation), and checks what it reads.
    fn store(&self) -> object_store::Result<Arc<dyn ObjectStore>>;
}

/// Local disk space to cache indexes of files in a bucket.
pub struct CacheSpace<'a> {
    /// The data directory.
    pub dir: &'a Path,
    /// Bytes to leave free on its disk.
    pub reserve: u64,
}

/// The cold tier of a store.
#[derive(Debug)]
pub struct ColdTier {
    place: Box<dyn TierBackend>,
    /// Number in the manifest; 0 if the tier was never used.
    id: AtomicI64,
    /// Checksums of its files.
    checksums: Arc<ChecksumCache>,
}

impl ColdTier {
    /// Creates the tier without accessing it.
    ///
    /// # Errors
    /// `Io`: an option is invalid.
    pub fn new(
        options: &SlowOptions,
        id: i64,
        cache: Option<&CacheSpace<'_>>,
    ) -> Result<Self, StoreError> {
        let checksums = Arc::default();
        let place: Box<dyn TierBackend> = match &options.place {
            SlowPlace::Directory(root) => Box::new(DirectoryTier::new(root.clone())),
            SlowPlace::Bucket(options) => {
                let cache = cache.filter(|_| options.cache_bytes > 0).map(|room| {
                    let dir = room.dir.join("cache").join("slow");
                    let (bytes_max, reserve) = (options.cache_bytes, room.reserve);
                    Arc::new(IndexCache::open(dir, CacheLimits { bytes_max, reserve }))
                });
                Box::new(BucketTier::new(options, cache, Arc::clone(&checksums))?)
            }
        };
        Ok(Self { place, id: AtomicI64::new(id), checksums })
    }

    /// Display name: the directory or the URL.
    pub fn name(&self) -> String {
        self.place.name()
    }

    /// URL of a file: `file:///…`, `s3://…`.
    pub fn location(&self, path: &str) -> String {
        self.place.location(path)
    }

    /// Whether reads cost money and latency.
    pub fn is_far(&self) -> bool {
        self.place.is_far()
    }

    /// Prices of reads; `None` if they are free.
    pub fn prices(&self) -> Option<ReadPrices> {
        self.place.prices()
    }

    /// Ranges actually read for `ranges` of a file, which are requested together.
    pub fn reads(&self, file: &DataFile, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        self.place.reads(file, ranges)
    }

    /// Request counters; `None` if the backend does not count.
    pub fn stats(&self) -> Option<BucketStats> {
        self.place.stats()
    }

    /// Copies a file; on return the copy is durable and was read back and verified.
    pub fn put(&self, from: &Path, path: &str, stop: &AtomicBool) -> Result<(), StoreError> {
        self.place.put(from, path, stop)
    }

    /// Copies files, each located at `from` of its path; returns them as files of this tier.
    ///
    /// # Errors
    /// The first copy that fails; earlier copies remain.
    pub fn put_each(
        &self,
        files: &[Arc<DataFile>],
        from: impl Fn(&str) -> PathBuf,
    ) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let go_on = AtomicBool::new(false);
        files
            .iter()
            .map(|file| {
                self.put(&from(&file.path), &file.path, &go_on)?;
                Ok(Arc::new(DataFile { tier: Tier::Slow, ..(**file).clone() }))
            })
            .collect()
    }

    /// Deletes a file; succeeds if it does not exist.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.place.delete(path)
    }

    /// Deletes files and returns the deleted ones; a failed deletion does not stop the others.
    ///
    /// # Errors
    /// The tier is unavailable.
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

    /// Sets the tier's number in the manifest.
    pub fn set_id(&self, id: i64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Checks that the tier is available and belongs to this store.
    ///
    /// # Errors
    /// `Io`, `Corrupt`: the tier's name and why it cannot be used.
    pub fn check(&self) -> Result<(), StoreError> {
        match self.place.mark().map_err(|error| self.gone(&error.message))? {
            Some(text) if text == mark_of(self.id.load(Ordering::Relaxed)) => Ok(()),
            Some(text) if text.starts_with(MARK_VERSION) => Err(self.foreign()),
            Some(_) => Err(self.gone(&format!("its file `{MARK}` is damaged"))),
            None => Err(self.gone(&format!("it has no file `{MARK}`"))),
        }
    }

    /// Checks the tier like [`check`](Self::check), but claims an empty one by writing the mark,
    /// unless the manifest already names a file in it (`is_used`).
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

    /// Checks that the tier is unused.
    ///
    /// # Errors
    /// `Io`: it holds files or a mark, or cannot be read.
    pub fn refuse_used(&self) -> Result<(), StoreError> {
        let mark = self.place.mark().map_err(|error| self.gone(&error.message))?;
        let is_used = mark.is_some() || self.place.list().is_ok_and(|files| !files.is_empty());
        if is_used { Err(self.foreign()) } else { Ok(()) }
    }

    fn gone(&self, why: &str) -> StoreError {
        let text = format!("the cold tier `{}` cannot be used: {why}", self.name());
        StoreError::new(ErrorKind::Io, text).with_hint(self.place.hint())
    }

    fn foreign(&self) -> StoreError {
        let name = self.name();
        let text = format!("the cold tier `{name}` cannot be used: it has files of another weir");
        StoreError::new(ErrorKind::Io, text).with_hint(
            "name a place that is empty, or the one that this weir had: `store.slow_path`",
        )
    }

    /// Opens a file by its manifest path; what is read from it is not checked.
    ///
    /// # Errors
    /// The underlying I/O or service error.
    pub fn open(&self, path: &str) -> std::io::Result<FileSource> {
        self.place.open(path)
    }

    /// Opens a file, each read of which is compared with the checksums.
    ///
    /// # Errors
    /// The underlying I/O or service error; `InvalidData`: the file is damaged, or another one.
    pub fn open_verified(&self, file: &DataFile) -> std::io::Result<FileSource> {
        self.checksums.verified(&file.path, self.place.open(&file.path)?, file.expected())
    }

    /// Lists files that are not in the manifest, including partial copies.
    ///
    /// # Errors
    /// The tier cannot be listed.
    pub fn unknown(&self, is_known: impl Fn(&String) -> bool) -> Result<Vec<String>, StoreError> {
        Ok(self.place.list()?.into_iter().filter(|path| !is_known(path)).collect())
    }
}

/// `file://` URL of a local path.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn mark_of(id: i64) -> String {
    format!("{MARK_VERSION}\n{id:016x}\n")
}

/// Error of a copy interrupted by the store's shutdown.
fn stopped() -> StoreError {
    StoreError::new(ErrorKind::Closed, "the copy was stopped")
}

/// Error of a write to a read-only object store.
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
