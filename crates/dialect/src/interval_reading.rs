//! Reads texts of intervals: words with units, times of day, ISO 8601, and SQL's `1-2 3 4:05:06`.
//!
//! Fractions go down as in PostgreSQL: those of a year to months, of a month to days of 30 to a month,
//! of a week or day to time.

use crate::interval::{DAY, IntervalParts};

/// Smallest unit of the fields behind an interval, as `minute` of `interval '5' minute`; a number
/// without a unit counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BareUnit {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Year,
}

#[derive(Clone, Copy, Default)]
struct IntervalSum {
    months: f64,
    days: f64,
    micros: f64,
}

impl IntervalSum {
    fn add(&mut self, count: f64, unit: &str) -> Option<()> {
        let lower = unit.to_ascii_lowercase();
        match lower.as_str() {
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => self.micros += count,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => self.micros += count * 1e3,
            "s" | "sec" | "secs" | "second" | "seconds" => self.micros += count * 1e6,
            "m" | "min" | "mins" | "minute" | "minutes" => self.micros += count * 6e7,
            "h" | "hr" | "hrs" | "hour" | "hours" => self.micros += count * 3.6e9,
            "d" | "day" | "days" => self.add_days(count),
            "w" | "week" | "weeks" => self.add_days(count * 7.0),
            "mon" | "mons" | "month" | "months" => self.add_months(count),
            "y" | "yr" | "yrs" | "year" | "years" => self.add_years(count),
            "dec" | "decs" | "decade" | "decades" => self.add_years(count * 10.0),
            "c" | "cent" | "century" | "centuries" => self.add_years(count * 100.0),
            "mil" | "mils" | "millennium" | "millennia" => self.add_years(count * 1000.0),
            _ => return None,
        }
        Some(())
    }

    fn add_years(&mut self, count: f64) {
        self.months += (count * 12.0).round();
    }

    fn add_months(&mut self, count: f64) {
        self.months += count.trunc();
        self.add_days((count.fract() * 30.0 * 1e6).round() / 1e6);
    }

    #[expect(clippy::cast_precision_loss, reason = "a constant below 2^53")]
    fn add_days(&mut self, count: f64) {
        self.days += count.trunc();
        self.micros += (count.fract() * DAY as f64).round();
    }

    fn add_bare(&mut self, count: f64, unit: BareUnit) {
        match unit {
            BareUnit::Second => self.micros += count * 1e6,
            BareUnit::Minute => self.micros += count * 6e7,
            BareUnit::Hour => self.micros += count * 3.6e9,
            BareUnit::Day => self.add_days(count),
            BareUnit::Month => self.add_months(count),
            BareUnit::Year => self.add_years(count),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    fn parts(self, sign: f64) -> Option<IntervalParts> {
        let micros = (self.micros * sign).round();
        (micros.abs() < 9.2e18).then_some(IntervalParts {
            months: whole_count(self.months * sign)?,
            days: whole_count(self.days * sign)?,
            micros: micros as i64,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn whole_count(count: f64) -> Option<i32> {
    let is_in_range = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&count);
    is_in_range.then_some(count as i32)
}

/// Parts of an interval; `None` for a text that is none.
pub fn read_interval(text: &str) -> Option<IntervalParts> {
    read_with_unit(text, BareUnit::Second)
}

/// The same, with the unit of a number without one.
pub(crate) fn read_with_unit(text: &str, bare: BareUnit) -> Option<IntervalParts> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix(['P', 'p']) {
        return iso(rest)?.parts(1.0);
    }
    let words = spaced(text.strip_prefix('@').unwrap_or(text));
    let mut words: Vec<&str> = words.split_whitespace().collect();
    let is_ago = words.last().is_some_and(|word| word.eq_ignore_ascii_case("ago"));
    if is_ago {
        words.pop();
    }
    let mut sum = IntervalSum::default();
    let mut at = 0;
    if words.is_empty() {
        return None;
    }
    while let Some(word) = words.get(at) {
        at += 1;
        if word.contains(':') {
            add_clock(&mut sum, word, bare)?;
        } else if let Some((years, months)) = year_month(word) {
            sum.months += years * 12.0 + months;
        } else {
            let count = word.parse::<f64>().ok().filter(|_| is_number(word))?;
            match words.get(at) {
                Some(unit) if unit.starts_with(|next: char| next.is_ascii_alphabetic()) => {
                    at += 1;
                    sum.add(count, unit)?;
                }
                // `1 02:03:04` has days before the time of day.
                Some(next) if next.contains(':') => sum.add_days(count),
                None => sum.add_bare(count, bare),
                Some(_) => return None,
            }
        }
    }
    sum.parts(if is_ago { -1.0 } else { 1.0 })
}

/// A text with spaces between numbers and units, as in `1h30m`.
fn spaced(text: &str) -> String {
    let mut new = String::with_capacity(text.len() + 8);
    let mut last = ' ';
    for next in text.chars() {
        let is_unit = next.is_ascii_alphabetic() && (last.is_ascii_digit() || last == '.');
        let is_count = last.is_ascii_alphabetic() && (next.is_ascii_digit() || "+-".contains(next));
        new.extend((is_unit || is_count).then_some(' '));
        new.push(next);
        last = next;
    }
    new
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte))
}

/// `1-2`: years and months.
fn year_month(word: &str) -> Option<(f64, f64)> {
    let (sign, unsigned) = match word.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, word.strip_prefix('+').unwrap_or(word)),
    };
    let (years, months) = unsigned.split_once('-')?;
    Some((sign * whole(years)?, sign * whole(months)?))
}

