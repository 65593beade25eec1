//! Parses times: detects the form, and infers year and zone. The last result is cached, because the
//! lines of one second carry the same text.
//!
//! A missing year is the one closest to the time of reading, or to the last write of an older file,
//! but at most a day after it; a missing
//! zone is UTC unless another is configured.

use std::sync::Arc;

use weir_tables::Micros;

use crate::number;
use crate::time_forms::{self, ClockReading, TimeMatch, days_of_civil};
use crate::time_written::TimeForm;
use crate::zone::Zone;
use crate::{tai64, time_written};

/// Longest text whose result is cached.
const MEMO_BYTES: usize = 32;
/// Longest time at the front of a line.
const MAX_FRONT_BYTES: usize = 48;
const DAY: i64 = 86_400_000_000;
/// Times before 1990 come from clocks that were never set.
const EARLIEST: Micros = Micros(631_152_000_000_000);

/// Reads times for one stream.
#[derive(Debug, Default)]
pub struct TimeReader {
    observed: Micros,
    /// The time near which times without a year are.
    near: Micros,
    zone: Zone,
    /// Forms named by the user, tried before all others.
    forms: Arc<[TimeForm]>,
    memo_text: [u8; MEMO_BYTES],
    memo_length: usize,
    memo_time: Micros,
}

impl TimeReader {
    /// A reader for lines read at `observed` and written in `zone`.
    pub fn new(observed: Micros, zone: Zone, forms: Arc<[TimeForm]>) -> Self {
        Self { observed, near: observed, zone, forms, ..Self::default() }
    }

    /// Reads times without a year as near the time at which the file was last written.
    pub fn with_last_write(mut self, written: Option<Micros>) -> Self {
        let written = written.filter(|time| *time >= EARLIEST && *time < self.observed);
        self.near = written.unwrap_or(self.observed);
        self
    }

    /// Whether `time` is plausible: not before 1990, and at most a day ahead.
    pub fn is_plausible(&self, time: Micros) -> bool {
        time >= EARLIEST && time.0 <= self.observed.0.saturating_add(DAY)
    }

    /// The time of the whole text, or `None`.
    #[inline]
    pub fn read(&mut self, text: &str) -> Option<Micros> {
        let bytes = text.as_bytes();
        if !bytes.is_empty() && self.memo_text[..self.memo_length] == *bytes {
            return Some(self.memo_time);
        }
        let time = self.read_uncached(text)?;
        if bytes.len() <= MEMO_BYTES {
            self.memo_text[..bytes.len()].copy_from_slice(bytes);
            (self.memo_length, self.memo_time) = (bytes.len(), time);
        }
        Some(time)
    }

    /// The leading time of a text and its length; epoch numbers are not accepted here.
    pub fn read_front(&self, text: &str) -> Option<(Micros, usize)> {
        let (mut reading, mut used) = front(text.as_bytes())?;
        if let Some(is_afternoon) = meridiem(&text.as_bytes()[used..])
            && (3_600..13 * 3_600).contains(&reading.second_of_day)
        {
            reading.second_of_day %= 12 * 3_600;
            reading.second_of_day += if is_afternoon { 12 * 3_600 } else { 0 };
            used += " PM".len();
        }
        let word =
            text[used..].strip_prefix(' ').map(|rest| rest.split(' ').next().unwrap_or(rest));
        if let Some(name) = word.filter(|name| name.contains('/') && is_zone_name(name))
            && reading.offset_seconds.is_none()
            && let Ok(zone) = Zone::parse(name)
        {
            return Some((self.settle_in(&zone, reading)?, used + 1 + name.len()));
        }
        Some((self.settle(reading)?, used))
    }

    /// The leading time of a line in any form, and its length; tries the text up to each of the first
    /// blanks and brackets.
    pub fn read_any_front(&self, text: &str) -> Option<(Micros, usize)> {
        if let Some(found) = self.read_front(text) {
            return Some(found);
        }
        let head = &text[..text.floor_char_boundary(MAX_FRONT_BYTES)];
        if !may_be_time(head.as_bytes()) {
            return None;
        }
        let marks = head.match_indices([' ', ']', '>', '|', '\t']).map(|(at, _)| at);
        let mut ends: Vec<usize> = marks.collect();
        if head.len() == text.len() {
            ends.push(text.len());
        }
        let whole = |at: &usize| {
            let front = head[..*at].trim_end_matches([',', ':', ';', '-']);
            let is_epoch = front.contains('.')
                || matches!(front.len(), 13 | 16 | 19)
                || front.len() == 10 && text[*at..].starts_with(']');
            let read = epoch(front).filter(|_| is_epoch).or_else(|| self.rare(front));
            Some((read.filter(|time| self.is_plausible(*time))?, *at))
        };
        ends.iter().rev().find_map(whole)
    }

