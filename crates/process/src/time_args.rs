//! Times as people write them on the command line: spans, instants, and widths of slices.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_tables::parse_duration;

/// The narrowest slice: timestamps of packets are not more exact.
const WIDTH_MIN_NS: i64 = 1_000_000;
const WIDTH_MAX_NS: i64 = 86_400_000_000_000;
const CAPTURE_MIN_NS: i64 = 100_000_000;

/// An instant: `2026-11-21T14:00:00Z`, `2026-11-21 14:00`, in UTC unless the text has an offset; a
/// date alone is its midnight. `None` when the text is no instant.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    let utc = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| utc().map(|zoned| zoned.timestamp()))
}

/// How far back to look: `30d`, `12h`, `1h30m` or `45s`, at most 400 days.
///
/// # Errors
/// How to write it.
pub fn parse_since(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).map_err(|error| error.to_string())?;
    if (1..=400 * 86_400).contains(&span.as_secs()) {
        Ok(span)
    } else {
        Err("it is from 1s to 400d".to_owned())
    }
}

/// The width of a slice in nanoseconds: `100ms`, `1.5s`.
///
/// # Errors
/// How to write it.
pub fn parse_width(text: &str) -> Result<i64, String> {
    let width = parse_nanos(text)?;
    if (WIDTH_MIN_NS..=WIDTH_MAX_NS).contains(&width) {
        Ok(width)
    } else {
        Err("a slice is between 1ms and 24h wide".to_owned())
    }
}

/// How long to capture, in nanoseconds: `10s`, `1m`.
///
/// # Errors
/// How to write it.
pub fn parse_capture_span(text: &str) -> Result<i64, String> {
    let span = parse_nanos(text)?;
    if (CAPTURE_MIN_NS..=WIDTH_MAX_NS).contains(&span) {
        Ok(span)
    } else {
        Err("it is between 100ms and 24h".to_owned())
    }
}

fn parse_nanos(text: &str) -> Result<i64, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    Ok(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// An instant of a capture in nanoseconds since 1970: RFC 3339, or seconds since 1970.
///
/// # Errors
/// How to write it.
pub fn parse_capture_instant(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && (0.0..9e9).contains(&seconds)
    {
        #[expect(clippy::cast_possible_truncation, reason = "it was found to be small")]
        return Ok((seconds * 1e9).round() as i64);
    }
    // A date alone is refused: its midnight is rarely what is meant.
    let time = parse_instant(text).filter(|_| text.contains(':')).ok_or_else(wrong_instant)?;
    i64::try_from(time.as_nanosecond()).ok().filter(|ns| *ns >= 0).ok_or_else(wrong_instant)
}

fn wrong_instant() -> String {
    "write it as 2026-11-21T10:00:00Z, or as seconds since 1970".to_owned()
}

#[cfg(test)]
mod tests {
    use weir_tables::Micros;

    use super::*;

    #[test]
    fn instants_are_utc_unless_they_say_otherwise() {
        for (text, expected) in [
            ("2026-11-21T14:00:00Z", "2026-11-21T14:00:00Z"),
            ("2026-11-21 14:00+02:00", "2026-11-21T12:00:00Z"),
            ("2026-11-21 14:00:00.5", "2026-11-21T14:00:00.5Z"),
            ("2026-11-21T14:00", "2026-11-21T14:00:00Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
        ] {
            assert_eq!(
                parse_instant(text).map(|at| at.to_string()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for wrong in ["", "yesterday", "14:00", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z"] {
            assert_eq!(parse_instant(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn widths_have_a_unit_and_a_range() {
        assert_eq!(parse_width("100ms"), Ok(100_000_000));
        assert_eq!(parse_width("1.5s"), Ok(1_500_000_000));
        for wrong in ["", "5", "s", "1.2.3s", "0s", "2d", "-1s", "100us", "48h"] {
            assert!(parse_width(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn instants_of_captures_have_a_time_of_day() {
        for text in ["2026-11-21T10:00:00.5Z", "1970-01-01T00:00:00Z", "2024-02-29 23:59:59"] {
            let ns = parse_capture_instant(text).expect("a time");
            let back = Micros(ns / 1000).to_string();
            assert_eq!(back[..19], text.replace(' ', "T")[..19], "{text}");
        }
        assert_eq!(parse_capture_instant("12.25"), Ok(12_250_000_000));
        for wrong in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01"]
        {
            assert!(parse_capture_instant(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn looking_back_has_an_end() {
        assert_eq!(parse_since("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_since("1h30m"), Ok(Duration::from_secs(5_400)));
        assert!(parse_since("30").is_err() && parse_since("9000d").is_err());
        assert!(parse_since("1mo").is_err_and(|why| why.contains("write days")));
    }
}
