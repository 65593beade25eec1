//! Cold tier in a bucket of any service that speaks S3.
//!
//! Files are uploaded in parts, read back and compared, like copies to a disk. Objects become
//! visible only when complete, so a crash never leaves a partial object that could be taken for a
//! file.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{ErrorKind as IoKind, Read};
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use weir_datafile::{
    ChecksumCache, DataFile, ErrorKind, ExpectedContent, FileSource, ReadAt, SlowLocation,
    StoreError,
};

use super::cache::IndexCache;
use super::cached_store::CachedStore;
use super::recent_ends::RecentEnds;
use super::requests::{RequestScheduler, explain, is_missing};
use super::{MARK, TierBackend, stopped};
use crate::options::{ReadPrices, SlowBucketOptions};
use crate::stats::BucketStats;

/// Part size of uploads and of reads for verification: the S3 minimum. Smaller objects are written
/// in one request.
const PART_BYTES: u64 = 5 << 20;
/// Interval at which waiting threads check for shutdown.
const LOOK: Duration = Duration::from_millis(50);
/// Timeout of reading the mark: short, so that a failed query can still report that the bucket is
/// unreachable.
const MARK_TIME: Duration = Duration::from_secs(3);
/// Maximum number of files queued for caching; when the queue is full, a file waits until its next
/// read.
const MISSED_MAX: usize = 4096;

/// A bucket as cold tier.
pub struct BucketTier {
    name: String,
    prices: ReadPrices,
    line: BucketLine,
    cache: Option<Arc<IndexCache>>,
    runtime: Option<Runtime>,
}

impl fmt::Debug for BucketTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl BucketTier {
    /// Opens the bucket without a cache.
    ///
    /// # Errors
    /// `Io`: an option is invalid.
    pub fn open(options: &SlowBucketOptions) -> Result<Self, StoreError> {
        Self::new(options, None, Arc::default())
    }

    /// Opens the bucket; sends no request yet.
    ///
    /// # Errors
    /// `Io`: an option is invalid.
    pub(crate) fn new(
        options: &SlowBucketOptions,
        cache: Option<Arc<IndexCache>>,
        checksums: Arc<ChecksumCache>,
    ) -> Result<Self, StoreError> {
        let runtime = runtime()?;
        let handle = runtime.handle().clone();
        let requests = RequestScheduler::new(options, handle.clone())?;
        let (missed, waiting) = channel(MISSED_MAX);
        let (join_bytes, bucket) = (options.join_bytes, options.bucket.bucket.clone());
        let name = format!("s3://{bucket}/{}", options.prefix.trim_matches('/'));
        let (cached, ends) = (cache.clone(), RecentEnds::default());
        let store = CachedStore { requests, cache: cached, join_bytes, missed, checksums, ends };
        let (store, is_stopped) = (Arc::new(store), Arc::default());
        let line = BucketLine { handle, is_stopped, store, bucket };
        if let Some(cache) = &cache {
            line.handle.spawn(fill(line.clone(), Arc::clone(cache), waiting));
        }
        let name = name.trim_end_matches('/').to_owned();
        Ok(Self { name, prices: options.prices, line, cache, runtime: Some(runtime) })
    }

    fn told(&self, what: &str, error: &Error) -> StoreError {
        let why = explain(error, &self.line.bucket);
        StoreError::new(ErrorKind::Io, format!("cannot {what} `{}`: {why}", self.name))
    }

    fn copy(&self, from: File, path: &Path) -> Result<(), StoreError> {
        let (requests, place) = (self.line.store.requests.clone(), path.clone());
        let sent = self.line.wait(async move { send(&requests, from, &place).await })?;
        let sent = sent.map_err(|error| self.told("write to", &error))?;
        let (requests, place) = (self.line.store.requests.clone(), path.clone());
        let found =
            self.line.wait(async move { read_back(&requests, &place, sent.bytes).await })?;
        if found.map_err(|error| self.told("read back from", &error))? == sent {
            return Ok(());
        }
        let (requests, place) = (self.line.store.requests.clone(), path.clone());
        let _ = self.line.wait(async move { requests.delete(&place).await });
        let text =
            format!("cannot use `{}`: it gives back other bytes than were written", self.name);
        Err(StoreError::new(ErrorKind::Io, text))
    }
}

/// Generic file operations. Names are relative to the prefix.
impl BucketTier {
    /// URL of the tier: `s3://BUCKET/PREFIX`.
    pub fn shown(&self) -> String {
        self.name.clone()
    }