    /// The time of `1120` and `12:00:00.123456` (klog).
    pub fn read_month_day(&self, day_and_clock: [&str; 2]) -> Option<Micros> {
        self.settle(time_forms::month_day(day_and_clock.map(str::as_bytes))?)
    }

    fn read_uncached(&self, text: &str) -> Option<Micros> {
        let text = text.trim_ascii();
        for form in self.forms.iter() {
            if let Some(reading) = form.read(text) {
                return self.settle(reading);
            }
        }
        match front(text.as_bytes()) {
            Some((reading, used)) if used == text.len() => self.settle(reading),
            // `20261120120000` has as many digits as milliseconds of the year 2612.
            _ if text.len() == 14 && text.starts_with("20") => self.rare(text),
            _ => epoch(text).or_else(|| exponent(text)).or_else(|| self.rare(text)),
        }
    }

    /// Rare forms, which have no hand-written reader.
    fn rare(&self, text: &str) -> Option<Micros> {
        if !(10..=64).contains(&text.len()) {
            return None;
        }
        // PHP's `20-Nov-2026 12:00:00 Europe/Berlin`.
        if let Some((clock, name)) = text.rsplit_once(' ').filter(|(_, name)| is_zone_name(name)) {
            let zone = Zone::parse(name).ok()?;
            return self.settle_in(&zone, time_written::read(clock)?);
        }
        if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
            return Some(Micros(timestamp.as_microsecond()));
        }
        match tai64::read(text) {
            Some(time) => Some(time),
            None => {
                let time = |text: &str| self.settle(time_written::read(text)?);
                // Spark's `26/11/20`, where others have `20/11/26`: the nearer one.
                let is_short = matches!(text.as_bytes(), [_, _, b'/', _, _, b'/', _, _, b' ', ..]);
                let year_first = if is_short { time(&format!("20{text}")) } else { None };
                let times = year_first.into_iter().chain(time(text));
                times.min_by_key(|time| (time.0 - self.near.0).abs())
            }
        }
    }

    /// The instant of a reading; `None` if it is no day of the calendar.
    pub fn settle(&self, reading: ClockReading) -> Option<Micros> {
        self.settle_in(&self.zone, reading)
    }

    fn settle_in(&self, zone: &Zone, reading: ClockReading) -> Option<Micros> {
        let at = |year: i64| {
            let days = days_of_civil([year, reading.month, reading.day]);
            let (next_year, next_month) =
                if reading.month == 12 { (year + 1, 1) } else { (year, reading.month + 1) };
            if days >= days_of_civil([next_year, next_month, 1]) {
                return None;
            }
            let offset = reading
                .offset_seconds
                .unwrap_or_else(|| zone.offset_seconds(year, &reading, self.observed));
            let seconds = days * 86_400 + reading.second_of_day - offset;
            Some(Micros(seconds * 1_000_000 + reading.micros))
        };
        match reading.year {
            Some(year) => at(year),
            None => {
                let year = year_of(self.near);
                let near = (year - 1..=year + 1)
                    .filter_map(at)
                    .filter(|time| time.0 <= self.near.0.saturating_add(DAY))
                    .min_by_key(|time| (time.0 - self.near.0).abs());
                // Any eight years contain a 29th of February, also around 2100.
                near.or_else(|| (year - 8..year - 1).rev().find_map(at))
            }
        }
    }
}

/// `Europe/Berlin`.
fn is_zone_name(word: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || b"/_-+".contains(&byte);
    word.contains('/') && word.bytes().all(is_letter)
}

