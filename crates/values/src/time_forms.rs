//! Common time forms of logs, read from the start of a text.
//!
//! Hand-written, because every line has a time and this is an order of magnitude faster than a
//! general parser. Syslog's form has neither year nor zone.

use crate::zone;

/// A wall clock reading before year and zone are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// `None` if the form has no year (RFC 3164).
    pub year: Option<i64>,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// Seconds since midnight.
    pub second_of_day: i64,
    /// Microseconds of the second.
    pub micros: i64,
    /// Seconds east of UTC; `None` if the form has no zone.
    pub offset_seconds: Option<i64>,
}

/// A reading and its length in bytes.
pub type TimeMatch = Option<(ClockReading, usize)>;

/// Reads digits and marks from bytes.
struct ByteCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl ByteCursor<'_> {
    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.bytes.get(self.at..self.at + count)?;
        let mut value = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
        }
        self.at += count;
        Some(value)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, mark: u8) -> Option<()> {
        (self.peek()? == mark).then(|| self.at += 1)
    }

    fn skip_any(&mut self, marks: &[u8]) -> Option<u8> {
        let found = self.peek().filter(|mark| marks.contains(mark))?;
        self.at += 1;
        Some(found)
    }

    fn month(&mut self) -> Option<i64> {
        let name = self.bytes.get(self.at..self.at + 3)?;
        let names = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let index = names.chunks_exact(3).position(|month| month == name)?;
        self.at += 3;
        i64::try_from(index + 1).ok()
    }

    /// `HH:MM:SS`; a leap second is clamped to 59.
    fn clock(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        self.behind_hour(hour, b":")
    }

    /// The rest of a clock with one of `marks` between its parts.
    fn behind_hour(&mut self, hour: i64, marks: &[u8]) -> Option<i64> {
        let mark = self.skip_any(marks)?;
        let minute = self.digits(2)?;
        self.skip(mark)?;
        let second = self.digits(2)?;
        (hour < 24 && minute < 60 && second <= 60)
            .then(|| hour * 3600 + minute * 60 + second.min(59))
    }

    /// `.123`, `,123` or `:123` in microseconds; 0 without a fraction. Digits after the sixth are
    /// dropped.
    fn fraction(&mut self) -> i64 {
        let is_fraction = match self.peek() {
            Some(b'.' | b',') => self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit),
            Some(b':') => {
                let behind = self.bytes.get(self.at + 1..).unwrap_or_default();
                behind.iter().take_while(|byte| byte.is_ascii_digit()).count() == 3
            }
            _ => false,
        };
        if !is_fraction {
            return 0;
        }
        self.at += 1;
        let (mut micros, mut weight) = (0, 100_000);
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            micros += i64::from(digit - b'0') * weight;
            weight /= 10;
            self.at += 1;
        }
        micros
    }

    /// `Z`, `+00:00`, `+0000`, `+00`; `None`, with nothing consumed, without a zone.
    fn zone(&mut self) -> Option<i64> {
        if self.skip_any(b"Zz").is_some() {
            return Some(0);
        }
        let start = self.at;
        let zone = self.numeric_zone();
        if zone.is_none() {
            self.at = start;
        }
        zone
    }

    /// ` +0000`, ` UTC`.
    fn spaced_zone(&mut self) -> Option<i64> {
        self.skip(b' ')?;
        let rest = &self.bytes[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        if length > 0 && !rest.get(length).is_some_and(u8::is_ascii_alphanumeric) {
            let offset = zone::of_abbreviation(&rest[..length])?;
            self.at += length;
            let is_base = matches!(&rest[..length], b"GMT" | b"UTC");
            return Some(if is_base { self.hours_east().unwrap_or(offset) } else { offset });
        }
        self.numeric_zone()
    }

    /// `+2` or `+02:00` behind `GMT`; `None`, with nothing consumed, without it.
    fn hours_east(&mut self) -> Option<i64> {
        let start = self.at;
        let sign = if self.skip_any(b"+-")? == b'-' { -1 } else { 1 };
        let Some(hours) = self.digits(2).or_else(|| self.digits(1)).filter(|hours| *hours <= 14)
        else {
            self.at = start;
            return None;
        };
        let colon = self.skip(b':');
        let minutes = self.digits(2).filter(|_| colon.is_some()).unwrap_or(0);
        Some(sign * (hours * 3600 + minutes * 60))
    }

    fn numeric_zone(&mut self) -> Option<i64> {
        let sign = if self.skip_any(b"+-")? == b'-' { -1 } else { 1 };
        // Db2 writes minutes, in three digits.
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 3 {
            return self.digits(3).map(|minutes| sign * minutes * 60);
        }
        let hours = self.digits(2)?;
        self.skip(b':');
        let minutes = self.digits(2).unwrap_or(0);
        (hours <= 18 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

fn day(reading: ClockReading, used: usize) -> TimeMatch {
    let is_day = (1..=12).contains(&reading.month) && (1..=31).contains(&reading.day);
    is_day.then_some((reading, used))
}

/// `2026-11-20T12:00:00.123456+00:00`, also with space, colons (Sophos' `2026:11:20-12:00:00`), hyphens,
/// comma or slashes, and without fraction or zone.
pub fn iso(bytes: &[u8]) -> TimeMatch {
    let mut cursor = ByteCursor { bytes, at: 0 };
    let year = cursor.digits(4)?;
    let dash = cursor.skip_any(b"-/:")?;
    let month = cursor.digits(2)?;
    cursor.skip(dash)?;
    let day_of_month = cursor.digits(2)?;
    let second_of_day = match cursor.skip_any(b"Tt :-")? {
        // Db2's `2026-11-20-12.00.00.123456`.
        b'-' => cursor.digits(2).and_then(|hour| cursor.behind_hour(hour, b":-."))?,
        _ => cursor.clock()?,
    };
    let micros = cursor.fraction();
    let end = cursor.at;
    let offset_seconds = cursor.zone().or_else(|| cursor.spaced_zone());
    if offset_seconds.is_none() {
        cursor.at = end;
    }
    let reading = ClockReading {
        year: Some(year),
        month,
        day: day_of_month,
        second_of_day,
        micros,
        offset_seconds,
    };
    day(reading, cursor.at)
}

/// `20/Nov/2026:12:00:00 +0000` (common log format), `20/Nov/2026:12:00:00.123` (HAProxy, no zone),
/// `20/Nov/2026:12:00:00 CET` (WEBrick), `11/20/2026:12:00:00 +0000` (cPanel).
pub fn common_log(bytes: &[u8]) -> TimeMatch {
    let mut cursor = ByteCursor { bytes, at: 0 };
    let first = cursor.digits(2)?;
    cursor.skip(b'/')?;
    let (month, day_of_month) = match cursor.digits(2) {
        Some(second) if first > 12 => (second, first),
        Some(second) => (first, second),
        None => (cursor.month()?, first),
    };
    cursor.skip(b'/')?;
    let year = Some(cursor.digits(4)?);
    cursor.skip(b':')?;
    let hour_digits = if cursor.skip(b' ').is_some() { 1 } else { 2 };
    let hour = cursor.digits(hour_digits)?;
    let second_of_day = cursor.behind_hour(hour, b":")?;
    let micros = cursor.fraction();
    let end = cursor.at;
    let offset_seconds = cursor.spaced_zone();
    let used = if offset_seconds.is_some() { cursor.at } else { end };
    day(
        ClockReading { year, month, day: day_of_month, second_of_day, micros, offset_seconds },
        used,
    )
}

/// `Nov 20 12:00:00`, `Nov  2 12:00:00.123`, `Nov 20 2026 12:00:00`.
pub fn syslog(bytes: &[u8]) -> TimeMatch {
    let mut cursor = ByteCursor { bytes, at: 0 };
    let month = cursor.month()?;
    cursor.skip(b' ')?;
    let has_pad = cursor.skip(b' ').is_some();
    let day_of_month = cursor.digits(2 - usize::from(has_pad)).or_else(|| cursor.digits(1))?;
    cursor.skip(b' ')?;
    let year = (bytes.get(cursor.at + 4) == Some(&b' ')).then(|| cursor.digits(4)).flatten();
    if year.is_some() {
        cursor.skip(b' ')?;
    }
    let second_of_day = cursor.clock()?;
    let micros = cursor.fraction();
    let offset_seconds = None;
    day(
        ClockReading { year, month, day: day_of_month, second_of_day, micros, offset_seconds },
        cursor.at,
    )
}

/// A time of a syslog header: an ISO form, or month, day and clock in any of the orders that
/// programs and devices write, with an offset or the year at its end.
///
/// `is_loose` allows `nov` for `Nov`.
pub fn header(bytes: &[u8], is_loose: bool) -> TimeMatch {
    match bytes.get(..5)? {
        [b'0'..=b'9', _, _, _, b'-' | b'/' | b':'] => iso(bytes),
        // `2026 Nov 20 12:00:00` (NX-OS).
        [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b' '] => {
            let year = ByteCursor { bytes, at: 0 }.digits(4);
            let (reading, used) = syslog(&bytes[5..])?;
            Some((ClockReading { year, ..reading }, used + 5))
        }
        // `Fri 2026-11-20 12:00:00 UTC` (`journalctl -o short-full`).
        [b'A'..=b'Z', _, _, b' ', b'0'..=b'9'] if bytes.get(8) == Some(&b'-') => {
            iso(&bytes[4..]).map(|(reading, used)| (reading, used + 4))
        }
        [b'A'..=b'Z', _, _, b' ', b' ' | b'0'..=b'9'] => syslog_end(bytes, syslog(bytes)?),
        [b'a'..=b'z', _, _, b' ', b' ' | b'0'..=b'9'] if is_loose => {
            let mut front = [0; 32];
            let length = bytes.len().min(front.len());
            front[..length].copy_from_slice(&bytes[..length]);
            front[0].make_ascii_uppercase();
            syslog_end(bytes, syslog(&front[..length])?)
        }
        [b'A'..=b'Z', _, _, b' ', b'A'..=b'Z'] => ctime(bytes),
        // NetScaler's `11/20/2026:12:00:00 GMT`.
        [b'0'..=b'9', b'0'..=b'9', b'/', ..] if is_loose => common_log(bytes),
        _ => None,
    }
}

/// An offset or a year directly behind a clock.
fn syslog_end(bytes: &[u8], (mut reading, used): (ClockReading, usize)) -> TimeMatch {
    let mut cursor = ByteCursor { bytes, at: used };
    if let Some(offset) = cursor.zone() {
        reading.offset_seconds = Some(offset);
        return Some((reading, cursor.at));
    }
    let is_end = matches!(bytes.get(used + 5), None | Some(b' ' | b':'));
    if reading.year.is_none()
        && let Some(year) = cursor.skip(b' ').filter(|()| is_end).and_then(|()| cursor.digits(4))
        && (1970..2100).contains(&year)
    {
        reading.year = Some(year);
        return Some((reading, cursor.at));
    }
    Some((reading, used))
}

/// `Fri Nov 20 12:00:00.123456 2026` (Apache's error log, `ctime`).
pub fn ctime(bytes: &[u8]) -> TimeMatch {
    let rest = bytes.get(4..).filter(|_| bytes[3] == b' ')?;
    let (mut reading, used) = syslog(rest)?;
    let mut cursor = ByteCursor { bytes: rest, at: used };
    cursor.skip(b' ')?;
    reading.year = Some(cursor.digits(4)?);
    Some((reading, cursor.at + 4))
}

/// `1120` and `12:00:00.123456` (klog).
pub fn month_day([digits, clock]: [&[u8]; 2]) -> Option<ClockReading> {
    let mut cursor = ByteCursor { bytes: digits, at: 0 };
    let (month, day_of_month) = (cursor.digits(2)?, cursor.digits(2)?);
    let mut cursor = ByteCursor { bytes: clock, at: 0 };
    let second_of_day = cursor.clock()?;
    let micros = cursor.fraction();
    let reading = ClockReading {
        year: None,
        month,
        day: day_of_month,
        second_of_day,
        micros,
        offset_seconds: None,
    };
    day(reading, 0).map(|(reading, _)| reading)
}

/// Seconds east of UTC of `+02:00`, `-0330` or `Z`.
pub fn offset(text: &str) -> Option<i64> {
    let mut cursor = ByteCursor { bytes: text.as_bytes(), at: 0 };
    let seconds = cursor.zone()?;
    (cursor.at == text.len()).then_some(seconds)
}

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar.
pub fn days_of_civil([year, month, day]: [i64; 3]) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
