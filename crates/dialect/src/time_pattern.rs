//! Template patterns of `to_char` and `to_timestamp`, split into fields and literal text.

/// One field of a time, in the spelling of the pattern: case decides how names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeField {
    Era {
        is_upper: bool,
        has_dots: bool,
    },
    HalfDay {
        is_upper: bool,
        has_dots: bool,
    },
    Century,
    WeekdayName(NameCase),
    WeekdayShort(NameCase),
    MonthName(NameCase),
    MonthShort(NameCase),
    MonthRoman {
        is_upper: bool,
    },
    Day,
    DayOfYear,
    IsoDayOfYear,
    /// 1 is Sunday.
    Weekday,
    /// 1 is Monday.
    IsoWeekday,
    Hour24,
    Hour12,
    IsoWeek,
    /// Year of the ISO week, with this many digits.
    IsoYear(usize),
    Julian,
    Minute,
    Month,
    Millisecond,
    Microsecond,
    /// Fraction of a second with this many digits.
    Fraction(usize),
    ZoneOffset,
    ZoneHour,
    ZoneMinute,
    ZoneName {
        is_upper: bool,
    },
    Quarter,
    SecondOfDay,
    Second,
    WeekOfYear,
    WeekOfMonth,
    /// Year with this many digits.
    Year(usize),
    /// Year as `2,026`.
    YearComma,
}

/// Case of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameCase {
    Upper,
    Title,
    Lower,
}

/// Part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternPart {
    Field {
        field: TimeField,
        /// `FM`: without padding.
        is_bare: bool,
        /// `th` or `TH` after a number.
        ordinal: Option<NameCase>,
    },
    /// Text in quotes, which is matched by its length only.
    Quoted(String),
    /// A character that is no field.
    Plain(char),
}

const fn half_day([is_upper, has_dots]: [bool; 2]) -> TimeField {
    TimeField::HalfDay { is_upper, has_dots }
}

const fn era([is_upper, has_dots]: [bool; 2]) -> TimeField {
    TimeField::Era { is_upper, has_dots }
}

/// Fields whose spelling decides the case.
const CASED: &[(&str, TimeField)] = &[
    ("A.D.", era([true, true])),
    ("a.d.", era([false, true])),
    ("B.C.", era([true, true])),
    ("b.c.", era([false, true])),
    ("AD", era([true, false])),
    ("ad", era([false, false])),
    ("BC", era([true, false])),
    ("bc", era([false, false])),
    ("A.M.", half_day([true, true])),
    ("a.m.", half_day([false, true])),
    ("P.M.", half_day([true, true])),
    ("p.m.", half_day([false, true])),
    ("AM", half_day([true, false])),
    ("am", half_day([false, false])),
    ("PM", half_day([true, false])),
    ("pm", half_day([false, false])),
    ("DAY", TimeField::WeekdayName(NameCase::Upper)),
    ("Day", TimeField::WeekdayName(NameCase::Title)),
    ("day", TimeField::WeekdayName(NameCase::Lower)),
    ("DY", TimeField::WeekdayShort(NameCase::Upper)),
    ("Dy", TimeField::WeekdayShort(NameCase::Title)),
    ("dy", TimeField::WeekdayShort(NameCase::Lower)),
    ("MONTH", TimeField::MonthName(NameCase::Upper)),
    ("Month", TimeField::MonthName(NameCase::Title)),
    ("month", TimeField::MonthName(NameCase::Lower)),
    ("MON", TimeField::MonthShort(NameCase::Upper)),
    ("Mon", TimeField::MonthShort(NameCase::Title)),
    ("mon", TimeField::MonthShort(NameCase::Lower)),
    ("RM", TimeField::MonthRoman { is_upper: true }),
    ("rm", TimeField::MonthRoman { is_upper: false }),
    ("TZH", TimeField::ZoneHour),
    ("TZM", TimeField::ZoneMinute),
    ("TZ", TimeField::ZoneName { is_upper: true }),
    ("tzh", TimeField::ZoneHour),
    ("tzm", TimeField::ZoneMinute),
    ("tz", TimeField::ZoneName { is_upper: false }),
    ("OF", TimeField::ZoneOffset),
];

