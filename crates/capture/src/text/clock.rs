//! Timestamps at the start of tcpdump's lines: default, `-tt`, `-tttt` or `-ttttt`, with micro- or
//! nanoseconds.
//!
//! A time without a date belongs to the day given by the caller; a step of more than half a day
//! back is midnight.

use super::cursor;

/// A minute of local time, as in the text; not validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalMinute {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 99.
    pub month: u8,
    /// 0 to 99.
    pub day: u8,
    /// 0 to 99.
    pub hour: u8,
    /// 0 to 99.
    pub minute: u8,
}

/// Converts a local minute to seconds since 1970; `None` for an invalid minute. A repeated minute
/// (DST) is the earlier one, a skipped one is an hour later (perldoc Time::Local).
pub type Zone = Box<dyn Fn(LocalMinute) -> Option<i64> + Send>;

/// Bytes of `YYYY-MM-DD HH:MM`.
pub const MINUTE: usize = 16;

/// Digits of the seconds since 1970, from 2001 to 2286.
const SECOND: usize = 10;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

impl LocalMinute {
    /// Converts text with digits in the right places.
    pub fn of(text: &[u8; MINUTE]) -> Self {
        let [century, year, month, day, hour, minute] = [0, 2, 5, 8, 11, 14].map(|at| {
            (text[at].wrapping_sub(b'0') % 10) * 10 + text[at + 1].wrapping_sub(b'0') % 10
        });
        Self { year: u16::from(century) * 100 + u16::from(year), month, day, hour, minute }
    }

    /// Whether `text` has digits and separators in the right places.
    pub fn is_shape(text: &[u8; MINUTE]) -> bool {
        text.iter().zip(b"0000-00-00 00:00").all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTime {
    NoStamp,
    /// The time is invalid.
    NoSuchTime,
}

/// Parses timestamps; caches the last minute, the last second since 1970 and the last time of day.
pub(super) struct StampClock {
    zone: Zone,
    minute: ([u8; MINUTE], Option<i64>),
    second: ([u8; SECOND], i64),
    /// Start of the day of times without a date, in nanoseconds.
    day: i64,
    last: Option<i64>,
}

impl StampClock {
    /// Creates a clock; `day` is the start of the day of times without a date, in seconds since
    /// 1970.
    pub(super) fn new(zone: Zone, day: i64) -> Self {
        let day = day.saturating_mul(SECOND_NS);
        // No line contains a line end, so this matches none.
        Self { zone, minute: ([0; MINUTE], None), second: ([b'\n'; SECOND], 0), day, last: None }
    }

    /// Returns nanoseconds since 1970, and the line after the timestamp and its space.
    #[inline]
    pub(super) fn read<'a>(&mut self, line: &'a [u8]) -> Result<(i64, &'a [u8]), NoTime> {
        if let Some((second, rest)) = line.split_first_chunk()
            && *second == self.second.0
            && let Some((part, rest)) = fraction(rest)
        {
            return Ok((self.second.1.saturating_add(part), rest));
        }
        self.read_uncached(line)
    }

    fn read_uncached<'a>(&mut self, line: &'a [u8]) -> Result<(i64, &'a [u8]), NoTime> {
        if line.get(4) == Some(&b'-') {
            let (minute, rest) = line.split_first_chunk::<MINUTE>().ok_or(NoTime::NoStamp)?;
            let (seconds, rest) = second(rest).ok_or(NoTime::NoStamp)?;
            let begin = self.begin_of(minute)?;
            let at = begin.checked_mul(SECOND_NS).and_then(|begin| begin.checked_add(seconds));
            return at.map(|at| (at, rest)).ok_or(NoTime::NoSuchTime);
        }
        // tcpdump 4.99 prints a space for the sign of a difference.
        let line = line.strip_prefix(b" ").unwrap_or(line);
        if let [h1, h2, b':', m1, m2, rest @ ..] = line {
            let (Some(hours), Some(minutes)) = (pair([*h1, *h2]), pair([*m1, *m2])) else {
                return Err(NoTime::NoStamp);
            };
            let (seconds, rest) = second(rest).ok_or(NoTime::NoStamp)?;
            let at = (hours * 60 + minutes) * 60 * SECOND_NS + seconds;
            return Ok((self.of_day(at), rest));
        }
        let (whole, rest) = digits(line, 12).ok_or(NoTime::NoStamp)?;
        let (part, rest) = fraction(rest).ok_or(NoTime::NoStamp)?;
        let at = i64::try_from(whole).ok().and_then(|whole| whole.checked_mul(SECOND_NS));
        let at = at.ok_or(NoTime::NoSuchTime)?;
        if let Some((second, [b'.', ..])) = line.split_first_chunk() {
            self.second = (*second, at);
        }
        Ok((at.saturating_add(part), rest))
    }

