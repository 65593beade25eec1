//! Fields of `extract` and the making of times from numbers.

use jiff::civil::DateTime;

use crate::interval::DAY;
use crate::time_zone::{ZoneRule, wall_clock};

/// Value of a field of a time: an instant if it has a zone, else a wall time. `None` if times lack
/// the field.
#[expect(clippy::cast_precision_loss, reason = "extract has the type of floats")]
pub fn time_field(micros: i64, zone: Option<&ZoneRule>, field: &str) -> Option<f64> {
    let wall = match zone {
        Some(zone) => zone.wall_time(micros)?,
        None => micros,
    };
    let time = wall_clock(wall)?;
    let field = field.to_ascii_lowercase();
    let below_minute =
        i64::from(time.second()) * 1_000_000 + i64::from(time.subsec_nanosecond()) / 1000;
    Some(match field.as_str() {
        "epoch" => micros as f64 / 1e6,
        "julian" => 2_440_588.0 + wall as f64 / DAY as f64,
        "second" | "seconds" | "sec" | "s" => below_minute as f64 / 1e6,
        "millisecond" | "milliseconds" | "ms" | "msec" => below_minute as f64 / 1e3,
        "microsecond" | "microseconds" | "us" | "usec" => below_minute as f64,
        "timezone" => f64::from(zone?.text_at(micros)?.1),
        "timezone_hour" => f64::from(zone?.text_at(micros)?.1 / 3600),
        "timezone_minute" => f64::from(zone?.text_at(micros)?.1 / 60 % 60),
        _ => f64::from(date_field(time, &field)?),
    })
}

fn date_field(time: DateTime, field: &str) -> Option<i32> {
    let year = i32::from(time.year());
    let week = time.date().iso_week_date();
    Some(match field {
        "millennium" | "millenniums" | "millennia" => era_part::<1000>(year),
        "century" | "centuries" => era_part::<100>(year),
        "decade" | "decades" => year.div_euclid(10),
        "year" | "years" => {
            if year > 0 {
                year
            } else {
                year - 1
            }
        }
        "isoyear" => week.year().into(),
        "quarter" => (i32::from(time.month()) - 1) / 3 + 1,
        "month" | "months" => time.month().into(),
        "week" | "weeks" => week.week().into(),
        "day" | "days" => time.day().into(),
        "doy" => time.day_of_year().into(),
        "dow" => time.weekday().to_sunday_zero_offset().into(),
        "isodow" => time.weekday().to_monday_one_offset().into(),
        "hour" | "hours" => time.hour().into(),
        "minute" | "minutes" => time.minute().into(),
        _ => return None,
    })
}

/// Number of a century or millennium: the first begins with year 1.
fn era_part<const LENGTH: i32>(year: i32) -> i32 {
    if year > 0 { (year - 1) / LENGTH + 1 } else { year.div_euclid(LENGTH) }
}

/// Wall time of year, month, day, hour and minute, and seconds; `None` if it does not exist.
#[expect(clippy::cast_possible_truncation, reason = "below 61 seconds")]
pub fn wall_time_of(parts: [i64; 5], seconds: f64) -> Option<i64> {
    let [year, month, day, hour, minute] = parts;
    let year =
        i16::try_from(if year < 0 { year + 1 } else { year }).ok().filter(|_| parts[0] != 0)?;
    let date =
        jiff::civil::Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let days = date.since((jiff::Unit::Day, jiff::civil::date(1970, 1, 1))).ok()?.get_days();
    let is_clock =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&seconds);
    let micros = (seconds * 1e6).round() as i64;
    is_clock.then_some(i64::from(days) * DAY + (hour * 60 + minute) * 60_000_000 + micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_time_have_their_fractions() {
        let wall = wall_time_of([2026, 11, 20, 10, 11], 12.345_678).unwrap();
        for (field, expected) in [
            ("second", 12.345_678),
            ("milliseconds", 12_345.678),
            ("dow", 5.0),
            ("century", 21.0),
            ("week", 47.0),
        ] {
            assert_eq!(time_field(wall, None, field), Some(expected), "{field}");
        }
        assert_eq!(time_field(wall, None, "timezone"), None);
        assert_eq!(wall_time_of([2026, 2, 30, 0, 0], 0.0), None);
    }
}
