//! Requests to a bucket with limited concurrency: late reads are hedged, failed requests retried,
//! and each request has one deadline for all its tries.
//!
//! Everything runs on the bucket's own thread. On a query's thread, a sort of one second would
//! make responses appear late and cause needless retries.
//!
//! ```text
//! wait for a permit ─► try ──ok─────────────────────────► response
//!                       │ └─ late ─► hedge: send it again, the first response wins
//!                       └─ 500, 503, 429, disconnect, timeout ─► pause, retry until the deadline
//! ```

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetResult, GetResultPayload, MultipartId, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutPayload, Result, RetryConfig,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weir_datafile::StoreError;

use crate::objects::{client, inner};
use crate::options::SlowBucketOptions;
use crate::stats::BucketStats;

/// Tries per request: a try times out after this fraction of the total time.
const TRIES_IN_TIME: u32 = 3;
/// Delay before the first retry; it doubles with each further retry up to the maximum.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Hedged requests per hundred: a service that is slow overall must not get double load.
const HEDGES_PER_HUNDRED: i64 = 5;
/// Maximum saved-up budget of hedged requests, in hundredths of a request.
const HEDGES_SAVED: i64 = 10 * 100;

/// Request scheduler of a bucket: limits concurrency, retries and hedges.
#[derive(Clone)]
pub(super) struct RequestScheduler(Arc<SchedulerState>);

/// Omits the credentials.
impl fmt::Debug for RequestScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.counts.fmt(f)
    }
}

struct SchedulerState {
    service: AmazonS3,
    prefix: String,
    places: Arc<Semaphore>,
    handle: Handle,
    total: Duration,
    hedge_after: Option<Duration>,
    /// Budget of hedged requests, in hundredths of a request.
    hedges: AtomicI64,
    counts: RequestCounts,
}

/// Counters behind [`BucketStats`].
#[derive(Debug, Default)]
struct RequestCounts {
    gets: AtomicU64,
    hedged: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
}

impl RequestScheduler {
    /// Creates the client; sends no request yet.
    ///
    /// # Errors
    /// `Io`: an option is invalid.
    pub(super) fn new(options: &SlowBucketOptions, handle: Handle) -> Result<Self, StoreError> {
        // Retries are counted and timed here, not in the client.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let in_flight = options.requests.max(1);
        Ok(Self(Arc::new(SchedulerState {
            service: client(&options.bucket, retry, in_flight)?,
            prefix: options.prefix.trim_matches('/').to_owned(),
            places: Arc::new(Semaphore::new(in_flight.min(Semaphore::MAX_PERMITS))),
            handle,
            total: options.bucket.timeout,
            hedge_after: options.hedge_after,
            hedges: AtomicI64::new(HEDGES_SAVED),
            counts: RequestCounts::default(),
        })))
    }

    pub(super) fn stats(&self) -> BucketStats {
        let RequestCounts { gets, hedged, failed, bytes } = &self.0.counts;
        let [gets, hedged, failed, bytes] =
            [gets, hedged, failed, bytes].map(|count| count.load(Ordering::Relaxed));
        BucketStats { gets, hedged, bytes, failed }
    }

