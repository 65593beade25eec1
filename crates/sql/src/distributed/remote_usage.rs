//! Resource use of subplans at other hubs: the coordinating hub polls it while the query runs and
//! once at its end, and charges it to the query.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use parking_lot::Mutex;
use tonic::body::Body;
use tower::{Service, ServiceExt};
use weir_datafile::StoreError;

use crate::limits::{LimitKind, QueryUsage, ResourceUse};
use crate::options::QueryLimits;
use crate::peer_set::PeerSet;
use crate::peers::Peer;

/// Path of the request for a query's resource use.
pub(super) const PATH: &str = "/weir/used";
/// Header with the id of the query.
const QUERY: HeaderName = HeaderName::from_static("weir-query");
/// Header with the read limit in bytes of its subplans at one hub.
const LIMIT: HeaderName = HeaderName::from_static("weir-read-limit");
const CPU: HeaderName = HeaderName::from_static("weir-cpu-nanos");
const READ: HeaderName = HeaderName::from_static("weir-read-bytes");
const READS: HeaderName = HeaderName::from_static("weir-reads");

/// Polling interval.
const BEAT: Duration = Duration::from_millis(200);
/// A hub that does not respond within this time is skipped.
const PATIENCE: Duration = Duration::from_secs(1);
/// A query that was not polled for this long is dropped.
const KEPT: Duration = Duration::from_secs(60);

/// Queries that have subplans on this hub.
#[derive(Default)]
pub(super) struct RemoteQueries(Mutex<HashMap<u64, (Arc<QueryUsage>, Instant)>>);

impl RemoteQueries {
    /// Usage counter of the query named in `headers`.
    pub(super) fn of(&self, headers: &HeaderMap) -> Arc<QueryUsage> {
        let new = || QueryUsage::new(limits_of(number(headers, &LIMIT).unwrap_or(u64::MAX)));
        let Some(query) = number(headers, &QUERY) else { return new() };
        self.get(query).unwrap_or_else(|| {
            let usage = new();
            self.put(query, &usage);
            usage
        })
    }

    fn get(&self, query: u64) -> Option<Arc<QueryUsage>> {
        let mut known = self.0.lock();
        let (usage, asked) = known.get_mut(&query)?;
        *asked = Instant::now();
        Some(Arc::clone(usage))
    }

    fn put(&self, query: u64, usage: &Arc<QueryUsage>) {
        let mut known = self.0.lock();
        known.retain(|_, (usage, asked)| Arc::strong_count(usage) > 1 || asked.elapsed() < KEPT);
        known.insert(query, (Arc::clone(usage), Instant::now()));
    }

    fn forget(&self, query: u64) {
        self.0.lock().remove(&query);
    }

    /// Responds to a request at [`PATH`].
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<Body> {
        let usage = number(headers, &QUERY).and_then(|query| self.get(query));
        let used = usage.map_or_else(ResourceUse::default, |usage| usage.used());
        let mut answer = Response::new(Body::empty());
        let cpu = u64::try_from(used.cpu.as_nanos()).unwrap_or(u64::MAX);
        for (name, value) in [(CPU, cpu), (READ, used.read_bytes), (READS, used.reads)] {
            answer.headers_mut().insert(name, value.into());
        }
        answer
    }
}

fn limits_of(read_bytes: u64) -> QueryLimits {
    QueryLimits { read_bytes, ..QueryLimits::default() }
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// One distributed attempt of a query; its usage is counted until it is dropped.
pub(crate) struct RemoteUsage<'a> {
    peer_set: &'a PeerSet,
    queries: &'a RemoteQueries,
    query: u64,
    usage: Arc<QueryUsage>,
    /// Latest total of each hub.
    hubs: Vec<(Peer, ResourceUse)>,
}

impl<'a> RemoteUsage<'a> {
    pub(super) fn new(
        peer_set: &'a PeerSet,
        queries: &'a RemoteQueries,
        hubs: &[Peer],
        usage: &Arc<QueryUsage>,
    ) -> Self {
        let query = RandomState::new().hash_one("query");
        // Count subplans on this hub directly.
        queries.put(query, usage);
        let hubs = hubs.iter().map(|hub| (hub.clone(), ResourceUse::default())).collect();
        Self { peer_set, queries, query, usage: Arc::clone(usage), hubs }
    }

    /// Headers sent with subplans.
    pub(super) fn headers(&self) -> HeaderMap {
        let left = self.usage.limits.read_bytes.saturating_sub(self.usage.read_bytes());
        HeaderMap::from_iter([(QUERY, HeaderValue::from(self.query)), (LIMIT, left.into())])
    }

    /// Polls until a limit is exceeded; returns that limit's error.
    pub(crate) async fn watch(&mut self) -> StoreError {
        loop {
            tokio::time::sleep(BEAT).await;
            if let Err(limit) = self.take_in().await {
                return self.usage.explain(limit);
            }
        }
    }

    /// Adds the usage since the last poll.
    ///
    /// # Errors
    /// The limit that is exceeded.
    pub(crate) async fn take_in(&mut self) -> Result<(), LimitKind> {
        let (peer_set, query) = (self.peer_set, self.query);
        let ask = async |hub: &Peer| {
            let answer = tokio::time::timeout(PATIENCE, ask(peer_set, hub, query)).await;
            answer.ok().flatten()
        };
        let told = join_all(self.hubs.iter().map(|(hub, _)| ask(hub))).await;
        let mut outcome = Ok(());
        for ((_, before), now) in self.hubs.iter_mut().zip(told) {
            let Some(now) = now else { continue };
            outcome = outcome.and(self.usage.add_elsewhere(*before, now));
            *before = now;
        }
        outcome
    }
}

impl Drop for RemoteUsage<'_> {
    fn drop(&mut self) {
        self.queries.forget(self.query);
    }
}

/// Requests a query's resource use from another hub; `None` if it does not respond.
async fn ask(peer_set: &PeerSet, hub: &Peer, query: u64) -> Option<ResourceUse> {
    let mut channel = peer_set.channel(hub);
    let request = Request::get(PATH).header(QUERY, query).body(Body::empty()).ok()?;
    let answer = channel.ready().await.ok()?.call(request).await.ok()?;
    let headers = answer.headers();
    Some(ResourceUse {
        cpu: Duration::from_nanos(number(headers, &CPU)?),
        read_bytes: number(headers, &READ)?,
        reads: number(headers, &READS)?,
    })
}
