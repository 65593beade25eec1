//! Where data files are: below the data directory, or in the slow tier.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{DataFile, ErrorKind, FileOpener, FileSource, StoreError, Tier};

use super::{CacheSpace, ColdTier};
use crate::options::SlowOptions;

/// Opens files of a store by what the manifest says of them.
#[derive(Clone, Debug)]
pub struct FileLocations {
    /// The data directory.
    pub root: PathBuf,
    /// The cold tier; `None` without one.
    pub slow: Option<Arc<ColdTier>>,
}

impl FileLocations {
    /// The places of the data directory `root`, with the number that the manifest has for the slow tier; its owner may keep pieces of files that are in a bucket.
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
        Ok(Self { root: root.to_owned(), slow })
    }

    /// Whether the slow tier is there, if anybody needs it.
    ///
    /// # Errors
    /// `Io`: why not.
    pub fn check(&self) -> Result<(), StoreError> {
        self.slow()?.check()
    }

    /// Why files that were opened could not be read, when it is that the slow tier is not there.
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

    /// The slow tier, for those who need it.
    ///
    /// # Errors
    /// `Io`: none is configured.
    pub fn slow(&self) -> Result<&ColdTier, StoreError> {
        self.slow.as_deref().ok_or_else(not_set)
    }

    /// The file, open.
    ///
    /// # Errors
    /// As the system has them; `NotFound` only when the place is there and the file is not.
    pub fn open(&self, path: &str, tier: Tier) -> std::io::Result<FileSource> {
        match (tier, &self.slow) {
            (Tier::Local, _) => FileSource::of_file(std::fs::File::open(self.root.join(path))?),
            (Tier::Slow, Some(slow)) => slow.open(path).map_err(|error| match slow.check() {
                Ok(()) => error,
                Err(why) => std::io::Error::other(why.message),
            }),
            (Tier::Slow, None) => Err(std::io::Error::other(not_set().message)),
        }
    }
}

impl FileOpener for FileLocations {
    fn open_file(&self, file: &DataFile) -> std::io::Result<FileSource> {
        self.open(&file.path, file.tier)
    }
}

/// Files are in a slow tier, and nobody says where that is.
fn not_set() -> StoreError {
    StoreError::new(ErrorKind::Io, "files are in a slow tier, but none is configured")
        .with_hint("set `store.slow_path` as it was")
}
