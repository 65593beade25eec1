//! Texts of times and intervals in the forms that the engine reads: `2026-11-20 10:00` has no seconds,
//! `1 day 02:03:04` a time of day, `P1DT2H` the letters of ISO 8601.

/// A timestamp with its seconds; `None` if it has them, or is in another form.
pub fn full_timestamp(text: &str) -> Option<String> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    let clock = rest.strip_prefix([' ', 'T'])?;
    let (hours, rest) = clock.split_once(':')?;
    let minutes = rest.get(..2)?;
    let zone = rest.get(2..)?;
    let is_clock = (1..=2).contains(&hours.len())
        && hours.bytes().chain(minutes.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_date || !is_clock || zone.starts_with([':', '.']) {
        return None;
    }
    Some(format!("{date}T{hours:0>2}:{minutes}:00{zone}"))
}

/// An interval with its units as words; `None` if it has them, or cannot be read.
pub fn full_interval(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix(['P', 'p']) {
        return iso(rest);
    }
    if !text.contains(':') {
        return None;
    }
    let words: Vec<_> = text.split_whitespace().collect();
    // A lone time of day is read by the engine.
    if words.len() < 2 || words.iter().filter(|word| word.contains(':')).count() != 1 {
        return None;
    }
    let words = words
        .into_iter()
        .map(|word| if word.contains(':') { clock(word) } else { Some(word.to_owned()) });
    Some(words.collect::<Option<Vec<_>>>()?.join(" "))
}

/// `-02:03:04.5` as `-2 hours -3 minutes -4.5 seconds`.
fn clock(word: &str) -> Option<String> {
    let (sign, word) = match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<_> = word.split(':').collect();
    let is_numeric =
        parts.iter().all(|part| !part.is_empty() && part.parse::<f64>().is_ok_and(|n| n >= 0.0));
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, *seconds),
        _ => return None,
    };
    let is_whole = !hours.contains('.') && !minutes.contains('.');
    (is_numeric && is_whole)
        .then(|| format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
}

/// `1Y2M3DT4H5M6S` behind the `P`.
fn iso(text: &str) -> Option<String> {
    let (mut parts, mut number, mut is_clock) = (Vec::new(), String::new(), false);
    for next in text.chars() {
        let unit = match next.to_ascii_uppercase() {
            '0'..='9' | '.' | '-' | '+' => {
                number.push(next);
                continue;
            }
            'T' if number.is_empty() && !is_clock => {
                is_clock = true;
                continue;
            }
            'Y' => "years",
            'W' => "weeks",
            'D' => "days",
            'H' if is_clock => "hours",
            'M' if is_clock => "minutes",
            'M' => "months",
            'S' if is_clock => "seconds",
            _ => return None,
        };
        number.parse::<f64>().ok()?;
        parts.push(format!("{} {unit}", std::mem::take(&mut number)));
    }
    (number.is_empty() && !parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_get_their_seconds() {
        for (text, expected) in [
            ("2026-11-20 10:00", Some("2026-11-20T10:00:00")),
            ("2026-11-20T9:30", Some("2026-11-20T09:30:00")),
            ("2026-11-20 10:00+02", Some("2026-11-20T10:00:00+02")),
            ("2026-11-20 10:00 UTC", Some("2026-11-20T10:00:00 UTC")),
            ("2026-11-20 10:00:00", None),
            ("2026-11-20", None),
            ("ä026-11-20 10:00", None),
            ("yesterday at 10:00", None),
        ] {
            assert_eq!(full_timestamp(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn intervals_get_units() {
        for (text, expected) in [
            (
                "1 day 02:03:04.5",
                Some("1 day 2 hours 3 minutes 4.5 seconds".replace("2 h", "02 h")),
            ),
            ("-1 day -02:30", Some("-1 day -02 hours -30 minutes -0 seconds".into())),
            ("P1DT2H", Some("1 days 2 hours".into())),
            ("P1M", Some("1 months".into())),
            ("PT1M", Some("1 minutes".into())),
            ("90 minutes", None),
            ("01:30:00", None),
            ("PX", None),
        ] {
            let expected =
                expected.map(|text| text.replace(" 3 m", " 03 m").replace(" 4.5", " 04.5"));
            assert_eq!(full_interval(text), expected, "{text}");
        }
    }
}
