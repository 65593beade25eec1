//! The backends together: which one gets a request, which are believed to be ill, what may be tried again.
//!
//! Two choices at random spread as well as looking at all and need no agreement between threads (Mitzenmacher, *The Power
//! of Two Choices*). Ties go to whose turn it is, so equal backends get equal shares; latency counts only when it differs
//! much, so noise moves no traffic. When more look ill than `panic_percent`, the fault is more likely here: all are used.

pub(crate) mod backend;
pub(crate) mod health_body;
pub(crate) mod health_check;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::pool::backend::{Backend, HealthState};
use crate::settings::{Balance, Settings, UpstreamSettings};
use crate::time::now_ns;
use crate::tls::backend_tls::BackendTls;

/// Retries that are allowed at once before the share of `retry_percent` counts, in hundredths.
const RETRIES_SAVED: i64 = 100 * 100;

/// All backends of one configuration. A new configuration makes a new pool that shares the backends that stay.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) backends: Vec<Arc<Backend>>,
    pub(crate) settings: UpstreamSettings,
    /// For backends with TLS.
    pub(crate) tls: Option<Arc<BackendTls>>,
    balance: Balance,
    /// The zone whose backends are preferred.
    zone: Option<String>,
    /// Whether enough of them are up.
    is_zone_whole: AtomicBool,
    /// The furthest that any backend's turns have come.
    front: AtomicU64,
    is_panicking: AtomicBool,
    /// Whether one of them waits for a request that tries it.
    has_trial: AtomicBool,
    /// Retries that are left, in hundredths.
    budget: AtomicI64,
    queued: AtomicU32,
    room: Notify,
    answers: AtomicU64,
}

/// Why no backend was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBackend {
    /// None that may be asked is left.
    None,
    /// All have as many requests as they may.
    Full,
}

impl Pool {
    /// The pool called `name`; backends of `before` that stay go on with all that is known of them.
    pub(crate) fn new(
        name: &str,
        settings: &Settings,
        tls: Option<Arc<BackendTls>>,
        before: Option<&[Arc<Self>]>,
    ) -> Self {
        let now = now_ns();
        let known = || before.unwrap_or_default().iter().flat_map(|pool| &pool.backends);
        let fronts = before.unwrap_or_default().iter().map(|pool| pool.front.load(Relaxed));
        let front = fronts.max().unwrap_or(0);
        let own = settings.backends.iter().filter(|one| one.pool == name);
        let backends = own.map(|one| {
            if let Some(old) = known().find(|old| old.is(one)).cloned() {
                old.weight.store(one.weight, Relaxed);
                if settings.check.is_none() {
                    old.forget_checks();
                }
                return old;
            }
            let new = Backend::new(one);
            if before.is_some() {
                new.recover(now);
                new.catch_up(front);
            }
            Arc::new(new)
        });
        let mut upstream = settings.upstream.clone();
        if let Some((_, idle)) = settings.pool_idle.iter().find(|(pool, _)| pool == name) {
            upstream.idle = *idle;
        }
        Self {
            name: name.to_owned(),
            backends: backends.collect(),
            settings: upstream,
            tls,
            balance: settings.balance,
            zone: settings.zone.clone(),
            is_zone_whole: AtomicBool::new(true),
            front: AtomicU64::new(front),
            is_panicking: AtomicBool::new(false),
            has_trial: AtomicBool::new(false),
            budget: AtomicI64::new(RETRIES_SAVED),
            queued: AtomicU32::new(0),
            room: Notify::new(),
            answers: AtomicU64::new(0),
        }
    }

    /// Chooses a backend and takes a place there; `random` decides between equals. `tried` are not chosen again unless nothing else is left.
    pub(crate) fn choose(
        self: &Arc<Self>,
        now: u64,
        random: u64,
        client: std::net::IpAddr,
        tried: &[Arc<Backend>],
    ) -> Result<BackendSlot, NoBackend> {
        if let Some(on_trial) = self.trial(now, client, tried) {
            return Ok(self.place(now, on_trial));
        }
        let fits = |backend: &Backend| {
            let is_tried = tried.iter().any(|other| std::ptr::eq(other.as_ref(), backend));
            if is_tried {
                return Err(NoBackend::None);
            }
            let state = backend.state(now, &self.settings);
            let is_usable = state.is_up() || state != HealthState::Draining && self.is_panicking();
            if !is_usable {
                return Err(NoBackend::None);
            }
            let limit = self.settings.in_flight;
            if limit > 0 && backend.in_flight() as usize >= limit {
                return Err(NoBackend::Full);
            }
            Ok(())
        };
        let near = self.zone.as_deref().filter(|_| self.is_zone_whole.load(Relaxed));
        let chosen = match near {
            None => self.choose_among(now, random, client, &fits),
            Some(zone) => {
                let fits_near = |backend: &Backend| {
                    if backend.zone == zone { fits(backend) } else { Err(NoBackend::None) }
                };
                let near = self.choose_among(now, random, client, &fits_near);
                // Full, ill or tried: another zone is better than no answer.
                near.or_else(|_| self.choose_among(now, random, client, &fits))
            }
        }?;
        Ok(self.place(now, chosen))
    }

