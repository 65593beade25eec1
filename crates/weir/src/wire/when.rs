//! Times on the command line: widths such as `100ms`, instants such as `2026-11-21T10:00:00Z`.

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

/// An instant in nanoseconds since 1970: RFC 3339 in UTC, or seconds.
pub(super) fn parse_instant(text: &str) -> Result<i64, String> {
    let wrong = || "write it as 2026-11-21T10:00:00Z, or as seconds since 1970".to_owned();
    if let Ok(seconds) = text.parse::<f64>()
        && (0.0..9e9).contains(&seconds)
    {
        #[expect(clippy::cast_possible_truncation, reason = "it was found to be small")]
        return Ok((seconds * 1e9).round() as i64);
    }
    let (date, time) = text.split_once(['T', ' ']).ok_or_else(wrong)?;
    let time = time.trim_end_matches(['Z', 'z']);
    let numbers = |text: &str, separator: char| -> Option<[i64; 3]> {
        let parts: Option<Vec<i64>> =
            text.split(separator).map(|part| part.parse().ok().filter(|n| *n >= 0)).collect();
        parts?.try_into().ok()
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [year, month, day] = numbers(date, '-').ok_or_else(wrong)?;
    let [hour, minute, second] = numbers(whole, ':').ok_or_else(wrong)?;
    let is_real = (1970..2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_real || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let ns: i64 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Ok(seconds * 1_000_000_000 + ns)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; years begin in March here, so that the leap day is last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
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
