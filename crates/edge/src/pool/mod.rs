//! The backends of a pool: which one gets a request, which are unhealthy, what may be retried.
//!
//! Choosing the better of two random backends balances as well as comparing all of them and needs
//! no agreement between threads (Mitzenmacher, *The Power of Two Choices*). Ties go to the backend
//! with the lowest virtual time, so equal backends get equal shares; latency counts only if it
//! differs a lot, so noise moves no traffic. When more than `panic_percent` look unhealthy, the
//! fault is more likely here, and all backends are used.
//!
//! Virtual time, by example: two backends of weights 1 and 2. Each request advances its backend by
//! 1/weight and goes to the lower one:
//!
//! ```text
//!   request    1    2    3    4    5    6
//!   backend    A    B    B    A    B    B        (A has weight 1, B weight 2; the first wins ties)
//!   time A     1    1    1    2    2    2
//!   time B     0   0.5   1    1   1.5   2
//! ```

pub(crate) mod backend;
pub(crate) mod health_check;
pub(crate) mod health_report;
pub(crate) mod route_times;
mod shared_check;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::pool::backend::{Backend, HealthState, STALLED_MIN};
use crate::pool::route_times::{RouteKey, RouteTimes};
use crate::settings::{Balance, Settings, UpstreamSettings};
use crate::time::{MonoTime, Nanos};
use crate::tls::backend_tls::BackendTls;

/// Retries allowed at once before `retry_percent` limits them, in hundredths.
const RETRIES_SAVED: i64 = 100 * 100;
/// A backend's silence counts as a stall if the others sent this many responses meanwhile.
const OTHER_RESPONSES_MIN: u64 = 8;

/// Overdue responses that make silence a stall while another backend has stalled already.
const STALLED_MANY: u32 = 8;

/// Random bits for one choice.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct RandomBits(pub(crate) u64);

/// All backends of one pool. A new configuration makes a new pool, which shares the backends that
/// stay.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) backends: Vec<Arc<Backend>>,
    pub(crate) settings: UpstreamSettings,
    /// Time for a whole request body; zero sets no limit.
    pub(crate) body_time: Nanos,
    /// For backends with TLS.
    pub(crate) tls: Option<Arc<BackendTls>>,
    balance: Balance,
    /// The zone whose backends are preferred.
    zone: Option<String>,
    /// Whether enough backends of the zone are up to carry its requests.
    is_zone_whole: AtomicBool,
    /// Highest virtual time of any backend.
    frontier: AtomicU64,
    is_panicking: AtomicBool,
    /// Whether an ejected backend awaits its trial request.
    has_trial: AtomicBool,
    /// Retries left, in hundredths.
    retry_budget: AtomicI64,
    queued: AtomicU32,
    slot_freed: Notify,
    responses: AtomicU64,
    /// Whether a response had more fields than usual.
    has_many_fields: AtomicBool,
    route_times: Arc<RouteTimes>,
}

/// Why no backend was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBackend {
    /// No usable backend is left.
    None,
    /// All usable backends have `in_flight` requests.
    Full,
}