/// Fields that are numbers, in upper or lower case; longer names come first.
const NUMBERS: &[(&str, TimeField)] = &[
    ("Y,YYY", TimeField::YearComma),
    ("SSSSS", TimeField::SecondOfDay),
    ("SSSS", TimeField::SecondOfDay),
    ("IYYY", TimeField::IsoYear(4)),
    ("IDDD", TimeField::IsoDayOfYear),
    ("HH24", TimeField::Hour24),
    ("HH12", TimeField::Hour12),
    ("YYYY", TimeField::Year(4)),
    ("YYY", TimeField::Year(3)),
    ("IYY", TimeField::IsoYear(3)),
    ("DDD", TimeField::DayOfYear),
    ("FF1", TimeField::Fraction(1)),
    ("FF2", TimeField::Fraction(2)),
    ("FF3", TimeField::Fraction(3)),
    ("FF4", TimeField::Fraction(4)),
    ("FF5", TimeField::Fraction(5)),
    ("FF6", TimeField::Fraction(6)),
    ("YY", TimeField::Year(2)),
    ("IY", TimeField::IsoYear(2)),
    ("IW", TimeField::IsoWeek),
    ("ID", TimeField::IsoWeekday),
    ("HH", TimeField::Hour12),
    ("MI", TimeField::Minute),
    ("MM", TimeField::Month),
    ("MS", TimeField::Millisecond),
    ("SS", TimeField::Second),
    ("US", TimeField::Microsecond),
    ("WW", TimeField::WeekOfYear),
    ("CC", TimeField::Century),
    ("DD", TimeField::Day),
    ("Y", TimeField::Year(1)),
    ("I", TimeField::IsoYear(1)),
    ("D", TimeField::Weekday),
    ("J", TimeField::Julian),
    ("Q", TimeField::Quarter),
    ("W", TimeField::WeekOfMonth),
];

/// Parts of a pattern.
pub(crate) fn parts(pattern: &str) -> Vec<PatternPart> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = push_quoted(&mut parts, quoted);
            continue;
        }
        let (bare, after) = prefixes(rest);
        if let Some((field, after)) = field(after) {
            let (ordinal, after) = suffix(after);
            parts.push(PatternPart::Field { field, is_bare: bare, ordinal });
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("\\\"") {
            parts.push(PatternPart::Plain('"'));
            rest = after;
            continue;
        }
        parts.push(PatternPart::Plain(first));
        rest = &rest[first.len_utf8()..];
    }
    parts
}

/// Text up to the closing quote; returns the rest.
fn push_quoted<'a>(parts: &mut Vec<PatternPart>, quoted: &'a str) -> &'a str {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, next)) = chars.next() {
        match next {
            '"' => {
                parts.push(PatternPart::Quoted(text));
                return &quoted[at + 1..];
            }
            '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
            other => text.push(other),
        }
    }
    parts.push(PatternPart::Quoted(text));
    ""
}

/// Whether `FM` stands before a field, and the pattern after all prefixes.
fn prefixes(pattern: &str) -> (bool, &str) {
    let (mut is_bare, mut rest) = (false, pattern);
    while let Some(prefix) = rest.get(..2) {
        match prefix {
            "FM" | "fm" => is_bare = true,
            "FX" | "fx" | "TM" | "tm" => {}
            _ => break,
        }
        rest = &rest[2..];
    }
    (is_bare, rest)
}

fn field(pattern: &str) -> Option<(TimeField, &str)> {
    for (name, field) in CASED {
        if let Some(rest) = pattern.strip_prefix(name) {
            return Some((*field, rest));
        }
    }
    for (name, field) in NUMBERS {
        let Some(found) = pattern.get(..name.len()) else { continue };
        if found == *name || found == name.to_ascii_lowercase() {
            return Some((*field, &pattern[name.len()..]));
        }
    }
    None
}

fn suffix(pattern: &str) -> (Option<NameCase>, &str) {
    for (name, case) in [("TH", NameCase::Upper), ("th", NameCase::Lower)] {
        if let Some(rest) = pattern.strip_prefix(name) {
            return (Some(case), rest);
        }
    }
    (None, pattern)
}

/// English names of months.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// English names of weekdays; the week begins with Sunday.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
