//! One number for all subjects and all times: the lowest (or highest) value whose replay gives few enough events.

use super::replay::{Scored, events, lowest};
use super::{DAY, Event, Options, POINTS_MIN, Point, Side, TooLittle, WINDOW_DAYS, days};

/// How much farther from normal the value is than the nearest one that would do.
const MARGIN: f64 = 1.1;

/// A series with a name.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it is about.
    pub name: String,
    /// Sorted by time.
    pub points: Vec<Point>,
}

/// An event of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The subject's name.
    pub subject: String,
    /// When; its `worst` is the value farthest from normal.
    pub event: Event,
}

/// What was mined.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The threshold.
    pub value: f64,
    /// Days from the first point to the last.
    pub days: f64,
}

/// The value nearest to normal whose replay over the newest four weeks gives no more events of all subjects together than
/// were asked for, a tenth farther away and with two digits.
///
/// # Errors
/// [`TooLittle`] when no subject has a day of history.
pub fn mine_constant(subjects: &[Subject], options: &Options) -> Result<Constant, TooLittle> {
    let ends = |subject: &Subject| Some((subject.points.first()?.at, subject.points.last()?.at));
    let first = subjects.iter().filter_map(ends).map(|(first, _)| first).min().unwrap_or(0);
    let last = subjects.iter().filter_map(ends).map(|(_, last)| last).max().unwrap_or(0);
    let first = first.max(last - WINDOW_DAYS * DAY);
    let points = subjects.iter().map(|subject| subject.points.len()).max().unwrap_or_default();
    let span = days(last - first);
    if span < 0.97 || points < POINTS_MIN {
        return Err(TooLittle::Past { days: span, points });
    }
    let scored: Vec<(Vec<i64>, Vec<f64>)> =
        subjects.iter().map(|subject| scores(subject, first, options.side)).collect();
    let series: Vec<Scored<'_>> =
        scored.iter().map(|(times, scores)| Scored { times, scores }).collect();
    let allowed = options.false_per_week * span / 7.0;
    let score = lowest(&series, allowed, options).ok_or(TooLittle::Constant)?;
    Ok(Constant { value: rounded(score, options.side), days: span })
}

/// The events of every subject at a value, by time.
pub fn replay_constant(subjects: &[Subject], value: f64, options: &Options) -> Vec<Replayed> {
    let last = subjects.iter().filter_map(|subject| subject.points.last()).map(|point| point.at);
    let first = last.max().unwrap_or_default() - WINDOW_DAYS * DAY;
    let is_below = options.side == Side::Below;
    let threshold = if is_below { -value } else { value };
    let mut out = Vec::new();
    for subject in subjects {
        let (times, scores) = scores(subject, first, options.side);
        for mut event in events(&times, &scores, threshold, options) {
            event.worst = if is_below { -event.worst } else { event.worst };
            out.push(Replayed { subject: subject.name.clone(), event });
        }
    }
    out.sort_by_key(|replayed| replayed.event.from);
    out
}

/// Times and values since `first`; what lies below counts by how low it is.
fn scores(subject: &Subject, first: i64, side: Side) -> (Vec<i64>, Vec<f64>) {
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
    // 0.25 / 0.01 is 25.000000000000004: what is a whole number but for that must stay it.
    let steps = value / digit;
    let whole = match side {
        Side::Below => (steps + 1e-6).floor(),
        Side::Above | Side::Both => (steps - 1e-6).ceil(),
    };
    // Two digits again: 0.35 is 35 × 0.01, which is 0.35000000000000003.
    format!("{:.1e}", whole * digit).parse().unwrap_or(value)
}
