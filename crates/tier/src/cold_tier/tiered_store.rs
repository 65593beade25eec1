//! Read-only object store for queries: local files, and cold-tier files below `slow/`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use weir_datafile::{ExpectedContent, SLOW_PREFIX, SlowLocation};

use super::{ColdTier, FileLocations, read_only};

/// Routes reads to the tier of the file; writes are rejected.
#[derive(Debug)]
pub struct TieredStore {
    local: Arc<dyn ObjectStore>,
    places: FileLocations,
}

impl TieredStore {
    /// Reads paths below `slow/` from the cold tier and all others from `local`, which holds the data
    /// directory.
    pub fn new(local: Arc<dyn ObjectStore>, places: FileLocations) -> Self {
        Self { local, places }
    }

    /// Checks parts of a file in a directory before they are read. A bucket's store checks what it
    /// reads.
    fn check(&self, location: &Path, ranges: &[Range<u64>]) -> Result<()> {
        let outcome = match slow_part(location) {
            None => {
                let path = self.places.root.join(location.as_ref());
                self.places.checksums.check(&path, ExpectedContent::default(), ranges)
            }
            Some(text) => {
                let (slow, file) = (self.slow()?, slow_file(text)?);
                let Some(path) = slow.place.local_path(file.path) else { return Ok(()) };
                slow.checksums.check(&path, file.expected(), ranges)
            }
        };
        match outcome {
            // What cannot be opened is reported by the read itself.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(damaged(location, &error))
            }
            _ => Ok(()),
        }
    }

    /// Object store and path of a location.
    fn route(&self, location: &Path) -> Result<(Arc<dyn ObjectStore>, Path)> {
        let Some(text) = slow_part(location) else {
            return Ok((Arc::clone(&self.local), location.clone()));
        };
        let (slow, file) = (self.slow()?, slow_file(text)?);
        let is_directory = slow.place.local_path(file.path).is_some();
        Ok((slow.place.store()?, Path::from(if is_directory { file.path } else { text })))
    }

    fn slow(&self) -> Result<&ColdTier> {
        self.places.slow.as_deref().ok_or_else(|| Error::Generic {
            store: "cold tier",
            source: "none is configured".into(),
        })
    }
}

fn slow_part(location: &Path) -> Option<&str> {
    location.as_ref().strip_prefix(SLOW_PREFIX)
}

/// A file of the cold tier by its location without prefix.
pub(super) fn slow_file(text: &str) -> Result<SlowLocation<'_>> {
    SlowLocation::parse(text).ok_or_else(|| Error::Generic {
        store: "cold tier",
        source: format!("`{text}` is no location of a file").into(),
    })
}

/// The error for a file with other bytes than were written.
pub(super) fn damaged(location: &Path, error: &std::io::Error) -> Error {
    Error::Generic { store: "data files", source: format!("`{location}`: {error}").into() }
}

impl fmt::Display for TieredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.local.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for TieredStore {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (store, path) = self.route(location)?;
        let is_head = options.head;
        let answer = store.get_opts(&path, options).await?;
        // Also where nothing was read: a file that is empty now may have had rows.
        if !is_head {
            self.check(location, std::slice::from_ref(&answer.range))?;
        }
        Ok(answer)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(location, ranges)?;
        let (store, path) = self.route(location)?;
        store.get_ranges(&path, ranges).await
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        Box::pin(futures::stream::iter([read_only()]))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.local.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.local.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}
