//! The model of a series and its thresholds.

use super::past::{Past, ValueScale, at, means};
use super::replay::{Event, ScoredSeries, events, lowest};
use super::{
    DAY, FLOOR, MARGIN, MiningOptions, POINTS_MIN, Point, Season, Side, TooLittle, WINDOW_DAYS,
    days, spread,
};

/// The model of a series.
#[derive(Clone, Debug)]
pub struct SeriesModel {
    /// Days from the first to the last point in use.
    pub days: f64,
    /// The season.
    pub season: Season,
    /// Whether values are compared on a log scale.
    pub is_log: bool,
    /// Events in the replay of the same past.
    pub events: Vec<Event>,
    /// Weeks of that past.
    pub weeks: f64,
    /// Spread and threshold of each window.
    pub bounds: Vec<WindowBound>,
    measure: ValueScale,
    profile: Vec<f64>,
    level: f64,
}

/// The threshold of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowBound {
    /// Points in the window.
    pub points: usize,
    /// The spread, on the scale.
    pub spread: f64,
    /// The threshold in spreads.
    pub threshold: f64,
}

impl SeriesModel {
    /// The normal value at a time, in the unit of the values.
    pub fn expected(&self, time: i64) -> f64 {
        self.measure.unscale(at(&self.profile, time) + self.level)
    }

    /// The normal range of the first window at a time.
    pub fn range(&self, time: i64) -> (f64, f64) {
        let middle = at(&self.profile, time) + self.level;
        let width = self.bounds[0].threshold * self.bounds[0].spread;
        (self.measure.unscale(middle - width), self.measure.unscale(middle + width))
    }

    /// A point minus season and level, on the scale.
    pub fn residual(&self, point: Point) -> f64 {
        self.measure.scale(point.value) - at(&self.profile, point.at) - self.level
    }

    /// Distance of each point to an event, 1 at the threshold, from its residual and the preceding
    /// ones.
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

/// The deviation on the relevant side.
pub(super) fn sided(deviation: f64, side: Side) -> f64 {
    match side {
        Side::Above => deviation.max(0.0),
        Side::Below => (-deviation).max(0.0),
        Side::Both => deviation.abs(),
    }
}

/// Mines the newest four weeks of a series. Points are sorted by time.
///
/// # Errors
/// [`TooLittle`] with less than a day of history, or if the value never changed.
pub fn mine(points: &[Point], options: &MiningOptions) -> Result<SeriesModel, TooLittle> {
    mined_with_residuals(points, options).map(|(mined, _)| mined)
}

/// Mines a series and returns the residuals too.
pub(super) fn mined_with_residuals(
    points: &[Point],
    options: &MiningOptions,
) -> Result<(SeriesModel, Vec<f64>), TooLittle> {
    let last = points.last().map_or(0, |point| point.at);
    let from = points.partition_point(|point| point.at < last - WINDOW_DAYS * DAY);
    let points = &points[from..];
    let span = days(last - points.first().map_or(last, |point| point.at));
    // Half an hour less than a day: its last point lies before its end.
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
        let scored = ScoredSeries { times: &times, scores: &scores };
        let threshold = lowest(&[scored], allowed, options).map_or(FLOOR, |low| MARGIN * low);
        let threshold = threshold.max(FLOOR);
        bounds.push(WindowBound { points: reach.points, spread, threshold });
    }
    let mut mined = SeriesModel {
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
