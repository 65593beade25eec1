//! `to_timestamp` and `to_date`: reads a text by a pattern.

use jiff::civil::{Date, ISOWeekDate, Weekday, date};

use crate::interval::DAY;
use crate::time_pattern::{MONTHS, PatternPart, TimeField, WEEKDAYS, parts};

/// What a text says: a wall time, and the zone's offset if the pattern has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeReading {
    /// Microseconds since 1970 on the wall clock.
    pub wall: i64,
    /// Offset in seconds east of Greenwich.
    pub offset: Option<i32>,
}

/// Reads `text` by `pattern`; the error says what does not fit.
pub fn read_time(text: &str, pattern: &str) -> Result<TimeReading, String> {
    let mut reader = Reader { rest: text, values: ReadValues::default() };
    let parts = parts(pattern);
    for (at, part) in parts.iter().enumerate() {
        if reader.rest.is_empty() {
            break;
        }
        match part {
            PatternPart::Quoted(quoted) => reader.skip(quoted.chars().count()),
            PatternPart::Plain(plain) => reader.skip_like(*plain),
            PatternPart::Field { field, is_bare, ordinal } => {
                let is_free = *is_bare || ordinal.is_some() || ends_number(parts.get(at + 1));
                reader.read(*field, is_free)?;
                if ordinal.is_some() {
                    reader.skip(2);
                }
            }
        }
    }
    reader.values.time().ok_or_else(|| format!("`{text}` is no time that exists"))
}

/// Whether a number before this part may have any length.
fn ends_number(next: Option<&PatternPart>) -> bool {
    match next {
        None => true,
        Some(PatternPart::Plain(plain)) => !plain.is_ascii_digit(),
        Some(PatternPart::Quoted(quoted)) => {
            !quoted.starts_with(|first: char| first.is_ascii_digit())
        }
        Some(PatternPart::Field { field, .. }) => matches!(
            field,
            TimeField::MonthName(_)
                | TimeField::MonthShort(_)
                | TimeField::WeekdayName(_)
                | TimeField::WeekdayShort(_)
                | TimeField::HalfDay { .. }
                | TimeField::Era { .. }
        ),
    }
}

struct Reader<'a> {
    rest: &'a str,
    values: ReadValues,
}

#[derive(Default)]
struct ReadValues {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso: [Option<i64>; 3],
    julian: Option<i64>,
    hour: i64,
    has_half: bool,
    is_afternoon: bool,
    is_past: bool,
    minute: i64,
    second: i64,
    micros: i64,
    second_of_day: Option<i64>,
    zone: [Option<i64>; 2],
    is_west: bool,
}

