//! Hours of the week: `mon-fri 08:00-20:00`, `sun 02:00-04:00`, `22:00-06:00`.
//!
//! A span that ends before it starts ends on the next day.

use jiff::Span;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use weir_tables::Micros;

use crate::civil_time::{MINUTE, gap_end, local, moment};

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Contiguous spans that [`WeeklyHours::end`] follows: two weeks of days.
const CONTIGUOUS_MAX: usize = 14;

/// Hours of the week in a zone.
#[derive(Clone, Debug)]
pub(crate) struct WeeklyHours {
    spans: Vec<DaySpan>,
    zone: TimeZone,
}

/// Minutes of some days of the week; the end is over 1,440 if it is on the next day.
#[derive(Clone, Debug)]
struct DaySpan {
    days: [bool; 7],
    start: i64,
    end: i64,
}

impl WeeklyHours {
    /// Hours from their texts.
    pub(crate) fn parse(texts: &[String], zone: TimeZone) -> Result<Self, String> {
        let spans = texts.iter().map(|text| parse_span(text)).collect::<Result<_, _>>()?;
        Ok(Self { spans, zone })
    }

    /// Whether there are no hours at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Start and end of the spans of a weekday, 0 for Monday, in minutes from its midnight; the end is
    /// over 1,440 if it is on the next day.
    pub(crate) fn minutes_on(&self, weekday: usize) -> impl Iterator<Item = (i64, i64)> {
        let spans = self.spans.iter().filter(move |span| span.days[weekday]);
        spans.map(|span| (span.start, span.end))
    }

    /// Whether a moment is within the hours.
    pub(crate) fn contains(&self, at: Micros) -> bool {
        let today = local(&self.zone, at).date();
        [today.yesterday().ok(), Some(today)]
            .into_iter()
            .flatten()
            .any(|date| self.on(date).any(|(start, end)| start <= at && at < end))
    }

    /// The next start or end of a span.
    pub(crate) fn next_change(&self, at: Micros) -> Option<Micros> {
        let today = local(&self.zone, at).date();
        let mut next: Option<Micros> = None;
        for ahead in -1..=9 {
            let date = today.checked_add(Span::new().days(ahead)).ok()?;
            let changes = self.on(date).flat_map(|(start, end)| [start, end]);
            next = changes.filter(|change| *change > at).chain(next).min();
            // A later day's spans start after what is left of today's.
            if next.is_some() && ahead > 0 {
                break;
            }
        }
        next
    }

    /// The end of the hours that contain a moment, across spans that adjoin.
    pub(crate) fn end(&self, at: Micros) -> Option<Micros> {
        let mut end = at;
        for _ in 0..CONTIGUOUS_MAX {
            if !self.contains(end) {
                break;
            }
            end = self.next_change(end)?;
        }
        (end > at).then_some(end)
    }

    /// The spans that start on a date.
    fn on(&self, date: Date) -> impl Iterator<Item = (Micros, Micros)> {
        let day = date.weekday().to_monday_zero_offset();
        let day = usize::try_from(day).expect("a weekday is 0 to 6");
        let spans = self.spans.iter().filter(move |span| span.days[day]);
        spans.filter_map(move |span| self.resolve(date, span))
    }

    /// Start and end of a span. A skipped local time maps to the moment of the jump; a span that is
    /// skipped entirely starts there and keeps its length, as cron runs a job of 02:15 then.
    fn resolve(&self, date: Date, span: &DaySpan) -> Option<(Micros, Micros)> {
        let (start, end) = (self.minute(date, span.start)?, self.minute(date, span.end)?);
        let length = (span.end - span.start) * MINUTE;
        Some((start, if end > start { end } else { Micros(start.0 + length) }))
    }

    fn minute(&self, date: Date, minute: i64) -> Option<Micros> {
        let local = date.at(0, 0, 0, 0).checked_add(Span::new().minutes(minute)).ok()?;
        gap_end(&self.zone, local).or_else(|| moment(&self.zone, local))
    }
}

