//! Intervals as PostgreSQL has them: months, days and a time, which are independent of each other.
//!
//! Two intervals are compared by length, with months of 30 days and days of 24 hours.

use jiff::civil::DateTime;

use crate::time_zone::wall_clock;

/// Microseconds of a day.
pub(crate) const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;

/// The three parts of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalParts {
    /// Whole months.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// Microseconds beyond months and days.
    pub micros: i64,
}

impl IntervalParts {
    /// Length in microseconds, with months of 30 days of 24 hours.
    pub fn length(self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(DAY) + i128::from(self.micros)
    }

    /// Length in microseconds for `extract(epoch …)`: a year has 365.25 days.
    pub fn epoch(self) -> i128 {
        let years = i128::from(self.months / 12) * 31_557_600_000_000;
        let months = i128::from(self.months % 12) * 30 * i128::from(DAY);
        years + months + i128::from(self.days) * i128::from(DAY) + i128::from(self.micros)
    }

    /// Difference of two times: days and a time, no months.
    pub fn of_micros(micros: i64) -> Self {
        let days = i32::try_from(micros / DAY).unwrap_or(i32::MAX);
        Self { months: 0, days, micros: micros % DAY }
    }

    /// The interval with 24 hours as a day (`justify_hours`).
    #[must_use]
    pub fn justify_hours(self) -> Self {
        let mut days = i64::from(self.days) + self.micros / DAY;
        let mut micros = self.micros % DAY;
        if days > 0 && micros < 0 {
            (days, micros) = (days - 1, micros + DAY);
        } else if days < 0 && micros > 0 {
            (days, micros) = (days + 1, micros - DAY);
        }
        Self { months: self.months, days: saturated(days), micros }
    }

    /// The interval with 30 days as a month (`justify_days`).
    #[must_use]
    pub fn justify_days(self) -> Self {
        let mut months = i64::from(self.months) + i64::from(self.days / 30);
        let mut days = i64::from(self.days % 30);
        if months > 0 && days < 0 {
            (months, days) = (months - 1, days + 30);
        } else if months < 0 && days > 0 {
            (months, days) = (months + 1, days - 30);
        }
        Self { months: saturated(months), days: saturated(days), micros: self.micros }
    }

    /// Both, with one sign for all parts (`justify_interval`).
    #[must_use]
    pub fn justify_interval(self) -> Self {
        let whole = self.length();
        let day = i128::from(DAY);
        let days = whole / day;
        let micros = i64::try_from(whole % day).unwrap_or_default();
        let months = saturated(i64::try_from(days / 30).unwrap_or(i64::MAX));
        Self { months, days: saturated(i64::try_from(days % 30).unwrap_or_default()), micros }
    }

    /// The interval times a factor: fractions of months become days of 30 to a month, fractions of
    /// days become time.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let months = f64::from(self.months) * factor;
        let days = f64::from(self.days) * factor;
        let from_months = rounded(months.fract() * 30.0);
        let further = days.fract() + from_months.fract();
        let micros = self.micros_times(factor) + micros_of_days(further);
        Self { months: whole(months), days: whole(days.trunc() + from_months.trunc()), micros }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as PostgreSQL"
    )]
    fn micros_times(self, factor: f64) -> i64 {
        (self.micros as f64 * factor).round_ties_even() as i64
    }

    /// Value of a field of `extract`; `None` if intervals lack it.
    #[expect(clippy::cast_precision_loss, reason = "extract has the type of floats")]
    pub fn field(self, name: &str) -> Option<f64> {
        let [hours, minutes, seconds, micros] = self.clock();
        let below_minute = seconds * 1_000_000 + micros;
        let name = name.to_ascii_lowercase();
        Some(match name.as_str() {
            "epoch" => self.epoch() as f64 / 1e6,
            "millennium" | "millenniums" | "millennia" => f64::from(self.months / 12_000),
            "century" | "centuries" => f64::from(self.months / 1200),
            "decade" | "decades" => f64::from(self.months / 120),
            "year" | "years" => f64::from(self.months / 12),
            "quarter" => f64::from(self.months % 12 / 3 + 1),
            "month" | "months" => f64::from(self.months % 12),
            "day" | "days" => f64::from(self.days),
            "hour" | "hours" => hours as f64,
            "minute" | "minutes" => minutes as f64,
            "second" | "seconds" => below_minute as f64 / 1e6,
            "millisecond" | "milliseconds" => below_minute as f64 / 1e3,
            "microsecond" | "microseconds" => below_minute as f64,
            _ => return None,
        })
    }

    /// The interval without what is smaller than a unit; `None` for another unit.
    pub fn trunc(self, unit: &str) -> Option<Self> {
        let unit = unit.to_ascii_lowercase();
        Some(match unit.trim_end_matches('s') {
            "microsecond" => self,
            "millisecond" => self.cut(1000),
            "second" => self.cut(1_000_000),
            "minute" => self.cut(60_000_000),
            "hour" => self.cut(HOUR),
            "day" => Self { micros: 0, ..self },
            "month" => Self { months: self.months, ..Self::default() },
            "quarter" => Self { months: self.months / 3 * 3, ..Self::default() },
            "year" => Self { months: self.months / 12 * 12, ..Self::default() },
            _ => return None,
        })
    }

    /// Text in PostgreSQL's default style, such as `1 year 2 mons -3 days 04:05:06.7`.
    pub fn text(self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut was_negative = false;
        let units = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        for (count, unit) in units {
            if count != 0 {
                let sign = if was_negative && count > 0 { "+" } else { "" };
                let ending = if count == 1 { "" } else { "s" };
                parts.push(format!("{sign}{count} {unit}{ending}"));
                was_negative = count < 0;
            }
        }
        if self.micros != 0 || parts.is_empty() {
            let sign = match (self.micros < 0, was_negative) {
                (true, _) => "-",
                (false, true) => "+",
                (false, false) => "",
            };
            parts.push(format!("{sign}{}", clock_text(self.micros.unsigned_abs())));
        }
        parts.join(" ")
    }

    /// The time cut to multiples of a size in microseconds.
    fn cut(self, size: i64) -> Self {
        Self { micros: self.micros / size * size, ..self }
    }

    /// Hours, minutes, seconds and microseconds of the time part.
    pub(crate) fn clock(self) -> [i64; 4] {
        let micros = self.micros;
        [micros / HOUR, micros / 60_000_000 % 60, micros / 1_000_000 % 60, micros % 1_000_000]
    }
}

