//! Time zones by the names that PostgreSQL takes: abbreviations, names of the tz database, offsets.
//!
//! Offsets in names are POSIX's: `+02` and `UTC+2` are two hours west of Greenwich. A wall time that
//! a clock skips is read with the offset before the change, one that occurs twice with the offset
//! after it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Abbreviations that are no names of the tz database or mean a fixed offset, in minutes.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("z", 0),
    ("utc", 0),
    ("gmt", 0),
    ("ut", 0),
    ("zulu", 0),
    ("wet", 0),
    ("west", 60),
    ("bst", 60),
    ("cet", 60),
    ("cest", 120),
    ("met", 60),
    ("mest", 120),
    ("eet", 120),
    ("eest", 180),
    ("msk", 180),
    ("jst", 540),
    ("kst", 540),
    ("aest", 600),
    ("aedt", 660),
    ("acst", 570),
    ("awst", 480),
    ("nzst", 720),
    ("nzdt", 780),
    ("ast", -240),
    ("adt", -180),
    ("est", -300),
    ("edt", -240),
    ("cst", -360),
    ("cdt", -300),
    ("mst", -420),
    ("mdt", -360),
    ("pst", -480),
    ("pdt", -420),
    ("akst", -540),
    ("akdt", -480),
    ("hst", -600),
];

/// Largest offset from Greenwich that a name may have, in seconds.
const OFFSET_MAX: i32 = 16 * 3600 - 1;

/// A time zone.
#[derive(Clone, Debug)]
pub struct ZoneRule(TimeZone);

impl ZoneRule {
    /// Zone with this name; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        let lower = name.to_ascii_lowercase();
        if let Some((_, minutes)) = ABBREVIATIONS.iter().find(|(short, _)| *short == lower) {
            return Self::at_offset(minutes * 60);
        }
        if let Some(west) = posix_offset(name) {
            return Self::at_offset(-west);
        }
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte));
        if !is_name || name.is_empty() {
            return None;
        }
        TimeZone::get(name).ok().map(Self)
    }

    /// Zone with a fixed offset in seconds east of Greenwich.
    pub fn at_offset(seconds: i32) -> Option<Self> {
        if seconds.abs() > OFFSET_MAX {
            return None;
        }
        Offset::from_seconds(seconds).ok().map(|offset| Self(TimeZone::fixed(offset)))
    }

    /// Wall time of an instant; `None` beyond the years that exist.
    pub fn wall_time(&self, instant: i64) -> Option<i64> {
        let offset = self.0.to_offset(Timestamp::from_microsecond(instant).ok()?);
        instant.checked_add(i64::from(offset.seconds()) * 1_000_000)
    }

    /// Instant of a wall time; `None` beyond the years that exist.
    pub fn instant(&self, wall: i64) -> Option<i64> {
        let offset = match self.0.to_ambiguous_timestamp(wall_clock(wall)?).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        wall.checked_sub(i64::from(offset.seconds()) * 1_000_000)
    }

    /// Abbreviation and offset in seconds at an instant.
    pub fn text_at(&self, instant: i64) -> Option<(String, i32)> {
        let info = self.0.to_offset_info(Timestamp::from_microsecond(instant).ok()?);
        Some((info.abbreviation().to_owned(), info.offset().seconds()))
    }
}

/// Date and time of day of a wall time.
pub(crate) fn wall_clock(wall: i64) -> Option<DateTime> {
    let instant = Timestamp::from_microsecond(wall).ok()?;
    Some(Offset::UTC.to_datetime(instant))
}

/// Seconds west of Greenwich of a POSIX name such as `UTC+2` or `-05:30`.
fn posix_offset(name: &str) -> Option<i32> {
    let at = name.find(['+', '-'])?;
    let (label, offset) = name.split_at(at);
    if !label.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let mut seconds = 0;
    let mut unit = 3600;
    for part in offset[1..].split(':') {
        if part.is_empty() || part.len() > 2 || unit == 0 {
            return None;
        }
        seconds += part.parse::<i32>().ok()? * unit;
        unit /= 60;
    }
    Some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        let time: DateTime = text.parse().unwrap();
        Offset::UTC.to_timestamp(time).unwrap().as_microsecond()
    }

    #[test]
    fn skipped_wall_times_take_the_offset_before_and_repeated_ones_the_offset_after() {
        let berlin = ZoneRule::parse("europe/berlin").unwrap();
        let skipped = berlin.instant(micros("2026-03-29T02:30")).unwrap();
        assert_eq!(skipped, micros("2026-03-29T01:30"));
        let repeated = berlin.instant(micros("2026-10-25T02:30")).unwrap();
        assert_eq!(repeated, micros("2026-10-25T01:30"));
        assert_eq!(berlin.wall_time(repeated), Some(micros("2026-10-25T02:30")));
    }

    #[test]
    fn offsets_in_names_are_west_of_greenwich() {
        let west = ZoneRule::parse("+02").unwrap();
        assert_eq!(west.wall_time(0), Some(-7_200_000_000));
        assert_eq!(ZoneRule::parse("-05:30").unwrap().wall_time(0), Some(19_800_000_000));
        assert!(ZoneRule::parse("+99").is_none());
        assert!(ZoneRule::parse("../etc/passwd").is_none());
        assert!(ZoneRule::parse("").is_none());
    }
}
