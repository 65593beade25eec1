//! A constant threshold for all subjects: the lowest (or highest) value whose replay has few enough
//! events.

use super::replay::{ScoredSeries, events, lowest};
use super::{DAY, Event, MiningOptions, POINTS_MIN, Point, Side, TooLittle, WINDOW_DAYS, days};

/// Factor by which the value is farther from normal than the nearest sufficient one.
const MARGIN: f64 = 1.1;

/// A series with a name.
#[derive(Clone, Debug)]
pub struct NamedSeries {
    /// The subject.
    pub name: String,
    /// Sorted by time.
    pub points: Vec<Point>,
}

/// An event of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedEvent {
    /// The subject's name.
    pub subject: String,
    /// The span; `worst` is the value farthest from normal.
    pub event: Event,
}

/// A mined threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantThreshold {
    /// The threshold.
    pub value: f64,
    /// Days from the first point to the last.
    pub days: f64,
}

/// The value nearest to normal whose replay over the newest four weeks stays within the event
/// budget of all subjects together, plus a tenth, rounded to two digits.
///
/// # Errors
/// [`TooLittle`] if no subject has a day of history, or if its values are all 0.
pub fn mine_constant(
    subjects: &[NamedSeries],
    options: &MiningOptions,
) -> Result<ConstantThreshold, TooLittle> {
    let first = subjects.iter().filter_map(|subject| subject.points.first()).map(|point| point.at);
    let last = subjects.iter().filter_map(|subject| subject.points.last()).map(|point| point.at);
    let (first, last) = (first.min().unwrap_or(0), last.max().unwrap_or(0));
    let first = first.max(last - WINDOW_DAYS * DAY);
    let points = subjects.iter().map(|subject| subject.points.len()).max().unwrap_or_default();
    let span = days(last - first);
    if span < 0.97 || points < POINTS_MIN {
        return Err(TooLittle::Past { days: span, points });
    }
    let scored: Vec<(Vec<i64>, Vec<f64>)> =
        subjects.iter().map(|subject| scores(subject, first, options.side)).collect();
    let series: Vec<ScoredSeries<'_>> =
        scored.iter().map(|(times, scores)| ScoredSeries { times, scores }).collect();
    let allowed = options.false_per_week * span / 7.0;
    let score = lowest(&series, allowed, options).ok_or(TooLittle::Constant)?;
    let value = rounded(score, options.side);
    // Every value reaches 0 where none was ever above (or below) it.
    if value == 0.0 {
        return Err(TooLittle::Constant);
    }
    Ok(ConstantThreshold { value, days: span })
}

/// The events of all subjects at a value, by time.
pub fn replay_constant(
    subjects: &[NamedSeries],
    value: f64,
    options: &MiningOptions,
) -> Vec<ReplayedEvent> {
    let last = subjects.iter().filter_map(|subject| subject.points.last()).map(|point| point.at);
    let first = last.max().unwrap_or_default() - WINDOW_DAYS * DAY;
    let is_below = options.side == Side::Below;
    let threshold = if is_below { -value } else { value };
    let mut out = Vec::new();
    for subject in subjects {
        let (times, scores) = scores(subject, first, options.side);
        for mut event in events(&times, &scores, threshold, options) {
            event.worst = if is_below { -event.worst } else { event.worst };
            out.push(ReplayedEvent { subject: subject.name.clone(), event });
        }
    }
    out.sort_by_key(|replayed| replayed.event.from);
    out
}

/// Times and values since `first`; negated if low values are events.
fn scores(subject: &NamedSeries, first: i64, side: Side) -> (Vec<i64>, Vec<f64>) {
    let sign = if side == Side::Below { -1.0 } else { 1.0 };
    let points = subject.points.iter().filter(|point| point.at >= first);
    points.map(|point| (point.at, sign * point.value)).unzip()
}

/// The value of a score with its margin, rounded away from normal to two digits.
fn rounded(score: f64, side: Side) -> f64 {
    let value = match side {
        Side::Below => -score / MARGIN,
        Side::Above | Side::Both => score * MARGIN,
    };
    if value == 0.0 {
        return 0.0;
    }
    let digit = 10f64.powf(value.abs().log10().floor() - 1.0);
    // 0.25 / 0.01 is 25.000000000000004: treat it as a whole number.
    let steps = value / digit;
    let whole = match side {
        Side::Below => (steps + 1e-6).floor(),
        Side::Above | Side::Both => (steps - 1e-6).ceil(),
    };
    // Two digits again: 0.35 is 35 × 0.01, which is 0.35000000000000003.
    format!("{:.1e}", whole * digit).parse().unwrap_or(value)
}