/// Without the digits that binary fractions add: `1.1 * 30` days are 33.
fn rounded(days: f64) -> f64 {
    (days * 1e6).round() / 1e6
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn whole(count: f64) -> i32 {
    count.trunc() as i32
}

#[expect(clippy::cast_possible_truncation, reason = "below two days")]
fn micros_of_days(days: f64) -> i64 {
    (rounded(days * 86_400.0) * 1e6).round() as i64
}

fn saturated(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(if count < 0 { i32::MIN } else { i32::MAX })
}

fn clock_text(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match micros % 1_000_000 {
        0 => clock,
        fraction => format!("{clock}.{}", format!("{fraction:06}").trim_end_matches('0')),
    }
}

/// Difference of two wall times, the later one first, in years, months, days and time, as the calendar counts them;
/// `None` beyond the years that exist.
pub fn age([later, earlier]: [i64; 2]) -> Option<IntervalParts> {
    if later < earlier {
        let age = age_of(wall_clock(earlier)?, wall_clock(later)?);
        return Some(IntervalParts { months: -age.months, days: -age.days, micros: -age.micros });
    }
    Some(age_of(wall_clock(later)?, wall_clock(earlier)?))
}

fn age_of(later: DateTime, earlier: DateTime) -> IntervalParts {
    let mut months = (i32::from(later.year()) - i32::from(earlier.year())) * 12
        + i32::from(later.month())
        - i32::from(earlier.month());
    let mut days = i32::from(later.day()) - i32::from(earlier.day());
    let mut micros = time_of_day(later) - time_of_day(earlier);
    if micros < 0 {
        (micros, days) = (micros + DAY, days - 1);
    }
    if days < 0 {
        // PostgreSQL borrows the days of the earlier time's month.
        (days, months) = (days + i32::from(earlier.days_in_month()), months - 1);
    }
    IntervalParts { months, days, micros }
}

fn time_of_day(time: DateTime) -> i64 {
    let seconds = (i64::from(time.hour()) * 60 + i64::from(time.minute())) * 60;
    (seconds + i64::from(time.second())) * 1_000_000 + i64::from(time.subsec_nanosecond()) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_signs_of_their_parts() {
        let parts = IntervalParts { months: 14, days: -3, micros: 14_706_700_000 };
        assert_eq!(parts.text(), "1 year 2 mons -3 days +04:05:06.7");
        assert_eq!(IntervalParts::default().text(), "00:00:00");
        let negative = IntervalParts { micros: -3_600_000_000, ..Default::default() };
        assert_eq!(negative.text(), "-01:00:00");
    }

    #[test]
    fn lengths_of_equal_intervals_are_equal() {
        let day = IntervalParts { days: 1, ..Default::default() };
        let hours = IntervalParts { micros: DAY, ..Default::default() };
        assert_eq!(day.length(), hours.length());
        let month = IntervalParts { months: 1, ..Default::default() };
        assert_eq!(month.length(), i128::from(DAY) * 30);
    }
}
