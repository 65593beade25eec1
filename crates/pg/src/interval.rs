//! Intervals as text: PostgreSQL's own notation, verbose units, and ISO 8601 (PostgreSQL's manual,
//! section "Interval Input").

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{DurationMicrosecondType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};

/// How intervals are written; PostgreSQL has two more styles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IntervalStyle {
    #[default]
    Postgres,
    Iso8601,
}

impl IntervalStyle {
    /// The text of an interval.
    pub(crate) fn text(self, value: IntervalMonthDayNano) -> String {
        match self {
            Self::Postgres => text(value),
            Self::Iso8601 => iso_text(value),
        }
    }
}

/// Formats an interval such as `P1Y2M3DT4H5M6.5S`; each part has its sign.
fn iso_text(value: IntervalMonthDayNano) -> String {
    let micros = value.nanoseconds / 1000;
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let mut date = String::from("P");
    for (count, unit) in [(value.months / 12, 'Y'), (value.months % 12, 'M'), (value.days, 'D')] {
        if count != 0 {
            date.push_str(&format!("{count}{unit}"));
        }
    }
    let mut time = String::new();
    for (count, unit) in [(seconds / 3600, 'H'), (seconds / 60 % 60, 'M')] {
        if count != 0 {
            time.push_str(&format!("{count}{unit}"));
        }
    }
    let seconds = seconds % 60;
    if seconds != 0 || rest != 0 {
        let sign = if micros < 0 { "-" } else { "" };
        let text = format!("{}.{:06}", seconds.abs(), rest.abs());
        time.push_str(&format!("{sign}{}S", text.trim_end_matches('0').trim_end_matches('.')));
    }
    match (date.as_str(), time.as_str()) {
        ("P", "") => "PT0S".to_owned(),
        (_, "") => date,
        _ => format!("{date}T{time}"),
    }
}

const SECOND_MICROS: f64 = 1e6;
const DAY_SECONDS: f64 = 86_400.0;
/// Days of a month where a fraction of one is spread, as in PostgreSQL.
const MONTH_DAYS: f64 = 30.0;

/// Differences of two times: days and a time of day, as PostgreSQL has them.
pub(crate) fn of_differences(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    const DAY_MICROS: i64 = 86_400_000_000;
    let micros = cast(column, &DataType::Duration(TimeUnit::Microsecond))?;
    let micros = micros.as_primitive::<DurationMicrosecondType>();
    let intervals: PrimitiveArray<IntervalMonthDayNanoType> = micros.unary(|micros| {
        let days = i32::try_from(micros / DAY_MICROS).unwrap_or(i32::MAX);
        IntervalMonthDayNano::new(0, days, micros % DAY_MICROS * 1000)
    });
    Ok(Arc::new(intervals))
}

/// Formats an interval such as `1 year 2 mons 3 days 04:05:06.5`.
pub(crate) fn text(value: IntervalMonthDayNano) -> String {
    let mut parts = Vec::new();
    let (years, months) = (value.months / 12, value.months % 12);
    let mut is_after_negative = false;
    for (count, unit) in [(years, "year"), (months, "mon"), (value.days, "day")] {
        if count != 0 {
            let end = if count == 1 { "" } else { "s" };
            let sign = if is_after_negative && count > 0 { "+" } else { "" };
            parts.push(format!("{sign}{count} {unit}{end}"));
            is_after_negative = count < 0;
        }
    }
    let micros = value.nanoseconds / 1000;
    if micros != 0 || parts.is_empty() {
        let sign = match micros {
            ..0 => "-",
            _ if is_after_negative => "+",
            _ => "",
        };
        parts.push(format!("{sign}{}", clock(micros.unsigned_abs())));
    }
    parts.join(" ")
}

fn clock(micros: u64) -> String {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let whole = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if rest == 0 {
        return whole;
    }
    let rest = format!("{rest:06}");
    format!("{whole}.{}", rest.trim_end_matches('0'))
}

/// Months, days and microseconds while they are summed.
#[derive(Clone, Copy, Default)]
struct IntervalSum {
    months: f64,
    days: f64,
    micros: f64,
}

/// A number and its unit.
struct CountedUnit<'a> {
    count: f64,
    unit: &'a str,
}

