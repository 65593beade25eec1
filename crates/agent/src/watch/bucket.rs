//! The thread of a bucket whose objects are logs: lists them, and fetches what the tail thread
//! wants next.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_collect::logs::{Object, ObjectLog};
use weir_config::buckets::NamedBucket;
use weir_config::place::{read_bytes, read_secret};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_tables::Micros;

use super::WatchContext;
use crate::hooks::OpenBucket;

/// Larger packed objects are skipped with a warning: an object is held in memory while it is read.
const OBJECT_BYTES_MAX: u64 = 256 << 20;
/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(500);

/// A bucket, and who asks.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// The bucket's name.
    pub bucket: String,
    /// Where the service is; Amazon's without one.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Access key and secret key.
    pub keys: Option<(String, String)>,
    /// An authority (PEM) beside the system's.
    pub authority: Option<Vec<u8>>,
    /// A request that takes longer has failed.
    pub timeout: Duration,
}

/// A pending answer of the service; the error is a sentence for a person.
pub type ObjectReply<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// A bucket that can be read.
pub trait ObjectSource: Send {
    /// Every object whose name begins with `prefix`.
    fn list<'a>(&'a self, prefix: &'a str) -> ObjectReply<'a, Vec<Object>>;
    /// The bytes of an object.
    fn get<'a>(&'a self, name: &'a str) -> ObjectReply<'a, Bytes>;
}

/// What came from the bucket.
pub(super) enum BucketReply {
    Listed(Vec<Object>),
    Fetched(String, Bytes),
    /// The object that was wanted, if it was one, and why not.
    Failed(Option<String>, String),
}

/// The tail thread's end.
pub(super) struct BucketLog {
    pub(super) log: ObjectLog,
    wanted: Sender<String>,
    answers: Receiver<BucketReply>,
    /// The object that was requested and has not arrived.
    fetching: Option<String>,
}

/// The bucket's end.
pub(super) struct BucketFetcher {
    bucket: Box<dyn ObjectSource>,
    url: String,
    prefix: String,
    interval: Duration,
    past: Duration,
    wanted: Receiver<String>,
    answers: Sender<BucketReply>,
}

/// Both ends; sends nothing to the service yet.
///
/// # Errors
/// When a file with a secret or an authority cannot be read.
pub(super) fn prepare(
    named: &NamedBucket,
    chunk_bytes: usize,
    open: OpenBucket,
) -> Result<(BucketLog, BucketFetcher), Failure> {
    let password = named.password_file.as_deref().map(read_secret).transpose()?;
    let options = BucketOptions {
        bucket: named.bucket.clone(),
        endpoint: named.endpoint.clone(),
        region: named.region.clone(),
        keys: named.user.clone().zip(password),
        authority: named.ca_file.as_deref().map(read_bytes).transpose()?,
        timeout: TIMEOUT,
    };
    let bucket = open(&options).map_err(|failure| {
        let (message, hint) = failure.into_parts();
        Failure::new(format!("cannot use {}: {message}", named.place))
            .hint(hint.unwrap_or_default())
            .code(EXIT_CONFIG)
    })?;
    let (wanted, asked) = std::sync::mpsc::channel();
    let (answers, answered) = std::sync::mpsc::channel();
    let log = ObjectLog::new((&named.bucket, &named.prefix), chunk_bytes);
    let fetcher = BucketFetcher {
        bucket,
        url: named.url(),
        prefix: named.prefix.clone(),
        interval: named.interval,
        past: named.past,
        wanted: asked,
        answers,
    };
    Ok((BucketLog { log, wanted, answers: answered, fetching: None }, fetcher))
}

