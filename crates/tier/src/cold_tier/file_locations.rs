//! Locations of data files: the data directory or the cold tier.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{
    ChecksumCache, DataFile, ErrorKind, ExpectedContent, FileOpener, FileSource, StoreError, Tier,
};

use super::{CacheSpace, ColdTier};
use crate::options::SlowOptions;

/// Opens a store's files by their manifest entries.
#[derive(Clone, Debug)]
pub struct FileLocations {
    /// The data directory.
    pub root: PathBuf,
    /// The cold tier; `None` without one.
    pub slow: Option<Arc<ColdTier>>,
    /// Checksums of files in the data directory.
    pub(super) checksums: Arc<ChecksumCache>,
}

impl FileLocations {
    /// Locations for the data directory `root`; `slow_id` is the cold tier's number in the
    /// manifest, `cache` the space for indexes of files in a bucket.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn new(
        root: &Path,
        options: Option<&SlowOptions>,
        slow_id: Option<i64>,
        cache: Option<&CacheSpace<'_>>,
    ) -> Result<Self, StoreError> {
        let id = slow_id.unwrap_or_default();
        let slow =
            options.map(|options| ColdTier::new(options, id, cache)).transpose()?.map(Arc::new);
        Ok(Self { root: root.to_owned(), slow, checksums: Arc::default() })
    }

    /// The same locations, where everything is checked again before it is read.
    #[must_use]
    pub fn unchecked(&self) -> Self {
        Self { checksums: Arc::default(), ..self.clone() }
    }

    /// Checks that the cold tier is available.
    ///
    /// # Errors
    /// `Io`: the reason why it is not.
    pub fn check(&self) -> Result<(), StoreError> {
        self.slow()?.check()
    }

    /// The error to report when opened files cannot be read because the cold tier is unavailable;
    /// `None` if that is not the cause.
    pub fn missing(&self, opened: &[Arc<DataFile>]) -> Option<StoreError> {
        let of_slow: HashSet<i64> =
            opened.iter().filter(|file| file.tier == Tier::Slow).map(|file| file.id).collect();
        if of_slow.is_empty() {
            return None;
        }
        let why = self.check().err()?;
        let files = match of_slow.len() {
            1 => "a file".to_owned(),
            count => format!("{count} files"),
        };
        let text = format!("cannot read {files} that the answer needs: {}", why.message);
        Some(StoreError { message: text, ..why })
    }

    /// The cold tier.
    ///
    /// # Errors
    /// `Io`: none is configured.
    pub fn slow(&self) -> Result<&ColdTier, StoreError> {
        self.slow.as_deref().ok_or_else(not_set)
    }

    /// Opens a file. Reads of the data directory are checked, those of the cold tier are not.
    ///
    /// # Errors
    /// The underlying I/O error; `NotFound` only if the tier is available and the file is missing.
    pub fn open(&self, path: &str, tier: Tier) -> std::io::Result<FileSource> {
        match tier {
            Tier::Local => self.checksums.open(&self.root.join(path), ExpectedContent::default()),
            Tier::Slow => self.in_slow(|slow| slow.open(path)),
        }
    }

    fn in_slow(
        &self,
        open: impl FnOnce(&ColdTier) -> std::io::Result<FileSource>,
    ) -> std::io::Result<FileSource> {
        let Some(slow) = &self.slow else {
            return Err(std::io::Error::other(not_set().message));
        };
        open(slow).map_err(|error| match slow.check() {
            Ok(()) => error,
            Err(why) => std::io::Error::other(why.message),
        })
    }
}

impl FileOpener for FileLocations {
    fn open_file(&self, file: &DataFile) -> std::io::Result<FileSource> {
        match file.tier {
            Tier::Local => {
                let expected = ExpectedContent { byte_count: None, seal: file.seal };
                self.checksums.open(&self.root.join(&file.path), expected)
            }
            Tier::Slow => self.in_slow(|slow| slow.open_verified(file)),
        }
    }
}

/// Error: files are in a cold tier that the configuration does not name.
fn not_set() -> StoreError {
    StoreError::new(ErrorKind::Io, "files are in the cold tier, but none is configured")
        .with_hint("set `store.slow_path` as it was")
}