/// `02:03:04.5`; of two numbers hours and minutes, or minutes and seconds where a fraction or the
/// unit says so.
fn add_clock(sum: &mut IntervalSum, word: &str, bare: BareUnit) -> Option<()> {
    let (sign, unsigned) = match word.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<&str> = unsigned.split(':').collect();
    let is_plain = parts.iter().all(|part| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    if !is_plain {
        return None;
    }
    let seconds = match parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') => {
            whole(minutes)? * 60.0 + seconds.parse::<f64>().ok()?
        }
        [hours, minutes] if bare != BareUnit::Second || !minutes.contains('.') => {
            whole(hours)? * 3600.0 + whole(minutes)? * 60.0
        }
        [hours, minutes, seconds] => {
            whole(hours)? * 3600.0 + whole(minutes)? * 60.0 + seconds.parse::<f64>().ok()?
        }
        _ => return None,
    };
    sum.micros += sign * seconds * 1e6;
    Some(())
}

fn whole(text: &str) -> Option<f64> {
    text.parse::<u32>().ok().map(f64::from)
}

/// `1Y2M3DT4H5M6S` behind the `P`.
fn iso(text: &str) -> Option<IntervalSum> {
    let (mut sum, mut number, mut is_clock) = (IntervalSum::default(), String::new(), false);
    let mut is_empty = true;
    for next in text.chars() {
        let unit = match next.to_ascii_uppercase() {
            '0'..='9' | '.' | '-' | '+' => {
                number.push(next);
                continue;
            }
            'T' if number.is_empty() && !is_clock => {
                is_clock = true;
                continue;
            }
            'Y' => "year",
            'W' => "week",
            'D' => "day",
            'H' if is_clock => "hour",
            'M' if is_clock => "minute",
            'M' => "month",
            'S' if is_clock => "second",
            _ => return None,
        };
        sum.add(std::mem::take(&mut number).parse().ok()?, unit)?;
        is_empty = false;
    }
    (number.is_empty() && !is_empty).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_in_each_form() {
        for (text, expected) in [
            ("1 day 02:03:04.5", "1 day 02:03:04.5"),
            ("-1 day -02:30", "-1 days -02:30:00"),
            ("1 day ago", "-1 days"),
            ("+1 day", "1 day"),
            ("1-2", "1 year 2 mons"),
            ("1 2:03:04", "1 day 02:03:04"),
            ("23:59:59", "23:59:59"),
            ("-00:00:01", "-00:00:01"),
            ("100:00:00", "100:00:00"),
            ("1:2", "01:02:00"),
            ("1h30m", "01:30:00"),
            ("1ms", "00:00:00.001"),
            ("1.5 days", "1 day 12:00:00"),
            ("0.5 months", "15 days"),
            ("1.5 years", "1 year 6 mons"),
            ("2 weeks", "14 days"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("1 century", "100 years"),
            ("90", "00:01:30"),
        ] {
            let found = read_interval(text).map(IntervalParts::text);
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "nonsense", "1 fortnight", "PX", "1 1", "2147483648 days"] {
            assert_eq!(read_interval(wrong), None, "{wrong}");
        }
        let minutes = read_with_unit("5", BareUnit::Minute).map(IntervalParts::text);
        assert_eq!(minutes.as_deref(), Some("00:05:00"));
    }
}