    fn begin_of(&mut self, text: &[u8; MINUTE]) -> Result<i64, NoTime> {
        if self.minute.0 != *text {
            if !LocalMinute::is_shape(text) {
                return Err(NoTime::NoStamp);
            }
            self.minute = (*text, (self.zone)(LocalMinute::of(text)));
        }
        self.minute.1.ok_or(NoTime::NoSuchTime)
    }

    fn of_day(&mut self, at: i64) -> i64 {
        let last = self.last.unwrap_or(at);
        if at < last - DAY_NS / 2 {
            self.day = self.day.saturating_add(DAY_NS);
        } else if at > last + DAY_NS / 2 {
            // Just before midnight, printed just after it.
            return self.day.saturating_add(at - DAY_NS);
        }
        self.last = Some(at);
        self.day.saturating_add(at)
    }
}

/// Parses `:SS.fraction ` to nanoseconds.
fn second(text: &[u8]) -> Option<(i64, &[u8])> {
    let [b':', tens, ones, rest @ ..] = text else { return None };
    let (part, rest) = fraction(rest)?;
    Some((pair([*tens, *ones])? * SECOND_NS + part, rest))
}

/// Nanoseconds of the last digit, by the number of decimals.
const SCALES: [i64; 10] =
    [0, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1];

/// Parses `.fraction ` to nanoseconds.
#[inline(always)]
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let (part, rest) = digits(text.strip_prefix(b".")?, 9)?;
    let count = text.len() - 1 - rest.len();
    let scale = SCALES.get(count)?;
    Some((i64::try_from(part).ok()? * scale, rest.strip_prefix(b" ")?))
}

fn pair([tens, ones]: [u8; 2]) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Parses a number of at most `most` digits.
#[inline(always)]
fn digits(text: &[u8], most: usize) -> Option<(u64, &[u8])> {
    let (number, count) = cursor::digits(text);
    (1..=most).contains(&count).then(|| (number, &text[count..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> StampClock {
        // 1970-01-02 is day 2; the hour and minute count.
        let zone = |at: LocalMinute| {
            let minutes = i64::from(at.hour) * 60 + i64::from(at.minute);
            (at.month == 1).then(|| (i64::from(at.day) - 1) * 86_400 + minutes * 60)
        };
        StampClock::new(Box::new(zone), 1000 * 86_400)
    }

    #[test]
    fn every_style_is_read() {
        for (text, seconds) in [
            ("1970-01-02 00:01:02.000003 IP", "86462.000003000"),
            ("1970-01-02 00:01:02.000000004 IP", "86462.000000004"),
            ("1301957863.820001 IP", "1301957863.820001000"),
            ("00:01:02.5 IP", "86400062.500000000"),
            (" 00:00:00.000009 IP", "86400000.000009000"),
        ] {
            let (at, rest) = clock().read(text.as_bytes()).expect(text);
            assert_eq!(format!("{}.{:09}", at / SECOND_NS, at % SECOND_NS), seconds);
            assert_eq!(rest, b"IP");
        }
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        for text in [
            "",
            "IP 1",
            "\t0x0000:  4500",
            "    10.0.0.1.80 > 10.0.0.2.9: Flags",
            "1970-01-02",
            "12:00:00 IP",
            "1.1",
            "123. IP",
            "12:0x:00.1 IP",
            "9999999999999999.1 IP",
            "1.1234567890 IP",
            "1970-01x02 00:01:02.3 IP",
        ] {
            assert_eq!(clock().read(text.as_bytes()).err(), Some(NoTime::NoStamp), "{text}");
        }
        let none = clock().read(b"1970-02-02 00:01:02.000003 IP").err();
        assert_eq!(none, Some(NoTime::NoSuchTime));
    }

    #[test]
    fn midnight_begins_a_day_and_a_late_line_belongs_to_the_one_before() {
        let mut clock = clock();
        let mut at =
            |text: &str| clock.read(text.as_bytes()).expect(text).0 / SECOND_NS - 86_400_000;
        assert_eq!(at("23:59:58.0 IP"), 86_398);
        assert_eq!(at("00:00:01.0 IP"), 86_401);
        assert_eq!(at("23:59:59.0 IP"), 86_399);
        assert_eq!(at("00:00:02.0 IP"), 86_402);
    }
}