impl BucketLog {
    /// Takes what came, and asks for what comes next.
    pub(super) fn look(&mut self) {
        for answer in self.answers.try_iter() {
            match answer {
                BucketReply::Listed(objects) => self.log.listed(objects),
                BucketReply::Fetched(name, bytes) => {
                    self.fetching = None;
                    self.log.fetched(&name, bytes);
                }
                BucketReply::Failed(object, why) => {
                    self.fetching = self.fetching.take().filter(|_| object.is_none());
                    self.log.failed(object.as_deref(), why);
                }
            }
        }
        if self.fetching.is_none()
            && let Some(object) = self.log.wanted()
        {
            let name = object.name.clone();
            if self.wanted.send(name.clone()).is_ok() {
                self.fetching = Some(name);
            }
        }
    }
}

impl BucketFetcher {
    /// Until the stop.
    pub(super) fn run(self, context: &WatchContext) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else {
            let _ended =
                self.answers.send(BucketReply::Failed(None, "cannot start a runtime".into()));
            return;
        };
        let mut next = Instant::now();
        let mut is_failing = false;
        while !context.stop.is_set() {
            if next <= Instant::now() {
                next = Instant::now() + self.interval;
                let listed = runtime.block_on(self.list(context.clock.now()));
                self.tell(&listed, &mut is_failing);
                let answer = listed.unwrap_or_else(|why| BucketReply::Failed(None, why));
                if self.answers.send(answer).is_err() {
                    return;
                }
            }
            let wait = next.saturating_duration_since(Instant::now()).min(LOOK);
            match self.wanted.recv_timeout(wait) {
                Ok(name) => {
                    let fetched = runtime.block_on(self.bucket.get(&name));
                    let answer = match fetched {
                        Ok(bytes) => BucketReply::Fetched(name, bytes),
                        Err(error) => {
                            // Not at once again.
                            context.stop.wait(LOOK);
                            BucketReply::Failed(Some(name), error)
                        }
                    };
                    if self.answers.send(answer).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Says once that the bucket cannot be listed, and once that it can again.
    fn tell(&self, listed: &Result<BucketReply, String>, is_failing: &mut bool) {
        match listed {
            Err(why) if !*is_failing => tracing::warn!("cannot read {}: {why}", self.url),
            Ok(_) if *is_failing => tracing::info!("{} can be read again", self.url),
            _ => {}
        }
        *is_failing = listed.is_err();
    }

    async fn list(&self, now: Micros) -> Result<BucketReply, String> {
        let first = now - self.past;
        let mut objects = Vec::new();
        for prefix in prefixes(&self.prefix, first, now) {
            let found = self.bucket.list(&prefix).await?;
            for object in found.into_iter().filter(|object| object.modified >= first) {
                if object.byte_count > OBJECT_BYTES_MAX {
                    tracing::warn!(
                        "`{}` is larger than {OBJECT_BYTES_MAX} bytes and is not read",
                        object.name
                    );
                    continue;
                }
                objects.push(object);
            }
        }
        Ok(BucketReply::Listed(objects))
    }
}

/// The prefix for each day of the time, of which there is one when it names no day.
fn prefixes(prefix: &str, first: Micros, last: Micros) -> BTreeSet<String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let days = std::iter::successors(Some(first), |day| Some(*day + DAY));
    days.take_while(|day| *day < last)
        .chain([last])
        .map(|at: Micros| {
            let text = at.to_string();
            let part = |range| text.get(range).unwrap_or_default();
            prefix.replace("%Y", part(0..4)).replace("%m", part(5..7)).replace("%d", part(8..10))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_of_the_time_has_its_prefix() {
        let noon = Micros(1_798_718_400_000_000);
        assert_eq!(noon.to_string().get(..10), Some("2026-12-31"));
        let of = |prefix: &str, hours: u64| {
            let first = noon - Duration::from_secs(3600 * hours);
            prefixes(prefix, first, noon).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of("logs/%Y/%m/%d/", 1), ["logs/2026/12/31/"]);
        assert_eq!(of("logs/%Y/%m/%d/", 13), ["logs/2026/12/30/", "logs/2026/12/31/"]);
        assert_eq!(of("E.%Y-%m-", 24 * 40), ["E.2026-11-", "E.2026-12-"]);
        assert_eq!(of("logs/", 24 * 40), ["logs/"]);
    }
}
