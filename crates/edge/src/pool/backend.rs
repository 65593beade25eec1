//! One backend as all threads see it: load, latency, health. Atomics only; the one lock is for the
//! texts of health checks, which no request reads.
//!
//! ```text
//!   up ── failures in a row, stall, failed checks ──► out
//!   out ── successful trial request, passed checks ──► slow start ──► up
//! ```
//! Latency is a running median (Ma, Muthukrishnan, Sandler: *Frugal Streaming*) rather than the
//! peak-sensitive average of Finagle and linkerd: on a busy machine, one slow response in a
//! thousand made that average call an equal backend slow and cost it a third of its share. A
//! backend that is slow right now shows in its requests in flight.
//!
//! Outlier ejection follows Envoy, except that one request tries the backend when its ejection is
//! over (a half-open circuit breaker): a backend that is still unhealthy harms one request only.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::pool::health_report::{CheckRecord, texts_of};
use crate::settings::destination::{BackendSettings, Protocol};
use crate::settings::{CheckSettings, UpstreamSettings};
use crate::time::{AtomicNanos, AtomicTime, MonoTime, Nanos};

/// Stands for the address of a name that has none; nothing is sent there.
const NO_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
/// A neutral latency factor; factors are in sixteenths.
const FACTOR_NEUTRAL: u32 = 16;
/// One request at weight 1, in units of virtual time.
const REQUEST_COST: u64 = 1 << 20;
/// How many requests a backend's virtual time may lag behind the others: a backend that was slow
/// is not flooded when it recovers.
const LAG_MAX: u64 = 256;
/// How long the latency of a backend without requests stays valid.
const LATENCY_TTL: Nanos = Nanos::from_secs(5);
/// Idle connections closed within this time were closed for one reason, usually a restart.
const SAME_EVENT: Nanos = Nanos::from_secs(1);
/// How long an idle close is kept for comparison with the next one.
const IDLE_CLOSE_TTL: Nanos = Nanos::from_secs(300);
/// Shorter idle timeouts are not learned: the backend is probably out of connections.
const LEARNT_IDLE_MIN: Nanos = Nanos::from_millis(500);
/// Overdue responses that make silence a stall.
pub(crate) const STALLED_MIN: u32 = 2;
/// Latency differences below this are noise.
const LATENCY_NOISE: Nanos = Nanos::from_millis(1);

/// Why a backend gets fewer requests, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthState {
    Up,
    SlowStart,
    CheckFailed,
    Ejected,
    Stalled,
    Draining,
    Unresolved,
}

impl HealthState {
    /// The value of column `state`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::SlowStart => "slow_start",
            Self::CheckFailed => "check_failed",
            Self::Ejected => "ejected",
            Self::Stalled => "stalled",
            Self::Draining => "draining",
            Self::Unresolved => "unresolved",
        }
    }

    /// Whether the backend could get requests, even if it looks unhealthy.
    pub(crate) fn is_usable(self) -> bool {
        !matches!(self, Self::Draining | Self::Unresolved)
    }

    /// Whether the backend gets requests.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::SlowStart)
    }
}

/// Counters that only grow.
#[derive(Debug, Default)]
pub(crate) struct BackendTotals {
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) idle_closed: AtomicU64,
    pub(crate) idle_repeated: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Backend {
    /// Unspecified while its name has none.
    pub(crate) address: SocketAddr,
    /// Addresses of another family, for when connecting to `address` fails.
    alternates: Vec<SocketAddr>,
    /// The one of `address` and `alternates` that the last connection had.
    preferred: AtomicUsize,
    is_resolved: bool,
    /// The address as rows show it; the name while it has none.
    pub(crate) name: String,
    /// The host and port as configured.
    pub(crate) written_name: String,
    /// The same as a value of `Host`.
    pub(crate) authority: String,
    pub(crate) protocol: Protocol,
    /// The name that the backend's certificate must have.
    pub(crate) host: String,
    pub(crate) zone: String,
    pub(crate) weight: AtomicU32,
    pub(crate) totals: BackendTotals,
    /// Open connections, in use and idle.
    pub(crate) connections: AtomicU32,
    in_flight: AtomicU32,
    /// Requests sent whose response has not begun.
    waiting: AtomicU32,
    /// Those of them that have waited for longer than their route usually takes.
    overdue: AtomicU32,
    /// Since when nothing has come although requests wait.
    silent_since: AtomicTime,
    /// Progress in weighted fair order; see [`Backend::begin_request`].
    virtual_time: AtomicU64,
    /// Approximate median time to the first byte; zero before the first response.
    latency: AtomicNanos,
    factor: AtomicU32,
    failures_in_row: AtomicU32,
    ejections: AtomicU32,
    ejected_until: AtomicTime,
    is_stalled: AtomicBool,
    /// Out until it answers a request sent after `ejected_until`.
    is_on_trial: AtomicBool,
    /// When the last trial request was sent.
    tried_at: AtomicTime,
    is_check_failed: AtomicBool,
    checks_in_row: AtomicU32,
    pub(crate) check_record: Mutex<CheckRecord>,
    recovered_at: AtomicTime,
    /// How long the backend keeps idle connections; [`Nanos::MAX`] if not known.
    learnt_idle: AtomicNanos,
    /// When the backend last closed an idle connection.
    idle_closed_at: AtomicTime,
    /// How long that connection had been idle.
    idle_closed_age: AtomicNanos,
}

