//! One backend as all threads see it: its load, its latency, its health. Numbers only, changed without locks.
//!
//! ```text
//!   up ── failures in a row, stall, failed checks ──► out ── an answer on trial, good checks ──► slow start ──► up
//! ```
//! Latency is a running median (Ma, Muthukrishnan, Sandler: *Frugal Streaming*), not the peak-sensitive average that Finagle and
//! linkerd use: on a busy machine one slow answer in a thousand made that one call an equal backend slow and cost it a third
//! of its share. What is slow at this moment shows in the requests under way. Outlier ejection is as Envoy describes it, but when
//! the time is over one request tries the backend (a half-open circuit breaker): who is still ill harms one, and stays out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::settings::UpstreamSettings;
use crate::settings::destination::{BackendSettings, Protocol};
use crate::time::nanos;

/// A factor of latency that changes nothing; factors are in sixteenths.
pub(crate) const EVEN: u32 = 16;
/// A share of 1 in units of virtual time.
const TURN: u64 = 1 << 20;
/// How far behind the others a backend's turn may fall: a backend that was slow is not flooded when it is not any more.
const TURNS_BEHIND: u64 = 256;
/// For how long the latency of a backend is remembered that gets no requests, in nanoseconds.
const REMEMBERED: u64 = 5_000_000_000;
/// Idle connections that the backend closes within that time, in nanoseconds, are closed for one reason: its end, mostly.
const MOMENT: u64 = 1_000_000_000;
/// For how long a closing is remembered, to compare the next one with.
const CLOSING_REMEMBERED: u64 = 300_000_000_000;
/// A backend that closes earlier is full; that teaches nothing.
const LEARNT_MIN: u64 = 500_000_000;
/// Requests that must be unanswered before silence is a stall.
const STALLED_MIN: u32 = 2;

/// Why a backend gets no requests, or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthState {
    Up,
    SlowStart,
    CheckFailed,
    Ejected,
    Stalled,
    Draining,
}

impl HealthState {
    /// The column `state`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::SlowStart => "slow_start",
            Self::CheckFailed => "check_failed",
            Self::Ejected => "ejected",
            Self::Stalled => "stalled",
            Self::Draining => "draining",
        }
    }

    /// Whether it gets requests.
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

/// A backend.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    /// The address as rows show it.
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    /// What its certificate is for.
    pub(crate) host: String,
    /// The zone that it is in.
    pub(crate) zone: String,
    pub(crate) weight: AtomicU32,
    pub(crate) totals: BackendTotals,
    /// Open connections, in use and at rest.
    pub(crate) connections: AtomicU32,
    in_flight: AtomicU32,
    /// Requests sent that have no first byte of an answer yet, and since when nothing came though some wait.
    waiting: AtomicU32,
    silent_since: AtomicU64,
    /// Where its turns stand, see [`Backend::take`].
    turn: AtomicU64,
    /// About the median time until the first byte; 0 before the first answer.
    latency_ns: AtomicU64,
    factor: AtomicU32,
    failures_in_row: AtomicU32,
    ejections: AtomicU32,
    ejected_until: AtomicU64,
    is_stalled: AtomicBool,
    /// Out until it answers a request after its time, and when one was last sent there to see.
    is_on_trial: AtomicBool,
    tried_at: AtomicU64,
    is_check_failed: AtomicBool,
    checks_in_row: AtomicU32,
    recovered_at: AtomicU64,
    /// How long the backend keeps idle connections, as it said or showed; `u64::MAX` when not known.
    learnt_idle_ns: AtomicU64,
    /// When it last closed an idle connection, 0 before the first time, and of what age that was.
    closed_at: AtomicU64,
    closed_age: AtomicU64,
}

impl Backend {
    pub(crate) fn new(settings: &BackendSettings) -> Self {
        Self {
            address: settings.address,
            name: settings.address.to_string(),
            protocol: settings.protocol,
            host: settings.host().to_owned(),
            zone: settings.zone.clone(),
            weight: AtomicU32::new(settings.weight),
            totals: BackendTotals::default(),
            connections: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            silent_since: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            latency_ns: AtomicU64::new(0),
            factor: AtomicU32::new(EVEN),
            failures_in_row: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
            is_on_trial: AtomicBool::new(false),
            tried_at: AtomicU64::new(0),
            is_check_failed: AtomicBool::new(false),
            checks_in_row: AtomicU32::new(0),
            recovered_at: AtomicU64::new(0),
            learnt_idle_ns: AtomicU64::new(u64::MAX),
            closed_at: AtomicU64::new(0),
            closed_age: AtomicU64::new(0),
        }
    }

