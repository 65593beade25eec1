//! `to_char` of times and intervals.

use jiff::civil::DateTime;

use crate::interval::IntervalParts;
use crate::time_pattern::{MONTHS, NameCase, PatternPart, TimeField, WEEKDAYS, parts};
use crate::time_zone::{ZoneRule, wall_clock};

/// Abbreviation and offset in seconds of a time with a zone.
pub type ZoneText = (String, i32);

/// Values of the fields; an interval has no names.
struct FieldValues {
    /// Absent for intervals.
    date: Option<DateTime>,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    zone: Option<ZoneText>,
}

/// Text of a wall time by a pattern; `zone` for a time that has one. `None` beyond the years that
/// exist.
pub fn time_text(wall: i64, zone: Option<&ZoneRule>, pattern: &str) -> Option<String> {
    let time = wall_clock(wall)?;
    let values = FieldValues {
        date: Some(time),
        year: time.year().into(),
        month: time.month().into(),
        day: time.day().into(),
        hour: time.hour().into(),
        minute: time.minute().into(),
        second: time.second().into(),
        micros: i64::from(time.subsec_nanosecond()) / 1000,
        zone: zone.and_then(|zone| zone.text_at(zone.instant(wall)?)),
    };
    written(&values, pattern)
}

/// Text of an interval by a pattern; `None` if the pattern names a field that intervals lack.
pub fn interval_text(interval: IntervalParts, pattern: &str) -> Option<String> {
    let [hour, minute, second, micros] = interval.clock();
    let values = FieldValues {
        date: None,
        year: i64::from(interval.months / 12),
        month: i64::from(interval.months % 12),
        day: interval.days.into(),
        hour,
        minute,
        second,
        micros,
        zone: None,
    };
    written(&values, pattern)
}

fn written(values: &FieldValues, pattern: &str) -> Option<String> {
    let mut text = String::new();
    for part in parts(pattern) {
        match part {
            PatternPart::Quoted(quoted) => text.push_str(&quoted),
            PatternPart::Plain(plain) => text.push(plain),
            PatternPart::Field { field, is_bare, ordinal } => {
                let mut written =
                    number(values, field, is_bare).or_else(|| name(values, field, is_bare))?;
                if let Some(case) = ordinal {
                    written.push_str(ordinal_ending(&written, case));
                }
                text.push_str(&written);
            }
        }
    }
    Some(text)
}

/// A field that is a number: value and width.
fn number(values: &FieldValues, field: TimeField, is_bare: bool) -> Option<String> {
    let (value, width) = match field {
        TimeField::Hour24 => (values.hour, 2),
        TimeField::Hour12 => (twelve(values.hour), 2),
        TimeField::Minute => (values.minute, 2),
        TimeField::Second => (values.second, 2),
        TimeField::Millisecond => (values.micros / 1000, 3),
        TimeField::Microsecond => (values.micros, 6),
        TimeField::Fraction(digits) => {
            let all = format!("{:06}", values.micros.abs());
            return Some(all[..digits].to_owned());
        }
        TimeField::SecondOfDay => ((values.hour * 60 + values.minute) * 60 + values.second, 1),
        TimeField::Day => (values.day, 2),
        TimeField::Month => (values.month, 2),
        TimeField::Year(4) => (positive_year(values), 4),
        TimeField::Year(digits) => (positive_year(values) % power(digits), digits),
        TimeField::YearComma => {
            let year = positive_year(values);
            return Some(format!("{},{:03}", year / 1000, year % 1000));
        }
        TimeField::Century if values.year > 0 => ((values.year - 1) / 100 + 1, 2),
        _ => date_number(values.date?, field)?,
    };
    let is_fraction = matches!(field, TimeField::Millisecond | TimeField::Microsecond);
    let width = width + usize::from(value < 0 && !is_fraction);
    Some(if is_bare { value.to_string() } else { format!("{value:0width$}") })
}

/// Years before the first are counted from it.
fn positive_year(values: &FieldValues) -> i64 {
    if values.date.is_some() && values.year <= 0 { 1 - values.year } else { values.year }
}

fn power(digits: usize) -> i64 {
    [1, 10, 100, 1000][digits.min(3)]
}

fn twelve(hour: i64) -> i64 {
    if hour % 12 == 0 { 12 } else { hour % 12 }
}

fn date_number(time: DateTime, field: TimeField) -> Option<(i64, usize)> {
    let week = time.date().iso_week_date();
    let day_of_year = i64::from(time.day_of_year());
    let weekday = i64::from(time.weekday().to_monday_one_offset());
    Some(match field {
        TimeField::DayOfYear => (day_of_year, 3),
        TimeField::IsoDayOfYear => ((i64::from(week.week()) - 1) * 7 + weekday, 3),
        TimeField::Weekday => (weekday % 7 + 1, 1),
        TimeField::IsoWeekday => (weekday, 1),
        TimeField::IsoWeek => (week.week().into(), 2),
        TimeField::IsoYear(4) => (week.year().into(), 4),
        TimeField::IsoYear(digits) => (i64::from(week.year()) % power(digits), digits),
        TimeField::WeekOfYear => ((day_of_year - 1) / 7 + 1, 2),
        TimeField::WeekOfMonth => ((i64::from(time.day()) - 1) / 7 + 1, 1),
        TimeField::Quarter => ((i64::from(time.month()) - 1) / 3 + 1, 1),
        TimeField::Julian => (julian(time)?, 1),
        _ => return None,
    })
}