impl Pool {
    /// The pool called `name`; backends that stay keep what pools of `before` know about them.
    pub(crate) fn new(
        name: &str,
        settings: &Settings,
        tls: Option<Arc<BackendTls>>,
        before: Option<&[Arc<Self>]>,
    ) -> Self {
        let now = MonoTime::now();
        let old_pools = before.unwrap_or_default();
        let old = old_pools.iter().find(|pool| pool.name == name);
        let frontiers = old_pools.iter().map(|pool| pool.frontier.load(Relaxed));
        let frontier = frontiers.max().unwrap_or(0);
        let own = settings.backends.iter().filter(|one| one.pool == name);
        let backends = own.map(|one| {
            let mut known = old_pools.iter().flat_map(|pool| &pool.backends);
            if let Some(old) = known.find(|old| old.matches(one)).cloned() {
                old.weight.store(one.weight, Relaxed);
                if settings.check.is_none() {
                    old.forget_checks();
                }
                return old;
            }
            let new = Backend::new(one);
            if before.is_some() {
                new.recover(now);
                new.catch_up(frontier);
            }
            Arc::new(new)
        });
        let mut upstream = settings.upstream.clone();
        if let Some((_, idle)) = settings.pool_idle.iter().find(|(pool, _)| pool == name) {
            upstream.idle = *idle;
        }
        let body = settings.pool_body.iter().find(|(pool, _)| pool == name);
        Self {
            name: name.to_owned(),
            backends: backends.collect(),
            settings: upstream,
            body_time: body.map_or(settings.limits.body, |(_, body)| *body).into(),
            tls,
            balance: settings.balance,
            zone: settings.zone.clone(),
            is_zone_whole: AtomicBool::new(true),
            frontier: AtomicU64::new(frontier),
            is_panicking: AtomicBool::new(false),
            has_trial: AtomicBool::new(false),
            retry_budget: AtomicI64::new(RETRIES_SAVED),
            queued: AtomicU32::new(0),
            slot_freed: Notify::new(),
            responses: AtomicU64::new(0),
            has_many_fields: AtomicBool::new(old.is_some_and(|pool| pool.has_many_fields())),
            route_times: old.map(|pool| Arc::clone(&pool.route_times)).unwrap_or_default(),
        }
    }

    /// Whether new connections must read heads of any number of fields.
    pub(crate) fn has_many_fields(&self) -> bool {
        self.has_many_fields.load(Relaxed)
    }

    pub(crate) fn note_many_fields(&self) {
        self.has_many_fields.store(true, Relaxed);
    }

    /// Chooses a backend and takes a slot there; `random` breaks ties.
    ///
    /// Backends in `tried` are not chosen again.
    pub(crate) fn choose(
        self: &Arc<Self>,
        now: MonoTime,
        random: RandomBits,
        client: IpAddr,
        tried: &[Arc<Backend>],
    ) -> Result<BackendSlot, NoBackend> {
        if let Some(on_trial) = self.trial(now, client, tried) {
            return Ok(self.take_slot(now, on_trial));
        }
        let choice = BackendChoice { pool: self, now, random, client, tried };
        let chosen = match choice.in_zone() {
            // A whole fleet may have been ejected since the last update.
            Err(NoBackend::None) if self.update_panic(now) => choice.in_zone(),
            chosen => chosen,
        }?;
        Ok(self.take_slot(now, chosen))
    }

    fn take_slot(self: &Arc<Self>, now: MonoTime, chosen: &Arc<Backend>) -> BackendSlot {
        chosen.begin_request(chosen.effective_weight(now, &self.settings), &self.frontier);
        self.credit_retry();
        BackendSlot { backend: Arc::clone(chosen), pool: Arc::clone(self) }
    }

    /// An ejected backend whose time is over, for one request that tries it.
    ///
    /// With `hash`, only a client that belongs to the backend is sent there.
    fn trial(
        &self,
        now: MonoTime,
        client: IpAddr,
        tried: &[Arc<Backend>],
    ) -> Option<&Arc<Backend>> {
        if !self.has_trial.load(Relaxed) || !tried.is_empty() {
            return None;
        }
        let mut due = self.backends.iter().filter(|one| one.is_trial_due(now, &self.settings));
        due.find(|one| self.may_try(one, now, client) && one.begin_trial(now))
    }

    fn may_try(&self, backend: &Backend, now: MonoTime, client: IpAddr) -> bool {
        if self.balance != Balance::Hash {
            return true;
        }
        let score = rendezvous_score(backend, client);
        let mut better =
            self.backends.iter().filter(|other| rendezvous_score(other, client) < score);
        !better.any(|other| other.state(now, &self.settings).is_up())
    }

