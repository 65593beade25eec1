//! Times in free order: `Fri Nov 20 12:00:00 CET 2026`, `20.11.2026 12:00`, `Nov 20, 2026 1:00 PM`.
//!
//! The text is split into numbers and words, which are classified by their form: a clock has
//! colons, a year four digits, a month may be a name. Any other word means that the text is not a
//! time. Also the forms named by users.

use jiff::fmt::strtime::BrokenDownTime;

use crate::time_forms::{ClockReading, days_of_civil};
use crate::time_problem::TimeProblem;
use crate::zone;

/// Most numbers of a date.
const MAX_NUMBERS: usize = 3;

/// Parts of a time found so far.
#[derive(Debug, Default)]
struct TimeParts<'t> {
    numbers: Vec<(&'t str, u8)>,
    month: Option<i64>,
    clock: Option<(i64, i64)>,
    offset_seconds: Option<i64>,
    is_afternoon: Option<bool>,
    is_day_first: bool,
}

/// Reads a whole text.
pub(crate) fn read(text: &str) -> Option<ClockReading> {
    let text = text.split(" m=").next()?;
    // Suricata's `20/11/2026 -- 12:00:00`.
    let mut found = TimeParts { is_day_first: text.contains(" -- "), ..TimeParts::default() };
    let (mut at, bytes) = (0, text.as_bytes());
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'0'..=b'9' => found.number(&text[at..], before(bytes, at))?,
            b'+' | b'-' if found.clock.is_some() => found.offset(&text[at..])?,
            b' ' | b',' | b'-' | b'/' | b'.' | b'@' | b'\t' => 1,
            byte if byte.is_ascii_alphabetic() => found.word(&text[at..])?,
            _ => return None,
        };
    }
    found.reading()
}

fn before(bytes: &[u8], at: usize) -> u8 {
    at.checked_sub(1).map_or(b' ', |before| bytes[before])
}

fn leading(text: &str, is_part: impl Fn(u8) -> bool) -> &str {
    let end = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    &text[..end]
}

impl<'t> TimeParts<'t> {
    /// Reads a clock or a number of the date; returns its length.
    fn number(&mut self, text: &'t str, before: u8) -> Option<usize> {
        let digits = leading(text, |byte| byte.is_ascii_digit());
        if text.as_bytes().get(digits.len()) == Some(&b':') && digits.len() <= 2 {
            return self.colon_clock(text);
        }
        // `20261120T120000`, `20261120120000`.
        let is_behind_date = before == b'T' && !self.numbers.is_empty();
        let (date, clock) = match digits.len() {
            6 if is_behind_date => ("", digits),
            14 => digits.split_at(8),
            _ => (digits, ""),
        };
        if !clock.is_empty() {
            let part = |from: usize| clock.get(from..from + 2)?.parse::<i64>().ok();
            let (hour, minute, second) = (part(0)?, part(2)?, part(4)?);
            self.set_clock([hour, minute, second], 0)?;
        }
        if !date.is_empty() {
            if self.numbers.len() == MAX_NUMBERS || date.len() > 8 {
                return None;
            }
            self.numbers.push((date, before));
        }
        Some(digits.len())
    }

    /// `12:00`, `9:00:00`, `12:00:00.123`.
    fn colon_clock(&mut self, text: &str) -> Option<usize> {
        let clock = leading(text, |byte| byte.is_ascii_digit() || byte == b':');
        let mut parts = clock.split(':');
        let mut part = || parts.next().map(|part| part.parse::<i64>().ok());
        let (hour, minute, second) = (part()??, part()??, part().unwrap_or(Some(0))?);
        // WebSphere's `12:00:00:123`.
        if let Some(millis) = part() {
            let is_last = part().is_none() && clock.rsplit(':').next()?.len() == 3;
            let micros = millis.filter(|_| is_last)? * 1000;
            self.set_clock([hour, minute, second], micros)?;
            return Some(clock.len());
        }
        let fraction = match text[clock.len()..].strip_prefix(['.', ',']) {
            Some(rest) => leading(rest, |byte| byte.is_ascii_digit()),
            None => "",
        };
        let micros = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
        let micros = micros.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        self.set_clock([hour, minute, second], micros)?;
        Some(clock.len() + if fraction.is_empty() { 0 } else { fraction.len() + 1 })
    }