/// Whether a clock, an epoch or a TAI64N label may be at the front: most lines have none.
fn may_be_time(head: &[u8]) -> bool {
    let digits = head.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let has_clock = head
        .windows(3)
        .any(|three| three[1] == b':' && three[0].is_ascii_digit() && three[2].is_ascii_digit());
    let is_packed = digits == 8 && head.get(8) == Some(&b'T');
    let is_epoch = (9..=11).contains(&digits) && head.get(digits) == Some(&b'.')
        || matches!(digits, 13 | 16 | 19)
            && matches!(head.get(digits..), Some([b']', ..] | [b' ', b'A'..=b'Z', ..]))
        || digits == 10 && head.get(digits) == Some(&b']');
    has_clock || is_packed || is_epoch || head.starts_with(b"@4")
}

/// The leading form, detected by its first bytes.
fn front(bytes: &[u8]) -> TimeMatch {
    match bytes.get(..5)? {
        [b'0'..=b'9', _, _, _, b'-' | b'/'] => time_forms::iso(bytes),
        [b'0'..=b'9', _, b'/', ..] => time_forms::common_log(bytes),
        [b'A'..=b'Z', _, _, b' ', b' ' | b'0'..=b'9'] => time_forms::syslog(bytes),
        [b'A'..=b'Z', _, _, b' ', _] => time_forms::ctime(bytes),
        _ => None,
    }
}

/// Whether ` PM` follows a clock, or ` AM`.
fn meridiem(behind: &[u8]) -> Option<bool> {
    match behind {
        [b' ', half, b'M' | b'm', rest @ ..]
            if b"APap".contains(half) && !rest.first().is_some_and(u8::is_ascii_alphanumeric) =>
        {
            Some(b"Pp".contains(half))
        }
        _ => None,
    }
}