    /// Reads a range of an object.
    pub(super) async fn get_range(&self, path: &Path, range: Range<u64>) -> Result<Bytes> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let total = self.0.total;
        self.run(async move { inner.again(total, || inner.hedged(&path, &range)).await }).await
    }

    /// Reads a small object whole.
    pub(super) async fn get(&self, path: &Path, total: Duration) -> Result<Bytes> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let total = total.min(self.0.total);
        let get = async move {
            inner.again(total, || async { inner.service.get(&path).await?.bytes().await }).await
        };
        self.run(get).await
    }

    /// Other reads; the response body is complete on return.
    pub(super) async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let get = async move {
            let get = || async {
                inner.counts.gets.fetch_add(1, Ordering::Relaxed);
                let found = inner.service.get_opts(&path, options.clone()).await?;
                let (meta, range) = (found.meta.clone(), found.range.clone());
                let attributes = found.attributes.clone();
                let bytes = if options.head { Bytes::new() } else { found.bytes().await? };
                inner.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                Ok((bytes, meta, range, attributes))
            };
            inner.again(inner.total, get).await
        };
        let (bytes, meta, range, attributes) = self.run(get).await?;
        Ok(GetResult { payload: whole(bytes), meta, range, attributes })
    }

    pub(super) async fn head(&self, path: &Path) -> Result<ObjectMeta> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let total = self.0.total;
        self.run(async move { inner.again(total, || inner.service.head(&path)).await }).await
    }

    pub(super) async fn put(&self, path: &Path, bytes: Bytes) -> Result<()> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let payload = PutPayload::from_bytes(bytes);
        let put = async move {
            inner.again(inner.total, || inner.service.put(&path, payload.clone())).await.map(drop)
        };
        self.run(put).await
    }

    /// Creates an object unless the name is taken; returns whether it did.
    pub(super) async fn create(&self, path: &Path, bytes: Bytes) -> Result<bool> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let payload = PutPayload::from_bytes(bytes);
        let create = async move {
            inner
                .again(inner.total, || {
                    inner.service.put_opts(&path, payload.clone(), PutMode::Create.into())
                })
                .await
                .map(drop)
        };
        match self.run(create).await {
            Err(Error::AlreadyExists { .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Deletes an object; succeeds if it does not exist.
    pub(super) async fn delete(&self, path: &Path) -> Result<()> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let delete = async move { inner.again(inner.total, || inner.service.delete(&path)).await };
        match self.run(delete).await {
            Err(error) if is_missing(&error) => Ok(()),
            outcome => outcome,
        }
    }

    /// Names of objects below `below`, without the prefix.
    pub(super) async fn list(&self, below: &Path) -> Result<Vec<String>> {
        let (inner, below) = (Arc::clone(&self.0), self.0.path(below));
        let start = if self.0.prefix.is_empty() { 0 } else { self.0.prefix.len() + 1 };
        let list = async move {
            // Each page of a long listing is a separate request, so allow more time.
            let total = inner.total * TRIES_IN_TIME;
            let names = || async {
                let found = inner.service.list(Some(&below));
                let names = found.map_ok(|found| found.location.to_string());
                names.try_collect::<Vec<String>>().await
            };
            inner.again(total, names).await
        };
        let names = self.run(list).await?;
        Ok(names.iter().filter_map(|name| name.get(start..)).map(str::to_owned).collect())
    }

    pub(super) async fn begin_parts(&self, path: &Path) -> Result<MultipartId> {
        let (inner, path) = (Arc::clone(&self.0), self.0.path(path));
        let begin =
            async move { inner.again(inner.total, || inner.service.create_multipart(&path)).await };
        self.run(begin).await
    }

    pub(super) async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        number: usize,
        bytes: Bytes,
    ) -> Result<PartId> {
        let (inner, path, id) = (Arc::clone(&self.0), self.0.path(path), id.clone());
        let payload = PutPayload::from_bytes(bytes);
        let put = async move {
            inner
                .again(inner.total, || inner.service.put_part(&path, &id, number, payload.clone()))
                .await
        };
        self.run(put).await
    }

    pub(super) async fn end_parts(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<()> {
        let (inner, path, id) = (Arc::clone(&self.0), self.0.path(path), id.clone());
        let end = async move {
            inner
                .again(inner.total, || inner.service.complete_multipart(&path, &id, parts.clone()))
                .await
                .map(drop)
        };
        match self.run(end).await {
            // An earlier try completed the upload but its response was lost; verification follows.
            Err(error) if is_missing(&error) => Ok(()),
            outcome => outcome,
        }
    }

    pub(super) async fn abort_parts(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let (inner, path, id) = (Arc::clone(&self.0), self.0.path(path), id.clone());
        let abort = async move {
            inner.again(inner.total, || inner.service.abort_multipart(&path, &id)).await
        };
        self.run(abort).await
    }

    /// Runs `work` on the bucket's thread; cancels it when the caller is dropped.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut task = AbortingTask(self.0.handle.spawn(work));
        (&mut task.0).await.unwrap_or_else(|error| Err(failure(error)))
    }
}

struct AbortingTask<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortingTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SchedulerState {
    fn path(&self, path: &Path) -> Path {
        if self.prefix.is_empty() {
            return path.clone();
        }
        Path::from(format!("{}/{path}", self.prefix))
    }

