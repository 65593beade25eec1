//! Error budgets and burn rates of SLOs; pure. The rule `slo.burning` computes the same in SQL.
//!
//! A burn rate is the share of failures over the share that may fail: 1 spends the budget exactly in
//! its window. A pair of windows must both burn faster than the pair's rate: the long one shows that
//! it matters, the short one that it continues.
//!
//! ```text
//! 14.4 × in 1 h and 5 min, 6 × in 6 h and 30 min: page      1 × in 3 d and 6 h: mail
//! ```
//!
//! Budgets count occurrences, as budgeting by requests does, so a minute without requests spends
//! nothing (slok/sloth#133).

use crate::Class;

/// Failures that the longer window must have.
pub const FAILURES_MIN: u64 = 10;
/// Where a rate needs more failures than this share, this share is the bound: an objective of 90 %
/// would never page at 14.4 times its budget.
const SHARE_MAX: f64 = 0.9;
/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.96;

/// A time over which failures are counted, up to the newest counted minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurnWindow {
    /// `5 min`.
    pub label: &'static str,
    /// Its length.
    pub seconds: u64,
}

/// The windows, shortest first.
pub const BURN_WINDOWS: [BurnWindow; 5] = [
    BurnWindow { label: "5 min", seconds: 300 },
    BurnWindow { label: "30 min", seconds: 1_800 },
    BurnWindow { label: "1 h", seconds: 3_600 },
    BurnWindow { label: "6 h", seconds: 21_600 },
    BurnWindow { label: "3 d", seconds: 259_200 },
];

/// Two windows and the rate that both must exceed; positions are those of [`BURN_WINDOWS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurnPair {
    /// The rate.
    pub rate: f64,
    /// Position of the longer window.
    pub long: usize,
    /// Position of the shorter window.
    pub short: usize,
    /// The class of the finding.
    pub class: Class,
}

/// The pairs, the most urgent first.
pub const BURN_PAIRS: [BurnPair; 3] = [
    BurnPair { rate: 14.4, long: 2, short: 0, class: Class::Page },
    BurnPair { rate: 6.0, long: 3, short: 1, class: Class::Page },
    BurnPair { rate: 1.0, long: 4, short: 3, class: Class::Mail },
];

/// What was counted in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SloCount {
    /// Requests or checks.
    pub total: u64,
    /// Failed ones among them.
    pub failed: u64,
    /// Share of the window's minutes that were counted.
    pub covered_ratio: f64,
}

impl SloCount {
    /// Share of failures; `None` without requests.
    pub fn failed_ratio(self) -> Option<f64> {
        (self.total > 0).then(|| float(self.failed) / float(self.total))
    }

    /// The burn rate where `allowed` may fail; 0 without requests, which spend nothing.
    pub fn burn(self, allowed: f64) -> f64 {
        self.failed_ratio().unwrap_or(0.0) / allowed
    }

    /// The bounds between which the burn rate is with 95 % (Wilson); `None` without requests.
    pub fn burn_interval(self, allowed: f64) -> Option<(f64, f64)> {
        let (ratio, n) = (self.failed_ratio()?, float(self.total));
        let scale = 1.0 + Z * Z / n;
        let middle = (ratio + Z * Z / (2.0 * n)) / scale;
        let spread = Z / scale * (ratio * (1.0 - ratio) / n + Z * Z / (4.0 * n * n)).sqrt();
        Some(((middle - spread).max(0.0) / allowed, (middle + spread) / allowed))
    }

    /// Share of the budget that is left: 1 when nothing failed, below 0 when more failed than may.
    pub fn budget_left_ratio(self, allowed: f64) -> f64 {
        1.0 - self.burn(allowed)
    }
}

