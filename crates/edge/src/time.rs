//! Monotonic time in nanoseconds: points in time and durations that atomics can hold.
//!
//! Durations are measured here; the timestamps of rows come from the clock passed to the edge.

use std::cell::Cell;
use std::ops::{Add, AddAssign};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static COARSE: Cell<MonoTime> = const { Cell::new(MonoTime::NEVER) };
}

/// The time of this thread's last sweep: precise enough for timeouts, and free.
pub(crate) fn coarse_now() -> MonoTime {
    COARSE.get()
}

pub(crate) fn set_coarse(now: MonoTime) {
    COARSE.set(now);
}

/// A point in time: nanoseconds since the process first read the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct MonoTime(u64);

impl MonoTime {
    /// Stands for "not yet"; [`MonoTime::now`] never returns it.
    pub(crate) const NEVER: Self = Self(0);
    /// Later than all others.
    pub(crate) const END: Self = Self(u64::MAX);

    pub(crate) fn now() -> Self {
        Self(Nanos::from(START.elapsed()).0 + 1)
    }

    pub(crate) fn is_never(self) -> bool {
        self == Self::NEVER
    }

    /// Time elapsed since `earlier`; zero if that is in the future.
    pub(crate) fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time `span` ago, or the earliest one that is not [`MonoTime::NEVER`].
    pub(crate) fn before(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0).max(1))
    }
}

impl Add<Nanos> for MonoTime {
    type Output = Self;

    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Nanos(pub(crate) u64);

impl Nanos {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    pub(crate) const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    pub(crate) fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    #[expect(clippy::cast_precision_loss, reason = "durations here are far below 2^53 ns")]
    pub(crate) fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// A [`MonoTime`] shared between threads.
#[derive(Debug, Default)]
pub(crate) struct AtomicTime(AtomicU64);

impl AtomicTime {
    pub(crate) fn new(time: MonoTime) -> Self {
        Self(AtomicU64::new(time.0))
    }

    pub(crate) fn get(&self) -> MonoTime {
        MonoTime(self.0.load(Relaxed))
    }

    pub(crate) fn set(&self, time: MonoTime) {
        self.0.store(time.0, Relaxed);
    }

    /// Sets the time if it still is `before`; returns whether it was.
    pub(crate) fn replace(&self, before: MonoTime, after: MonoTime) -> bool {
        self.0.compare_exchange(before.0, after.0, Relaxed, Relaxed).is_ok()
    }
}

/// A [`Nanos`] shared between threads.
#[derive(Debug, Default)]
pub(crate) struct AtomicNanos(AtomicU64);

impl AtomicNanos {
    pub(crate) fn new(span: Nanos) -> Self {
        Self(AtomicU64::new(span.0))
    }

    pub(crate) fn get(&self) -> Nanos {
        Nanos(self.0.load(Relaxed))
    }

    pub(crate) fn set(&self, span: Nanos) {
        self.0.store(span.0, Relaxed);
    }

    /// Sets the duration if it still is `before`; returns whether it was.
    pub(crate) fn replace(&self, before: Nanos, after: Nanos) -> bool {
        self.0.compare_exchange(before.0, after.0, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn lower_to(&self, span: Nanos) {
        self.0.fetch_min(span.0, Relaxed);
    }
}
