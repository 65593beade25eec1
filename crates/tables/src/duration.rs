//! Durations as people write them, in the CLI, the configuration, rules and the API.
//!
//! The grammar is jiff's friendly format: `500ms`, `90s`, `1.5h`, `1h30m`, `2 days`. A day has 24
//! hours, `m` is minutes. Refused: negative durations, clock times such as `1:30:00`, which read
//! like a time of day, and months and years, which vary in length.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use jiff::{Span, SpanRelativeTo};

/// Why a text is not a duration, and how to write one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationError(&'static str);

impl Display for DurationError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DurationError {}

const UNREADABLE: DurationError = DurationError("write it as 100ms, 90s, 1h30m or 7d");
const CALENDAR: DurationError =
    DurationError("months and years vary in length: write days, such as 30d");
const FRACTION: DurationError = DurationError("write whole seconds, such as 10s, 1h30m or 7d");

/// Parses `500ms`, `90s`, `1.5h`, `1h30m` or `2 days`.
///
/// # Errors
/// The text is not a duration, is negative, or has months or years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    static PARSER: SpanParser = SpanParser::new();
    let text = text.trim();
    if text.contains(':') {
        return Err(UNREADABLE);
    }
    // The friendly format needs a digit before the point.
    let with_digit = text.starts_with('.').then(|| format!("0{text}"));
    let text = with_digit.as_deref().unwrap_or(text);
    let span: Span = PARSER.parse_span(text).map_err(|_| UNREADABLE)?;
    if span.get_months() != 0 || span.get_years() != 0 {
        return Err(CALENDAR);
    }
    let exact = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| UNREADABLE)?;
    exact.try_into().map_err(|_| UNREADABLE)
}

/// Parses a duration of whole seconds: `90s`, `1h30m`, `7d`.
///
/// # Errors
/// See [`parse_duration`]; also a duration with a fraction of a second.
pub fn parse_whole_seconds(text: &str) -> Result<u64, DurationError> {
    let duration = parse_duration(text)?;
    if duration.subsec_nanos() == 0 { Ok(duration.as_secs()) } else { Err(FRACTION) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_a_duration() {
        for (text, millis) in [
            ("500ms", 500),
            ("0s", 0),
            ("90s", 90_000),
            ("+90s", 90_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("100 ms", 100),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1.5h", 5_400_000),
            ("1h30m", 5_400_000),
            ("1h 30min", 5_400_000),
            ("30d", 2_592_000_000),
            ("2 days", 172_800_000),
            ("1w", 604_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_has_no_exact_length_is_refused() {
        for text in [
            "",
            "s",
            "30",
            "-1s",
            "9é",
            "soon",
            "5m ago",
            "1:30:00",
            "14:00",
            "2 fortnights",
            "99999999999999999999d",
        ] {
            assert_eq!(parse_duration(text), Err(UNREADABLE), "{text}");
        }
        for text in ["1mo", "2 months", "1y", "1 year 2 days"] {
            assert_eq!(parse_duration(text), Err(CALENDAR), "{text}");
        }
    }

    #[test]
    fn whole_seconds_have_no_fraction() {
        assert_eq!(parse_whole_seconds("1h30m"), Ok(5_400));
        assert_eq!(parse_whole_seconds("1000ms"), Ok(1));
        assert_eq!(parse_whole_seconds("1500ms"), Err(FRACTION));
        assert_eq!(parse_whole_seconds("1mo"), Err(CALENDAR));
    }
}