    /// Adds a request's share to the retry budget.
    fn credit_retry(&self) {
        let share = i64::from(self.settings.retry_percent);
        if self.retry_budget.load(Relaxed) < RETRIES_SAVED {
            self.retry_budget.fetch_add(share, Relaxed);
        }
    }

    /// Takes one retry from the budget; false if none is left.
    pub(crate) fn take_retry(&self) -> bool {
        if self.settings.retry_percent == 0 {
            return false;
        }
        let is_left = self.retry_budget.fetch_sub(100, Relaxed) >= 100;
        if !is_left {
            self.retry_budget.fetch_add(100, Relaxed);
        }
        is_left
    }

    /// Enters the queue; fails if it is full.
    pub(crate) fn join_queue(self: &Arc<Self>) -> Result<QueueEntry, NoBackend> {
        if self.queued.fetch_add(1, Relaxed) as usize >= self.settings.queue {
            self.queued.fetch_sub(1, Relaxed);
            return Err(NoBackend::Full);
        }
        Ok(QueueEntry(Arc::clone(self)))
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Relaxed)
    }

    /// Whether health is ignored because too many backends look unhealthy.
    pub(crate) fn is_panicking(&self) -> bool {
        self.is_panicking.load(Relaxed)
    }

    /// Records the first byte of a response, which came after `latency`.
    pub(crate) fn record_response(
        &self,
        backend: &Backend,
        route: RouteKey,
        now: MonoTime,
        latency: Nanos,
    ) {
        if backend.is_typical() {
            self.route_times.record(route, latency, now);
        }
        backend.record_response(now, latency);
        self.responses.fetch_add(1, Relaxed);
    }

    /// How long a response of the route may take before its lateness is a symptom of the backend:
    /// twice as long as lately. Nothing is known of a new route, and it may be late by design.
    pub(crate) fn allowance(&self, backend: &Backend, route: RouteKey, now: MonoTime) -> Nanos {
        let least = backend.stall_limit(&self.settings);
        let most = Nanos::from(self.settings.stall_late).max(least);
        let slowest = self.route_times.slowest(route, now);
        slowest.map_or(most, |slowest| slowest.saturating_mul(2).clamp(least, most))
    }

    /// Updates usual latency, stalls and panic; called by one thread, about every 50 ms.
    pub(crate) fn update_health(&self, now: MonoTime, history: &mut ResponseHistory) {
        self.backends.iter().for_each(|one| one.expire_latency(now));
        let mut latencies: Vec<Nanos> = self.backends.iter().map(|one| one.latency()).collect();
        latencies.retain(|latency| *latency > Nanos::ZERO);
        latencies.sort_unstable();
        let middle = latencies.len().saturating_sub(1) / 2;
        let usual = latencies.get(middle).copied().unwrap_or_default();
        let responses = self.responses.load(Relaxed);
        let others = responses.saturating_sub(history.count_before(now));
        let mut has_stalled = self.backends.iter().any(|one| one.is_stalled());
        for backend in &self.backends {
            backend.compare_latency(usual);
            if backend.is_slow() || backend.state(now, &self.settings) != HealthState::Up {
                backend.catch_up(self.frontier.load(Relaxed));
            }
            // Silence is the backend's own fault only if others respond at the same time.
            if others >= OTHER_RESPONSES_MIN && self.backends.len() > 1 {
                // Two at once are rarely hung: something that both wait for is slow.
                let least = if has_stalled { STALLED_MANY } else { STALLED_MIN };
                has_stalled |= backend.detect_stall(now, &self.settings, least);
            }
        }
        let has_trial = self.backends.iter().any(|one| one.is_trial_due(now, &self.settings));
        self.has_trial.store(has_trial, Relaxed);
        history.push(now, responses);
        self.update_panic(now);
        self.update_zone(now);
    }

    /// Compares the share of unhealthy backends with `panic_percent`; returns whether health is ignored
    /// from now on.
    fn update_panic(&self, now: MonoTime) -> bool {
        let count = self.count_health(now, |_| true);
        let is_panic = (count.all - count.up) * 100 > count.all * self.settings.panic_percent;
        if self.is_panicking.swap(is_panic, Relaxed) != is_panic {
            count.log_panic(is_panic);
        }
        is_panic
    }

    /// Counts the backends that fit and have a weight.
    fn count_health(&self, now: MonoTime, fits: impl Fn(&Backend) -> bool) -> HealthCount {
        let mut count = HealthCount { all: 0, up: 0 };
        for backend in &self.backends {
            if fits(backend) && backend.weight.load(Relaxed) > 0 && backend.is_resolved() {
                count.all += 1;
                count.up += u32::from(backend.state(now, &self.settings).is_up());
            }
        }
        count
    }

    /// Keeps requests in the zone while at least half of its backends are up.
    fn update_zone(&self, now: MonoTime) {
        let Some(zone) = &self.zone else { return };
        let HealthCount { all, up } = self.count_health(now, |one| one.zone == *zone);
        let is_whole = all > 0 && up * 2 >= all;
        if self.is_zone_whole.swap(is_whole, Relaxed) == is_whole {
            return;
        }
        if is_whole {
            tracing::info!(
                "zone `{zone}`: enough backends are up, requests stay in the zone again"
            );
        } else {
            tracing::warn!(
                "zone `{zone}`: only {up} of {all} backends are up, requests go to all zones"
            );
        }
    }
}