    /// Reads a small file whole; `None` if it does not exist.
    ///
    /// # Errors
    /// `Io`: the bucket cannot be read.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (requests, place) = (self.line.store.requests.clone(), Path::from(path));
        match self.line.wait(async move { requests.get(&place, Duration::MAX).await })? {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self.told(&format!("read `{path}` from"), &error)),
        }
    }

    /// Writes a small file.
    ///
    /// # Errors
    /// `Io`: the file was not written.
    pub fn write(&self, path: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let (requests, place) = (self.line.store.requests.clone(), Path::from(path));
        let put = self.line.wait(async move { requests.put(&place, bytes.into()).await })?;
        put.map_err(|error| self.told(&format!("write `{path}` to"), &error))
    }

    /// Creates a file unless the name is taken; returns whether it did.
    ///
    /// # Errors
    /// `Io`: the file was not written.
    pub fn create(&self, path: &str, bytes: Vec<u8>) -> Result<bool, StoreError> {
        let (requests, place) = (self.line.store.requests.clone(), Path::from(path));
        let create = self.line.wait(async move { requests.create(&place, bytes.into()).await })?;
        create.map_err(|error| self.told(&format!("write `{path}` to"), &error))
    }

    /// Uploads a local file, then reads the object back and compares it.
    ///
    /// # Errors
    /// `Io`: the upload failed, or the object differs.
    pub fn send_file(&self, from: &FilePath, path: &str) -> Result<(), StoreError> {
        let file = File::open(from).map_err(|error| StoreError::io("read", from, &error))?;
        self.copy(file, &Path::from(path))
    }

    /// Opens a file for random access.
    ///
    /// # Errors
    /// The underlying I/O error.
    pub fn source(&self, path: &str) -> std::io::Result<FileSource> {
        self.line.open(path)
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    /// `Io`: the file was not removed.
    pub fn remove(&self, path: &str) -> Result<(), StoreError> {
        let (requests, place) = (self.line.store.requests.clone(), Path::from(path));
        let delete = self.line.wait(async move { requests.delete(&place).await })?;
        delete.map_err(|error| {
            let told = self.told(&format!("delete `{path}` from"), &error);
            match told.message.contains("NotImplemented") {
                true => told.with_hint(
                    "the service has to know `DeleteObjects` with a checksum of SHA-256",
                ),
                false => told,
            }
        })
    }

    /// Lists files below a directory, or all files.
    ///
    /// # Errors
    /// `Io`: the bucket cannot be listed.
    pub fn list_below(&self, dir: &str) -> Result<Vec<String>, StoreError> {
        let (requests, dir) = (self.line.store.requests.clone(), Path::from(dir));
        let names = self.line.wait(async move { requests.list(&dir).await })?;
        names.map_err(|error| self.told("list", &error))
    }
}

impl Drop for BucketTier {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A runtime with a single thread, which can drive thousands of requests.
pub(super) fn runtime() -> Result<Runtime, StoreError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .thread_name("weir-bucket")
        .enable_all()
        .build();
    runtime
        .map_err(|error| StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}")))
}

/// Byte count and checksum of an upload.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SentBytes {
    bytes: u64,
    sum: u32,
}

async fn send(
    requests: &RequestScheduler,
    mut from: File,
    path: &Path,
) -> Result<SentBytes, Error> {
    let mut sum = crc32fast::Hasher::new();
    let first = read_part(&mut from)?;
    sum.update(&first);
    let mut bytes = first.len() as u64;
    if bytes < PART_BYTES {
        requests.put(path, first).await?;
        return Ok(SentBytes { bytes, sum: sum.finalize() });
    }
    let id = requests.begin_parts(path).await?;
    let sending = async {
        let (mut parts, mut part) = (Vec::new(), first);
        while !part.is_empty() {
            parts.push(requests.put_part(path, &id, parts.len(), part).await?);
            part = read_part(&mut from)?;
            sum.update(&part);
            bytes += part.len() as u64;
        }
        requests.end_parts(path, &id, parts).await
    };
    if let Err(error) = sending.await {
        // Abort the upload: the service bills stored parts until then.
        drop(requests.abort_parts(path, &id).await);
        return Err(error);
    }
    Ok(SentBytes { bytes, sum: sum.finalize() })
}

fn read_part(from: &mut File) -> Result<Bytes, Error> {
    let mut part = Vec::new();
    let read = from.take(PART_BYTES).read_to_end(&mut part);
    read.map_err(|error| Error::Generic { store: "disk", source: Box::new(error) })?;
    Ok(part.into())
}

async fn read_back(
    requests: &RequestScheduler,
    path: &Path,
    bytes: u64,
) -> Result<SentBytes, Error> {
    let found = requests.head(path).await?.size;
    let (mut at, mut sum) = (0, crc32fast::Hasher::new());
    while at < bytes.min(found) {
        let end = (at + PART_BYTES).min(found);
        sum.update(&requests.get_range(path, at..end).await?);
        at = end;
    }
    Ok(SentBytes { bytes: found, sum: sum.finalize() })
}

/// Caches the indexes of files that missed the cache, one file at a time.
async fn fill(line: BucketLine, cache: Arc<IndexCache>, mut waiting: Receiver<String>) {
    while let Some(path) = waiting.recv().await {
        if !cache.wants(&path) {
            continue;
        }
        let (line, cache) = (line.clone(), Arc::clone(&cache));
        // A failed read is retried on the next cache miss.
        let _ = tokio::task::spawn_blocking(move || {
            let Some(file) = SlowLocation::parse(&path) else { return Ok(()) };
            let source = line.open(file.path)?;
            let source = line.store.checksums.verified(file.path, source, file.expected())?;
            cache.fill(file.path, &source);
            Ok::<_, std::io::Error>(())
        })
        .await;
    }
}

