//! Times cut to a unit of the calendar.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use crate::interval::DAY;
use crate::time_zone::{ZoneRule, wall_clock};

/// Microseconds of units that all have one length; `None` for longer units.
fn size(unit: &str) -> Option<i64> {
    Some(match unit {
        "microsecond" | "microseconds" | "us" => 1,
        "millisecond" | "milliseconds" | "ms" => 1000,
        "second" | "seconds" => 1_000_000,
        "minute" | "minutes" => 60_000_000,
        "hour" | "hours" => 3_600_000_000,
        _ => return None,
    })
}

/// Wall time cut to a unit; `None` for an unknown unit.
pub fn trunc_wall(wall: i64, unit: &str) -> Option<i64> {
    let unit = unit.to_ascii_lowercase();
    if let Some(size) = size(&unit) {
        return Some(wall - wall.rem_euclid(size));
    }
    let date = wall_clock(wall)?.date();
    let first = first_day(date, &unit)?;
    let days = first.since((jiff::Unit::Day, jiff::civil::date(1970, 1, 1))).ok()?.get_days();
    Some(i64::from(days) * DAY)
}

/// First year of a century or millennium: they begin with a year 1.
fn era_start<const LENGTH: i16>(year: i16) -> i16 {
    (year - 1).div_euclid(LENGTH) * LENGTH + 1
}

fn first_day(date: Date, unit: &str) -> Option<Date> {
    let year = date.year();
    match unit.trim_end_matches('s') {
        "day" => Some(date),
        "week" => {
            let days = date.weekday().since(Weekday::Monday);
            date.checked_sub(i64::from(days).days()).ok()
        }
        "month" => Some(date.first_of_month()),
        "quarter" => Date::new(year, (date.month() - 1) / 3 * 3 + 1, 1).ok(),
        "year" => Some(date.first_of_year()),
        "decade" => Date::new(year.div_euclid(10) * 10, 1, 1).ok(),
        "century" | "centurie" => Date::new(era_start::<100>(year), 1, 1).ok(),
        "millennium" | "millennia" => Date::new(era_start::<1000>(year), 1, 1).ok(),
        _ => None,
    }
}

/// Instant cut to a unit on the clock of a zone. Units below a day keep the offset of the instant, so
/// that the hour that a clock repeats stays two hours.
pub fn trunc_instant(instant: i64, zone: &ZoneRule, unit: &str) -> Option<i64> {
    let wall = zone.wall_time(instant)?;
    let cut = trunc_wall(wall, unit)?;
    if size(&unit.to_ascii_lowercase()).is_some() {
        return Some(instant - (wall - cut));
    }
    zone.instant(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        let time: jiff::civil::DateTime = text.parse().unwrap();
        jiff::tz::Offset::UTC.to_timestamp(time).unwrap().as_microsecond()
    }

    #[test]
    fn units_begin_where_the_calendar_says() {
        for (unit, expected) in [
            ("hour", "2026-11-20T10:00"),
            ("week", "2026-11-16T00:00"),
            ("quarter", "2026-10-01T00:00"),
            ("decade", "2020-01-01T00:00"),
            ("century", "2001-01-01T00:00"),
            ("millennium", "2001-01-01T00:00"),
        ] {
            let found = trunc_wall(micros("2026-11-20T10:11:12"), unit);
            assert_eq!(found, Some(micros(expected)), "{unit}");
        }
        assert_eq!(trunc_wall(0, "fortnight"), None);
    }

    /// Also risingwavelabs/risingwave#12072 and apache/datafusion-comet#2649.
    #[test]
    fn repeated_hour_stays_two_hours() {
        let berlin = ZoneRule::parse("Europe/Berlin").unwrap();
        for hour in ["2026-10-25T00:00", "2026-10-25T01:00"] {
            let start = micros(hour);
            assert_eq!(
                trunc_instant(start + 1_800_000_000, &berlin, "hour"),
                Some(start),
                "{hour}"
            );
        }
        // Pacific time ends on another day, and a quarter may begin with another offset.
        let pacific = ZoneRule::parse("US/Pacific").unwrap();
        for hour in ["2023-11-05T08:00", "2023-11-05T09:00"] {
            let start = micros(hour);
            assert_eq!(trunc_instant(start + 60_000_000, &pacific, "hour"), Some(start), "{hour}");
        }
        let denver = ZoneRule::parse("America/Denver").unwrap();
        let quarter = trunc_instant(micros("2026-11-20T12:00"), &denver, "quarter");
        assert_eq!(quarter, Some(micros("2026-10-01T06:00")));
        let day = trunc_instant(micros("2026-10-25T12:00"), &berlin, "day");
        assert_eq!(day, Some(micros("2026-10-24T22:00")));
    }
}