/// Seconds, milli-, micro- or nanoseconds since 1970, detected by length: 10, 13, 16 or 19 digits.
fn epoch(text: &str) -> Option<Micros> {
    // .NET's `/Date(1795176000123)/`.
    let text = text.strip_prefix("/Date(").and_then(|rest| rest.strip_suffix(")/")).unwrap_or(text);
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

/// A number such as `1.795679668123e9`, as JSON of Go's zap has it.
fn exponent(text: &str) -> Option<Micros> {
    let is_written_so = text.contains(['e', 'E']) && text.starts_with(|c: char| c.is_ascii_digit());
    let value = number::float(text).filter(|_| is_written_so)?;
    let unit = match value {
        1e8..1e11 => 1.0,
        1e11..1e14 => 1e3,
        1e14..1e17 => 1e6,
        1e17..1e20 => 1e9,
        _ => return None,
    };
    Some(Micros::from_unix_seconds(value / unit))
}

fn six_digits(fraction: &str) -> i64 {
    let digits = fraction.bytes().map(|b| i64::from(b - b'0')).chain(std::iter::repeat(0));
    digits.take(6).fold(0, |sum, digit| sum * 10 + digit)
}

fn year_of(time: Micros) -> i64 {
    let days = time.day();
    let guess = 1970 + days.div_euclid(366);
    (guess..).find(|year| days_of_civil([year + 1, 1, 1]) > days).expect("the range is unbounded")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time that `text` is; reading it a second time gives the same.
    fn time_of(text: &str) -> String {
        let observed = Micros(1_795_176_000_000_000); // 2026-11-20T12:00:00Z
        let mut reader =
            TimeReader::new(observed, Zone::parse("+01:00").expect("an offset"), Arc::default());
        let first = reader.read(text).map_or_else(|| "none".to_owned(), |time| time.to_string());
        let second = reader.read(text).map_or_else(|| "none".to_owned(), |time| time.to_string());
        assert_eq!(second, first, "{text}, from memory");
        first
    }

    #[test]
    fn forms_of_many_programs_are_read() {
        assert_eq!(time_of("2026-11-20T12:00:00+00:00"), "2026-11-20T12:00:00.000000Z");
        assert_eq!(time_of("2026-11-20T12:00:00.123456789Z"), "2026-11-20T12:00:00.123456Z");
        assert_eq!(time_of("2026-11-20T12:00:00-0230"), "2026-11-20T14:30:00.000000Z");
        assert_eq!(time_of("2026-11-20 12:00:00,5 +0100"), "2026-11-20T11:00:00.500000Z");
        assert_eq!(time_of("2026-11-20 12:00:00"), "2026-11-20T11:00:00.000000Z");
        assert_eq!(time_of("2026-11-20 12:00:00.5 UTC"), "2026-11-20T12:00:00.500000Z");
        assert_eq!(time_of("2026/11/20 12:00:00"), "2026-11-20T11:00:00.000000Z");
        assert_eq!(time_of("20/Nov/2026:12:00:00 +0000"), "2026-11-20T12:00:00.000000Z");
        assert_eq!(time_of("20/Nov/2026:12:00:00.123"), "2026-11-20T11:00:00.123000Z");
        assert_eq!(time_of("Nov 20 12:00:00"), "2026-11-20T11:00:00.000000Z");
        assert_eq!(time_of("Nov  2 12:00:00"), "2026-11-02T11:00:00.000000Z");
        assert_eq!(time_of("Fri Nov 20 12:00:00.123456 2026"), "2026-11-20T11:00:00.123456Z");
        assert_eq!(time_of("1795176000.123"), "2026-11-20T12:00:00.123000Z");
        assert_eq!(time_of("1795176000123"), "2026-11-20T12:00:00.123000Z");
        assert_eq!(time_of("1795176000123456"), "2026-11-20T12:00:00.123456Z");
        assert_eq!(time_of("1795176000123456789"), "2026-11-20T12:00:00.123456Z");
        assert_eq!(time_of("Fri, 20 Nov 2026 12:00:00 +0000"), "2026-11-20T12:00:00.000000Z");
        assert_eq!(time_of("2024-02-29T12:34:56Z"), "2024-02-29T12:34:56.000000Z");
    }

    #[test]
    fn default_forms_of_languages_and_servers_are_read() {
        for (text, expected) in [
            // Go: time.Time's String, UnixDate, RubyDate, RFC 822, RFC 850, RFC 1123.
            ("2026-11-20 13:00:00.5 +0100 CET m=+0.012", "2026-11-20T12:00:00.500000Z"),
            ("Fri Nov 20 13:00:00 CET 2026", "2026-11-20T12:00:00.000000Z"),
            ("Fri Nov 20 12:00:00 +0000 2026", "2026-11-20T12:00:00.000000Z"),
            ("20 Nov 26 12:00 UTC", "2026-11-20T12:00:00.000000Z"),
            ("Friday, 20-Nov-26 07:00:00 EST", "2026-11-20T12:00:00.000000Z"),
            ("Fri, 20 Nov 2026 12:00:00 GMT", "2026-11-20T12:00:00.000000Z"),
            // Java: java.util.logging, log4j's DATE, Tomcat; Kibana.
            ("Nov 20, 2026 1:00:00 PM", "2026-11-20T12:00:00.000000Z"),
            ("20 Nov 2026 13:00:00,123", "2026-11-20T12:00:00.123000Z"),
            ("20-Nov-2026 13:00:00.123", "2026-11-20T12:00:00.123000Z"),
            ("Nov 20, 2026 @ 13:00:00.123", "2026-11-20T12:00:00.123000Z"),
            // PHP, PostgreSQL, MySQL 5, MariaDB, IIS, Cisco.
            ("20-Nov-2026 12:00:00 UTC", "2026-11-20T12:00:00.000000Z"),
            ("2026-11-20 07:00:00.123 EST", "2026-11-20T12:00:00.123000Z"),
            ("261120 13:00:00", "2026-11-20T12:00:00.000000Z"),
            ("261120  9:00:00", "2026-11-20T08:00:00.000000Z"),
            ("2026-11-20  9:00:00", "2026-11-20T08:00:00.000000Z"),
            ("11/20/2026 01:00:00 PM", "2026-11-20T12:00:00.000000Z"),
            ("20/11/2026 13:00:00", "2026-11-20T12:00:00.000000Z"),
            ("20.11.2026 13:00:00", "2026-11-20T12:00:00.000000Z"),
            ("Nov 20 2026 13:00:00 CET", "2026-11-20T12:00:00.000000Z"),
            ("20261120T120000Z", "2026-11-20T12:00:00.000000Z"),
            ("20261120130000", "2026-11-20T12:00:00.000000Z"),
            ("2026-11-20T13:00:00+01:00[Europe/Berlin]", "2026-11-20T12:00:00.000000Z"),
            ("12/31/2026 12:00:00 AM", "2026-12-30T23:00:00.000000Z"),
            // TAI64N, as daemontools stamp.
            ("@400000006a6e58c22c3fe6b4", "2026-08-01T20:36:08.742385Z"),
        ] {
            assert_eq!(time_of(text), expected, "{text}");
        }
    }

    #[test]
    fn zones_have_summers_and_the_hour_shown_twice_is_the_first() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let mut reader = TimeReader::new(Micros(1_795_176_000_000_000), zone, Arc::default());
        for (text, expected) in [
            ("2026-07-01 12:00:00", "2026-07-01T10:00:00.000000Z"),
            ("2026-12-01 12:00:00", "2026-12-01T11:00:00.000000Z"),
            ("2026-10-25 02:30:00", "2026-10-25T00:30:00.000000Z"),
            ("2026-03-29 02:30:00", "2026-03-29T01:30:00.000000Z"),
            ("Nov 20 12:00:00", "2026-11-20T11:00:00.000000Z"),
            ("2026-07-01 12:00:00Z", "2026-07-01T12:00:00.000000Z"),
        ] {
            assert_eq!(reader.read(text).unwrap().to_string(), expected, "{text}");
        }
        assert!(Zone::parse("Europe/Berln").unwrap_err().hint.contains("IANA"));
        assert!(Zone::of_file(b"no zone").is_none());
    }

    #[test]
    fn forms_of_the_user_come_first_and_wrong_ones_are_refused() {
        let forms =
            ["%d/%m/%Y %H.%M", "yyyyMMdd'x'HHmmss,SSS"].map(|form| TimeForm::parse(form).unwrap());
        let mut reader =
            TimeReader::new(Micros(1_795_176_000_000_000), Zone::default(), Arc::from(forms));
        for (text, expected) in [
            ("03/11/2026 12.30", "2026-11-03T12:30:00.000000Z"),
            ("20261120x120000,250", "2026-11-20T12:00:00.250000Z"),
            ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00.000000Z"),
        ] {
            assert_eq!(reader.read(text).unwrap().to_string(), expected, "{text}");
        }
        for wrong in ["%d/%m/%Y %", "%J", "ddd/QQ", ""] {
            assert!(TimeForm::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn year_left_out_is_the_nearest() {
        for (observed, text, expected) in [
            (1_798_761_600_000_000, "Dec 31 23:59:59", "2026-12-31T23:59:59.000000Z"),
            (1_798_761_590_000_000, "Jan  1 00:00:00", "2027-01-01T00:00:00.000000Z"),
            // Two days ahead is a year ago, 90 s and 23 hours ahead are clocks and zones that
            // differ.
            (1_795_176_000_000_000, "Nov 22 12:00:00", "2025-11-22T12:00:00.000000Z"),
            (1_795_176_000_000_000, "Nov 20 12:01:30", "2026-11-20T12:01:30.000000Z"),
            (1_795_176_000_000_000, "Nov 21 11:00:00", "2026-11-21T11:00:00.000000Z"),
            (1_795_176_000_000_000, "Feb 29 12:00:00", "2024-02-29T12:00:00.000000Z"),
        ] {
            let time = TimeReader::new(Micros(observed), Zone::default(), Arc::default())
                .read(text)
                .expect("a time");
            assert_eq!(time.to_string(), expected);
        }
    }

    #[test]
    fn other_text_is_none() {
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
            assert_eq!(time_of(text), "none", "{text}");
        }
    }

    #[test]
    fn hand_read_times_are_those_of_jiff() {
        arbtest::arbtest(|u| {
            let seconds = u.int_in_range(0..=4_000_000_000i64)?;
            let timestamp = jiff::Timestamp::from_second(seconds).expect("in range");
            let read = TimeReader::new(Micros(0), Zone::default(), Arc::default())
                .read(&timestamp.to_string());
            assert_eq!(read, Some(Micros(seconds * 1_000_000)));
            assert_eq!(
                year_of(Micros(seconds * 1_000_000)),
                i64::from(timestamp.to_zoned(jiff::tz::TimeZone::UTC).year())
            );
            Ok(())
        });
    }
}
