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
use weir_datafile::SLOW_PREFIX;

use super::{FileLocations, read_only};

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

    /// Checks parts of a local file before they are read.
    fn check(&self, location: &Path, ranges: &[Range<u64>]) -> Result<()> {
        if location.as_ref().starts_with(SLOW_PREFIX) {
            return Ok(());
        }
        let path = self.places.root.join(location.as_ref());
        match self.places.checksums.check(&path, ranges) {
            // What cannot be opened is reported by the read itself.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                let text = format!("`{location}`: {error}");
                Err(Error::Generic { store: "data directory", source: text.into() })
            }
            _ => Ok(()),
        }
    }

    /// Object store and path of a location.
    fn route(&self, location: &Path) -> Result<(Arc<dyn ObjectStore>, Path)> {
        let Some(path) = location.as_ref().strip_prefix(SLOW_PREFIX) else {
            return Ok((Arc::clone(&self.local), location.clone()));
        };
        let slow = self.places.slow.as_ref().ok_or_else(|| Error::Generic {
            store: "cold tier",
            source: "none is configured".into(),
        })?;
        Ok((slow.place.store()?, Path::from(path)))
    }
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
        let answer = store.get_opts(&path, options).await?;
        if answer.range.start < answer.range.end {
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
