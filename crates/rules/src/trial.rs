//! Decides whether a trial of a setting helped, from counts before and during it; pure.
//!
//! Events are related to their opportunities, so that more traffic is no harm and less no gain, and
//! corrected by the change at siblings in the same time. A setting is kept only if events became
//! fewer and nothing else got worse. A trial without a visible effect is reverted: a setting
//! without a reason puzzles the next operator.

/// Events in one span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventTally {
    /// Number of events.
    pub events: f64,
    /// Opportunities; 0 if unknown.
    pub chances: f64,
    /// The length of the span.
    pub seconds: f64,
}

/// Events before a setting and with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TallyChange {
    /// Before it was set.
    pub before: EventTally,
    /// While it was set.
    pub after: EventTally,
}

/// Request latency in one span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestLatency {
    /// Number of requests.
    pub requests: f64,
    /// The 95th percentile.
    pub p95_seconds: f64,
}

/// Standard deviations from which a difference counts.
const DEVIATIONS: f64 = 3.0;
/// Fewer events are no harm.
const EVENTS_MIN: f64 = 10.0;
/// A smaller share of the opportunities is no harm.
const HARM_RATIO_MIN: f64 = 0.001;
/// Fewer requests give no reliable percentile.
const REQUESTS_MIN: f64 = 50.0;
/// Requests slower by this factor and difference are harm.
const SLOWER: (f64, f64) = (1.5, 0.02);
/// Cap on the siblings' factor.
const SIBLING_FACTOR_MAX: f64 = 10.0;

impl EventTally {
    fn per_minute(&self) -> f64 {
        let minutes = self.seconds / 60.0;
        if minutes > 0.0 { self.events / minutes } else { 0.0 }
    }
}

impl TallyChange {
    /// Expected events with the setting if it had no effect.
    fn expected(&self, siblings: f64) -> f64 {
        let (before, after) = (&self.before, &self.after);
        let (from, to) = if before.chances > 0.0 && after.chances > 0.0 {
            (before.chances, after.chances)
        } else {
            (before.seconds, after.seconds)
        };
        if from > 0.0 { before.events * to / from * siblings } else { 0.0 }
    }

    /// Whether events halved at least, beyond chance.
    pub fn is_less(&self, siblings: f64) -> bool {
        let (expected, seen) = (self.expected(siblings), self.after.events);
        expected > 0.0
            && seen * 2.0 <= expected
            && expected - seen >= DEVIATIONS * (expected + seen).sqrt()
    }

    /// Whether events doubled at least, beyond chance.
    pub fn is_more(&self, siblings: f64) -> bool {
        let (expected, seen) = (self.expected(siblings), self.after.events);
        let is_rare = self.after.chances > 0.0 && seen / self.after.chances < HARM_RATIO_MIN;
        !is_rare
            && seen >= EVENTS_MIN.max(expected * 2.0)
            && seen - expected >= DEVIATIONS * (expected + seen).sqrt()
    }

    /// Both rates as text: `12.0/min before, 0.5/min with it`.
    pub fn words(&self) -> String {
        let (before, after) = (self.before.per_minute(), self.after.per_minute());
        format!("{before:.1}/min before, {after:.1}/min with it")
    }
}

/// Median factor by which the siblings' events changed in the same time; 1 without usable siblings.
pub fn sibling_factor(siblings: &[TallyChange]) -> f64 {
    let counted = siblings.iter().filter(|change| change.before.events >= EVENTS_MIN);
    let mut factors: Vec<f64> = counted
        .filter_map(|change| {
            let expected = change.expected(1.0);
            (expected > 0.0).then(|| change.after.events / expected)
        })
        .collect();
    factors.sort_by(f64::total_cmp);
    let median = factors.get(factors.len() / 2).copied().unwrap_or(1.0);
    median.clamp(1.0 / SIBLING_FACTOR_MAX, SIBLING_FACTOR_MAX)
}

/// Whether requests became clearly slower.
pub fn is_slower(before: RequestLatency, after: RequestLatency) -> bool {
    let (factor, difference) = SLOWER;
    before.requests.min(after.requests) >= REQUESTS_MIN
        && after.p95_seconds > before.p95_seconds * factor
        && after.p95_seconds - before.p95_seconds > difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: (f64, f64), after: (f64, f64)) -> TallyChange {
        let tally = |(events, chances)| EventTally { events, chances, seconds: 60.0 };
        TallyChange { before: tally(before), after: tally(after) }
    }

    #[test]
    fn less_is_shown_only_beyond_chance_and_by_half() {
        assert!(change((100.0, 1000.0), (0.0, 1000.0)).is_less(1.0));
        assert!(!change((4.0, 1000.0), (0.0, 1000.0)).is_less(1.0), "4 may be chance");
        assert!(!change((100.0, 1000.0), (70.0, 1000.0)).is_less(1.0), "not by half");
        assert!(!change((0.0, 1000.0), (0.0, 1000.0)).is_less(1.0), "nothing to help");
        assert!(!change((100.0, 1000.0), (20.0, 200.0)).is_less(1.0), "traffic went down");
        assert!(change((100.0, 1000.0), (50.0, 5000.0)).is_less(1.0), "traffic went up");
    }

    #[test]
    fn more_is_harm_unless_traffic_or_siblings_had_it_too() {
        assert!(change((0.0, 1000.0), (10.0, 1000.0)).is_more(1.0));
        assert!(!change((0.0, 1000.0), (9.0, 1000.0)).is_more(1.0), "9 may be chance");
        assert!(!change((0.0, 1e6), (10.0, 1e6)).is_more(1.0), "a hundred-thousandth");
        assert!(!change((100.0, 1000.0), (300.0, 3000.0)).is_more(1.0), "traffic went up");
        assert!(change((100.0, 1000.0), (300.0, 1000.0)).is_more(1.0));
        assert!(!change((100.0, 1000.0), (300.0, 1000.0)).is_more(3.0), "siblings had it too");
    }

    #[test]
    fn without_known_chances_time_counts() {
        let mut one = change((60.0, 0.0), (60.0, 0.0));
        one.after.seconds = 600.0;
        assert!(one.is_less(1.0), "a tenth a minute");
        assert_eq!(one.words(), "60.0/min before, 6.0/min with it");
    }

    #[test]
    fn siblings_give_the_median_of_those_that_had_events() {
        let siblings = [
            change((100.0, 1000.0), (50.0, 1000.0)),
            change((100.0, 1000.0), (60.0, 1000.0)),
            change((100.0, 1000.0), (900.0, 1000.0)),
            change((1.0, 1000.0), (0.0, 1000.0)),
        ];
        assert!((sibling_factor(&siblings) - 0.6).abs() < 1e-9);
        assert!((sibling_factor(&[]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn slower_needs_requests_a_factor_and_a_difference() {
        let of = |requests, p95_seconds| RequestLatency { requests, p95_seconds };
        assert!(is_slower(of(500.0, 0.1), of(500.0, 0.2)));
        assert!(!is_slower(of(500.0, 0.1), of(20.0, 0.2)), "20 requests");
        assert!(!is_slower(of(500.0, 0.001), of(500.0, 0.01)), "9 ms");
        assert!(!is_slower(of(500.0, 1.0), of(500.0, 1.2)), "a fifth");
    }
}