fn parse_span(text: &str) -> Result<DaySpan, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (days, times) = match words[..] {
        [times] => ([true; 7], times),
        ["daily", times] => ([true; 7], times),
        [days, times] => (parse_days(days)?, times),
        _ => return Err(format!("`{text}` has no hours such as `mon-fri 08:00-20:00`")),
    };
    let (start, end) = times
        .split_once('-')
        .ok_or_else(|| format!("`{times}` is no time span such as `08:00-20:00`"))?;
    let (start, end) = (parse_minute(start)?, parse_minute(end)?);
    if start == end || start == 1_440 {
        return Err(format!("`{times}` is empty; the whole day is `00:00-24:00`"));
    }
    Ok(DaySpan { days, start, end: if end < start { end + 1_440 } else { end } })
}

fn parse_days(text: &str) -> Result<[bool; 7], String> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (parse_day(first)?, parse_day(last)?);
        days[day] = true;
        while day != last {
            day = (day + 1) % 7;
            days[day] = true;
        }
    }
    Ok(days)
}

fn parse_day(text: &str) -> Result<usize, String> {
    let lower = text.to_lowercase();
    let day = DAYS.iter().position(|day| lower.len() >= 3 && lower.starts_with(day));
    day.ok_or_else(|| format!("`{text}` is no day; days are {}", DAYS.join(", ")))
}

fn parse_minute(text: &str) -> Result<i64, String> {
    let parsed = text.split_once(':').and_then(|(hour, minute)| {
        let is_short = hour.len() <= 2 && minute.len() == 2;
        let (hour, minute) = (hour.parse::<u8>().ok()?, minute.parse::<u8>().ok()?);
        let total = i64::from(hour) * 60 + i64::from(minute);
        (is_short && minute < 60 && total <= 1_440).then_some(total)
    });
    parsed.ok_or_else(|| format!("`{text}` is no time of day such as `08:00`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::civil_time::{parse_moment, zone};

    fn hours(texts: &[&str], name: &str) -> WeeklyHours {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        WeeklyHours::parse(&texts, zone(name).unwrap()).unwrap()
    }

    fn at(text: &str) -> Micros {
        parse_moment(&TimeZone::UTC, text).unwrap()
    }

    #[test]
    fn spans_cover_their_days_and_wrap_past_midnight() {
        let hours = hours(&["fri-sun 22:00-06:00"], "UTC");
        // 2026-11-27 is a Friday.
        for (moment, is_inside) in [
            ("2026-11-27T21:59", false),
            ("2026-11-27T22:00", true),
            ("2026-11-28T05:59", true),
            ("2026-11-28T06:00", false),
            ("2026-11-30T05:00", true),
            ("2026-12-01T05:00", false),
        ] {
            assert_eq!(hours.contains(at(moment)), is_inside, "{moment}");
        }
        assert_eq!(hours.next_change(at("2026-11-30T06:00")), Some(at("2026-12-04T22:00")));
        assert_eq!(hours.end(at("2026-11-27T23:00")), Some(at("2026-11-28T06:00")));
    }

    #[test]
    fn each_start_and_end_of_a_day_is_a_change() {
        let hours = hours(&["08:00-12:00", "14:00-18:00"], "UTC");
        let mut moment = at("2026-11-27T07:00");
        for next in ["08:00", "12:00", "14:00", "18:00"] {
            moment = hours.next_change(moment).unwrap();
            assert_eq!(moment, at(&format!("2026-11-27T{next}")));
        }
    }

    #[test]
    fn adjoining_spans_end_together() {
        let hours = hours(&["fri 20:00-24:00", "sat-sun 00:00-24:00", "mon 00:00-07:00"], "UTC");
        assert_eq!(hours.end(at("2026-11-27T20:30")), Some(at("2026-11-30T07:00")));
        assert_eq!(hours.end(at("2026-11-27T19:30")), None);
    }

    #[test]
    fn hours_are_on_the_local_clock_in_summer_and_winter() {
        let hours = hours(&["08:00-20:00"], "Europe/Berlin");
        assert!(hours.contains(at("2026-07-01T06:00")) && !hours.contains(at("2026-01-01T06:00")));
        assert!(hours.contains(at("2026-01-01T18:59")) && !hours.contains(at("2026-07-01T18:00")));
    }

    #[test]
    fn wrong_hours_are_refused_with_the_reason() {
        for text in ["", "mo 08:00-09:00", "mon 8-9", "25:00-26:00", "08:00-08:00", "a b c"] {
            assert!(WeeklyHours::parse(&[text.to_owned()], TimeZone::UTC).is_err(), "{text}");
        }
        let days = parse_days("sat-mon,wed").unwrap();
        assert_eq!(days, [true, false, true, false, false, true, true]);
    }
}
