//! One-way delay variation from TCP timestamps (RFC 7323).
//!
//! A sender stamps its packets with its own clock. Capture time minus stamp is the path delay plus
//! an unknown offset; the minimum over a connection is an undisturbed path, and anything above it
//! is delay that the *network* added. A client that sends late adds nothing, since it stamps late.
//! On Linux, offsets differ per connection, so each connection has a separate baseline, from three
//! packets on.
//!
//! The tick is 1 ms nearly everywhere, but RFC 7323 allows anything, and some senders repeat one
//! value. A clock that does not fit 1 ms gives no delay until two measurements agree on its tick;
//! one that never moves gives none at all.
//!
//! Example: stamps 0, 10 and 20 ms arrive at 5, 15 and 65 ms. The minimum difference is 5 ms, so
//! the third packet was held for 40 ms.

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SenderClock {
    first_ts: i64,
    last_ts: i64,
    /// Capture time minus stamp of the fastest packet, both since the first packet.
    fastest: i64,
    first_value: u32,
    /// Maximum variation in microseconds.
    max_us: u32,
    tick_ns: u32,
    /// A measured tick, and the ticks that had passed; 0 for none.
    candidate_ns: u32,
    candidate_ticks: u32,
    samples: u8,
    trust: ClockTrust,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ClockTrust {
    /// 1 ms, and nothing says otherwise yet.
    #[default]
    Assumed,
    /// The tick does not fit: another tick, or a packet that was held.
    Doubtful,
    Known,
}

/// The tick of Linux, Windows, macOS and FreeBSD today; others are measured.
const TICK_NS: u32 = 1_000_000;
/// Usual ticks; a measured one close to it is taken for it.
const USUAL_TICKS_NS: [u32; 14] = [
    1000,
    10_000,
    100_000,
    976_563,
    TICK_NS,
    2_000_000,
    3_333_333,
    4_000_000,
    10_000_000,
    20_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];
/// Ticks that RFC 7323 and its extensions know, with a margin.
const TICKS_NS: std::ops::RangeInclusive<i64> = 500..=1_500_000_000;
/// Time after which a clock that fits is known.
const TRUST_NS: i64 = 20_000_000;
/// Minimum time and ticks over which a clock is measured.
const MEASURE_NS: i64 = 1_000_000_000;
const MEASURE_TICKS: i64 = 16;
/// Ticks after which a clock has a new base, far below half of their range.
const BASE_TICKS: i64 = 1 << 30;
/// Maximum drift between two hosts' clocks: one in 5,000.
const DRIFT: i64 = 5000;
/// Packets before a variation is meaningful.
const SAMPLES_MIN: u8 = 3;

/// Time since a connection's first packet: by the tap's clock in nanoseconds, and in sender ticks.
#[derive(Clone, Copy)]
struct ClockAge {
    age: i64,
    ticks: i64,
}

impl SenderClock {
    /// Processes a stamp; returns the variation in microseconds, once there is a baseline.
    #[inline]
    pub(crate) fn stamp(&mut self, ts_ns: i64, value: u32) -> Option<u64> {
        self.samples = self.samples.saturating_add(1);
        if self.samples == 1 {
            *self = Self {
                first_ts: ts_ns,
                last_ts: ts_ns,
                first_value: value,
                samples: 1,
                tick_ns: TICK_NS,
                ..Self::default()
            };
            return None;
        }
        let age = ts_ns - self.first_ts;
        let ticks = i64::from(value.wrapping_sub(self.first_value).cast_signed());
        let was_doubtful = self.trust == ClockTrust::Doubtful;
        if self.trust != ClockTrust::Known || age >= MEASURE_NS {
            self.check(ClockAge { age, ticks });
        }
        let by_stamp = ticks * i64::from(self.tick_ns);
        let difference = age - by_stamp;
        let drifted = self.fastest + (ts_ns - self.last_ts).max(0) / DRIFT;
        self.fastest = difference.min(drifted);
        self.last_ts = ts_ns;
        if ticks.abs() > BASE_TICKS {
            (self.first_ts, self.first_value) = (self.first_ts + by_stamp, value);
        }
        if self.samples < SAMPLES_MIN {
            return None;
        }
        let variation = self.beyond_tick(difference - self.fastest);
        self.max_us = self.max_us.max(u32::try_from(variation).unwrap_or(u32::MAX));
        match self.trust {
            ClockTrust::Doubtful => None,
            // A packet held before the clock was known counts now.
            _ if was_doubtful => Some(self.max_us.into()),
            _ => Some(variation),
        }
    }

    /// The part of a delay that a tick does not explain, in microseconds.
    #[inline]
    fn beyond_tick(&self, delay_ns: i64) -> u64 {
        let coarse = if self.tick_ns > TICK_NS { i64::from(self.tick_ns) } else { 0 };
        u64::try_from((delay_ns - coarse) / 1000).unwrap_or(0)
    }

    /// Microseconds per tick; `None` without stamps and for a clock that no tick fits.
    pub(crate) fn tick_us(&self) -> Option<u32> {
        let is_used = self.samples > 1 && self.trust != ClockTrust::Doubtful;
        is_used.then(|| (self.tick_ns / 1000).max(1))
    }

    /// Maximum variation in microseconds; `None` without a baseline.
    pub(crate) fn max_us(&self) -> Option<u32> {
        (self.samples >= SAMPLES_MIN && self.tick_us().is_some()).then_some(self.max_us)
    }

    /// Whether the only packet so far has this stamp.
    pub(crate) fn is_first(&self, value: u32) -> bool {
        self.samples == 1 && self.first_value == value
    }

    fn check(&mut self, time: ClockAge) {
        let is_close = match self.trust {
            ClockTrust::Known => self.is_within(time, 32),
            _ => self.is_within(time, 5),
        };
        if is_close {
            (self.candidate_ns, self.candidate_ticks) = (0, 0);
            if time.age >= TRUST_NS {
                self.trust = ClockTrust::Known;
            }
            return;
        }
        if self.trust == ClockTrust::Assumed {
            self.trust = ClockTrust::Doubtful;
        }
        if time.age >= MEASURE_NS && time.ticks >= MEASURE_TICKS {
            self.measure(time);
        }
    }

    /// Whether the tick explains the elapsed time within two ticks and one part in `parts`.
    fn is_within(&self, ClockAge { age, ticks }: ClockAge, parts: i64) -> bool {
        let tick = i64::from(self.tick_ns);
        (ticks * tick - age).abs() <= age.abs() / parts + 2 * tick
    }

    /// Takes a tick that two measurements show, the second half as much later again: held packets
    /// give different ticks.
    fn measure(&mut self, ClockAge { age, ticks }: ClockAge) {
        let measured = age / ticks;
        let (Ok(measured_ns), Ok(count)) = (u32::try_from(measured), u32::try_from(ticks)) else {
            return;
        };
        if !TICKS_NS.contains(&measured) {
            return;
        }
        let tolerance = measured / 64 + measured / ticks;
        let is_later = count >= self.candidate_ticks.saturating_add(self.candidate_ticks / 2);
        if self.candidate_ns != 0 && !is_later {
            return;
        }
        let is_same = (measured - i64::from(self.candidate_ns)).abs() <= tolerance;
        (self.candidate_ns, self.candidate_ticks) = (measured_ns, count);
        if !is_same {
            return;
        }
        let usual = USUAL_TICKS_NS.into_iter().min_by_key(|usual| usual.abs_diff(measured_ns));
        let usual = usual.filter(|usual| i64::from(usual.abs_diff(measured_ns)) <= tolerance);
        self.tick_ns = usual.unwrap_or(measured_ns);
        self.fastest = age - ticks * i64::from(self.tick_ns);
        (self.candidate_ns, self.candidate_ticks, self.max_us) = (0, 0, 0);
        self.trust = ClockTrust::Known;
    }
}

#[cfg(test)]
mod tests {
    use super::SenderClock;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_held_packet_shows_and_a_late_sender_does_not() {
        let mut clock = SenderClock::default();
        let offset = 4_000_000_000_u32;
        for ms in [0, 10, 20] {
            clock.stamp(ms * MS, offset.wrapping_add(u32::try_from(ms).expect("small")));
        }
        // Sent at 30 ms, arrived at 1,230 ms; a fifth of a millisecond may be drift.
        let held = clock.stamp(1230 * MS, offset.wrapping_add(30)).expect("a baseline");
        assert!((1_199_500..=1_200_000).contains(&held), "{held}");
        // Sent at 3,000 ms, arrived immediately.
        let late = clock.stamp(3000 * MS, offset.wrapping_add(3000)).expect("a baseline");
        assert!(late < 1000, "{late}");
        assert_eq!(clock.max_us().map(u64::from), Some(held));
    }

    #[test]
    fn slow_ticks_are_found_after_a_second() {
        let mut clock = SenderClock::default();
        for ms in (0..3000).step_by(50) {
            clock.stamp(ms * MS, u32::try_from(ms / 10).expect("small"));
        }
        assert_eq!(clock.tick_us(), Some(10_000));
        assert!(clock.stamp(3100 * MS, 310).expect("a baseline") < 10_000);
    }

    /// The largest delay that a clock of `tick_ns` shows on a path that is always equally long, and
    /// with one packet that was held for 1.2 s.
    fn delays_of(tick_ns: i64) -> (u64, u64) {
        let stamp = |ms: i64| u32::try_from((ms * MS / tick_ns) & 0xffff_ffff).expect("masked");
        let mut clock = SenderClock::default();
        let times = || (0..60_000).step_by(170);
        let even = times().filter_map(|ms| clock.stamp(ms * MS, stamp(ms))).max();
        let held = clock.stamp(61_200 * MS, stamp(60_000));
        (even.unwrap_or(0), held.unwrap_or(0))
    }

    #[test]
    fn any_tick_is_found_and_a_value_that_never_moves_says_nothing() {
        for (tick_ns, error_us) in [
            (1000, 1000),
            (976_563, 30_000),
            (1_000_000, 1000),
            (3_333_333, 5000),
            (7_000_000, 20_000),
            (10_000_000, 20_000),
            (40_000_000, 60_000),
            (500_000_000, 520_000),
            (1_000_000_000, 1_020_000),
        ] {
            let (even, held) = delays_of(tick_ns);
            assert!(even <= 1000, "tick {tick_ns} ns: {even} µs without any delay");
            assert!(held.abs_diff(1_200_000) <= error_us, "tick {tick_ns} ns: {held} µs");
        }
        assert_eq!(delays_of(i64::MAX), (0, 0));
    }

    #[test]
    fn a_stamp_of_a_microsecond_may_wrap() {
        let mut clock = SenderClock::default();
        let stamp = |ms: i64| u32::try_from((ms * 1000) & 0xffff_ffff).expect("masked");
        let largest = (0..9_000_000).step_by(5000).filter_map(|ms| clock.stamp(ms * MS, stamp(ms)));
        assert_eq!(largest.max(), Some(0));
        assert_eq!(clock.tick_us(), Some(1));
    }

    #[test]
    fn a_clock_that_drifts_adds_nothing() {
        let mut clock = SenderClock::default();
        // 100 ppm slow over 100 s would be 10 ms.
        let drifting = |ms: i64| u32::try_from((ms * 9999) / 10_000).expect("small");
        let largest = (0..1000).filter_map(|n| clock.stamp(n * 100 * MS, drifting(n * 100))).max();
        assert!(largest.is_some_and(|largest| largest <= 2000), "{largest:?}");
    }
}
