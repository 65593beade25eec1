//! Decomposes the past of a series into scale, season, level and residuals.

use super::{DAY, LEVEL_DAYS, Point, SLOT_SECONDS, SLOTS, Scale, Season, count, days, median};

/// A season is kept if it reduces the forecast error by this factor.
const SEASON_GAIN: f64 = 0.85;
/// Factor by which the week must beat the day.
const WEEK_GAIN: f64 = 0.97;
/// Days of history from which a daily, and a weekly, season is tried.
const DAYS_OF_DAY: f64 = 2.95;
const DAYS_OF_WEEK: f64 = 20.0;
/// Weeks from the middle of the last seven days to the middle of the next one.
const TREND: f64 = 4.0 / 7.0;
/// Offset before the logarithm, as a share of the median: 0 has no logarithm.
const OFFSET: f64 = 0.01;

/// The scale on which values are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValueScale {
    pub(super) is_log: bool,
    pub(super) offset: f64,
}

impl ValueScale {
    /// Raw values.
    pub(super) const RAW: Self = Self { is_log: false, offset: 0.0 };

    /// The logarithm for these points; raw if a value is negative.
    pub(super) fn log_of(points: &[Point]) -> Self {
        if points.iter().any(|point| point.value < 0.0) {
            return Self::RAW;
        }
        let mut positive: Vec<f64> =
            points.iter().map(|point| point.value).filter(|value| *value > 0.0).collect();
        let offset = if positive.is_empty() { 1.0 } else { OFFSET * median(&mut positive) };
        Self { is_log: true, offset }
    }

    pub(super) fn scale(self, value: f64) -> f64 {
        if self.is_log { (value.max(0.0) + self.offset).ln() } else { value }
    }

    pub(super) fn unscale(self, value: f64) -> f64 {
        if self.is_log { (value.exp() - self.offset).max(0.0) } else { value }
    }
}

/// Scale, season, level, and the residuals of the past.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) measure: ValueScale,
    pub(super) season: Season,
    pub(super) profile: Vec<f64>,
    pub(super) level: f64,
    /// One per point.
    pub(super) residuals: Vec<f64>,
}

impl Past {
    /// Decomposes a past; `points` must not be empty.
    pub(super) fn of(points: &[Point], scale: Scale) -> Self {
        match scale {
            Scale::Raw => Self::on(points, ValueScale::RAW),
            Scale::Log => Self::on(points, ValueScale::log_of(points)),
            Scale::Auto => {
                let raw = Self::on(points, ValueScale::RAW);
                let log = Self::on(points, ValueScale::log_of(points));
                if log.measure.is_log && log.unevenness(points) < raw.unevenness(points) {
                    log
                } else {
                    raw
                }
            }
        }
    }

    fn on(points: &[Point], measure: ValueScale) -> Self {
        let scaled: Vec<Point> = points
            .iter()
            .map(|point| Point { at: point.at, value: measure.scale(point.value) })
            .collect();
        let season = season_of(&scaled);
        let profile = profile(&scaled, season);
        let without: Vec<Point> = scaled
            .iter()
            .map(|point| Point { at: point.at, value: point.value - at(&profile, point.at) })
            .collect();
        let (residuals, level) = track(&without);
        Self { measure, season, profile, level, residuals }
    }

    /// Log ratio of the noise in busy and in quiet slots. Without a season there are no such slots,
    /// and raw values are preferred.
    fn unevenness(&self, points: &[Point]) -> f64 {
        if self.season == Season::None {
            return if self.measure.is_log { f64::INFINITY } else { 0.0 };
        }
        let middle = median(&mut self.profile.clone());
        let (mut busy, mut quiet) = (Vec::new(), Vec::new());
        for (point, residual) in points.iter().zip(&self.residuals) {
            let is_busy = at(&self.profile, point.at) > middle;
            if is_busy { &mut busy } else { &mut quiet }.push(residual.abs());
        }
        (median(&mut busy).max(1e-12) / median(&mut quiet).max(1e-12)).ln().abs()
    }
}

/// The normal value at a time in a weekly, daily or flat profile.
pub(super) fn at(profile: &[f64], at: i64) -> f64 {
    profile[slot(profile.len(), at)]
}

fn slot(slots: usize, at: i64) -> usize {
    let slots_since = at.div_euclid(SLOT_SECONDS);
    let number = i64::try_from(slots).unwrap_or(1);
    usize::try_from(slots_since.rem_euclid(number)).unwrap_or_default()
}