    fn set_clock(&mut self, [hour, minute, second]: [i64; 3], micros: i64) -> Option<()> {
        let is_clock = hour < 24 && minute < 60 && second <= 60 && self.clock.is_none();
        is_clock.then(|| {
            self.clock = Some((hour * 3600 + minute * 60 + second.min(59), micros));
        })
    }

    fn offset(&mut self, text: &str) -> Option<usize> {
        let length = 1 + leading(&text[1..], |byte| byte.is_ascii_digit() || byte == b':').len();
        let seconds = crate::time_forms::offset(&text[..length])?;
        self.offset_seconds = Some(seconds);
        Some(length)
    }

    /// Reads a month, a weekday, a zone, AM or PM; returns its length.
    fn word(&mut self, text: &str) -> Option<usize> {
        const MONTHS: [&str; 12] = [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ];
        const DAYS: [&str; 7] =
            ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
        let word = leading(text, |byte| byte.is_ascii_alphabetic());
        let lower = word.to_ascii_lowercase();
        let begins = |name: &str| lower.len() >= 3 && name.starts_with(lower.as_str());
        if let Some(index) = MONTHS.iter().position(|month| begins(month)) {
            if self.month.replace(i64::try_from(index).ok()? + 1).is_some() {
                return None;
            }
        } else if matches!(lower.as_str(), "am" | "pm") && self.clock.is_some() {
            self.is_afternoon = Some(lower == "pm");
        } else if lower == "z" && self.clock.is_some() {
            self.offset_seconds = Some(0);
        } else if let Some(offset) = zone::of_abbreviation(word.as_bytes()) {
            // `+0100 CET`: the number takes precedence.
            self.offset_seconds.get_or_insert(offset);
        } else if !(DAYS.iter().any(|day| begins(day)) || word == "T" || lower == "at") {
            return None;
        }
        Some(word.len())
    }

    fn reading(&self) -> Option<ClockReading> {
        let (mut second_of_day, micros) = self.clock?;
        match self.is_afternoon {
            Some(_) if !(3600..13 * 3600).contains(&second_of_day) => return None,
            Some(true) if second_of_day < 12 * 3600 => second_of_day += 12 * 3600,
            Some(false) if second_of_day >= 12 * 3600 => second_of_day -= 12 * 3600,
            _ => {}
        }
        let (year, month, day) = self.date()?;
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        is_date.then_some(ClockReading {
            year,
            month,
            day,
            second_of_day,
            micros,
            offset_seconds: self.offset_seconds,
        })
    }

    fn date(&self) -> Option<(Option<i64>, i64, i64)> {
        let value = |text: &str| text.parse::<i64>().ok();
        let is_year = |text: &str| text.len() == 4;
        match (self.month, self.numbers.as_slice()) {
            (Some(month), [(day, _)]) => Some((None, month, value(day)?)),
            (Some(month), [(year, _), (day, _)]) if is_year(year) => {
                Some((value(year), month, value(day)?))
            }
            (Some(month), [(day, _), (year, _)]) => {
                Some((Some(full_year(year)?), month, value(day)?))
            }
            (None, [(packed, _)]) => {
                let (year, rest) = packed.split_at(packed.len().checked_sub(4)?);
                Some((Some(full_year(year)?), value(&rest[..2])?, value(&rest[2..])?))
            }
            (None, [(year, _), (day, _)]) if is_year(year) && day.len() == 3 => {
                let (month, day) = of_day_of_year(value(year)?, value(day)?)?;
                Some((value(year), month, day))
            }
            (None, [(year, _), (month, _), (day, _)]) if is_year(year) => {
                Some((value(year), value(month)?, value(day)?))
            }
            (None, [(first, _), (second, mark), (year, _)]) => {
                let (first, second) = (value(first)?, value(second)?);
                // Only slashes mean month first, as in North America, and not where that cannot be.
                let is_month_first =
                    !self.is_day_first && *mark == b'/' && first <= 12 || second > 12;
                let (month, day) = if is_month_first { (first, second) } else { (second, first) };
                Some((Some(full_year(year)?), month, day))
            }
            _ => None,
        }
    }
}