    /// Whether what is known of it holds for `settings` too.
    pub(crate) fn is(&self, settings: &BackendSettings) -> bool {
        (self.address, self.protocol) == (settings.address, settings.protocol)
            && self.host == settings.host()
            && self.zone == settings.zone
    }

    /// What it is now.
    pub(crate) fn state(&self, now: u64, settings: &UpstreamSettings) -> HealthState {
        if self.weight.load(Relaxed) == 0 {
            HealthState::Draining
        } else if self.is_check_failed.load(Relaxed) {
            HealthState::CheckFailed
        } else if self.is_on_trial.load(Relaxed) {
            if self.is_stalled.load(Relaxed) { HealthState::Stalled } else { HealthState::Ejected }
        } else if self.recovered_at.load(Relaxed) > 0
            && now.saturating_sub(self.recovered_at.load(Relaxed)) < nanos(settings.slow_start)
        {
            HealthState::SlowStart
        } else {
            HealthState::Up
        }
    }

    /// Whether what waits there waits in vain: it fails its checks, or takes requests and answers none and is not being tried.
    pub(crate) fn is_silent(&self, now: u64) -> bool {
        self.is_check_failed.load(Relaxed)
            || self.is_stalled.load(Relaxed) && self.ejected_until.load(Relaxed) > now
    }

    /// Whether its time is over and nothing was sent there to see for as long as it would be out at first.
    pub(crate) fn is_trial_due(&self, now: u64, settings: &UpstreamSettings) -> bool {
        self.is_on_trial.load(Relaxed)
            && !self.is_check_failed.load(Relaxed)
            && self.weight.load(Relaxed) > 0
            && self.ejected_until.load(Relaxed) <= now
            && now.saturating_sub(self.tried_at.load(Relaxed)) > nanos(settings.ejection)
    }

    /// Takes the trial; false when another request was first.
    pub(crate) fn begin_trial(&self, now: u64) -> bool {
        let before = self.tried_at.load(Relaxed);
        before < now && self.tried_at.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
    }

    /// Its weight in 256ths, less while it starts slowly: from a tenth to the whole.
    pub(crate) fn effective_weight(&self, now: u64, settings: &UpstreamSettings) -> u64 {
        let whole = u64::from(self.weight.load(Relaxed)) * 256;
        let (back, span) = (self.recovered_at.load(Relaxed), nanos(settings.slow_start));
        let age = now.saturating_sub(back);
        if back == 0 || span == 0 || age >= span {
            return whole.max(1);
        }
        let share = 10 + 90 * u128::from(age) / u128::from(span);
        u64::try_from(u128::from(whole) * share / 100).unwrap_or(whole).max(1)
    }

    /// What the next request would find there: fewer is better.
    pub(crate) fn load(&self, effective_weight: u64) -> u64 {
        let requests = u64::from(self.in_flight.load(Relaxed)) + 1;
        requests * u64::from(self.factor.load(Relaxed)) * TURN / effective_weight
    }