/// The median of each half hour and its two neighbours.
fn profile(points: &[Point], season: Season) -> Vec<f64> {
    let whole = median(&mut points.iter().map(|point| point.value).collect::<Vec<_>>());
    let slots = match season {
        Season::None => return vec![whole],
        Season::Day => SLOTS.0,
        Season::Week => SLOTS.1,
    };
    let mut by_slot: Vec<Vec<f64>> = vec![Vec::new(); slots];
    for point in points {
        by_slot[slot(slots, point.at)].push(point.value);
    }
    (0..slots).map(|slot| smoothed(&by_slot, slot).unwrap_or(whole)).collect()
}

/// The median of a slot and its two neighbours; `None` without values.
fn smoothed(by_slot: &[Vec<f64>], slot: usize) -> Option<f64> {
    let slots = by_slot.len();
    let around = [slots - 1, 0, 1].map(|step| &by_slot[(slot + step) % slots]);
    let mut values: Vec<f64> = around.into_iter().flatten().copied().collect();
    (!values.is_empty()).then(|| median(&mut values))
}

/// The season that best forecasts the newest part of the past, if it is much better than none.
fn season_of(points: &[Point]) -> Season {
    let (first, last) = (points[0].at, points[points.len() - 1].at);
    let span = days(last - first);
    let newest = ((last - first) / 4).clamp(DAY, 7 * DAY);
    let cut = points.partition_point(|point| point.at < last - newest);
    if cut < 10 || points.len() - cut < 10 {
        return Season::None;
    }
    let (known, newest) = points.split_at(cut);
    let mut best = (Season::None, SEASON_GAIN * forecast_error(known, newest, Season::None));
    if span >= DAYS_OF_DAY {
        let by_day = forecast_error(known, newest, Season::Day);
        if by_day <= best.1 {
            best = (Season::Day, WEEK_GAIN * by_day);
        }
    }
    if span >= DAYS_OF_WEEK && forecast_error(known, newest, Season::Week) <= best.1 {
        best.0 = Season::Week;
    }
    best.0
}

/// Median error of forecasting `newest` from `known`, apart from a constant level.
fn forecast_error(known: &[Point], newest: &[Point], season: Season) -> f64 {
    let profile = profile(known, season);
    let left = newest.iter().map(|point| point.value - at(&profile, point.at));
    let mut left: Vec<f64> = left.collect();
    let level = median(&mut left);
    median(&mut left.iter().map(|value| (value - level).abs()).collect::<Vec<_>>())
}

/// Subtracts from each day the level of the days before it; returns the residuals and the current
/// level.
fn track(points: &[Point]) -> (Vec<f64>, f64) {
    let end = points[points.len() - 1].at + 1;
    let whole_days = (end - points[0].at).div_euclid(DAY) + 1;
    let mut left = Vec::with_capacity(points.len());
    let mut day = end - DAY * whole_days;
    while day < end {
        let (from, to) = (index_at(points, day), index_at(points, day + DAY));
        // The first days have no history: their own first week is the best guess.
        let level = level_before(points, day)
            .or_else(|| middle(&points[from..index_at(points, day + LEVEL_DAYS * DAY)]))
            .unwrap_or_default();
        left.extend(points[from..to].iter().map(|point| point.value - level));
        day += DAY;
    }
    (left, level_before(points, end).unwrap_or_default())
}

/// The median of the seven days before `day`, extrapolated to the middle of that day by the trend
/// against the seven days before them; `None` with too little history.
fn level_before(points: &[Point], day: i64) -> Option<f64> {
    let begin = day - LEVEL_DAYS * DAY;
    let newest = middle(week_from(points, begin)?)?;
    let begin_before = begin - LEVEL_DAYS * DAY;
    let is_whole = points[0].at <= begin_before;
    let before = if is_whole { week_from(points, begin_before).and_then(middle) } else { None };
    Some(before.map_or(newest, |before| newest + TREND * (newest - before)))
}

/// The points of seven days; `None` with too few of them.
fn week_from(points: &[Point], begin: i64) -> Option<&[Point]> {
    let week = &points[index_at(points, begin)..index_at(points, begin + LEVEL_DAYS * DAY)];
    (week.len() >= 10).then_some(week)
}

/// The index of the first point at or after a time.
fn index_at(points: &[Point], time: i64) -> usize {
    points.partition_point(|point| point.at < time)
}

fn middle(points: &[Point]) -> Option<f64> {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    (!values.is_empty()).then(|| median(&mut values))
}

/// The moving mean of the last `reach` values.
pub(super) fn means(values: &[f64], reach: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let mut out = Vec::with_capacity(values.len());
    for (place, value) in values.iter().enumerate() {
        sum += value;
        if place >= reach {
            sum -= values[place - reach];
        }
        out.push(sum / count(reach.min(place + 1)));
    }
    out
}