/// Julian day number: 2,440,588 is 1970-01-01.
fn julian(time: DateTime) -> Option<i64> {
    let epoch = jiff::civil::date(1970, 1, 1);
    let days = time.date().since((jiff::Unit::Day, epoch)).ok()?;
    Some(i64::from(days.get_days()) + 2_440_588)
}

fn name(values: &FieldValues, field: TimeField, is_bare: bool) -> Option<String> {
    Some(match field {
        TimeField::HalfDay { is_upper, has_dots } => {
            let half = if values.hour % 24 >= 12 { 'p' } else { 'a' };
            let text = if has_dots { format!("{half}.m.") } else { format!("{half}m") };
            if is_upper { text.to_uppercase() } else { text }
        }
        TimeField::Era { is_upper, has_dots } => {
            let is_past = values.date?.year() <= 0;
            let text = match (is_past, has_dots) {
                (true, true) => "b.c.",
                (true, false) => "bc",
                (false, true) => "a.d.",
                (false, false) => "ad",
            };
            if is_upper { text.to_uppercase() } else { text.to_owned() }
        }
        TimeField::MonthName(case) => padded(cased(MONTHS[month_index(values)?], case), 9, is_bare),
        TimeField::MonthShort(case) => cased(&MONTHS[month_index(values)?][..3], case),
        TimeField::MonthRoman { is_upper } => {
            let roman = ROMAN[month_index(values)?];
            let text = if is_upper { roman.to_owned() } else { roman.to_lowercase() };
            padded(text, 4, is_bare)
        }
        TimeField::WeekdayName(case) => {
            padded(cased(WEEKDAYS[weekday_index(values)?], case), 9, is_bare)
        }
        TimeField::WeekdayShort(case) => cased(&WEEKDAYS[weekday_index(values)?][..3], case),
        _ => return zone_text(values, field),
    })
}

fn zone_text(values: &FieldValues, field: TimeField) -> Option<String> {
    // An interval has no zone; a time without one has an empty name and the offset 0.
    values.date?;
    let (name, seconds) = values.zone.clone().unwrap_or_default();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    Some(match field {
        TimeField::ZoneName { is_upper } => {
            if is_upper {
                name
            } else {
                name.to_lowercase()
            }
        }
        TimeField::ZoneHour => format!("{sign}{:02}", minutes / 60),
        TimeField::ZoneMinute => format!("{:02}", minutes % 60),
        TimeField::ZoneOffset if minutes % 60 == 0 => format!("{sign}{:02}", minutes / 60),
        TimeField::ZoneOffset => format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        _ => return None,
    })
}

const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

fn month_index(values: &FieldValues) -> Option<usize> {
    values.date?;
    usize::try_from(values.month - 1).ok()
}

fn weekday_index(values: &FieldValues) -> Option<usize> {
    usize::try_from(values.date?.weekday().to_sunday_zero_offset()).ok()
}

fn cased(name: &str, case: NameCase) -> String {
    match case {
        NameCase::Upper => name.to_uppercase(),
        NameCase::Title => name.to_owned(),
        NameCase::Lower => name.to_lowercase(),
    }
}

fn padded(text: String, width: usize, is_bare: bool) -> String {
    if is_bare { text } else { format!("{text:<width$}") }
}

fn ordinal_ending(number: &str, case: NameCase) -> &'static str {
    let is_teen = number.len() > 1 && number[..number.len() - 1].ends_with('1');
    let ending = match number.bytes().last() {
        Some(b'1') if !is_teen => ["ST", "st"],
        Some(b'2') if !is_teen => ["ND", "nd"],
        Some(b'3') if !is_teen => ["RD", "rd"],
        _ => ["TH", "th"],
    };
    ending[usize::from(case != NameCase::Upper)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T10:11:12.345678.
    const WALL: i64 = 1_795_169_472_345_678;

    #[test]
    fn fields_are_written_as_postgresql_writes_them() {
        for (pattern, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.US", "2026-11-20 10:11:12.345678"),
            ("IYYY-IW-ID", "2026-47-5"),
            ("Dy DD Mon", "Fri 20 Nov"),
            ("FMMonth FMDDth", "November 20th"),
            ("HH12 a.m. \"at\" CC RM", "10 a.m. at 21 XI  "),
            ("J Q WW W DDD", "2461365 4 47 3 324"),
        ] {
            assert_eq!(time_text(WALL, None, pattern).as_deref(), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn zones_have_a_name_and_an_offset() {
        let zone = ZoneRule::parse("Asia/Kolkata").unwrap();
        let text = time_text(WALL, Some(&zone), "TZ OF TZH TZM");
        assert_eq!(text.as_deref(), Some("IST +05:30 +05 30"));
        assert_eq!(time_text(WALL, None, "TZ OF").as_deref(), Some(" +00"));
    }

    #[test]
    fn intervals_have_no_names() {
        let interval = IntervalParts { months: 0, days: 1, micros: 7_384_500_000 };
        let text = interval_text(interval, "DD HH24:MI:SS.MS");
        assert_eq!(text.as_deref(), Some("01 02:03:04.500"));
        assert_eq!(interval_text(interval, "Month"), None);
    }
}