impl IntervalSum {
    fn add(&mut self, counted: &CountedUnit<'_>) -> Option<()> {
        let CountedUnit { count, unit } = *counted;
        let lower = unit.to_ascii_lowercase();
        let plain = lower.strip_suffix('s').filter(|rest| rest.len() > 1).unwrap_or(&lower);
        match plain {
            "microsecond" | "us" | "usec" => self.micros += count,
            "millisecond" | "ms" | "msec" => self.micros += count * 1000.0,
            "second" | "s" | "sec" | "" => self.micros += count * SECOND_MICROS,
            "minute" | "m" | "min" => self.micros += count * 60.0 * SECOND_MICROS,
            "hour" | "h" | "hr" => self.micros += count * 3600.0 * SECOND_MICROS,
            "day" | "d" => self.add_days(count),
            "week" | "w" => self.add_days(count * 7.0),
            "month" | "mon" => self.add_months(count),
            "year" | "y" | "yr" => self.add_months(count * 12.0),
            "decade" => self.add_months(count * 120.0),
            "century" | "centurie" => self.add_months(count * 1200.0),
            "millennium" | "millennia" => self.add_months(count * 12_000.0),
            _ => return None,
        }
        Some(())
    }

    /// Adds days; a fraction becomes time.
    fn add_days(&mut self, days: f64) {
        self.days += days.trunc();
        self.micros += days.fract() * DAY_SECONDS * SECOND_MICROS;
    }

    /// Adds months; a fraction becomes days.
    fn add_months(&mut self, months: f64) {
        let whole = months.trunc();
        self.months += whole;
        self.add_days(((months - whole) * MONTH_DAYS * 1e6).round() / 1e6);
    }

    /// The value; `None` where it does not fit.
    fn value(self, sign: f64) -> Option<IntervalMonthDayNano> {
        let months = whole(self.months * sign, f64::from(i32::MAX))?;
        let days = whole(self.days * sign, f64::from(i32::MAX))?;
        // 292 years, of which an f64 keeps the microseconds.
        let micros = whole(self.micros * sign, 9.2e15)?;
        Some(IntervalMonthDayNano::new(
            i32::try_from(months).ok()?,
            i32::try_from(days).ok()?,
            micros.checked_mul(1000)?,
        ))
    }
}

/// The whole number nearest to `number`, within `limit`.
fn whole(number: f64, limit: f64) -> Option<i64> {
    if number.is_nan() || number.abs() > limit {
        return None;
    }
    format!("{number:.0}").parse().ok()
}

/// Parses an interval; `None` if the text is none.
pub(crate) fn parse(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    let text = text.strip_prefix('@').unwrap_or(text).trim();
    let (text, sign) = match text.strip_suffix("ago") {
        Some(rest) => (rest.trim(), -1.0),
        None => (text, 1.0),
    };
    let sum = match text.strip_prefix(['P', 'p']) {
        Some(iso) => parse_iso(iso)?,
        None => parse_units(text)?,
    };
    sum.value(sign)
}

/// Parses `1Y2M3DT4H5M6.5S`.
fn parse_iso(text: &str) -> Option<IntervalSum> {
    let mut sum = IntervalSum::default();
    let (date, time) = text.split_once(['T', 't']).unwrap_or((text, ""));
    for (part, units) in [
        (date, [('Y', "year"), ('M', "month"), ('W', "week"), ('D', "day")].as_slice()),
        (time, &[('H', "hour"), ('M', "minute"), ('S', "second")]),
    ] {
        let mut rest = part;
        while !rest.is_empty() {
            let end = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
            let letter = rest[end..].chars().next()?.to_ascii_uppercase();
            let (_, unit) = units.iter().find(|(own, _)| *own == letter)?;
            sum.add(&CountedUnit { count: rest[..end].parse().ok()?, unit })?;
            rest = &rest[end + 1..];
        }
    }
    (!date.is_empty() || !time.is_empty()).then_some(sum)
}

