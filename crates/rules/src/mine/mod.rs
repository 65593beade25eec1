//! Mines a threshold out of a series' own past; pure.
//!
//! In one sentence: at this half hour of the week normal is X, and at this threshold you would have been called so many
//! times in the weeks that are known. The past is brought to a scale on which its noise is even, its week (or day) is
//! taken off as the median of each half hour, the level of the last seven days as well, so that growth is no event but a
//! drop of hours is. What is left is counted in spreads (1.4826 × the median of its absolute values), and the threshold
//! is the lowest one whose replay over the same past stays within the events that were asked for, and a quarter more.
//!
//! The surprising thing: a season is kept only if it foretells the newest part of the past better than no season does.

mod constant;
mod model;
mod past;
mod replay;
#[cfg(test)]
mod tests;

pub use constant::{Constant, Replayed, Subject, mine_constant, replay_constant};
pub use model::{Bound, Mined, mine};
pub use replay::{Event, walk, without};

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Days that are looked back.
const WINDOW_DAYS: i64 = 28;
/// Days whose median is the level.
const LEVEL_DAYS: i64 = 7;
/// Seconds of a slot of the week.
const SLOT_SECONDS: i64 = 1_800;
/// Slots of a day and of a week.
const SLOTS: (usize, usize) = (48, 336);
/// Points without which nothing is mined.
const POINTS_MIN: usize = 48;
/// Spreads below which nothing is an event, however calm the past was.
const FLOOR: f64 = 3.5;
/// By how much the threshold is above the lowest one that would do.
const MARGIN: f64 = 1.25;

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since 1970 UTC.
    pub at: i64,
    /// What was measured; finite.
    pub value: f64,
}

/// On what scale values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Whichever of the two has the evener noise.
    Auto,
    /// Logarithm: rates, latencies, bytes.
    Log,
    /// As they are.
    Raw,
}

/// On which side of normal an event lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Too much.
    Above,
    /// Too little.
    Below,
    /// Either.
    Both,
}

/// The mean of so many points is looked at, and may use this share of the events that were asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// 1 is the point itself.
    pub points: usize,
    /// The shares of all reaches are 1 together.
    pub share: f64,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The scale.
    pub scale: Scale,
    /// The side.
    pub side: Side,
    /// False events that are accepted in a week.
    pub false_per_week: f64,
    /// The means that are looked at.
    pub reaches: Vec<Reach>,
    /// Points in a row that make an event.
    pub hold: usize,
    /// Quiet points that end it.
    pub cool: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scale: Scale::Auto,
            side: Side::Both,
            false_per_week: 1.0,
            // With points of five minutes: now, half an hour, three hours.
            reaches: [(1, 0.4), (6, 0.3), (36, 0.3)]
                .map(|(points, share)| Reach { points, share })
                .to_vec(),
            hold: 1,
            cool: 12,
        }
    }
}

/// Which season was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Season {
    /// None that foretells better than none.
    None,
    /// Half hours of the day.
    Day,
    /// Half hours of the week.
    Week,
}

impl Season {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Day => "day",
            Self::Week => "week",
        }
    }
}

/// Why nothing was mined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TooLittle {
    /// The past is shorter than a day, or has fewer than 48 points.
    Past {
        /// Days from the first to the last point.
        days: f64,
        /// Points that are there.
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
                "{:.1} h of history with {points} points are known; a day with {POINTS_MIN} points is the least",
                days * 24.0
            ),
            Self::Constant => {
                f.write_str("the value never changed, so nothing is known of its noise")
            }
        }
    }
}

/// The median; NaN of nothing. The order of the values changes.
fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// 1.4826 × the median of the absolute values, or what comes nearest when more than half of them are 0.
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

/// Days of a span from first to last point, to the next whole hour: the last point stands for some minutes too.
#[expect(clippy::cast_precision_loss, reason = "spans of weeks in hours are far below 2^52")]
fn days(seconds: i64) -> f64 {
    ((seconds.max(0) + 3_599) / 3_600) as f64 / 24.0
}