/// Blocking access to the bucket, for threads outside the runtime.
#[derive(Clone)]
struct BucketLine {
    handle: Handle,
    is_stopped: Arc<AtomicBool>,
    store: Arc<CachedStore>,
    bucket: String,
}

impl BucketLine {
    /// Blocks on `work`; returns early when the tier stops. Must not be called on a runtime thread.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, answer) = sync_channel(1);
        let task = self.handle.spawn(async move { drop(done.send(work.await)) });
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped.load(Ordering::Relaxed) => {}
                Err(_) => {
                    task.abort();
                    return Err(stopped());
                }
            }
        }
    }

    fn open(&self, path: &str) -> std::io::Result<FileSource> {
        let (path, requests) = (Path::from(path), self.store.requests.clone());
        let place = path.clone();
        let head = self.wait(async move { requests.head(&place).await });
        let head = head.map_err(|error| std::io::Error::other(error.message))?;
        let length = head.map_err(|error| io_error(&error, &self.bucket))?.size;
        Ok(FileSource::new(RemoteFile { line: self.clone(), path, length }))
    }
}

impl TierBackend for BucketTier {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn location(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }

    fn hint(&self) -> &'static str {
        "is the service up, and are bucket, endpoint and keys right? Nothing is lost: rows still arrive, and files on the fast disk can be queried"
    }

    fn mark(&self) -> Result<Option<String>, StoreError> {
        let requests = self.line.store.requests.clone();
        let read = async move { requests.get(&Path::from(MARK), MARK_TIME).await };
        match self.line.wait(read)? {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(StoreError::new(ErrorKind::Io, explain(&error, &self.line.bucket))),
        }
    }

    fn set_mark(&self, text: &str) -> Result<(), StoreError> {
        self.write(MARK, text.as_bytes().to_vec())
    }

    fn put(&self, from: &FilePath, path: &str, _: &AtomicBool) -> Result<(), StoreError> {
        let fail = |error: &std::io::Error| StoreError::io("read", from, error);
        let file = File::open(from).map_err(|error| fail(&error))?;
        self.copy(file, &Path::from(path))?;
        if let Some(cache) = self.cache.as_ref().filter(|_| path.ends_with(".parquet")) {
            let source = Arc::new(ChecksumCache::default()).open(from, ExpectedContent::default());
            cache.add(path, &source.map_err(|error| fail(&error))?);
        }
        Ok(())
    }

    fn open(&self, path: &str) -> std::io::Result<FileSource> {
        self.line.open(path)
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        if let Some(cache) = &self.cache {
            cache.remove(path);
        }
        self.remove(path)
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.list_below("data")?;
        // Some services also list directories, for which clients create empty objects.
        names.retain(|name| name.ends_with(".parquet"));
        names.sort();
        Ok(names)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn prices(&self) -> Option<ReadPrices> {
        Some(self.prices)
    }

    fn reads(&self, file: &DataFile, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        self.line.store.reads(file, ranges)
    }

    fn stats(&self) -> Option<BucketStats> {
        Some(self.line.store.requests.stats())
    }

    fn keep_only(&self, known: &HashSet<String>) {
        if let Some(cache) = &self.cache {
            cache.retain(known);
        }
    }

    fn stop(&self) {
        self.line.is_stopped.store(true, Ordering::Relaxed);
    }

    fn store(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        Ok(Arc::clone(&self.line.store) as Arc<dyn ObjectStore>)
    }
}

/// An object, read by range.
struct RemoteFile {
    line: BucketLine,
    path: Path,
    length: u64,
}

impl ReadAt for RemoteFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        let range = offset..offset + bytes.len() as u64;
        if range.is_empty() {
            return Ok(());
        }
        let cache = self.line.store.cache.as_ref();
        let known = cache.and_then(|cache| cache.read(self.path.as_ref(), &range));
        let read = match known {
            Some((known, _)) => known,
            None => {
                let (requests, path) = (self.line.store.requests.clone(), self.path.clone());
                let read = async move { requests.get_range(&path, range).await };
                let read = self.line.wait(read);
                let read = read.map_err(|error| std::io::Error::other(error.message))?;
                read.map_err(|error| io_error(&error, &self.line.bucket))?
            }
        };
        if read.len() != bytes.len() {
            return Err(IoKind::UnexpectedEof.into());
        }
        bytes.copy_from_slice(&read);
        Ok(())
    }
}

fn io_error(error: &Error, bucket: &str) -> std::io::Error {
    let kind = if is_missing(error) { IoKind::NotFound } else { IoKind::Other };
    std::io::Error::new(kind, explain(error, bucket))
}
