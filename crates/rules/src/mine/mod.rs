//! Mines a threshold from a series' own history; pure.
//!
//! The result reads: at this half hour of the week X is normal, and this threshold would have fired
//! N times in the known weeks. Steps:
//!
//! 1. Choose a scale (raw or log) on which the noise is even.
//! 2. Subtract the season: the median of each half hour of the week (or day).
//! 3. Subtract the level of the last seven days, so that growth is no event but a drop of hours is.
//! 4. Measure the residuals in spreads (1.4826 × their median absolute value).
//! 5. Take the lowest threshold whose replay over the same history stays within the wanted number
//!    of events, plus a quarter.
//!
//! For example: 5,000 requests per five minutes every weekday at 14:00, spread 3 %, replay budget
//! of one event a week met at 4 spreads: threshold 5 spreads, an event below 4,250 or above 5,750.
//!
//! The surprising thing: a season is kept only if it forecasts the newest history better than no
//! season.

mod constant;
mod model;
mod past;
mod replay;
#[cfg(test)]
mod tests;

pub use constant::{ConstantThreshold, NamedSeries, ReplayedEvent, mine_constant, replay_constant};
pub use model::{SeriesModel, WindowBound, mine};
pub use replay::{Event, walk, without};

/// Seconds per day.
const DAY: i64 = 86_400;
/// Days of history in use.
const WINDOW_DAYS: i64 = 28;
/// Days whose median is the level.
const LEVEL_DAYS: i64 = 7;
/// Seconds per slot.
const SLOT_SECONDS: i64 = 1_800;
/// Slots per day and per week.
const SLOTS: (usize, usize) = (48, 336);
/// Minimum number of points.
const POINTS_MIN: usize = 48;
/// Minimum threshold in spreads, however quiet the history.
const FLOOR: f64 = 3.5;
/// Factor above the lowest sufficient threshold.
const MARGIN: f64 = 1.25;

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since 1970 UTC.
    pub at: i64,
    /// Finite.
    pub value: f64,
}

/// The scale on which values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Raw or log, whichever has more even noise.
    Auto,
    /// Logarithm: rates, latencies, bytes.
    Log,
    /// Unchanged.
    Raw,
}

/// The side of normal on which an event lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Too much.
    Above,
    /// Too little.
    Below,
    /// Either.
    Both,
}

/// A moving mean and its share of the event budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanWindow {
    /// Window length; 1 is the point itself.
    pub points: usize,
    /// The shares of all windows add up to 1.
    pub share: f64,
}

/// Settings of the mining.
#[derive(Clone, Debug, PartialEq)]
pub struct MiningOptions {
    /// Scale of the values.
    pub scale: Scale,
    /// Side of an event.
    pub side: Side,
    /// Accepted false events per week.
    pub false_per_week: f64,
    /// Moving means to evaluate.
    pub reaches: Vec<MeanWindow>,
    /// Consecutive points that start an event.
    pub hold: usize,
    /// Quiet points that end an event.
    pub cool: usize,
}

impl Default for MiningOptions {
    fn default() -> Self {
        Self {
            scale: Scale::Auto,
            side: Side::Both,
            false_per_week: 1.0,
            // With points of five minutes: now, half an hour, three hours.
            reaches: [(1, 0.4), (6, 0.3), (36, 0.3)]
                .map(|(points, share)| MeanWindow { points, share })
                .to_vec(),
            hold: 1,
            cool: 12,
        }
    }
}

/// The season of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Season {
    /// None improves the forecast.
    None,
    /// Half hours of the day.
    Day,
    /// Half hours of the week.
    Week,
}

impl Season {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Day => "day",
            Self::Week => "week",
        }
    }
}

/// Reasons for too little history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TooLittle {
    /// The history is shorter than a day, or has fewer than 48 points.
    Past {
        /// Days from the first to the last point.
        days: f64,
        /// Number of points.
        points: usize,
    },
    /// The value never changed: any change would be the first one.
    Constant,
}

impl std::fmt::Display for TooLittle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Past { days, points } => write!(
                f,
                "{:.1} h of history with {points} points; at least a day with {POINTS_MIN} points is needed",
                days * 24.0
            ),
            Self::Constant => f.write_str("the value never changed, so its noise is unknown"),
        }
    }
}

/// The median, NaN for an empty slice. Reorders the values.
fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// 1.4826 × the median absolute value, or the scaled mean if more than half of the values are 0.
fn spread(values: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    let robust = 1.4826 * median(&mut sizes);
    if robust > 1e-12 {
        return robust;
    }
    1.2533 * sizes.iter().sum::<f64>() / count(sizes.len().max(1))
}

#[expect(clippy::cast_precision_loss, reason = "points of four weeks are far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}

/// Days from first to last point, rounded up to the hour: the last point covers some minutes too.
#[expect(clippy::cast_precision_loss, reason = "spans of weeks in hours are far below 2^52")]
fn days(seconds: i64) -> f64 {
    ((seconds.max(0) + 3_599) / 3_600) as f64 / 24.0
}