    /// Where its turns stand: the least is next.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Relaxed)
    }

    /// Takes a turn. `front` is the furthest that any backend's turns have come.
    pub(crate) fn take(&self, effective_weight: u64, front: &AtomicU64) {
        let step = TURN * 256 / effective_weight;
        let least = front.load(Relaxed).saturating_sub(TURNS_BEHIND * step);
        let turn = self.turn.load(Relaxed).max(least) + step;
        self.turn.store(turn, Relaxed);
        front.fetch_max(turn, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
        self.totals.requests.fetch_add(1, Relaxed);
    }

    /// The request is over.
    pub(crate) fn give_back(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// A request was sent and waits for its answer.
    pub(crate) fn begin_waiting(&self, now: u64) {
        if self.waiting.fetch_add(1, Relaxed) == 0 {
            self.silent_since.store(now, Relaxed);
        }
    }

    /// It does not wait any more, whatever came.
    pub(crate) fn end_waiting(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// The first byte of an answer came after `latency_ns`.
    pub(crate) fn answered(&self, now: u64, latency_ns: u64) {
        self.silent_since.store(now, Relaxed);
        self.failures_in_row.store(0, Relaxed);
        if self.is_on_trial.load(Relaxed) {
            // What answers is not stalled, however long it was to be out.
            let was_stalled = self.is_stalled.swap(false, Relaxed);
            if was_stalled || self.ejected_until.load(Relaxed) <= now {
                self.is_on_trial.store(false, Relaxed);
                self.ejected_until.store(now, Relaxed);
                self.recovered_at.store(now, Relaxed);
            }
        }
        let before = self.latency_ns.load(Relaxed);
        let after = match before {
            0 => latency_ns,
            // A step towards each sample, however far it is: the median, which a hiccup of the machine does not move.
            _ if latency_ns > before => (before + before / 16).min(latency_ns),
            _ => (before - before / 16).max(latency_ns),
        };
        self.latency_ns.store(after.max(1), Relaxed);
    }

    /// A request got no whole answer through the backend's fault; true when that puts the backend out.
    pub(crate) fn failed(&self, now: u64, settings: &UpstreamSettings) -> bool {
        self.totals.failures.fetch_add(1, Relaxed);
        self.forget_closing();
        let in_row = self.failures_in_row.fetch_add(1, Relaxed) + 1;
        let is_too_many = in_row >= settings.failures.max(1) || self.is_on_trial.load(Relaxed);
        if is_too_many && self.ejected_until.load(Relaxed) <= now {
            self.is_stalled.store(false, Relaxed);
            self.eject(now, settings);
            return true;
        }
        false
    }

    fn eject(&self, now: u64, settings: &UpstreamSettings) {
        // Who was well for ten times as long as it was out begins anew.
        let (until, base) = (self.ejected_until.load(Relaxed), nanos(settings.ejection));
        let is_well = !self.is_on_trial.swap(true, Relaxed);
        let before = if is_well && now.saturating_sub(until) > base.saturating_mul(10) {
            0
        } else {
            self.ejections.load(Relaxed)
        };
        self.ejections.store(before + 1, Relaxed);
        self.failures_in_row.store(0, Relaxed);
        self.ejected_until.store(now + (base << before.min(5)), Relaxed);
    }

    /// Whether requests wait and nothing has come for longer than is usual there; then it is out.
    pub(crate) fn look_for_stall(&self, now: u64, settings: &UpstreamSettings) -> bool {
        let usual = self.latency_ns.load(Relaxed).saturating_mul(8);
        let limit = nanos(settings.stall).max(usual);
        let silent_since = self.silent_since.load(Relaxed);
        let (least, since) = if self.is_on_trial.load(Relaxed) {
            // What was sent there to see is enough, and nothing older.
            let tried_at = self.tried_at.load(Relaxed);
            if tried_at < self.ejected_until.load(Relaxed) {
                return false;
            }
            (1, silent_since.max(tried_at))
        } else {
            (STALLED_MIN, silent_since)
        };
        let is_silent = self.waiting.load(Relaxed) >= least && now.saturating_sub(since) > limit;
        if !is_silent || self.ejected_until.load(Relaxed) > now {
            return false;
        }
        self.is_stalled.store(true, Relaxed);
        self.eject(now, settings);
        true
    }

    /// The outcome of a check; true when it changes what the backend is.
    pub(crate) fn checked(&self, now: u64, is_well: bool, rise: u32, fall: u32) -> bool {
        if self.is_check_failed.load(Relaxed) != is_well {
            self.checks_in_row.store(0, Relaxed);
            return false;
        }
        let in_row = self.checks_in_row.fetch_add(1, Relaxed) + 1;
        if in_row < if is_well { rise } else { fall }.max(1) {
            return false;
        }
        self.checks_in_row.store(0, Relaxed);
        self.is_check_failed.store(!is_well, Relaxed);
        self.forget_closing();
        if is_well {
            self.recover(now);
        }
        true
    }

    /// Nobody checks any more.
    pub(crate) fn forget_checks(&self) {
        self.is_check_failed.store(false, Relaxed);
        self.checks_in_row.store(0, Relaxed);
    }

    /// It begins slowly from now on.
    pub(crate) fn recover(&self, now: u64) {
        self.recovered_at.store(now, Relaxed);
        self.silent_since.store(now, Relaxed);
        self.latency_ns.store(0, Relaxed);
    }

    /// Catches up with the others, so that it is not given all turns that it missed.
    pub(crate) fn catch_up(&self, front: u64) {
        self.turn.fetch_max(front, Relaxed);
    }

    /// Whether latency keeps requests from it.
    pub(crate) fn is_slow(&self) -> bool {
        self.factor.load(Relaxed) > EVEN
    }

    /// What another edge knows of its latency, unless it is known here.
    pub(crate) fn know(&self, latency_ns: u64) {
        let _ = self.latency_ns.compare_exchange(0, latency_ns, Relaxed, Relaxed);
        // Not new: it needs no slow start.
        self.recovered_at.store(0, Relaxed);
    }

    pub(crate) fn latency_ns(&self) -> u64 {
        self.latency_ns.load(Relaxed)
    }

    /// Forgets a latency that was measured long ago: in traffic of one request at a time who was slow once would never get
    /// another. The next answer counts whole.
    pub(crate) fn forget_latency(&self, now: u64) {
        let (latency, heard) = (self.latency_ns(), self.silent_since.load(Relaxed));
        // What another edge told is kept until there is an answer.
        let is_old = heard > 0 && now.saturating_sub(heard) > REMEMBERED;
        if latency > 0 && is_old && self.in_flight.load(Relaxed) == 0 {
            // An answer that came meanwhile is news.
            let _ = self.latency_ns.compare_exchange(latency, 0, Relaxed, Relaxed);
        }
    }

    /// Compares its latency with the usual one. Differences under the factor of two and a millisecond are chance.
    pub(crate) fn set_factor(&self, usual_ns: u64) {
        let own = self.latency_ns();
        let is_slow = own / 2 > usual_ns && own - usual_ns > 1_000_000;
        let factor = if is_slow && usual_ns > 0 {
            (own * u64::from(EVEN) / usual_ns).min(8 * u64::from(EVEN))
        } else {
            u64::from(EVEN)
        };
        self.factor.store(u32::try_from(factor).unwrap_or(EVEN), Relaxed);
    }

    /// After how long an idle connection is closed here, in nanoseconds: a second, or a fifth, before the backend would.
    pub(crate) fn idle_ns(&self, settings: &UpstreamSettings) -> u64 {
        let learnt = self.learnt_idle_ns.load(Relaxed);
        let margin = (learnt / 5).min(1_000_000_000);
        nanos(settings.idle).min(learnt - margin)
    }

    /// How long the backend keeps idle connections, if that is known.
    pub(crate) fn learnt_idle_ns(&self) -> Option<u64> {
        Some(self.learnt_idle_ns.load(Relaxed)).filter(|ns| *ns < u64::MAX)
    }

    /// The backend was the first to close an idle connection, `age` after its last answer. A time-out does that again at the same
    /// age; a restart closes many at one moment, whatever their age.
    pub(crate) fn closed_idle(&self, now: u64, age: u64) {
        self.totals.idle_closed.fetch_add(1, Relaxed);
        let (at, age_before) = (self.closed_at.load(Relaxed), self.closed_age.load(Relaxed));
        let since = now.saturating_sub(at);
        if at > 0 && since < MOMENT {
            return;
        }
        self.closed_at.store(now, Relaxed);
        self.closed_age.store(age, Relaxed);
        if at > 0 && since < CLOSING_REMEMBERED && age_before.abs_diff(age) < age / 5 {
            self.totals.idle_repeated.fetch_add(1, Relaxed);
            if age >= LEARNT_MIN {
                self.learn_idle(age.min(age_before));
            }
        }
    }

    /// It was ill: what it closed was closed by its end.
    fn forget_closing(&self) {
        self.closed_at.store(0, Relaxed);
    }

    /// The backend closes idle connections after `idle_ns`.
    pub(crate) fn learn_idle(&self, idle_ns: u64) {
        self.learnt_idle_ns.fetch_min(idle_ns.max(1_000_000), Relaxed);
    }
}

/// An open connection; dropping it ends that.
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

/// A request that waits for the first byte; dropping it ends that.
#[derive(Debug)]
pub(crate) struct WaitGuard(pub(crate) Arc<Backend>);

impl WaitGuard {
    pub(crate) fn new(backend: &Arc<Backend>, now: u64) -> Self {
        backend.begin_waiting(now);
        Self(Arc::clone(backend))
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.end_waiting();
    }
}
