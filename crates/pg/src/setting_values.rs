//! Values of settings that must be understood, since they change answers or end queries: durations,
//! time zones, schemas. A value that cannot have its effect is refused.

use std::time::Duration;

use arrow_array::timezone::Tz;

use crate::error::PgError;

/// Schemas that a search path can name. `pg_catalog` is always searched.
const SCHEMAS: [&str; 3] = ["public", "future", "information_schema"];

/// Units of durations, in microseconds, longest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Parses a duration such as `5s`, `1.5 min`, or milliseconds without a unit; `None` if it is none.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..end].trim().parse().ok()?;
    let unit = match &text[end..] {
        "" => "ms",
        unit => unit,
    };
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let seconds = number * Duration::from_micros(*micros).as_secs_f64();
    // PostgreSQL's limit: an int4 of milliseconds.
    let is_valid = (0.0..=2_147_483.647).contains(&seconds);
    is_valid.then(|| Duration::from_millis(whole_millis(seconds)))
}

fn whole_millis(seconds: f64) -> u64 {
    let rounded = Duration::from_secs_f64(seconds) + Duration::from_micros(500);
    u64::try_from(rounded.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a duration in the largest unit without a fraction, as `show` does.
pub(crate) fn shown_duration(duration: Duration) -> String {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return "0".to_owned();
    }
    let unit = UNITS.iter().find(|(_, unit)| micros.is_multiple_of(*unit));
    unit.map_or_else(String::new, |(name, unit)| format!("{}{name}", micros / unit))
}

/// A time zone as the engine takes it: a name of the IANA database, or an offset such as `+02:00`.
///
/// # Errors
/// `22023`.
pub(crate) fn time_zone(text: &str) -> Result<String, PgError> {
    let trimmed = text.trim();
    // `SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE`
    let interval = trimmed.strip_prefix("INTERVAL ").or_else(|| trimmed.strip_prefix("interval "));
    if let Some(rest) = interval {
        let offset = rest.split_whitespace().next().unwrap_or_default();
        return offset.parse::<Tz>().map(|_| offset.to_owned()).map_err(|_| no_zone(text));
    }
    if let Ok(hours) = trimmed.parse::<f64>() {
        return offset_of(hours).ok_or_else(|| no_zone(text));
    }
    if trimmed.starts_with(['+', '-']) {
        return Err(PgError::new("22023", format!("cannot set `TimeZone` to `{text}`: ambiguous"))
            .hint("PostgreSQL reads this as POSIX, west of Greenwich; set a name such as `Europe/Berlin`, or hours east without minutes"));
    }
    if let Some(offset) = posix_offset(trimmed) {
        return Ok(offset);
    }
    let name = match trimmed.to_ascii_uppercase().as_str() {
        "UTC" | "GMT" | "Z" | "ZULU" | "UCT" | "ETC/UTC" | "GREENWICH" => "UTC".to_owned(),
        _ => trimmed.to_owned(),
    };
    name.parse::<Tz>().map(|_| name).map_err(|_| no_zone(text))
}

fn no_zone(text: &str) -> PgError {
    PgError::new("22023", format!("cannot set `TimeZone` to `{text}`: there is no such time zone"))
        .hint("names are those of the IANA database, such as `Europe/Berlin`")
}

/// Offset of `GMT-02:00`, in which hours are counted to the west: JDBC sends zones so.
fn posix_offset(text: &str) -> Option<String> {
    let rest = text.strip_prefix("GMT").or_else(|| text.strip_prefix("UTC"))?;
    let sign = match rest.chars().next()? {
        '-' => '+',
        '+' => '-',
        _ => return None,
    };
    let (hours, minutes) = rest[1..].split_once(':').unwrap_or((&rest[1..], "0"));
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 16 && minutes < 60).then(|| format!("{sign}{hours:02}:{minutes:02}"))
}

/// Offset of some hours east of Greenwich.
fn offset_of(hours: f64) -> Option<String> {
    if hours.is_nan() || hours.abs() > 15.0 {
        return None;
    }
    let seconds = Duration::from_secs_f64(hours.abs() * 3600.0).as_secs();
    let sign = if hours < 0.0 { '-' } else { '+' };
    Some(format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60))
}

/// Checks a search path: the engine searches one schema beside `pg_catalog`.
///
/// # Errors
/// `0A000` for a path with several schemas of weir.
pub(crate) fn check_search_path(text: &str) -> Result<(), PgError> {
    let own = search_path(text).filter(|name| SCHEMAS.contains(&name.as_str())).count();
    if own > 1 {
        let text = format!("cannot set `search_path` to `{text}`: only one schema is searched");
        return Err(PgError::unsupported(text).hint("name tables of the others with their schema"));
    }
    Ok(())
}

/// Names of a search path.
fn search_path(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|name| name.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_fractions() {
        for (text, millis, shown) in [
            ("0", 0, "0"),
            ("5000", 5000, "5s"),
            ("1500", 1500, "1500ms"),
            ("5s", 5000, "5s"),
            ("1.5s", 1500, "1500ms"),
            ("2 min", 120_000, "2min"),
            ("1h", 3_600_000, "1h"),
            ("1d", 86_400_000, "1d"),
            ("500us", 1, "1ms"),
            ("90s", 90_000, "90s"),
        ] {
            let parsed = duration(text).expect(text);
            assert_eq!(parsed, Duration::from_millis(millis), "{text}");
            assert_eq!(shown_duration(parsed), shown, "{text}");
        }
        for wrong in ["", "-1", "soon", "5 fortnights", "5S", "9999999999s", "nan"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn time_zones_are_names_or_hours_east() {
        for (text, zone) in [
            ("UTC", "UTC"),
            ("gmt", "UTC"),
            ("Europe/Berlin", "Europe/Berlin"),
            ("2", "+02:00"),
            ("-5.5", "-05:30"),
            ("GMT-02:00", "+02:00"),
            ("UTC+5", "-05:00"),
            ("INTERVAL +02:00 HOUR TO MINUTE", "+02:00"),
        ] {
            assert_eq!(time_zone(text).as_deref(), Ok(zone), "{text}");
        }
        for wrong in ["Mars/Olympus", "+02:00", "", "99", "GMT-99"] {
            assert_eq!(time_zone(wrong).expect_err(wrong).state, "22023", "{wrong}");
        }
    }

    #[test]
    fn a_search_path_has_one_schema_of_rows() {
        for fine in ["public", "\"$user\", public", "pg_catalog", "future", "", "nowhere, future"] {
            assert_eq!(check_search_path(fine), Ok(()), "{fine}");
        }
        assert_eq!(check_search_path("future, public").expect_err("two").state, "0A000");
    }
}
