//! Times on the command line: widths such as `100ms`, instants such as `2026-11-21T10:00:00Z`.

use crate::instant;

/// The narrowest slice: a packet's own time is not more exact.
const WIDTH_MIN_NS: i64 = 1_000_000;
const WIDTH_MAX_NS: i64 = 86_400_000_000_000;

/// A width in nanoseconds.
pub(crate) fn parse_width(text: &str) -> Result<i64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit.trim() {
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return Err("write it as 100ms, 1s, 1m or 1h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "write it as 100ms or 1.5s".to_owned())?;
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused below")]
    let width = (number * unit_ns).round() as i64;
    if (WIDTH_MIN_NS..=WIDTH_MAX_NS).contains(&width) {
        Ok(width)
    } else {
        Err("a slice is between 1ms and 24h wide".to_owned())
    }
}

/// How long to capture, in nanoseconds: 10s, 1m.
pub(crate) fn parse_span(text: &str) -> Result<i64, String> {
    match parse_width(text) {
        Ok(span) if span >= 100_000_000 => Ok(span),
        Err(why) if why.starts_with("write") => Err("write it as 10s, 1m or 1h".to_owned()),
        _ => Err("it is between 100ms and 24h".to_owned()),
    }
}

/// An instant in nanoseconds since 1970: RFC 3339, in UTC unless it says otherwise, or seconds.
pub(super) fn parse_instant(text: &str) -> Result<i64, String> {
    let wrong = || "write it as 2026-11-21T10:00:00Z, or as seconds since 1970".to_owned();
    if let Ok(seconds) = text.parse::<f64>()
        && (0.0..9e9).contains(&seconds)
    {
        #[expect(clippy::cast_possible_truncation, reason = "it was found to be small")]
        return Ok((seconds * 1e9).round() as i64);
    }
    // A date alone would be a midnight that nobody meant.
    let time = instant::parse(text).filter(|_| text.contains(':')).ok_or_else(wrong)?;
    i64::try_from(time.as_nanosecond()).ok().filter(|ns| *ns >= 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use weir_tables::Micros;

    use super::{parse_instant, parse_width};

    #[test]
    fn widths_have_a_unit_and_a_range() {
        assert_eq!(parse_width("100ms"), Ok(100_000_000));
        assert_eq!(parse_width("1.5s"), Ok(1_500_000_000));
        for wrong in ["", "5", "s", "1.2.3s", "0s", "2d", "-1s", "100us", "48h"] {
            assert!(parse_width(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn instants_are_utc() {
        for text in ["2026-11-21T10:00:00.5Z", "1970-01-01T00:00:00Z", "2024-02-29 23:59:59"] {
            let ns = parse_instant(text).expect("a time");
            let back = Micros(ns / 1000).to_string();
            assert_eq!(back[..19], text.replace(' ', "T")[..19], "{text}");
        }
        assert_eq!(parse_instant("12.25"), Ok(12_250_000_000));
        for wrong in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01"]
        {
            assert!(parse_instant(wrong).is_err(), "{wrong}");
        }
    }
}