    /// Retries `attempt` while it holds a permit. The permit is kept during pauses, which reduces
    /// the load on a failing service.
    async fn again<T, F: Future<Output = Result<T>>>(
        &self,
        total: Duration,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let _place = self.places.acquire().await.map_err(failure)?;
        let (end, mut pause) = (Instant::now() + total, PAUSE);
        loop {
            let enough = end.min(Instant::now() + total / TRIES_IN_TIME);
            let error = match timeout_at(enough, attempt()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if !may_pass(&error) => return Err(error),
                Ok(Err(error)) => error,
                Err(_) => failure(format!("no answer within {} s", total.as_secs_f64())),
            };
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            // Random jitter, so that retries do not synchronize.
            let part = RandomState::new().hash_one(0) % 50;
            let wait = pause * (50 + u32::try_from(part).unwrap_or_default()) / 100;
            if Instant::now() + wait >= end {
                return Err(error);
            }
            sleep(wait).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn once(&self, path: &Path, range: &Range<u64>) -> Result<Bytes> {
        self.counts.gets.fetch_add(1, Ordering::Relaxed);
        let bytes = self.service.get_range(path, range.clone()).await?;
        self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Reads a range; hedges a late request with a second one, and the first response wins.
    async fn hedged(&self, path: &Path, range: &Range<u64>) -> Result<Bytes> {
        let mut first = self.once(path, range).boxed();
        let Some(late) = self.hedge_after else { return first.await };
        self.hedges.fetch_add(HEDGES_PER_HUNDRED, Ordering::Relaxed);
        self.hedges.fetch_min(HEDGES_SAVED, Ordering::Relaxed);
        if let Ok(answer) = timeout(late, &mut first).await {
            return answer;
        }
        let Some(_place) = self.second_place() else { return first.await };
        self.counts.hedged.fetch_add(1, Ordering::Relaxed);
        let second = self.once(path, range).boxed();
        match select(first, second).await {
            Either::Left((Ok(bytes), _)) | Either::Right((Ok(bytes), _)) => Ok(bytes),
            Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
        }
    }

    /// A permit for a hedged request, if one is free and the budget allows it.
    fn second_place(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let place = self.places.try_acquire().ok()?;
        let taken = self.hedges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| {
            (saved >= 100).then_some(saved - 100)
        });
        taken.is_ok().then_some(place)
    }
}

/// Wraps complete bytes as a response payload.
pub(super) fn whole(bytes: Bytes) -> GetResultPayload {
    GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed())
}

fn failure(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "S3", source: why.into() }
}

/// Whether the object is missing (in an existing bucket).
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && !inner(error).contains("NoSuchBucket")
}

/// Whether a retry may succeed: the service is busy, failing or unreachable, but did not reject the
/// request.
fn may_pass(error: &Error) -> bool {
    let Error::Generic { .. } = error else { return false };
    let text = inner(error);
    let Some(status) = text.split_once("non-2xx status code: ").map(|(_, rest)| rest) else {
        return !text.contains("redirect without LOCATION");
    };
    let is_passing = |code: &str| status.starts_with(code);
    is_passing("5") || is_passing("408") || is_passing("429")
}

/// The service's error as text, without the contents of the request.
pub(super) fn explain(error: &Error, bucket: &str) -> String {
    let text = inner(error);
    let part = |name: &str| {
        let rest = text.split_once(&format!("<{name}>"))?.1;
        Some(rest.split('<').next().unwrap_or(rest).to_owned())
    };
    match part("Code").as_deref() {
        Some("NoSuchBucket") => format!("there is no bucket `{bucket}`"),
        Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AccessDenied")) => {
            format!("the keys are refused ({code})")
        }
        Some(code) => match part("Message") {
            Some(message) if !message.is_empty() => format!("{message} ({code})"),
            _ => code.to_owned(),
        },
        None if matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {
            "the keys are refused".to_owned()
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Error {
        failure(format!("Error performing GET - Server returned non-2xx status code: {code} x: "))
    }

    #[test]
    fn what_may_pass_is_tried_again_and_a_no_is_not() {
        let passing = [500, 503, 429, 408].map(status);
        assert!(passing.iter().all(may_pass) && may_pass(&failure("connection refused")));
        let missing = Error::NotFound { path: "x".into(), source: "y".into() };
        assert!([400, 301, 403].map(status).iter().chain([&missing]).all(|error| !may_pass(error)));
    }

    #[test]
    fn answers_of_services_are_told_in_words() {
        let answer = |text: &str| explain(&failure(text.to_owned()), "rows");
        let code = |code: &str| format!("<Error><Code>{code}</Code><Message>m</Message></Error>");
        assert_eq!(answer(&code("NoSuchBucket")), "there is no bucket `rows`");
        assert_eq!(answer(&code("AccessDenied")), "the keys are refused (AccessDenied)");
        assert_eq!(answer(&code("SlowDown")), "m (SlowDown)");
    }
}