    fn place(self: &Arc<Self>, now: u64, chosen: &Arc<Backend>) -> BackendSlot {
        chosen.take(chosen.effective_weight(now, &self.settings), &self.front);
        self.earn();
        BackendSlot { backend: Arc::clone(chosen), pool: Arc::clone(self) }
    }

    /// A backend whose time out is over, for one request that tries it. With `hash` only a client who belongs there goes.
    fn trial(
        &self,
        now: u64,
        client: std::net::IpAddr,
        tried: &[Arc<Backend>],
    ) -> Option<&Arc<Backend>> {
        if !self.has_trial.load(Relaxed) || !tried.is_empty() {
            return None;
        }
        let is_own = |one: &Backend| {
            let better = |other: &&Arc<Backend>| draw(other, client) < draw(one, client);
            self.balance != Balance::Hash
                || !self
                    .backends
                    .iter()
                    .filter(better)
                    .any(|other| other.state(now, &self.settings).is_up())
        };
        let mut due = self.backends.iter().filter(|one| one.is_trial_due(now, &self.settings));
        due.find(|one| is_own(one) && one.begin_trial(now))
    }

    fn choose_among<F>(
        &self,
        now: u64,
        random: u64,
        client: std::net::IpAddr,
        fits: &F,
    ) -> Result<&Arc<Backend>, NoBackend>
    where
        F: Fn(&Backend) -> Result<(), NoBackend>,
    {
        match self.balance {
            Balance::TwoChoices => self.choose_of_two(now, random, fits),
            Balance::LeastConnections => self.least(fits, |one| self.rank(one, now)),
            Balance::RoundRobin => self.least(fits, |one| (0, one.turn())),
            Balance::Hash => self.least(fits, |one| (draw(one, client), 0)),
        }
    }

    fn rank(&self, backend: &Backend, now: u64) -> (u64, u64) {
        (backend.load(backend.effective_weight(now, &self.settings)), backend.turn())
    }

    fn choose_of_two<F>(&self, now: u64, random: u64, fits: &F) -> Result<&Arc<Backend>, NoBackend>
    where
        F: Fn(&Backend) -> Result<(), NoBackend>,
    {
        let count = self.backends.len();
        if count > 2 {
            let (high, low) = ((random >> 32) as usize, (random & 0xffff_ffff) as usize);
            let first = high % count;
            let second = (first + 1 + low % (count - 1)) % count;
            let (first, second) = (&self.backends[first], &self.backends[second]);
            if fits(first).is_ok() && fits(second).is_ok() {
                let is_second = self.rank(second, now) < self.rank(first, now);
                return Ok(if is_second { second } else { first });
            }
        }
        self.least(fits, |one| self.rank(one, now))
    }