/// One choice of a backend.
struct BackendChoice<'a> {
    pool: &'a Pool,
    now: MonoTime,
    random: RandomBits,
    client: IpAddr,
    tried: &'a [Arc<Backend>],
}

impl<'a> BackendChoice<'a> {
    /// Chooses among the backends of the preferred zone first.
    fn in_zone(&self) -> Result<&'a Arc<Backend>, NoBackend> {
        let zone = self.pool.zone.as_deref();
        match zone.filter(|_| self.pool.is_zone_whole.load(Relaxed)) {
            None => self.among(None),
            // If all are full, unhealthy or tried, another zone is better than no response.
            Some(zone) => self.among(Some(zone)).or_else(|_| self.among(None)),
        }
    }

    /// Chooses among the backends of a zone, or of all zones.
    fn among(&self, zone: Option<&str>) -> Result<&'a Arc<Backend>, NoBackend> {
        match self.pool.balance {
            Balance::TwoChoices => self.better_of_two(zone),
            Balance::LeastConnections => self.least(zone, |one| self.rank(one)),
            Balance::RoundRobin => self.least(zone, |one| (0, one.virtual_time())),
            Balance::Hash => self.least(zone, |one| (rendezvous_score(one, self.client), 0)),
        }
    }

    /// Whether a backend can take the request.
    fn check(&self, backend: &Backend, zone: Option<&str>) -> Result<(), NoBackend> {
        if zone.is_some_and(|zone| backend.zone != zone) {
            return Err(NoBackend::None);
        }
        if self.tried.iter().any(|other| std::ptr::eq(other.as_ref(), backend)) {
            return Err(NoBackend::None);
        }
        let settings = &self.pool.settings;
        let state = backend.state(self.now, settings);
        let is_usable = state.is_up() || state.is_usable() && self.pool.is_panicking();
        if !is_usable {
            return Err(NoBackend::None);
        }
        if settings.in_flight > 0 && backend.in_flight() as usize >= settings.in_flight {
            return Err(NoBackend::Full);
        }
        Ok(())
    }

    fn rank(&self, backend: &Backend) -> (u64, u64) {
        let weight = backend.effective_weight(self.now, &self.pool.settings);
        (backend.load(weight), backend.virtual_time())
    }

    fn better_of_two(&self, zone: Option<&str>) -> Result<&'a Arc<Backend>, NoBackend> {
        let backends = &self.pool.backends;
        let count = backends.len();
        if count > 2 {
            let random = self.random.0;
            let (high, low) = ((random >> 32) as usize, (random & 0xffff_ffff) as usize);
            let first = high % count;
            let second = (first + 1 + low % (count - 1)) % count;
            let (first, second) = (&backends[first], &backends[second]);
            if self.check(first, zone).is_ok() && self.check(second, zone).is_ok() {
                let is_second = self.rank(second) < self.rank(first);
                return Ok(if is_second { second } else { first });
            }
        }
        self.least(zone, |one| self.rank(one))
    }

    /// The backend with the least key among all that can take the request.
    fn least<K: Ord>(
        &self,
        zone: Option<&str>,
        key: impl Fn(&Backend) -> K,
    ) -> Result<&'a Arc<Backend>, NoBackend> {
        let mut why = NoBackend::None;
        let mut best: Option<(K, &Arc<Backend>)> = None;
        for backend in &self.pool.backends {
            match self.check(backend, zone) {
                Ok(()) => {
                    let key = key(backend);
                    if best.as_ref().is_none_or(|(least, _)| key < *least) {
                        best = Some((key, backend));
                    }
                }
                Err(NoBackend::Full) => why = NoBackend::Full,
                Err(NoBackend::None) => {}
            }
        }
        best.map(|(_, backend)| backend).ok_or(why)
    }
}

