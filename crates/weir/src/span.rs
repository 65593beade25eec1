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

#[cfg(test)]
mod tests {
    use super::*;

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
