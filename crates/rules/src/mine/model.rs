//! The model of a series and its thresholds.

use super::past::{Measure, Past, at, means};
use super::replay::{Event, Scored, events, lowest};
use super::{
    DAY, FLOOR, MARGIN, Options, POINTS_MIN, Point, Season, Side, TooLittle, WINDOW_DAYS, days,
    spread,
};

/// What was mined of a series.
#[derive(Clone, Debug)]
pub struct Mined {
    /// Days from the first to the last point that was used.
    pub days: f64,
    /// Which season was found.
    pub season: Season,
    /// Whether values are compared by their logarithms.
    pub is_log: bool,
    /// Events that the replay of the same past gives at the thresholds.
    pub events: Vec<Event>,
    /// Weeks of that past.
    pub weeks: f64,
    /// For each reach: what one spread is on the scale, and how many of them are the threshold.
    pub bounds: Vec<Bound>,
    measure: Measure,
    profile: Vec<f64>,
    level: f64,
}

/// The threshold of one reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Points whose mean is looked at.
    pub points: usize,
    /// One spread, on the scale.
    pub spread: f64,
    /// The threshold in spreads.
    pub threshold: f64,
}

impl Mined {
    /// What is normal at a time, in the unit of the values.
    pub fn expected(&self, time: i64) -> f64 {
        self.measure.unscale(at(&self.profile, time) + self.level)
    }

    /// The values between which the first reach sees nothing, at a time.
    pub fn range(&self, time: i64) -> (f64, f64) {
        let middle = at(&self.profile, time) + self.level;
        let width = self.bounds[0].threshold * self.bounds[0].spread;
        (self.measure.unscale(middle - width), self.measure.unscale(middle + width))
    }

    /// What is left of a point when season and level are taken off, on the scale.
    pub fn residual(&self, point: Point) -> f64 {
        self.measure.scale(point.value) - at(&self.profile, point.at) - self.level
    }

    /// How near each of the points is to an event, 1 at the threshold, by what is left of it and of those before it.
    pub fn nearness(&self, residuals: &[f64], side: Side) -> Vec<f64> {
        let mut nearest = vec![0.0f64; residuals.len()];
        for bound in &self.bounds {
            for (near, mean) in nearest.iter_mut().zip(means(residuals, bound.points)) {
                *near = near.max(sided(mean, side) / (bound.spread * bound.threshold));
            }
        }
        nearest
    }
}

/// The part of a deviation that counts.
pub(super) fn sided(deviation: f64, side: Side) -> f64 {
    match side {
        Side::Above => deviation.max(0.0),
        Side::Below => (-deviation).max(0.0),
        Side::Both => deviation.abs(),
    }
}

/// Mines a series, of which the newest four weeks count. Points are sorted by time.
///
/// # Errors
/// [`TooLittle`] when there is less than a day, or when nothing ever changed.
pub fn mine(points: &[Point], options: &Options) -> Result<Mined, TooLittle> {
    mined_with_residuals(points, options).map(|(mined, _)| mined)
}

/// The same with what is left of each point that was used.
pub(super) fn mined_with_residuals(
    points: &[Point],
    options: &Options,
) -> Result<(Mined, Vec<f64>), TooLittle> {
    let last = points.last().map_or(0, |point| point.at);
    let from = points.partition_point(|point| point.at < last - WINDOW_DAYS * DAY);
    let points = &points[from..];
    let span = days(last - points.first().map_or(last, |point| point.at));
    // Half an hour less than a day: the last of its points lies before its end.
    if span < 0.97 || points.len() < POINTS_MIN {
        return Err(TooLittle::Past { days: span, points: points.len() });
    }
    let past = Past::of(points, options.scale);
    let weeks = span / 7.0;
    let times: Vec<i64> = points.iter().map(|point| point.at).collect();
    let mut bounds = Vec::new();
    for reach in &options.reaches {
        let left = means(&past.residuals, reach.points);
        let spread = spread(&left);
        if spread <= 1e-12 {
            return Err(TooLittle::Constant);
        }
        let scores: Vec<f64> =
            left.iter().map(|value| sided(*value, options.side) / spread).collect();
        let allowed = options.false_per_week * reach.share * weeks;
        let scored = Scored { times: &times, scores: &scores };
        let threshold = lowest(&[scored], allowed, options).map_or(FLOOR, |low| MARGIN * low);
        let threshold = threshold.max(FLOOR);
        bounds.push(Bound { points: reach.points, spread, threshold });
    }
    let mut mined = Mined {
        days: span,
        season: past.season,
        is_log: past.measure.is_log,
        events: Vec::new(),
        weeks,
        bounds,
        measure: past.measure,
        profile: past.profile,
        level: past.level,
    };
    let nearness = mined.nearness(&past.residuals, options.side);
    mined.events = events(&times, &nearness, 1.0, options);
    Ok((mined, past.residuals))
}
