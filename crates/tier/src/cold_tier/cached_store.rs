//! Reads from a bucket: cached index ranges come from local disk, the rest in as few requests as
//! possible.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::mpsc::Sender;

use super::cache::IndexCache;
use super::read_only;
use super::requests::{RequestScheduler, whole};

/// Maximum size of a request; larger ranges are split into concurrent requests.
const REQUEST_BYTES_MAX: u64 = 8 << 20;

/// Read-only object store of a bucket, with the index cache in front.
#[derive(Debug)]
pub(super) struct CachedStore {
    pub(super) requests: RequestScheduler,
    pub(super) cache: Option<Arc<IndexCache>>,
    /// Ranges with a smaller gap are joined into one request.
    pub(super) join_bytes: u64,
    /// Queue of files that missed the cache.
    pub(super) missed: Sender<String>,
}

impl CachedStore {
    fn cached(&self, location: &Path, range: &Range<u64>) -> Option<(Bytes, u64)> {
        let cache = self.cache.as_ref()?;
        if cache.wants(location.as_ref()) {
            // If the queue is full, the next miss queues the file.
            let _ = self.missed.try_send(location.to_string());
            return None;
        }
        cache.read(location.as_ref(), range)
    }
}

impl CachedStore {
    /// Ranges to request for `ranges` of a file, without those in the cache.
    pub(super) fn reads(&self, path: &str, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let is_kept = |range: &Range<u64>| {
            self.cache.as_ref().is_some_and(|cache| cache.read(path, range).is_some())
        };
        ranges.retain(|range| !is_kept(range));
        joined(ranges, self.join_bytes)
    }
}

impl fmt::Display for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bucket")
    }
}

#[async_trait]
impl ObjectStore for CachedStore {
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
        let Some(GetRange::Bounded(range)) = options.range.clone().filter(|_| !options.head) else {
            return self.requests.get_opts(location, options).await;
        };
        let Some((bytes, size)) = self.cached(location, &range) else {
            return self.requests.get_opts(location, options).await;
        };
        let range = range.start..range.start + bytes.len() as u64;
        let (location, last_modified) = (location.clone(), Default::default());
        let meta = ObjectMeta { location, last_modified, size, e_tag: None, version: None };
        Ok(GetResult { payload: whole(bytes), meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut found: Vec<Option<Bytes>> =
            ranges.iter().map(|range| Some(self.cached(location, range)?.0)).collect();
        let missing = ranges.iter().zip(&found).filter(|(_, found)| found.is_none());
        let wanted = joined(missing.map(|(range, _)| range.clone()).collect(), self.join_bytes);
        let asked = wanted.iter().map(|range| self.requests.get_range(location, range.clone()));
        let answers = try_join_all(asked).await?;
        for (range, found) in ranges.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            *found = Some(cut(range, &wanted, &answers));
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        futures::stream::iter([read_only()]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter([read_only()]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        read_only()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}

/// Plans requests that cover `ranges`: sorted, not overlapping, none over the size limit.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>, join_bytes: u64) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut wanted: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match wanted.last_mut() {
            Some(last)
                if range.start <= last.end
                    || (range.start - last.end < join_bytes
                        && range.end - last.start <= REQUEST_BYTES_MAX) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => wanted.push(range),
        }
    }
    let split = wanted.into_iter().flat_map(|range| {
        let step = usize::try_from(REQUEST_BYTES_MAX).unwrap_or(usize::MAX);
        let starts = range.clone().step_by(step);
        starts.map(move |start| start..range.end.min(start + REQUEST_BYTES_MAX))
    });
    split.collect()
}

/// Assembles `range` from the responses to the requests `asked`.
fn cut(range: &Range<u64>, asked: &[Range<u64>], answers: &[Bytes]) -> Bytes {
    let first = asked.partition_point(|asked| asked.end <= range.start);
    let parts = asked.iter().zip(answers).skip(first).take_while(|(of, _)| of.start < range.end);
    let mut parts = parts.map(|(of, bytes)| {
        let start = offset_in(range.start.saturating_sub(of.start), bytes.len());
        bytes.slice(start..offset_in(range.end - of.start, bytes.len()).max(start))
    });
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    match second {
        None => first,
        Some(second) => {
            let mut all = first.to_vec();
            std::iter::once(second).chain(parts).for_each(|part| all.extend_from_slice(&part));
            all.into()
        }
    }
}

fn offset_in(place: u64, length: usize) -> usize {
    usize::try_from(place).unwrap_or(length).min(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads ranges of a file whose content encodes its offsets, and compares them.
    fn check(ranges: &[Range<u64>], join_bytes: u64, requests: usize) {
        let wanted = joined(ranges.to_vec(), join_bytes);
        assert_eq!(wanted.len(), requests, "{wanted:?}");
        let answers: Vec<Bytes> = wanted.iter().map(bytes_of).collect();
        for range in ranges {
            assert!(cut(range, &wanted, &answers) == bytes_of(range), "{range:?} of {wanted:?}");
        }
    }

    fn bytes_of(range: &Range<u64>) -> Bytes {
        range.clone().map(|place| u8::try_from(place % 251).unwrap()).collect::<Vec<_>>().into()
    }

    #[test]
    fn neighbours_are_one_request_and_long_ones_are_several() {
        check(&[], 100, 0);
        check(&[50..60, 0..10], 41, 1);
        check(&[50..60, 0..10], 40, 2);
        check(&[0..100, 20..30, 90..110], 1, 1);
        let most = REQUEST_BYTES_MAX;
        check(&[0..2 * most + 5, 7..most + 7], 10, 3);
        check(&[0..most - 5, most..most + 5], 10, 2);
    }
}
