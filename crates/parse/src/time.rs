//! A text to an instant: which form it is, which year and zone it meant; the last answer is kept, because the
//! lines of one second carry the same text.
//!
//! A year that is left out is the one that puts the time nearest to the time of reading; a zone that is left out
//! is UTC unless the parser was told otherwise.

use weir_tables::Micros;

use crate::number;
use crate::time_forms::{self, Read, Reading};

/// Longest text whose answer is kept.
const MEMO_BYTES: usize = 32;

/// Reads times for one stream.
#[derive(Debug, Default)]
pub(crate) struct TimeReader {
    observed: Micros,
    utc_offset_seconds: i32,
    memo_text: [u8; MEMO_BYTES],
    memo_length: usize,
    memo_time: Micros,
}

impl TimeReader {
    /// A reader for lines read at `observed` by a program `utc_offset_seconds` east of UTC.
    pub(crate) fn new(observed: Micros, utc_offset_seconds: i32) -> Self {
        Self { observed, utc_offset_seconds, ..Self::default() }
    }

    /// The instant that the whole text means, or `None`.
    #[inline]
    pub(crate) fn read(&mut self, text: &str) -> Option<Micros> {
        let bytes = text.as_bytes();
        if !bytes.is_empty() && self.memo_text[..self.memo_length] == *bytes {
            return Some(self.memo_time);
        }
        let time = self.read_anew(text)?;
        if bytes.len() <= MEMO_BYTES {
            self.memo_text[..bytes.len()].copy_from_slice(bytes);
            (self.memo_length, self.memo_time) = (bytes.len(), time);
        }
        Some(time)
    }

    /// The instant at the front of a text and the bytes it takes; epochs are not taken for times here.
    pub(crate) fn read_front(&self, text: &str) -> Option<(Micros, usize)> {
        let (reading, used) = front(text.as_bytes())?;
        Some((self.settle(reading)?, used))
    }

    /// The instant of `1120` and `12:00:00.123456` (klog).
    pub(crate) fn read_month_day(&self, month_day: &str, clock: &str) -> Option<Micros> {
        self.settle(time_forms::month_day(month_day.as_bytes(), clock.as_bytes())?)
    }

    fn read_anew(&self, text: &str) -> Option<Micros> {
        let text = text.trim_ascii();
        match front(text.as_bytes()) {
            Some((reading, used)) if used == text.len() => self.settle(reading),
            _ => epoch(text).or_else(|| rare(text)),
        }
    }

    fn settle(&self, reading: Reading) -> Option<Micros> {
        let offset = reading.offset_seconds.unwrap_or(i64::from(self.utc_offset_seconds));
        let at = |year: i64| {
            let days = days_of_civil(year, reading.month, reading.day);
            let (next_year, next_month) =
                if reading.month == 12 { (year + 1, 1) } else { (year, reading.month + 1) };
            if days >= days_of_civil(next_year, next_month, 1) {
                return None;
            }
            let seconds = days * 86_400 + reading.second_of_day - offset;
            Some(Micros(seconds * 1_000_000 + reading.micros))
        };
        match reading.year {
            Some(year) => at(year),
            None => {
                let year = year_of(self.observed);
                (year - 1..=year + 1)
                    .filter_map(at)
                    .min_by_key(|time| (time.0 - self.observed.0).abs())
            }
        }
    }
}

/// The form at the front, told by its first bytes.
fn front(bytes: &[u8]) -> Read {
    match bytes.get(..5)? {
        [b'0'..=b'9', _, _, _, b'-' | b'/'] => time_forms::iso(bytes),
        [b'0'..=b'9', _, b'/', ..] => time_forms::common_log(bytes),
        [b'A'..=b'Z', _, _, b' ', b' ' | b'0'..=b'9'] => time_forms::syslog(bytes),
        [b'A'..=b'Z', _, _, b' ', _] => time_forms::ctime(bytes),
        _ => None,
    }
}

/// Seconds, milli-, micro- or nanoseconds since 1970, told by their size: 10, 13, 16 or 19 digits.
fn epoch(text: &str) -> Option<Micros> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !(9..=19).contains(&whole.len()) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value = number::integer(whole).filter(|value| *value > 0)?;
    match whole.len() {
        ..=11 => Some(Micros(value * 1_000_000 + six_digits(fraction))),
        12..=14 => Some(Micros(value * 1_000 + six_digits(fraction) / 1_000)),
        15..=17 => Some(Micros(value)),
        _ => Some(Micros(value / 1_000)),
    }
}