impl Backend {
    pub(crate) fn new(settings: &BackendSettings) -> Self {
        let address = settings.address.map(|address| address.to_string());
        Self {
            address: settings.address.unwrap_or(NO_ADDRESS),
            alternates: settings.alternates.clone(),
            preferred: AtomicUsize::new(0),
            is_resolved: settings.address.is_some(),
            name: address.unwrap_or_else(|| settings.name.clone()),
            written_name: settings.name.clone(),
            authority: settings.authority().to_owned(),
            protocol: settings.protocol,
            host: settings.host().to_owned(),
            zone: settings.zone.clone(),
            weight: AtomicU32::new(settings.weight),
            totals: BackendTotals::default(),
            connections: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            overdue: AtomicU32::new(0),
            silent_since: AtomicTime::default(),
            virtual_time: AtomicU64::new(0),
            latency: AtomicNanos::default(),
            factor: AtomicU32::new(FACTOR_NEUTRAL),
            failures_in_row: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until: AtomicTime::default(),
            is_stalled: AtomicBool::new(false),
            is_on_trial: AtomicBool::new(false),
            tried_at: AtomicTime::default(),
            is_check_failed: AtomicBool::new(false),
            checks_in_row: AtomicU32::new(0),
            check_record: Mutex::default(),
            recovered_at: AtomicTime::default(),
            learnt_idle: AtomicNanos::new(Nanos::MAX),
            idle_closed_at: AtomicTime::default(),
            idle_closed_age: AtomicNanos::default(),
        }
    }

    /// Whether `settings` describe the same backend, so that its state remains valid.
    pub(crate) fn matches(&self, settings: &BackendSettings) -> bool {
        self.address == settings.address.unwrap_or(NO_ADDRESS)
            && self.protocol == settings.protocol
            && self.alternates == settings.alternates
            && self.written_name == settings.name
            && self.host == settings.host()
            && self.zone == settings.zone
    }

