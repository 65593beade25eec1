//! Spans of time as people write them on the command line: `90s`, `15m`, `12h`, `30d`.

use std::time::Duration;

/// `None` when the text is no number of seconds, minutes, hours or days.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

/// A span as [`parse`] takes it, in the largest unit of which it has two or more, rounded.
pub(crate) fn text(seconds: u64) -> String {
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(size, _)| seconds >= 2 * size).unwrap_or((1, 's'));
    format!("{}{}", (seconds + unit.0 / 2) / unit.0, unit.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_a_unit_that_suits_it() {
        for (seconds, expected) in
            [(0, "0s"), (119, "119s"), (120, "2m"), (5400, "90m"), (200_000, "2d"), (7200, "2h")]
        {
            assert_eq!(text(seconds), expected);
        }
    }

    #[test]
    fn a_number_and_a_unit_are_a_span() {
        for (text, seconds) in
            [("90s", Some(90)), ("2m", Some(120)), ("1h", Some(3600)), ("30d", Some(2_592_000))]
        {
            assert_eq!(parse(text), seconds.map(Duration::from_secs), "{text}");
        }
        for text in ["", "s", "30", "-1s", "1.5h", "1 d", "9é", "99999999999999999999d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