fn six_digits(fraction: &str) -> i64 {
    let digits = fraction.bytes().map(|b| i64::from(b - b'0')).chain(std::iter::repeat(0));
    digits.take(6).fold(0, |sum, digit| sum * 10 + digit)
}

/// Forms that are too rare to be read by hand: RFC 2822, zones in brackets.
fn rare(text: &str) -> Option<Micros> {
    if !(10..=64).contains(&text.len()) {
        return None;
    }
    let timestamp = text.parse::<jiff::Timestamp>().ok();
    let timestamp = timestamp
        .or_else(|| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok())?;
    Some(Micros(timestamp.as_microsecond()))
}

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar.
fn days_of_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn year_of(time: Micros) -> i64 {
    let days = time.day();
    let guess = 1970 + days.div_euclid(366);
    (guess..).find(|year| days_of_civil(year + 1, 1, 1) > days).expect("years go on")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let observed = Micros(1_795_176_000_000_000); // 2026-11-20T12:00:00Z
        let mut reader = TimeReader::new(observed, 3600);
        let first = reader.read(text).map_or_else(|| "none".to_owned(), |time| time.to_string());
        assert_eq!(first, expected, "{text}");
        let second = reader.read(text).map_or_else(|| "none".to_owned(), |time| time.to_string());
        assert_eq!(second, expected, "{text}, from memory");
    }

    #[test]
    fn forms_of_many_programs_are_read() {
        check("2026-11-20T12:00:00+00:00", "2026-11-20T12:00:00.000000Z");
        check("2026-11-20T12:00:00.123456789Z", "2026-11-20T12:00:00.123456Z");
        check("2026-11-20T12:00:00-0230", "2026-11-20T14:30:00.000000Z");
        check("2026-11-20 12:00:00,5 +0100", "2026-11-20T11:00:00.500000Z");
        check("2026-11-20 12:00:00", "2026-11-20T11:00:00.000000Z");
        check("2026-11-20 12:00:00.5 UTC", "2026-11-20T12:00:00.500000Z");
        check("2026/11/20 12:00:00", "2026-11-20T11:00:00.000000Z");
        check("20/Nov/2026:12:00:00 +0000", "2026-11-20T12:00:00.000000Z");
        check("20/Nov/2026:12:00:00.123", "2026-11-20T11:00:00.123000Z");
        check("Nov 20 12:00:00", "2026-11-20T11:00:00.000000Z");
        check("Nov  2 12:00:00", "2026-11-02T11:00:00.000000Z");
        check("Fri Nov 20 12:00:00.123456 2026", "2026-11-20T11:00:00.123456Z");
        check("1795176000.123", "2026-11-20T12:00:00.123000Z");
        check("1795176000123", "2026-11-20T12:00:00.123000Z");
        check("1795176000123456", "2026-11-20T12:00:00.123456Z");
        check("1795176000123456789", "2026-11-20T12:00:00.123456Z");
        check("Fri, 20 Nov 2026 12:00:00 +0000", "2026-11-20T12:00:00.000000Z");
        check("2024-02-29T12:34:56Z", "2024-02-29T12:34:56.000000Z");
    }

    #[test]
    fn year_left_out_is_the_nearest() {
        for (observed, text, expected) in [
            (1_798_761_600_000_000, "Dec 31 23:59:59", "2026-12-31T23:59:59.000000Z"),
            (1_798_761_590_000_000, "Jan  1 00:00:00", "2027-01-01T00:00:00.000000Z"),
        ] {
            let time = TimeReader::new(Micros(observed), 0).read(text).expect("a time");
            assert_eq!(time.to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "-",
            "12",
            "2026-13-20T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-11-20T25:00:00Z",
            "Nov 20",
            "yesterday",
        ] {
            check(text, "none");
        }
    }

    #[test]
    fn hand_read_times_are_those_of_jiff() {
        arbtest::arbtest(|u| {
            let seconds = u.int_in_range(0..=4_000_000_000i64)?;
            let timestamp = jiff::Timestamp::from_second(seconds).expect("in range");
            let read = TimeReader::new(Micros(0), 0).read(&timestamp.to_string());
            assert_eq!(read, Some(Micros(seconds * 1_000_000)));
            assert_eq!(
                year_of(Micros(seconds * 1_000_000)),
                i64::from(timestamp.to_zoned(jiff::tz::TimeZone::UTC).year())
            );
            Ok(())
        });
    }
}