    /// The addresses to connect to, in this order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (usize, SocketAddr)> {
        let count = self.alternates.len() + 1;
        let first = self.preferred.load(Relaxed);
        (first..first + count).map(move |at| {
            let at = at % count;
            (at, at.checked_sub(1).map_or(self.address, |at| self.alternates[at]))
        })
    }

    /// Notes which of the addresses has accepted a connection.
    pub(crate) fn prefer(&self, at: usize) {
        if self.preferred.load(Relaxed) != at {
            self.preferred.store(at, Relaxed);
        }
    }

    /// Whether there is an address to connect to.
    pub(crate) fn is_resolved(&self) -> bool {
        self.is_resolved
    }

    pub(crate) fn state(&self, now: MonoTime, settings: &UpstreamSettings) -> HealthState {
        let recovered_at = self.recovered_at.get();
        if !self.is_resolved {
            HealthState::Unresolved
        } else if self.weight.load(Relaxed) == 0 {
            HealthState::Draining
        } else if self.is_check_failed.load(Relaxed) {
            HealthState::CheckFailed
        } else if self.is_on_trial.load(Relaxed) {
            let is_stalled = self.is_stalled.load(Relaxed);
            if is_stalled { HealthState::Stalled } else { HealthState::Ejected }
        } else if !recovered_at.is_never()
            && now.since(recovered_at) < Nanos::from(settings.slow_start)
        {
            HealthState::SlowStart
        } else {
            HealthState::Up
        }
    }

    /// Whether waiting for a response is pointless: the backend fails its checks, or has stalled
    /// and is not on trial.
    pub(crate) fn is_silent(&self, now: MonoTime) -> bool {
        self.is_check_failed.load(Relaxed)
            || self.is_stalled.load(Relaxed) && self.ejected_until.get() > now
    }

    /// Whether the ejection is over and no trial request was sent for one ejection time.
    pub(crate) fn is_trial_due(&self, now: MonoTime, settings: &UpstreamSettings) -> bool {
        self.is_on_trial.load(Relaxed)
            && !self.is_check_failed.load(Relaxed)
            && self.weight.load(Relaxed) > 0
            && self.ejected_until.get() <= now
            && now.since(self.tried_at.get()) > Nanos::from(settings.ejection)
    }

    /// Claims the trial; false if another request was faster.
    pub(crate) fn begin_trial(&self, now: MonoTime) -> bool {
        let before = self.tried_at.get();
        before < now && self.tried_at.replace(before, now)
    }

    /// The weight in 256ths; slow start raises it from a tenth to the whole.
    pub(crate) fn effective_weight(&self, now: MonoTime, settings: &UpstreamSettings) -> u64 {
        let whole = u64::from(self.weight.load(Relaxed)) * 256;
        let (recovered_at, span) = (self.recovered_at.get(), Nanos::from(settings.slow_start));
        let age = now.since(recovered_at);
        if recovered_at.is_never() || span == Nanos::ZERO || age >= span {
            return whole.max(1);
        }
        let share = 10 + 90 * u128::from(age.0) / u128::from(span.0);
        u64::try_from(u128::from(whole) * share / 100).unwrap_or(whole).max(1)
    }

    /// The load that the next request would meet; lower is better.
    pub(crate) fn load(&self, effective_weight: u64) -> u64 {
        let requests = u64::from(self.in_flight.load(Relaxed)) + 1;
        requests * u64::from(self.factor.load(Relaxed)) * REQUEST_COST / effective_weight
    }

    /// Virtual time: the backend with the lowest is next.
    pub(crate) fn virtual_time(&self) -> u64 {
        self.virtual_time.load(Relaxed)
    }

    /// Starts a request. `frontier` is the highest virtual time of any backend.
    pub(crate) fn begin_request(&self, effective_weight: u64, frontier: &AtomicU64) {
        let step = REQUEST_COST * 256 / effective_weight;
        let least = frontier.load(Relaxed).saturating_sub(LAG_MAX * step);
        let time = self.virtual_time.load(Relaxed).max(least) + step;
        self.virtual_time.store(time, Relaxed);
        frontier.fetch_max(time, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
        self.totals.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn end_request(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Counts a request that was sent and waits for its response.
    pub(crate) fn begin_waiting(&self, now: MonoTime) {
        if self.waiting.fetch_add(1, Relaxed) == 0 {
            self.silent_since.set(now);
        }
    }

    pub(crate) fn end_waiting(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Counts a waiting request whose response was due.
    pub(crate) fn begin_overdue(&self) {
        self.overdue.fetch_add(1, Relaxed);
    }

    pub(crate) fn end_overdue(&self) {
        self.overdue.fetch_sub(1, Relaxed);
    }

    /// Whether the backend has stalled and has not answered since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Relaxed)
    }

    /// Whether a response of the backend says how long its route takes: not while it recovers.
    pub(crate) fn is_typical(&self) -> bool {
        !self.is_on_trial.load(Relaxed) && self.overdue.load(Relaxed) < STALLED_MIN
    }

    /// How long a response may take before its lateness is a symptom, whatever its route.
    pub(crate) fn stall_limit(&self, settings: &UpstreamSettings) -> Nanos {
        Nanos::from(settings.stall).max(self.latency.get().saturating_mul(8))
    }

    /// Records the first byte of a response, which came after `latency`.
    pub(crate) fn record_response(&self, now: MonoTime, latency: Nanos) {
        self.silent_since.set(now);
        self.failures_in_row.store(0, Relaxed);
        if self.is_on_trial.load(Relaxed) {
            // A backend that responds has not stalled, even if its ejection is not over.
            let was_stalled = self.is_stalled.swap(false, Relaxed);
            if was_stalled || self.ejected_until.get() <= now {
                self.is_on_trial.store(false, Relaxed);
                self.ejected_until.set(now);
                self.recovered_at.set(now);
            }
        }
        let before = self.latency.get();
        let step = before.0 / 16;
        // One step towards each sample, however far away it is, approximates the median: a single
        // outlier does not move it.
        let after = match before {
            Nanos::ZERO => latency,
            _ if latency > before => Nanos(before.0 + step).min(latency),
            _ => Nanos(before.0 - step).max(latency),
        };
        self.latency.set(after.max(Nanos(1)));
    }

    /// Records a request that the backend failed; true if that ejects the backend.
    pub(crate) fn record_failure(&self, now: MonoTime, settings: &UpstreamSettings) -> bool {
        self.totals.failures.fetch_add(1, Relaxed);
        self.forget_idle_close();
        let in_row = self.failures_in_row.fetch_add(1, Relaxed) + 1;
        let is_too_many = in_row >= settings.failures.max(1) || self.is_on_trial.load(Relaxed);
        if is_too_many && self.ejected_until.get() <= now {
            self.is_stalled.store(false, Relaxed);
            self.eject(now, settings);
            return true;
        }
        false
    }

    fn eject(&self, now: MonoTime, settings: &UpstreamSettings) {
        // A backend that stayed up for ten ejection times starts with the shortest one again.
        let (until, base) = (self.ejected_until.get(), Nanos::from(settings.ejection));
        let was_up = !self.is_on_trial.swap(true, Relaxed);
        let before = if was_up && now.since(until) > base.saturating_mul(10) {
            0
        } else {
            self.ejections.load(Relaxed)
        };
        self.ejections.store(before + 1, Relaxed);
        self.failures_in_row.store(0, Relaxed);
        self.ejected_until.set(now + Nanos(base.0 << before.min(5)));
    }

    /// Ejects the backend if `least` responses or more are overdue and it has been silent for
    /// unusually long; returns whether it did.
    pub(crate) fn detect_stall(
        &self,
        now: MonoTime,
        settings: &UpstreamSettings,
        least: u32,
    ) -> bool {
        let limit = self.stall_limit(settings);
        let silent_since = self.silent_since.get();
        let (least, since) = if self.is_on_trial.load(Relaxed) {
            // Only the trial request counts, not requests sent before the ejection.
            let tried_at = self.tried_at.get();
            if tried_at < self.ejected_until.get() {
                return false;
            }
            (1, silent_since.max(tried_at))
        } else {
            (least, silent_since)
        };
        let is_silent = self.overdue.load(Relaxed) >= least && now.since(since) > limit;
        if !is_silent || self.ejected_until.get() > now {
            return false;
        }
        self.is_stalled.store(true, Relaxed);
        self.eject(now, settings);
        true
    }

    /// Records the outcome of a health check; true if it changes the backend's state.
    pub(crate) fn record_check(
        &self,
        now: MonoTime,
        is_healthy: bool,
        settings: &CheckSettings,
    ) -> bool {
        if self.is_check_failed.load(Relaxed) != is_healthy {
            self.checks_in_row.store(0, Relaxed);
            return false;
        }
        let in_row = self.checks_in_row.fetch_add(1, Relaxed) + 1;
        let needed = if is_healthy { settings.rise } else { settings.fall };
        if in_row < needed.max(1) {
            return false;
        }
        self.checks_in_row.store(0, Relaxed);
        self.is_check_failed.store(!is_healthy, Relaxed);
        self.forget_idle_close();
        if is_healthy {
            self.recover(now);
        }
        true
    }

    /// Counts the backend as one that passes its checks, without slow start.
    pub(crate) fn clear_checks(&self) {
        self.is_check_failed.store(false, Relaxed);
        self.checks_in_row.store(0, Relaxed);
    }

    pub(crate) fn is_check_failed(&self) -> bool {
        self.is_check_failed.load(Relaxed)
    }

    /// The failed checks of the newest health response, whether they take the backend out or not.
    pub(crate) fn failed_checks(&self) -> Option<String> {
        texts_of(&self.check_record.lock().report.failed)
    }

    /// Drops what health checks found because checks were turned off.
    pub(crate) fn forget_checks(&self) {
        self.clear_checks();
        *self.check_record.lock() = CheckRecord::default();
    }

    /// Begins slow start.
    pub(crate) fn recover(&self, now: MonoTime) {
        self.recovered_at.set(now);
        self.silent_since.set(now);
        self.latency.set(Nanos::ZERO);
    }

    /// Advances virtual time, so that the backend does not receive all requests that it missed.
    pub(crate) fn catch_up(&self, frontier: u64) {
        self.virtual_time.fetch_max(frontier, Relaxed);
    }

    /// Whether high latency reduces the backend's share.
    pub(crate) fn is_slow(&self) -> bool {
        self.factor.load(Relaxed) > FACTOR_NEUTRAL
    }

    /// Adopts the latency that another edge measured, unless there is one already.
    pub(crate) fn adopt_latency(&self, latency: Nanos) {
        self.latency.replace(Nanos::ZERO, latency);
        // The backend is not new, so it needs no slow start.
        self.recovered_at.set(MonoTime::NEVER);
    }

    pub(crate) fn latency(&self) -> Nanos {
        self.latency.get()
    }

    /// The latency in seconds; `None` before the first response.
    pub(crate) fn latency_seconds(&self) -> Option<f64> {
        Some(self.latency()).filter(|latency| *latency > Nanos::ZERO).map(Nanos::as_seconds)
    }

    /// Drops a latency that was measured long ago; the next response sets it.
    ///
    /// Otherwise, a backend that was slow once would never get a request again while requests come
    /// one at a time.
    pub(crate) fn expire_latency(&self, now: MonoTime) {
        let (latency, heard) = (self.latency(), self.silent_since.get());
        // An adopted latency stays until the first response.
        let is_old = !heard.is_never() && now.since(heard) > LATENCY_TTL;
        if latency > Nanos::ZERO && is_old && self.in_flight.load(Relaxed) == 0 {
            // Keep the value if a response has just changed it.
            self.latency.replace(latency, Nanos::ZERO);
        }
    }

    /// Sets the latency factor: neutral unless the backend is twice as slow as `usual` and the
    /// difference exceeds [`LATENCY_NOISE`].
    pub(crate) fn compare_latency(&self, usual: Nanos) {
        let neutral = u64::from(FACTOR_NEUTRAL);
        let (own, usual) = (self.latency().0, usual.0);
        let is_slow = own / 2 > usual && own - usual > LATENCY_NOISE.0;
        let factor =
            if is_slow && usual > 0 { (own * neutral / usual).min(8 * neutral) } else { neutral };
        self.factor.store(u32::try_from(factor).unwrap_or(FACTOR_NEUTRAL), Relaxed);
    }

    /// After how long the edge closes an idle connection: one second, or a fifth, before the
    /// backend would.
    pub(crate) fn idle_timeout(&self, settings: &UpstreamSettings) -> Nanos {
        let learnt = self.learnt_idle.get().0;
        let margin = (learnt / 5).min(Nanos::from_secs(1).0);
        Nanos::from(settings.idle).min(Nanos(learnt - margin))
    }

    /// How long the backend keeps idle connections, if known.
    pub(crate) fn learnt_idle(&self) -> Option<Nanos> {
        Some(self.learnt_idle.get()).filter(|span| *span < Nanos::MAX)
    }

    /// Records that the backend closed a connection that had been idle for `age`.
    ///
    /// A keep-alive timeout closes repeatedly at the same age; a restart closes many connections
    /// at once, whatever their age.
    pub(crate) fn record_idle_close(&self, now: MonoTime, age: Nanos) {
        self.totals.idle_closed.fetch_add(1, Relaxed);
        let (at, age_before) = (self.idle_closed_at.get(), self.idle_closed_age.get());
        let since = now.since(at);
        if !at.is_never() && since < SAME_EVENT {
            return;
        }
        self.idle_closed_at.set(now);
        self.idle_closed_age.set(age);
        let is_same_age = age_before.0.abs_diff(age.0) < age.0 / 5;
        if !at.is_never() && since < IDLE_CLOSE_TTL && is_same_age {
            self.totals.idle_repeated.fetch_add(1, Relaxed);
            if age >= LEARNT_IDLE_MIN {
                self.learn_idle_timeout(age.min(age_before));
            }
        }
    }

    /// Drops the last idle close: an unhealthy backend closed the connection by going down.
    fn forget_idle_close(&self) {
        self.idle_closed_at.set(MonoTime::NEVER);
    }

    /// Notes that the backend closes idle connections after `span`.
    pub(crate) fn learn_idle_timeout(&self, span: Nanos) {
        self.learnt_idle.lower_to(span.max(Nanos::from_millis(1)));
    }
}

/// Counts an open connection until dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard(Arc<Backend>);

impl ConnectionGuard {
    pub(crate) fn new(backend: &Arc<Backend>) -> Self {
        backend.connections.fetch_add(1, Relaxed);
        Self(Arc::clone(backend))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}