    fn least<F, K: Ord>(
        &self,
        fits: &F,
        key: impl Fn(&Backend) -> K,
    ) -> Result<&Arc<Backend>, NoBackend>
    where
        F: Fn(&Backend) -> Result<(), NoBackend>,
    {
        let mut why = NoBackend::None;
        let mut best: Option<(K, &Arc<Backend>)> = None;
        for backend in &self.backends {
            match fits(backend) {
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

    /// A request adds its share to the retries that are allowed.
    fn earn(&self) {
        let share = i64::from(self.settings.retry_percent);
        if self.budget.load(Relaxed) < RETRIES_SAVED {
            self.budget.fetch_add(share, Relaxed);
        }
    }

    /// Whether one more retry is allowed; takes it.
    pub(crate) fn may_retry(&self) -> bool {
        if self.settings.retry_percent == 0 {
            return false;
        }
        let is_left = self.budget.fetch_sub(100, Relaxed) >= 100;
        if !is_left {
            self.budget.fetch_add(100, Relaxed);
        }
        is_left
    }

    /// Waits until a request ended somewhere; an error when too many wait already.
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

    /// Whether so many look ill that none is believed to be.
    pub(crate) fn is_panicking(&self) -> bool {
        self.is_panicking.load(Relaxed)
    }

    /// An answer came from any backend.
    pub(crate) fn answered(&self) {
        self.answers.fetch_add(1, Relaxed);
    }

    /// Looks at all backends: usual latency, stalls, panic. Called by one thread, about every 50 ms.
    pub(crate) fn look(&self, now: u64, looked: &mut AnswerHistory) {
        self.backends.iter().for_each(|one| one.forget_latency(now));
        let mut latencies: Vec<u64> = self.backends.iter().map(|one| one.latency_ns()).collect();
        latencies.retain(|latency| *latency > 0);
        latencies.sort_unstable();
        let usual = latencies.get(latencies.len().saturating_sub(1) / 2).copied().unwrap_or(0);
        let answers = self.answers.load(Relaxed);
        let is_other_answering = answers.saturating_sub(looked.answers_before(now)) >= 8;
        for backend in &self.backends {
            backend.set_factor(usual);
            if backend.is_slow() || backend.state(now, &self.settings) != HealthState::Up {
                backend.catch_up(self.front.load(Relaxed));
            }
            // Only beside others that answer is silence the backend's own.
            if is_other_answering && self.backends.len() > 1 {
                backend.look_for_stall(now, &self.settings);
            }
        }
        let has_trial = self.backends.iter().any(|one| one.is_trial_due(now, &self.settings));
        self.has_trial.store(has_trial, Relaxed);
        looked.note(now, answers);
        let used = self.backends.iter().filter(|one| one.weight.load(Relaxed) > 0);
        let (all, ill) = used.fold((0, 0), |(all, ill), one| {
            (all + 1, ill + u32::from(!one.state(now, &self.settings).is_up()))
        });
        let is_panic = ill * 100 > all * self.settings.panic_percent;
        if self.is_panicking.swap(is_panic, Relaxed) != is_panic {
            tell_of_panic(is_panic, ill, all);
        }
        self.look_at_zone(now);
    }

    /// While half of the zone's backends are up, or more, they can carry its requests; with fewer, all zones share them.
    fn look_at_zone(&self, now: u64) {
        let Some(zone) = &self.zone else { return };
        let near = self.backends.iter().filter(|one| one.zone == *zone);
        let near = near.filter(|one| one.weight.load(Relaxed) > 0);
        let (all, up) = near.fold((0, 0), |(all, up), one| {
            (all + 1, up + u32::from(one.state(now, &self.settings).is_up()))
        });
        let is_whole = all > 0 && up * 2 >= all;
        if self.is_zone_whole.swap(is_whole, Relaxed) == is_whole {
            return;
        }
        if is_whole {
            tracing::info!("the backends of zone `{zone}` get its requests again");
        } else {
            tracing::warn!(
                "{up} of {all} backends of zone `{zone}` are up: all zones get requests"
            );
        }
    }
}

fn tell_of_panic(is_panic: bool, ill: u32, all: u32) {
    if is_panic {
        tracing::warn!(
            "{ill} of {all} backends look ill: none is believed to be, all get requests"
        );
    } else {
        tracing::info!("{ill} of {all} backends look ill, and get no requests");
    }
}

/// Rendezvous hashing: each backend draws a number for the client, the least wins; without it, the next one does.
fn draw(backend: &Backend, client: std::net::IpAddr) -> u64 {
    // Mixed once more: the order of such hashes follows their last bytes otherwise (splitmix64).
    let mut mixed = rustc_hash::FxBuildHasher.hash_one((backend.address, client));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // Of exponential draws the least is a backend's with the chance of its weight; bits of positive floats are ordered.
    #[expect(clippy::cast_precision_loss, reason = "a draw needs 53 bits")]
    let even = ((mixed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    (-even.ln() / f64::from(backend.weight.load(Relaxed).max(1))).to_bits()
}

/// A request under way at a backend; dropping it ends that.
#[derive(Debug)]
pub(crate) struct BackendSlot {
    pub(crate) backend: Arc<Backend>,
    pool: Arc<Pool>,
}

impl Drop for BackendSlot {
    fn drop(&mut self) {
        self.backend.give_back();
        if self.pool.queued() > 0 {
            self.pool.room.notify_one();
        }
    }
}

/// A request in the queue; dropping it leaves.
pub(crate) struct QueueEntry(Arc<Pool>);

impl QueueEntry {
    /// Until a place became free somewhere; it may be gone by the time it is asked for.
    pub(crate) async fn room(&self) {
        self.0.room.notified().await;
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Relaxed);
    }
}

/// How many answers there were half a second ago.
#[derive(Debug, Default)]
pub(crate) struct AnswerHistory(std::collections::VecDeque<(u64, u64)>);

impl AnswerHistory {
    fn answers_before(&mut self, now: u64) -> u64 {
        while self.0.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) > 500_000_000) {
            self.0.pop_front();
        }
        self.0.front().map_or(0, |(_, answers)| *answers)
    }

    fn note(&mut self, now: u64, answers: u64) {
        self.0.push_back((now, answers));
    }
}

#[cfg(test)]
mod tests;
