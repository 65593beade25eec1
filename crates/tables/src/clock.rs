//! Time in the tables: microseconds since 1970-01-01 UTC, and a clock passed as an argument.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

impl Micros {
    /// From seconds since the epoch; fractions below one microsecond are cut.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seconds since 1970 in microseconds fit i64 for 290,000 years"
    )]
    pub fn from_unix_seconds(seconds: f64) -> Self {
        Self((seconds * 1e6).floor() as i64)
    }

    /// Seconds since the epoch.
    #[expect(
        clippy::cast_precision_loss,
        reason = "f64 keeps microseconds exact until the year 2255"
    )]
    pub fn as_unix_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds from `earlier` to `self`; negative if `earlier` is later.
    #[expect(
        clippy::cast_precision_loss,
        reason = "differences of interest are far below 2^53 microseconds"
    )]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.0 - earlier.0) as f64 / 1e6
    }

    /// Days since 1970-01-01 (UTC), the daily partition of a row.
    pub fn day(self) -> i64 {
        self.0.div_euclid(86_400_000_000)
    }
}

impl Add<Duration> for Micros {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Micros {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// RFC 3339 with microseconds and `Z`: `2026-11-20T12:21:00.000000Z`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.day());
        let rest = self.0.rem_euclid(86_400_000_000);
        let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Days since 1970-01-01 to (year, month, day) of the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Source of the current time: the system clock in `weir`, a [`FixedClock`] in tests.
pub trait Clock: Send + Sync {
    /// The time now, UTC.
    fn now(&self) -> Micros;

    /// Time since some fixed moment, which no one can set. For a clock that is set by hand it
    /// passes as the clock is set.
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.now().0.max(0).cast_unsigned())
    }
}

/// A clock that only changes when it is set: for tests and replays.
#[derive(Debug, Default)]
pub struct FixedClock(std::sync::atomic::AtomicI64);

impl FixedClock {
    /// A clock that shows `now`.
    pub fn new(now: Micros) -> Self {
        Self(std::sync::atomic::AtomicI64::new(now.0))
    }

    /// Sets the clock to `now`.
    pub fn set(&self, now: Micros) {
        self.0.store(now.0, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_rfc3339_before_and_after_1970() {
        assert_eq!(Micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Micros(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Micros(1_709_210_096_000_005).to_string(), "2024-02-29T12:34:56.000005Z");
    }

    #[test]
    fn spans_move_both_ways() {
        let noon = Micros(43_200_000_000);
        assert_eq!(noon + Duration::from_secs(1) - Duration::from_secs(1), noon);
        assert_eq!((noon + Duration::from_millis(1500)).seconds_since(noon), 1.5);
    }
}