/// The first pair of which both windows burn too fast; `counts` are those of [`BURN_WINDOWS`].
///
/// Minutes that were not counted are taken as free of failures in the longer window.
pub fn burning_pair(counts: &[SloCount; 5], allowed: f64) -> Option<&'static BurnPair> {
    BURN_PAIRS.iter().find(|pair| {
        // Without the noise of the last digit, which exactly what is allowed would exceed.
        let bound = (pair.rate * allowed * 1.000_001).min(SHARE_MAX);
        let (long, short) = (counts[pair.long], counts[pair.short]);
        let diluted = long.failed_ratio().unwrap_or(0.0) * long.covered_ratio.min(1.0);
        long.failed >= FAILURES_MIN
            && diluted > bound
            && short.failed_ratio().unwrap_or(0.0) > bound
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleSet;

    fn count(total: u64, failed: u64) -> SloCount {
        SloCount { total, failed, covered_ratio: 1.0 }
    }

    #[test]
    fn rates_and_budget_follow_from_the_share_that_may_fail() {
        let hour = count(10_000, 144);
        assert!((hour.burn(0.001) - 14.4).abs() < 1e-9);
        assert!((count(1_000_000, 570).budget_left_ratio(0.001) - 0.43).abs() < 1e-9);
        assert!(count(1_000, 5).budget_left_ratio(0.001) < -3.9);
    }

    /// slok/sloth#133, slok/sloth#231: a quiet service has its whole budget and no NaN.
    #[test]
    fn no_requests_spend_nothing() {
        let quiet = count(0, 0);
        assert_eq!((quiet.burn(0.001), quiet.budget_left_ratio(0.001)), (0.0, 1.0));
        assert_eq!((quiet.failed_ratio(), quiet.burn_interval(0.001)), (None, None));
        assert_eq!(burning_pair(&[quiet; 5], 0.001), None);
    }

    /// pyrra-dev/pyrra#1925: one failure of few requests.
    #[test]
    fn few_requests_give_a_wide_interval_and_no_page() {
        let (low, high) = count(20, 1).burn_interval(0.001).unwrap();
        assert!(low < 10.0 && high > 200.0, "{low} {high}");
        let (low, high) = count(1_000_000, 50_000).burn_interval(0.001).unwrap();
        assert!(low > 49.0 && high < 51.0, "{low} {high}");
        assert_eq!(burning_pair(&[count(20, 1); 5], 0.001), None);
    }

    /// OpenSLO/slogen#47: a burn that is over in the short window is over.
    #[test]
    fn both_windows_of_a_pair_must_burn() {
        let (calm, bad) = (count(10_000, 0), count(10_000, 1_000));
        let pair = burning_pair(&[bad, bad, bad, calm, calm], 0.001).unwrap();
        assert_eq!((pair.rate, pair.class), (14.4, Class::Page));
        assert_eq!(
            burning_pair(&[calm, calm, bad, bad, bad], 0.001).map(|pair| pair.rate),
            Some(1.0)
        );
        assert_eq!(burning_pair(&[calm, calm, bad, calm, calm], 0.001), None);
    }

    /// kcp-dev/kcp-glbc#287: some rates cannot be reached at low objectives.
    #[test]
    fn outage_pages_whatever_the_objective() {
        let outage = [count(100, 100); 5];
        for allowed in [0.000_1, 0.01, 0.1, 0.5] {
            assert_eq!(burning_pair(&outage, allowed).map(|pair| pair.rate), Some(14.4));
        }
    }

    #[test]
    fn short_history_does_not_look_like_a_long_burn() {
        let mut counts = [count(6_000, 80); 5];
        for (count, window) in counts.iter_mut().zip(BURN_WINDOWS) {
            count.covered_ratio = 600.0 / float(window.seconds).max(600.0);
        }
        assert_eq!(burning_pair(&counts, 0.001), None);
    }

    #[test]
    fn rule_has_the_same_rates_and_windows() {
        let text = RuleSet::built_in_text("slo.burning").expect("a built-in rule");
        for pair in &BURN_PAIRS[..2] {
            assert!(text.contains(&format!("least({:.1} * allowed, 0.9)", pair.rate)));
        }
        for window in BURN_WINDOWS {
            assert!(text.contains(&format!("'{}'", window.label)), "{}", window.label);
        }
        assert_eq!(text.matches(&format!(">= {FAILURES_MIN} and")).count(), BURN_PAIRS.len());
    }
}
