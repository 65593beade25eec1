//! One-way delay variation from TCP timestamps (RFC 7323).
//!
//! A sender stamps its packets with its own clock. Capture time minus stamp is the path delay plus
//! an unknown offset; the minimum over a connection is an undisturbed path, and anything above it
//! is delay that the *network* added. A client that sends late adds nothing, since it stamps late.
//! On Linux, offsets differ per connection, so each connection has a separate baseline, from three
//! packets on.
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
    pub(crate) max_us: u32,
    pub(crate) samples: u32,
    tick_us: u16,
}

/// The tick of Linux, Windows, macOS and FreeBSD today; others are measured.
const TICK_US: u16 = 1000;
/// Known ticks; any other is a bad measurement or a hostile stamp.
const TICKS_US: [u16; 4] = [1000, 2000, 4000, 10_000];
/// Minimum time over which a clock is measured.
const MEASURE_NS: i64 = 1_000_000_000;
/// Maximum drift between two hosts' clocks: one in 5,000.
const DRIFT: i64 = 5000;
/// Packets before a variation is meaningful.
const SAMPLES_MIN: u32 = 3;

/// Time since a connection's first packet: by the tap's clock in nanoseconds, and in sender ticks.
#[derive(Clone, Copy)]
struct ClockAge {
    age: i64,
    ticks: i64,
}

impl SenderClock {
    /// Processes a stamp; returns the variation in microseconds, once there is a baseline.
    pub(crate) fn stamp(&mut self, ts_ns: i64, value: u32) -> Option<u64> {
        self.samples = self.samples.saturating_add(1);
        if self.samples == 1 {
            *self = Self {
                first_ts: ts_ns,
                last_ts: ts_ns,
                first_value: value,
                samples: 1,
                tick_us: TICK_US,
                ..Self::default()
            };
            return None;
        }
        let age = ts_ns - self.first_ts;
        let ticks = i64::from(value.wrapping_sub(self.first_value).cast_signed());
        if age >= MEASURE_NS && ticks > 0 && !self.fits(ClockAge { age, ticks }) {
            self.measure(ClockAge { age, ticks });
        }
        let difference = age - ticks * i64::from(self.tick_us) * 1000;
        let drifted = self.fastest + (ts_ns - self.last_ts).max(0) / DRIFT;
        self.fastest = difference.min(drifted);
        self.last_ts = ts_ns;
        if self.samples < SAMPLES_MIN {
            return None;
        }
        let variation = u64::try_from((difference - self.fastest) / 1000).unwrap_or(0);
        self.max_us = self.max_us.max(u32::try_from(variation).unwrap_or(u32::MAX));
        Some(variation)
    }

    /// Microseconds per tick; `None` without stamps.
    pub(crate) fn tick_us(&self) -> Option<u16> {
        (self.samples > 1).then_some(self.tick_us)
    }

    /// Whether the current tick explains the elapsed time, within a fifth for held packets.
    fn fits(&self, ClockAge { age, ticks }: ClockAge) -> bool {
        let by_stamp = ticks * i64::from(self.tick_us) * 1000;
        (by_stamp - age).abs() <= age / 5
    }

    /// Chooses the tick that fits within a twentieth; held packets make all ticks look wrong and
    /// change nothing.
    fn measure(&mut self, ClockAge { age, ticks }: ClockAge) {
        let near = TICKS_US.iter().find(|tick| {
            let by_stamp = ticks * i64::from(**tick) * 1000;
            (by_stamp - age).abs() <= age / 20
        });
        if let Some(tick) = near {
            self.tick_us = *tick;
            self.fastest = age - ticks * i64::from(*tick) * 1000;
            self.max_us = 0;
        }
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
        assert_eq!(u64::from(clock.max_us), held);
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

    #[test]
    fn a_clock_that_drifts_adds_nothing() {
        let mut clock = SenderClock::default();
        // 100 ppm slow over 100 s would be 10 ms.
        let drifting = |ms: i64| u32::try_from((ms * 9999) / 10_000).expect("small");
        let largest = (0..1000).filter_map(|n| clock.stamp(n * 100 * MS, drifting(n * 100))).max();
        assert!(largest.is_some_and(|largest| largest <= 2000), "{largest:?}");
    }
}
