//! Reads from a bucket: cached index ranges come from local disk, the rest in as few requests as
//! possible. What comes from the bucket is compared with the checksums of the file.

use std::fmt;
use std::ops::Range;
use std::path::Path as FilePath;
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

use weir_datafile::{
    CheckedBlocks, ChecksumCache, DataFile, ExpectedContent, FileChecksums, TailReading,
};

use super::cache::IndexCache;
use super::read_only;
use super::recent_ends::RecentEnds;
use super::requests::{RequestScheduler, whole};
use super::tiered_store::{damaged, slow_file};

/// Maximum size of a request; larger ranges are split into concurrent requests.
const REQUEST_BYTES_MAX: u64 = 8 << 20;

/// Read-only object store of a bucket, with the index cache in front.
#[derive(Debug)]
pub(super) struct CachedStore {
    pub(super) requests: RequestScheduler,
    pub(super) cache: Option<Arc<IndexCache>>,
    /// Ranges with a smaller gap are joined into one request.
    pub(super) join_bytes: u64,
    /// Locations of files that missed the cache.
    pub(super) missed: Sender<String>,
    pub(super) checksums: Arc<ChecksumCache>,
    /// Ends of files that were read for their checksums: what a query reads next.
    pub(super) ends: RecentEnds,
}

impl CachedStore {
    /// A range from the local cache; `location` is the path in the query's plan.
    fn cached(&self, location: &Path, path: &str, range: &Range<u64>) -> Option<Bytes> {
        let cache = self.cache.as_ref()?;
        if cache.wants(path) {
            // If the queue is full, the next miss queues the file.
            let _ = self.missed.try_send(location.to_string());
            return None;
        }
        cache.read(path, range).map(|(bytes, _)| bytes)
    }

    /// Ranges to request for `ranges` of a file, without those in the cache. Requests are for whole
    /// blocks, which checksums cover.
    pub(super) fn reads(&self, file: &DataFile, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let is_kept = |range: &Range<u64>| {
            self.cache.as_ref().is_some_and(|cache| cache.read(&file.path, range).is_some())
        };
        ranges.retain(|range| !is_kept(range));
        let known = self.checksums.known(FilePath::new(&file.path), file.byte_count);
        for range in &mut ranges {
            *range = match &known {
                Some(Some(sums)) => sums.sums().covering(range),
                Some(None) => range.clone(),
                None => FileChecksums::blocks_around(range, file.byte_count),
            };
        }
        let mut requests = joined(ranges, self.join_bytes);
        requests.retain(|range| self.ends.read(&file.path, range).is_none());
        requests
    }

    /// Reads ranges from the bucket and compares them with the file's checksums.
    async fn verified(&self, file: &SlowFile<'_>, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let sums = self.sums(file).await?;
        let sums = sums.as_ref().map(|sums| sums.sums());
        let covering: Vec<Range<u64>> = ranges
            .iter()
            .map(|range| sums.map_or_else(|| range.clone(), |sums| sums.covering(range)))
            .collect();
        let wanted = joined(covering.clone(), self.join_bytes);
        let asked = wanted.iter().map(|range| self.fetched(file, range.clone()));
        let answers = try_join_all(asked).await?;
        let mut found = Vec::with_capacity(ranges.len());
        for (range, covering) in ranges.iter().zip(covering) {
            let bytes = cut(&covering, &wanted, &answers);
            let verified = sums.map_or(Ok(()), |sums| sums.verify(&bytes, covering.start));
            verified.map_err(|error| damaged(file.location, &error))?;
            found.push(cut(range, std::slice::from_ref(&covering), &[bytes]));
        }
        Ok(found)
    }

    /// Reads a range, which has to be there as a whole.
    async fn fetched(&self, file: &SlowFile<'_>, range: Range<u64>) -> Result<Bytes> {
        if let Some(end) = self.ends.read(file.path.as_ref(), &range) {
            return Ok(end);
        }
        let expected = range.end - range.start;
        let bytes = self.requests.get_range(&file.path, range).await?;
        if bytes.len() as u64 == expected {
            return Ok(bytes);
        }
        Err(damaged(file.location, &std::io::ErrorKind::UnexpectedEof.into()))
    }

    /// The file's checksums, from the cache or from its end in the bucket; `None` for a file of an
    /// older weir.
    async fn sums(&self, file: &SlowFile<'_>) -> Result<Option<Arc<CheckedBlocks>>> {
        let (path, length) = (file.path.as_ref(), file.expected.byte_count.unwrap_or_default());
        let fail = |error: &std::io::Error| damaged(file.location, error);
        if let Some(sums) = self.checksums.known(FilePath::new(path), length) {
            let known = sums.as_ref().map(|sums| sums.sums());
            file.expected.check(length, known).map_err(|error| fail(&error))?;
            return Ok(sums);
        }
        let mut tail = Bytes::new();
        loop {
            match FileChecksums::of_tail(&tail, length).map_err(|error| fail(&error))? {
                TailReading::From(start) => {
                    tail = match self.cached(file.location, path, &(start..length)) {
                        Some(tail) => tail,
                        None => self.fetched(file, start..length).await?,
                    };
                }
                TailReading::Known(sums) => {
                    // Those of another file are not kept: the right one may come back.
                    file.expected.check(length, sums.as_ref()).map_err(|error| fail(&error))?;
                    self.ends.keep(path, length, tail);
                    return Ok(self.checksums.keep(FilePath::new(path), length, sums));
                }
            }
        }
    }
}

/// A file as a query names it.
struct SlowFile<'a> {
    location: &'a Path,
    path: Path,
    expected: ExpectedContent,
}

impl<'a> SlowFile<'a> {
    fn new(location: &'a Path) -> Result<Self> {
        let file = slow_file(location.as_ref())?;
        Ok(Self { location, path: Path::from(file.path), expected: file.expected() })
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
        let file = SlowFile::new(location)?;
        if options.head {
            return self.requests.get_opts(&file.path, options).await;
        }
        let size = file.expected.byte_count.unwrap_or_default();
        let range = match options.range {
            Some(GetRange::Bounded(range)) => range.start..range.end.min(size),
            Some(GetRange::Offset(start)) => start..size,
            Some(GetRange::Suffix(length)) => size.saturating_sub(length)..size,
            None => 0..size,
        };
        let ranges = std::slice::from_ref(&range);
        let bytes = self.get_ranges(location, ranges).await?.pop().unwrap_or_default();
        let (location, last_modified) = (location.clone(), Default::default());
        let meta = ObjectMeta { location, last_modified, size, e_tag: None, version: None };
        Ok(GetResult { payload: whole(bytes), meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = SlowFile::new(location)?;
        let path = file.path.as_ref();
        let mut found: Vec<Option<Bytes>> =
            ranges.iter().map(|range| self.cached(location, path, range)).collect();
        let missing = ranges.iter().zip(&found).filter(|(_, found)| found.is_none());
        let missing: Vec<Range<u64>> = missing.map(|(range, _)| range.clone()).collect();
        if !missing.is_empty() {
            let mut answers = self.verified(&file, &missing).await?.into_iter();
            found
                .iter_mut()
                .filter(|found| found.is_none())
                .for_each(|found| *found = answers.next());
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
