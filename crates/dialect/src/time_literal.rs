//! Texts of times and intervals in the forms that the engine reads: `2026-11-20 10:00` has no seconds,
//! `1 day 02:03:04` a time of day, `P1DT2H` the letters of ISO 8601.

use crate::interval::IntervalParts;
use crate::interval_reading::read_interval;

/// A timestamp with its seconds; `None` if it has them, or is in another form.
pub fn full_timestamp(text: &str) -> Option<String> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    let clock = rest.strip_prefix([' ', 'T'])?;
    if is_date && clock.starts_with(['+', '-']) {
        return Some(format!("{date}T00:00:00{clock}"));
    }
    let (hours, rest) = clock.split_once(':')?;
    let minutes = rest.get(..2)?;
    let zone = rest.get(2..)?;
    let is_clock = (1..=2).contains(&hours.len())
        && hours.bytes().chain(minutes.bytes()).all(|byte| byte.is_ascii_digit());
    if is_date && is_clock && zone.starts_with(':') {
        return rounded_fraction(date, clock).or_else(|| short_offset(date, clock));
    }
    if !is_date || !is_clock || zone.starts_with('.') {
        return None;
    }
    Some(format!("{date}T{hours:0>2}:{minutes}:00{zone}"))
}

/// A time whose offset has seconds, which are 0: `10:00:00+02:00:00`; `None` for others.
fn short_offset(date: &str, clock: &str) -> Option<String> {
    let sign = clock.rfind(['+', '-'])?;
    let (time, offset) = clock.split_at(sign);
    let is_full = offset.len() == "+00:00:00".len() && offset.ends_with(":00");
    is_full.then(|| format!("{date}T{time}{}", &offset[..offset.len() - ":00".len()]))
}

/// A time whose fraction has more than six digits, rounded to microseconds; `None` for others, and
/// for a fraction that rounds to a second.
fn rounded_fraction(date: &str, clock: &str) -> Option<String> {
    let (whole, rest) = clock.split_once('.')?;
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, zone) = rest.split_at(length);
    if length <= 6 {
        return None;
    }
    let micros = fraction.get(..6)?.parse::<u32>().ok()?;
    let micros = micros + u32::from(fraction.as_bytes()[6] >= b'5');
    (micros < 1_000_000).then(|| format!("{date}T{whole}.{micros:06}{zone}"))
}

/// An interval in words that the engine reads; `None` for a text that is none.
pub fn full_interval(text: &str) -> Option<String> {
    read_interval(text).map(engine_interval)
}

/// Months, days and seconds of an interval.
pub(crate) fn engine_interval(parts: IntervalParts) -> String {
    let mut words = Vec::new();
    if parts.months != 0 {
        words.push(format!("{} months", parts.months));
    }
    if parts.days != 0 {
        words.push(format!("{} days", parts.days));
    }
    if parts.micros != 0 || words.is_empty() {
        let sign = if parts.micros < 0 { "-" } else { "" };
        let micros = parts.micros.unsigned_abs();
        let seconds = format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
        words.push(format!("{seconds} seconds"));
    }
    words.join(" ")
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
            ("2026-11-20 10:00:00.1234567Z", Some("2026-11-20T10:00:00.123457Z")),
            ("2026-11-20 10:00:00.123456", None),
            ("2026-11-20 +00", Some("2026-11-20T00:00:00+00")),
            ("2026-11-20 10:00:00+00:00:00", Some("2026-11-20T10:00:00+00:00")),
            ("2026-11-20 10:00:00.5-02:30:00", Some("2026-11-20T10:00:00.5-02:30")),
            ("2026-11-20 10:00:00+00:00:07", None),
            ("2026-11-20 10:00:00+02:00", None),
        ] {
            assert_eq!(full_timestamp(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn intervals_get_units() {
        for (text, expected) in [
            ("1 day 02:03:04.5", Some("1 days 7384.5 seconds")),
            ("-1 day -02:30", Some("-1 days -9000 seconds")),
            ("P1DT2H", Some("1 days 7200 seconds")),
            ("P1M", Some("1 months")),
            ("90 minutes", Some("5400 seconds")),
            ("0", Some("0 seconds")),
            ("PX", None),
        ] {
            assert_eq!(full_interval(text).as_deref(), expected, "{text}");
        }
    }
}
