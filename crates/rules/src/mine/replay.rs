//! Events over a threshold, the lowest threshold with few enough events, and the day-by-day replay.

use std::ops::Range;

use super::model::mined_with_residuals;
use super::{DAY, MiningOptions, Point};

/// A span over the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// First point over the threshold.
    pub from: i64,
    /// Last point over the threshold.
    pub to: i64,
    /// The highest score, 1 at the threshold.
    pub worst: f64,
}

/// Spans that start with `hold` consecutive scores above `threshold` and end after `cool` scores
/// below it.
pub(super) fn events(
    times: &[i64],
    scores: &[f64],
    threshold: f64,
    options: &MiningOptions,
) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::new();
    let mut run: Option<(Event, usize)> = None;
    let (mut is_open, mut quiet) = (false, 0);
    for (at, score) in times.iter().zip(scores) {
        if *score > threshold {
            quiet = 0;
            let (event, points) =
                run.get_or_insert((Event { from: *at, to: *at, worst: *score }, 0));
            (event.to, event.worst, *points) = (*at, event.worst.max(*score), *points + 1);
            is_open |= *points >= options.hold;
        } else if is_open {
            quiet += 1;
            if quiet >= options.cool {
                out.extend(run.take().map(|(event, _)| event));
                is_open = false;
            }
        } else {
            run = None;
        }
    }
    if is_open {
        out.extend(run.map(|(event, _)| event));
    }
    out
}

/// The scores of a series.
#[derive(Clone, Copy)]
pub(super) struct ScoredSeries<'a> {
    pub(super) times: &'a [i64],
    pub(super) scores: &'a [f64],
}

/// The lowest threshold such that it and all higher ones give at most `allowed` events in all
/// series; `None` without scores.
///
/// A lower threshold can give fewer events, because neighbouring events merge; so the search starts
/// at the top.
pub(super) fn lowest(
    series: &[ScoredSeries<'_>],
    allowed: f64,
    options: &MiningOptions,
) -> Option<f64> {
    let mut sorted: Vec<f64> = series.iter().flat_map(|one| one.scores).copied().collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut good, mut bad) = (*sorted.first()?, *sorted.last()?);
    let mut place = 1;
    while place < sorted.len() {
        if count_events(series, sorted[place], options) > allowed {
            bad = sorted[place];
            break;
        }
        good = sorted[place];
        place += place.div_ceil(4);
    }
    for _ in 0..12 {
        let middle = f64::midpoint(good, bad);
        if count_events(series, middle, options) <= allowed {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

fn count_events(series: &[ScoredSeries<'_>], threshold: f64, options: &MiningOptions) -> f64 {
    let counts = series.iter().map(|one| events(one.times, one.scores, threshold, options).len());
    super::count(counts.sum())
}

/// Replays the past from `from` on: each day is evaluated with the model of the night before.
///
/// Days with too little history have no events. Points are sorted by time. `incidents`, confirmed
/// spans in seconds since 1970, are excluded from learning.
pub fn walk(
    points: &[Point],
    from: i64,
    incidents: &[Range<i64>],
    options: &MiningOptions,
) -> Vec<Event> {
    let calm = without(points, incidents);
    let (mut times, mut scores) = (Vec::new(), Vec::new());
    let end = points.last().map_or(from, |point| point.at);
    let mut begin = from;
    while begin <= end {
        let known = points.partition_point(|point| point.at < begin);
        let until = points.partition_point(|point| point.at < begin + DAY);
        let learned = &calm[..calm.partition_point(|point| point.at < begin)];
        begin += DAY;
        if known == until {
            continue;
        }
        let Ok((mined, mut residuals)) = mined_with_residuals(learned, options) else {
            continue;
        };
        let before = residuals.len();
        residuals.extend(points[known..until].iter().map(|point| mined.residual(*point)));
        times.extend(points[known..until].iter().map(|point| point.at));
        scores.extend(mined.nearness(&residuals, options.side).drain(before..));
    }
    events(&times, &scores, 1.0, options)
}

/// The points outside of all spans.
pub fn without(points: &[Point], spans: &[Range<i64>]) -> Vec<Point> {
    let mut points = points.to_vec();
    points.retain(|point| !spans.iter().any(|span| span.contains(&point.at)));
    points
}