impl Reader<'_> {
    fn skip(&mut self, count: usize) {
        let at = self.rest.char_indices().nth(count).map_or(self.rest.len(), |(at, _)| at);
        self.rest = &self.rest[at..];
    }

    /// Skips what stands for this character of the pattern: spaces for a space, one separator for a
    /// separator, else any character.
    fn skip_like(&mut self, plain: char) {
        if plain.is_whitespace() {
            let rest = self.rest.trim_start();
            let is_same = rest.len() == self.rest.len();
            self.rest = rest;
            if is_same && self.starts_with_separator() {
                self.skip(1);
            }
        } else if is_separator(plain) {
            self.rest = self.rest.trim_start();
            if self.starts_with_separator() {
                self.skip(1);
            }
        } else {
            self.skip(1);
        }
    }

    fn starts_with_separator(&self) -> bool {
        self.rest.starts_with(is_separator) && !self.rest.starts_with('+')
    }

    fn number(&mut self, digits: usize, is_free: bool) -> Result<i64, String> {
        let rest = self.rest.trim_start();
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = if is_free { count.min(9) } else { count.min(digits) };
        if length == 0 {
            return Err(format!("`{}` does not begin with a number", short(rest)));
        }
        let number = rest[..length].parse().map_err(|_| format!("`{}` is no number", short(rest)));
        self.rest = &rest[length..];
        number
    }

    /// Number within these bounds.
    fn within(&mut self, is_free: bool, bounds: (i64, i64)) -> Result<i64, String> {
        let digits = if bounds.1 > 99 { 3 } else { 2 };
        let digits = if bounds.1 < 10 { 1 } else { digits };
        let found = self.number(digits, is_free)?;
        if found < bounds.0 || found > bounds.1 {
            return Err(format!("{found} is not between {} and {}", bounds.0, bounds.1));
        }
        Ok(found)
    }

    /// Digits of a fraction of a second, in microseconds.
    fn fraction(&mut self, digits: usize, is_free: bool) -> Result<i64, String> {
        let rest = self.rest.trim_start();
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = if is_free { count } else { count.min(digits) };
        if length == 0 {
            return Err(format!("`{}` does not begin with a number", short(rest)));
        }
        if length > digits {
            return Err(format!("`{}` has more than {digits} digits", short(rest)));
        }
        let text = format!("{:0<6}", &rest[..length]);
        self.rest = &rest[length..];
        text.parse().map_err(|_| format!("`{text}` is no number"))
    }

    /// Index of the name that the text begins with.
    fn name(&mut self, names: &[&str], is_short: bool) -> Result<i64, String> {
        let rest = self.rest.trim_start();
        for (at, name) in (0_i64..).zip(names) {
            let name = if is_short { &name[..3] } else { name };
            if rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                self.rest = &rest[name.len()..];
                return Ok(at);
            }
        }
        Err(format!("`{}` does not begin with a name of the pattern", short(rest)))
    }

    fn read(&mut self, field: TimeField, is_free: bool) -> Result<(), String> {
        match field {
            TimeField::Year(digits) => self.values.year = Some(self.year(digits, is_free)?),
            TimeField::YearComma => {
                let thousands = self.number(3, true)?;
                self.skip(1);
                self.values.year = Some(thousands * 1000 + self.number(3, false)?);
            }
            TimeField::Month => self.values.month = Some(self.within(is_free, (1, 12))?),
            TimeField::MonthName(_) => {
                self.values.month = Some(self.name(&MONTHS, false)? + 1);
            }
            TimeField::MonthShort(_) => self.values.month = Some(self.name(&MONTHS, true)? + 1),
            TimeField::Day => self.values.day = Some(self.within(is_free, (1, 31))?),
            TimeField::DayOfYear => {
                self.values.day_of_year = Some(self.within(is_free, (1, 366))?);
            }
            TimeField::WeekdayName(_) => drop(self.name(&WEEKDAYS, false)?),
            TimeField::WeekdayShort(_) => drop(self.name(&WEEKDAYS, true)?),
            TimeField::IsoYear(4) => self.values.iso[0] = Some(self.number(4, is_free)?),
            TimeField::IsoWeek => self.values.iso[1] = Some(self.within(is_free, (1, 53))?),
            TimeField::IsoWeekday => self.values.iso[2] = Some(self.within(is_free, (1, 7))?),
            TimeField::Julian => self.values.julian = Some(self.number(9, true)?),
            TimeField::Quarter => drop(self.within(is_free, (1, 4))?),
            _ => self.read_clock(field, is_free)?,
        }
        Ok(())
    }

    fn read_clock(&mut self, field: TimeField, is_free: bool) -> Result<(), String> {
        match field {
            TimeField::Hour24 => self.values.hour = self.within(is_free, (0, 23))?,
            TimeField::Hour12 => {
                self.values.has_half = true;
                self.values.hour = self.within(is_free, (1, 12))?;
            }
            TimeField::Minute => self.values.minute = self.within(is_free, (0, 59))?,
            TimeField::Second => self.values.second = self.within(is_free, (0, 59))?,
            TimeField::SecondOfDay => {
                self.values.second_of_day = Some(self.number(5, is_free)?);
            }
            TimeField::Millisecond => self.values.micros = self.fraction(3, is_free)?,
            TimeField::Microsecond => self.values.micros = self.fraction(6, is_free)?,
            TimeField::Fraction(digits) => self.values.micros = self.fraction(digits, is_free)?,
            TimeField::HalfDay { has_dots, .. } => {
                let names = if has_dots { ["a.m.", "p.m."] } else { ["am", "pm"] };
                self.values.has_half = true;
                self.values.is_afternoon = self.name(&names, false)? == 1;
            }
            TimeField::Era { has_dots, .. } => {
                let names = if has_dots { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                self.values.is_past = self.name(&names, false)? == 1;
            }
            TimeField::ZoneHour => {
                self.rest = self.rest.trim_start();
                self.values.is_west = self.rest.starts_with('-');
                if self.rest.starts_with(['+', '-']) {
                    self.skip(1);
                }
                self.values.zone[0] = Some(self.within(is_free, (0, 15))?);
            }
            TimeField::ZoneMinute => self.values.zone[1] = Some(self.within(is_free, (0, 59))?),
            _ => return Err("the pattern has a field that is only supported in `to_char`".into()),
        }
        Ok(())
    }

    /// Years with two digits are those nearest to 2020.
    fn year(&mut self, digits: usize, is_free: bool) -> Result<i64, String> {
        let before = self.rest.trim_start().len();
        let found = self.number(digits, is_free)?;
        let length = before - self.rest.len();
        Ok(match (digits, length) {
            (4, _) | (_, 4..) => found,
            (_, 3) => found + if found >= 100 { 1000 } else { 2000 },
            _ if found < 70 => found + 2000,
            _ => found + 1900,
        })
    }
}