/// How many backends there are, and how many of them are up.
struct HealthCount {
    all: u32,
    up: u32,
}

impl HealthCount {
    fn log_panic(&self, is_panic: bool) {
        let (down, all) = (self.all - self.up, self.all);
        if is_panic {
            tracing::warn!(
                "panic mode: {down} of {all} backends look unhealthy, health is ignored and all get requests"
            );
        } else {
            tracing::info!(
                "panic mode ended: {down} of {all} backends are unhealthy and get no requests"
            );
        }
    }
}

/// Rendezvous hashing: every backend gets a score per client, and the lowest score wins. Without
/// that backend, only its own clients move.
fn rendezvous_score(backend: &Backend, client: IpAddr) -> u64 {
    // FxHash alone would order backends by their last bytes, so mix again (splitmix64).
    let mut mixed = rustc_hash::FxBuildHasher.hash_one((backend.address, client));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // The least of several exponential variables is backend i's with probability weight(i) / sum.
    // The bit patterns of positive floats are ordered like their values.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are enough for a score")]
    let even = ((mixed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    (-even.ln() / f64::from(backend.weight.load(Relaxed).max(1))).to_bits()
}

/// A request in progress at a backend; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct BackendSlot {
    pub(crate) backend: Arc<Backend>,
    pool: Arc<Pool>,
}

impl Drop for BackendSlot {
    fn drop(&mut self) {
        self.backend.end_request();
        if self.pool.queued() > 0 {
            self.pool.slot_freed.notify_one();
        }
    }
}

/// A request in the queue; dropping it leaves the queue.
pub(crate) struct QueueEntry(Arc<Pool>);

impl QueueEntry {
    /// Waits until a slot was freed; another request may take it first.
    pub(crate) async fn notified(&self) {
        self.0.slot_freed.notified().await;
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Relaxed);
    }
}

/// The response counts of the last half second.
#[derive(Debug, Default)]
pub(crate) struct ResponseHistory(VecDeque<(MonoTime, u64)>);

impl ResponseHistory {
    /// The count half a second ago.
    fn count_before(&mut self, now: MonoTime) -> u64 {
        while self.0.get(1).is_some_and(|(at, _)| now.since(*at) > Nanos::from_millis(500)) {
            self.0.pop_front();
        }
        self.0.front().map_or(0, |(_, count)| *count)
    }

    fn push(&mut self, now: MonoTime, count: u64) {
        self.0.push_back((now, count));
    }
}

#[cfg(test)]
mod tests;
