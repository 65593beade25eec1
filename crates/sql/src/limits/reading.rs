//! Object store of queries: counts the bytes that each query reads and stops a query at its limit.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::{FileReads, USAGE};

/// Charges reads to the current task's query; other reads (compaction) are not counted.
#[derive(Debug)]
pub(crate) struct CountingStore(Arc<dyn ObjectStore>);

impl CountingStore {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self(store)
    }
}

fn count(reads: FileReads) -> Result<()> {
    let counted = USAGE.try_with(|usage| usage.add_read(reads)).unwrap_or(Ok(()));
    counted.map_err(|_| Error::Generic { store: "weir", source: "read limit".into() })
}

/// Counts bytes that are read without the object store.
///
/// # Errors
/// When that exceeds the query's limit.
pub(crate) fn count_read(bytes: u64) -> datafusion::common::Result<()> {
    Ok(count(FileReads { bytes, count: 1 })?)
}

impl fmt::Display for CountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let answer = self.0.get_opts(location, options).await?;
        if !is_head {
            count(FileReads { bytes: answer.range.end - answer.range.start, count: 1 })?;
        }
        Ok(answer)
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Vec<bytes::Bytes>> {
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        count(FileReads { bytes, count: ranges.len() as u64 })?;
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}