/// Month and day of a day of the year (ISO 8601's ordinal date).
fn of_day_of_year(year: i64, day: i64) -> Option<(i64, i64)> {
    let first = days_of_civil([year, 1, 1]);
    (1..=12).rev().find_map(|month| {
        let day = first + day - days_of_civil([year, month, 1]);
        (1..=31).contains(&day).then_some((month, day))
    })
}

/// Two-digit years are 1970 to 2069.
fn full_year(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    match (text.len(), year) {
        (4, _) => Some(year),
        (2, 70..) => Some(1900 + year),
        (2, _) => Some(2000 + year),
        _ => None,
    }
}

/// A time form of the user, as `strptime` (`%d/%m/%Y`) or Java letters (`dd/MM/yyyy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeForm {
    format: String,
}

impl TimeForm {
    /// Parses a form and checks it by a round trip.
    pub fn parse(written: &str) -> Result<Self, TimeProblem> {
        let format =
            if written.contains('%') { Some(written.to_owned()) } else { of_java(written) };
        let sample = jiff::Timestamp::from_second(1_795_176_000).expect("a time of 2026");
        let sample = sample.to_zoned(jiff::tz::TimeZone::UTC);
        let works = |format: &String| {
            let text = jiff::fmt::strtime::format(format, &sample).map_err(|e| e.to_string())?;
            BrokenDownTime::parse(format, &text).map_err(|e| e.to_string())?;
            let form = Self { format: format.clone() };
            form.read(&text).map(|_| form).ok_or_else(|| "it lacks day, month or clock".to_owned())
        };
        let result = match &format {
            Some(format) => works(format),
            None => Err("it has an unknown letter".to_owned()),
        };
        result.map_err(|why| {
            TimeProblem::new(
                format!("`{written}` is not a time format: {why}"),
                "use strptime (`%d/%m/%Y %H:%M:%S`) or Java (`dd/MM/yyyy HH:mm:ss`); common formats need none",
            )
        })
    }

    /// Reads a whole text in this form.
    pub fn read(&self, text: &str) -> Option<ClockReading> {
        let parts = BrokenDownTime::parse(&self.format, text).ok()?;
        let clock = |part: Option<i8>| i64::from(part.unwrap_or_default());
        let hour = parts.to_time().map_or(clock(parts.hour()), |time| i64::from(time.hour()));
        Some(ClockReading {
            year: parts.year().map(i64::from),
            month: i64::from(parts.month()?),
            day: i64::from(parts.day()?),
            second_of_day: hour * 3600 + clock(parts.minute()) * 60 + clock(parts.second()).min(59),
            micros: i64::from(parts.subsec_nanosecond().unwrap_or_default()) / 1_000,
            offset_seconds: parts.offset().map(|offset| i64::from(offset.seconds())),
        })
    }
}

/// Converts `dd/MMM/yyyy:HH:mm:ss Z` to `%d/%b/%Y:%H:%M:%S %z`; `None` for an unknown letter.
fn of_java(written: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), written);
    while let Some(first) = rest.chars().next() {
        let run = leading(rest, |byte| char::from(byte) == first).len().max(first.len_utf8());
        if first == '\'' {
            let quoted = rest[1..].split_once('\'')?;
            out += quoted.0;
            rest = quoted.1;
            continue;
        }
        out += match (first, run) {
            ('y' | 'u', 2) => "%y",
            ('y' | 'u', _) => "%Y",
            ('M', 1 | 2) => "%m",
            ('M', 3) => "%b",
            ('M', _) => "%B",
            ('d', 1 | 2) => "%d",
            ('H', 1 | 2) => "%H",
            ('h', 1 | 2) => "%I",
            ('m', 1 | 2) => "%M",
            ('s', 1 | 2) => "%S",
            ('S', _) => "%f",
            ('a', _) => "%p",
            ('E', 1..=3) => "%a",
            ('E', _) => "%A",
            ('Z' | 'X' | 'x', _) => "%z",
            (letter, _) if letter.is_ascii_alphabetic() => return None,
            _ => &rest[..run],
        };
        rest = &rest[run..];
    }
    (!out.is_empty()).then_some(out)
}