fn is_separator(plain: char) -> bool {
    plain.is_ascii_punctuation()
}

/// Beginning of a text, for an error.
fn short(text: &str) -> String {
    text.chars().take(10).collect()
}

impl ReadValues {
    fn time(&self) -> Option<TimeReading> {
        let days = self.date()?.since((jiff::Unit::Day, date(1970, 1, 1))).ok()?.get_days();
        let hour = match (self.has_half, self.is_afternoon) {
            (false, false) => self.hour,
            (_, is_afternoon) => self.hour % 12 + if is_afternoon { 12 } else { 0 },
        };
        let clock = (hour * 60 + self.minute) * 60 + self.second;
        let seconds = self.second_of_day.filter(|seconds| *seconds < 86_400).unwrap_or(clock);
        let wall = i64::from(days) * DAY + seconds * 1_000_000 + self.micros;
        let zone = self.zone[0].map(|hours| hours * 3600 + self.zone[1].unwrap_or(0) * 60);
        let offset =
            zone.and_then(|zone| i32::try_from(if self.is_west { -zone } else { zone }).ok());
        Some(TimeReading { wall, offset })
    }

    fn date(&self) -> Option<Date> {
        if let Some(julian) = self.julian {
            let days = i32::try_from(julian - 2_440_588).ok()?;
            return date(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).ok()?).ok();
        }
        if let [Some(year), week, day] = self.iso {
            let weekday =
                Weekday::from_monday_one_offset(i8::try_from(day.unwrap_or(1)).ok()?).ok()?;
            let week = i8::try_from(week.unwrap_or(1)).ok()?;
            let week = ISOWeekDate::new(i16::try_from(year).ok()?, week, weekday).ok()?;
            return Some(week.date());
        }
        // A time without a year is one of the year before the first, as in PostgreSQL.
        let year = self.year.unwrap_or(0);
        let year = if self.is_past { 1 - year } else { year };
        let first = Date::new(i16::try_from(year).ok()?, 1, 1).ok()?;
        if let Some(day) = self.day_of_year {
            let day = first.checked_add(jiff::Span::new().try_days(day - 1).ok()?).ok()?;
            return (day.year() == first.year()).then_some(day);
        }
        let month = i8::try_from(self.month.unwrap_or(1)).ok()?;
        Date::new(first.year(), month, i8::try_from(self.day.unwrap_or(1)).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_text::time_text;

    fn read(text: &str, pattern: &str) -> String {
        match read_time(text, pattern) {
            Ok(time) => time_text(time.wall, None, "YYYY-MM-DD HH24:MI:SS.US").unwrap(),
            Err(error) => error,
        }
    }

    #[test]
    fn texts_are_read_by_their_pattern() {
        for (text, pattern, expected) in [
            ("2026-11-20 10:11:12.5", "YYYY-MM-DD HH24:MI:SS.US", "2026-11-20 10:11:12.500000"),
            ("20/Nov/2026:10:11:12", "DD/Mon/YYYY:HH24:MI:SS", "2026-11-20 10:11:12.000000"),
            ("20261120101112", "YYYYMMDDHH24MISS", "2026-11-20 10:11:12.000000"),
            ("2026-11-20 12:11 am", "YYYY-MM-DD HH:MI am", "2026-11-20 00:11:00.000000"),
            ("2026-47-5", "IYYY-IW-ID", "2026-11-20 00:00:00.000000"),
            ("2026-324", "YYYY-DDD", "2026-11-20 00:00:00.000000"),
            ("2026-11-20T10:11", "YYYY-MM-DD\"T\"HH24:MI", "2026-11-20 10:11:00.000000"),
        ] {
            assert_eq!(read(text, pattern), expected, "{text} by {pattern}");
        }
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for (text, pattern) in [
            ("2026-02-30", "YYYY-MM-DD"),
            ("2026-13-01", "YYYY-MM-DD"),
            ("2026-11-20 25:00", "YYYY-MM-DD HH24:MI"),
            ("nothing", "YYYY"),
            ("2026-11-20 UTC", "YYYY-MM-DD TZ"),
        ] {
            assert!(read_time(text, pattern).is_err(), "{text} by {pattern}");
        }
    }
}
