//! How fast messages go out: the token bucket of a receiver, and pauses after failures.

use std::time::Duration;

use tokio::time::Instant;

use crate::receiver::RateLimit;

/// Longest pause between two attempts, without jitter.
const PAUSE_MAX_SECONDS: f64 = 60.0;
/// A receiver whose rate is zero or negative still gets a message an hour.
const PER_SECOND_MIN: f64 = 1.0 / 3600.0;

/// A token bucket; one token is one message.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    limit: RateLimit,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    pub(crate) fn new(limit: RateLimit, now: Instant) -> Self {
        let limit = RateLimit {
            burst: limit.burst.max(1.0),
            per_second: limit.per_second.max(PER_SECOND_MIN),
        };
        Self { limit, tokens: limit.burst, filled: now }
    }

    /// Time until a token is there.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.limit.per_second).min(self.limit.burst);
        self.filled = now;
        let missing = 1.0 - self.tokens;
        // A timer rounds; a token short by less than a microsecond is a token.
        if missing <= self.limit.per_second * 1e-6 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(missing / self.limit.per_second)
    }

    /// Takes a token; a debt is possible and delays the next message.
    pub(crate) fn take(&mut self) {
        self.tokens -= 1.0;
    }
}

/// Pause between two probes of a receiver that fails.
const PROBE_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between probes that mean nothing.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Whether a receiver has to be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeNeed {
    /// Its last message was accepted.
    Works,
    /// It fails, and no notice could go out earlier.
    Idle,
    /// It fails, and notices wait out their pauses.
    Wanted,
}

/// When a failing receiver is probed: every 2 s, so that its notices go out right after its return.
///
/// A probe that passes while messages are still refused means nothing, as where a login works and a
/// mailbox is full: after each of those the pause doubles, up to a minute.
#[derive(Debug, Default)]
pub(crate) struct ProbePlan {
    next: Option<Instant>,
    /// Probes in a row that passed, without an accepted message.
    passes: u32,
}

impl ProbePlan {
    /// The time of the next probe.
    pub(crate) fn next(&mut self, need: ProbeNeed, now: Instant) -> Option<Instant> {
        match need {
            ProbeNeed::Works => *self = Self::default(),
            ProbeNeed::Idle => {}
            ProbeNeed::Wanted => return Some(*self.next.get_or_insert(now + PROBE_PAUSE)),
        }
        None
    }

    /// Enters the result of a probe.
    pub(crate) fn note(&mut self, is_passed: bool, now: Instant) {
        self.passes = if is_passed { self.passes.saturating_add(1) } else { 0 };
        let pause = PROBE_PAUSE * 2_u32.pow(self.passes.min(5));
        self.next = Some(now + pause.min(PROBE_PAUSE_MAX));
    }
}

/// Pause after the attempt with this number, from 1: 1, 2, 4 … 60 s, each ± 20 %.
pub(crate) fn backoff(attempt: u32, random: &mut fastrand::Rng) -> Duration {
    let exponent = i32::try_from(attempt.clamp(1, 8) - 1).unwrap_or(0);
    let pause = 2.0_f64.powi(exponent).min(PAUSE_MAX_SECONDS);
    Duration::from_secs_f64(pause * (0.8 + 0.4 * random.f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bucket_lets_a_burst_through_and_then_its_rate() {
        let limit = RateLimit { burst: 3.0, per_second: 0.5 };
        let (start, mut sent) = (Instant::now(), Vec::new());
        let mut bucket = TokenBucket::new(limit, start);
        while sent.len() < 6 {
            tokio::time::sleep(bucket.pause(Instant::now())).await;
            if bucket.pause(Instant::now()).is_zero() {
                bucket.take();
                sent.push(start.elapsed().as_secs_f64().round());
            }
        }
        assert_eq!(sent, [0.0, 0.0, 0.0, 2.0, 4.0, 6.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn probes_that_mean_nothing_become_rare_and_a_failed_one_makes_them_frequent() {
        let mut plan = ProbePlan::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for is_passed in [false, false, true, true, true, true, true, true, false, false] {
            let next = plan.next(ProbeNeed::Wanted, now).unwrap();
            assert_eq!(plan.next(ProbeNeed::Idle, now), None);
            pauses.push((next - now).as_secs());
            now = next;
            plan.note(is_passed, now);
        }
        assert_eq!(pauses, [2, 2, 2, 4, 8, 16, 32, 60, 60, 2]);
        assert_eq!(plan.next(ProbeNeed::Works, now), None);
        assert_eq!(plan.next(ProbeNeed::Wanted, now), Some(now + PROBE_PAUSE));
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut random = fastrand::Rng::with_seed(1);
        for (attempt, seconds) in [(1, 1.0), (2, 2.0), (6, 32.0), (7, 60.0), (2_000, 60.0)] {
            let pause = backoff(attempt, &mut random).as_secs_f64();
            assert!((0.8 * seconds..=1.2 * seconds).contains(&pause), "{attempt}: {pause}");
        }
    }
}
