//! Events over a threshold, the lowest threshold that gives few enough, and the walk through a past day by day.

use std::ops::Range;

use super::model::mined_with_residuals;
use super::{DAY, Options, Point};

/// A stretch of time in which the threshold was passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Its first point over the threshold.
    pub from: i64,
    /// Its last point over the threshold.
    pub to: i64,
    /// The farthest, 1 at the threshold.
    pub worst: f64,
}

/// The stretches in which `hold` scores in a row are above `threshold`; one ends after `cool` that are not.
pub(super) fn events(
    times: &[i64],
    scores: &[f64],
    threshold: f64,
    options: &Options,
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

/// A series by its scores.
#[derive(Clone, Copy)]
pub(super) struct Scored<'a> {
    pub(super) times: &'a [i64],
    pub(super) scores: &'a [f64],
}

/// The lowest threshold above which no threshold gives more events than `allowed` in all series together; `None` without
/// a score.
///
/// A lower threshold can give fewer events, because they grow together; so it is looked for from above.
pub(super) fn lowest(series: &[Scored<'_>], allowed: f64, options: &Options) -> Option<f64> {
    let is_few = |threshold: f64| {
        let of = |one: &Scored<'_>| events(one.times, one.scores, threshold, options).len();
        super::count(series.iter().map(of).sum()) <= allowed
    };
    let mut sorted: Vec<f64> = series.iter().flat_map(|one| one.scores).copied().collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut good, mut bad) = (*sorted.first()?, *sorted.last()?);
    let mut place = 1;
    while place < sorted.len() {
        if !is_few(sorted[place]) {
            bad = sorted[place];
            break;
        }
        good = sorted[place];
        place += place.div_ceil(4);
    }
    for _ in 0..12 {
        let middle = f64::midpoint(good, bad);
        if is_few(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

/// The events that would have been seen from `from` on, each day judged by what was mined the night before.
///
/// Days before which too little is known have none. Points are sorted by time. From `incidents`, spans of seconds since
/// 1970 that somebody confirmed, nothing is learned.
pub fn walk(
    points: &[Point],
    from: i64,
    incidents: &[Range<i64>],
    options: &Options,
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

/// The points that lie in none of the spans.
pub fn without(points: &[Point], spans: &[Range<i64>]) -> Vec<Point> {
    let is_in = |at: i64| spans.iter().any(|span| span.contains(&at));
    points.iter().filter(|point| !is_in(point.at)).copied().collect()
}