/// Parses `1 year 2 mons -04:05:06.5`, `90 minutes`, `30`.
fn parse_units(text: &str) -> Option<IntervalSum> {
    let mut sum = IntervalSum::default();
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    while let Some(word) = words.next() {
        if word.contains(':') {
            sum.micros += parse_clock(word)?;
            continue;
        }
        let end = word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(word.len());
        let count: f64 = word[..end].parse().ok()?;
        let unit = match &word[end..] {
            "" => words.next_if(|next| next.starts_with(|c: char| c.is_ascii_alphabetic())),
            unit => Some(unit),
        };
        sum.add(&CountedUnit { count, unit: unit.unwrap_or("second") })?;
    }
    Some(sum)
}

/// Microseconds of `[+-]hours:minutes[:seconds]`.
fn parse_clock(word: &str) -> Option<f64> {
    let (word, sign) = match word.strip_prefix('-') {
        Some(rest) => (rest, -1.0),
        None => (word.strip_prefix('+').unwrap_or(word), 1.0),
    };
    let mut parts = word.split(':');
    let hours: u32 = parts.next()?.parse().ok()?;
    let minutes: u32 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().map_or(Some(0.0), |part| part.parse().ok())?;
    if minutes > 59 || !(0.0..61.0).contains(&seconds) || parts.next().is_some() {
        return None;
    }
    Some(sign * (f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + seconds) * SECOND_MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_times_have_days() {
        let differences = arrow_array::DurationMicrosecondArray::from(vec![
            Some(2 * 86_400_000_000 + 5_400_000_000),
            Some(-86_400_000_000),
            None,
        ]);
        let column: ArrayRef = Arc::new(differences);
        let intervals = of_differences(&column).unwrap();
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        assert_eq!(text(intervals.value(0)), "2 days 01:30:00");
        assert_eq!(text(intervals.value(1)), "-1 days");
        assert!(arrow_array::Array::is_null(intervals, 2));
    }

    #[test]
    fn iso_8601_has_the_sign_of_each_part() {
        for (months, days, micros, expected) in [
            (0, 0, 0, "PT0S"),
            (14, 3, 14_706_700_000, "P1Y2M3DT4H5M6.7S"),
            (-14, 3, -14_706_700_000, "P-1Y-2M3DT-4H-5M-6.7S"),
            (0, 0, -500_000, "PT-0.5S"),
            (0, 1, 0, "P1D"),
            (0, 0, 90_000_000, "PT1M30S"),
        ] {
            let value = IntervalMonthDayNano::new(months, days, micros * 1000);
            assert_eq!(IntervalStyle::Iso8601.text(value), expected);
        }
    }

    #[test]
    fn every_notation_of_an_interval_is_read() {
        // Text, and what PostgreSQL 15 prints for it.
        for (text_in, expected) in [
            ("1 day 02:00:00", "1 day 02:00:00"),
            ("1 year 2 mons 3 days 04:05:06.5", "1 year 2 mons 3 days 04:05:06.5"),
            ("-1 days +02:00:00", "-1 days +02:00:00"),
            ("PT5M", "00:05:00"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("P-1W", "-7 days"),
            ("1.5 hours", "01:30:00"),
            ("1.5 days", "1 day 12:00:00"),
            ("0.5 months", "15 days"),
            ("@ 1 hour ago", "-01:00:00"),
            ("90 minutes", "01:30:00"),
            ("2days", "2 days"),
            ("30", "00:00:30"),
            ("250 ms", "00:00:00.25"),
            ("250 milliseconds", "00:00:00.25"),
            ("5 us", "00:00:00.000005"),
            ("100:00", "100:00:00"),
            ("0", "00:00:00"),
            ("1 week", "7 days"),
            ("14 mons", "1 year 2 mons"),
        ] {
            let parsed = parse(text_in).map(text);
            assert_eq!(parsed.as_deref(), Some(expected), "{text_in}");
        }
        for wrong in ["", "P", "1 parsec", "day", "1:99", "1e400 years", "P1H", "999999999999 days"]
        {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn any_text_is_parsed_without_a_panic() {
        arbtest::arbtest(|bytes| {
            let text_in: String = bytes.arbitrary()?;
            if let Some(value) = parse(&text_in) {
                assert!(parse(&text(value)).is_some(), "{text_in}");
            }
            Ok(())
        });
    }
}
