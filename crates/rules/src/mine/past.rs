//! The past of a series as the model needs it: a scale, a season, a level, and what is left.

use super::{DAY, LEVEL_DAYS, Point, SLOT_SECONDS, SLOTS, Scale, Season, count, days, median};

/// A season must make the error of foretelling smaller by this factor to be kept.
const SEASON_GAIN: f64 = 0.85;
/// The week must beat the day by so much.
const WEEK_GAIN: f64 = 0.97;
/// Days after which a season of a day, and of a week, is tried.
const DAYS_OF_DAY: f64 = 2.95;
const DAYS_OF_WEEK: f64 = 20.0;
/// From the middle of the last seven days to the middle of the next one, in weeks.
const TREND: f64 = 4.0 / 7.0;
/// What is added before a logarithm, as a share of the middle value: 0 has no logarithm.
const OFFSET: f64 = 0.01;

/// How values become comparable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) is_log: bool,
    pub(super) offset: f64,
}

impl Measure {
    /// Raw values.
    pub(super) const RAW: Self = Self { is_log: false, offset: 0.0 };

    /// The logarithm for these points; raw when a value is negative.
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

/// Scale, season and level, and what they leave of the past.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) measure: Measure,
    pub(super) season: Season,
    pub(super) profile: Vec<f64>,
    pub(super) level: f64,
    /// One per point.
    pub(super) residuals: Vec<f64>,
}

impl Past {
    /// Takes a past apart; `points` is not empty.
    pub(super) fn of(points: &[Point], scale: Scale) -> Self {
        let raw = || Self::on(points, Measure::RAW);
        let log = || Self::on(points, Measure::log_of(points));
        match scale {
            Scale::Raw => raw(),
            Scale::Log => log(),
            Scale::Auto => {
                let (raw, log) = (raw(), log());
                if log.measure.is_log && log.unevenness(points) < raw.unevenness(points) {
                    log
                } else {
                    raw
                }
            }
        }
    }

    fn on(points: &[Point], measure: Measure) -> Self {
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

    /// By how many times the noise of the busier half differs from that of the calmer one, as a logarithm; without a
    /// season there are no halves, and raw values are as good as any.
    fn unevenness(&self, points: &[Point]) -> f64 {
        if self.season == Season::None {
            return if self.measure.is_log { f64::INFINITY } else { 0.0 };
        }
        let middle = median(&mut self.profile.clone());
        let noise = |is_busy: bool| {
            let mut sizes: Vec<f64> = points
                .iter()
                .zip(&self.residuals)
                .filter(|(point, _)| (at(&self.profile, point.at) > middle) == is_busy)
                .map(|(_, residual)| residual.abs())
                .collect();
            median(&mut sizes).max(1e-12)
        };
        (noise(true) / noise(false)).ln().abs()
    }
}

/// The normal of a time in a profile of a week, a day or nothing.
pub(super) fn at(profile: &[f64], at: i64) -> f64 {
    profile[slot(profile.len(), at)]
}

fn slot(slots: usize, at: i64) -> usize {
    let slots_since = at.div_euclid(SLOT_SECONDS);
    let number = i64::try_from(slots).unwrap_or(1);
    usize::try_from(slots_since.rem_euclid(number)).unwrap_or_default()
}

/// The median of each half hour with its two neighbours.
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
    let smooth = |middle: usize| {
        let around = [slots - 1, 0, 1].map(|step| &by_slot[(middle + step) % slots]);
        let mut values: Vec<f64> = around.into_iter().flatten().copied().collect();
        if values.is_empty() { whole } else { median(&mut values) }
    };
    (0..slots).map(smooth).collect()
}

/// The season that foretells the newest part of the past best, if it is much better than none.
fn season_of(points: &[Point]) -> Season {
    let (first, last) = (points[0].at, points[points.len() - 1].at);
    let span = days(last - first);
    let newest = ((last - first) / 4).clamp(DAY, 7 * DAY);
    let cut = points.partition_point(|point| point.at < last - newest);
    if cut < 10 || points.len() - cut < 10 {
        return Season::None;
    }
    let error = |season| {
        let profile = profile(&points[..cut], season);
        let left = points[cut..].iter().map(|point| point.value - at(&profile, point.at));
        let mut left: Vec<f64> = left.collect();
        let level = median(&mut left);
        median(&mut left.iter().map(|value| (value - level).abs()).collect::<Vec<_>>())
    };
    let mut best = (Season::None, SEASON_GAIN * error(Season::None));
    if span >= DAYS_OF_DAY {
        let by_day = error(Season::Day);
        if by_day <= best.1 {
            best = (Season::Day, WEEK_GAIN * by_day);
        }
    }
    if span >= DAYS_OF_WEEK && error(Season::Week) <= best.1 {
        best.0 = Season::Week;
    }
    best.0
}

/// Takes off each day the level of the days before it; what is left, and the level that holds next.
fn track(points: &[Point]) -> (Vec<f64>, f64) {
    let end = points[points.len() - 1].at + 1;
    let before = |time: i64| points.partition_point(|point| point.at < time);
    let whole_days = (end - points[0].at).div_euclid(DAY) + 1;
    let mut left = Vec::with_capacity(points.len());
    let mut day = end - DAY * whole_days;
    while day < end {
        let (from, to) = (before(day), before(day + DAY));
        // The first days have nothing before them: their own first week is the best guess.
        let level = level_before(points, day)
            .or_else(|| middle(&points[from..before(day + LEVEL_DAYS * DAY)]))
            .unwrap_or_default();
        left.extend(points[from..to].iter().map(|point| point.value - level));
        day += DAY;
    }
    (left, level_before(points, end).unwrap_or_default())
}

/// The median of the seven days before a moment, carried on to the middle of the day that begins there by how much those
/// seven lie above the seven before them; `None` when too little is known.
fn level_before(points: &[Point], day: i64) -> Option<f64> {
    let week = |weeks: i64| {
        let begin = day - weeks * LEVEL_DAYS * DAY;
        let from = points.partition_point(|point| point.at < begin);
        let to = points.partition_point(|point| point.at < begin + LEVEL_DAYS * DAY);
        (from..to).len().ge(&10).then_some(&points[from..to])
    };
    let newest = middle(week(1)?)?;
    let is_whole = points[0].at <= day - 2 * LEVEL_DAYS * DAY;
    let before = if is_whole { week(2).and_then(middle) } else { None };
    Some(before.map_or(newest, |before| newest + TREND * (newest - before)))
}

fn middle(points: &[Point]) -> Option<f64> {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    (!values.is_empty()).then(|| median(&mut values))
}

/// The mean of the last `reach` values at each of them.
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
