//! Which shifts are a turn: a shift outside of a rota's hours is not.
//!
//! Else a daily rota of the working days would give the weekend's two turns to people who then never
//! are on call: of seven people two, always the same.
//!
//! ```text
//!  mon-fri 08:00-20:00, daily at 09:00
//!  Thu   Fri   Sat   Sun   Mon   Tue
//!   ada   bo    –     –    cy    ada     the shift from Sun 09:00 has an hour of Monday: cy's
//! ```

use jiff::civil::DateTime;

use crate::hours::WeeklyHours;

const DAY: i64 = 86_400;
const WEEK: i64 = 7 * DAY;
/// Shifts after which the pattern repeats; with more, every shift is a turn.
const SHIFTS_MAX: i64 = 400;

/// Turns before each shift of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnCount {
    before: Vec<i64>,
    per_period: i64,
}

impl TurnCount {
    /// Counts by the local clock; `shift` is in seconds.
    pub(crate) fn new(start: DateTime, shift: i64, hours: &WeeklyHours) -> Self {
        let every = Self { before: vec![0], per_period: 1 };
        let count = WEEK / common_divisor((WEEK, shift));
        if hours.is_empty() || shift >= WEEK || count > SHIFTS_MAX {
            return every;
        }
        let spans = spans_of_period(start, count * shift / DAY, hours);
        let begin = i64::from(start.hour()) * 3_600 + i64::from(start.minute()) * 60;
        let mut before = Vec::new();
        let mut turns = 0;
        for number in 0..count {
            before.push(turns);
            let from = begin + number * shift;
            turns += i64::from(is_turn((from, from + shift), &spans));
        }
        if turns == 0 { every } else { Self { before, per_period: turns } }
    }

    /// The number of a shift's turn; of a shift without one, that of the next.
    pub(crate) fn turn(&self, number: i64) -> i64 {
        let count = i64::try_from(self.before.len()).expect("a list's length fits");
        let place = usize::try_from(number.rem_euclid(count)).expect("below the list's length");
        number.div_euclid(count) * self.per_period + self.before[place]
    }
}

/// The hours of a period of days, a day more on both sides; seconds from the start's midnight.
fn spans_of_period(start: DateTime, days: i64, hours: &WeeklyHours) -> Vec<(i64, i64)> {
    let first = i64::from(start.date().weekday().to_monday_zero_offset());
    let spans = (-1..=days + 1).flat_map(|day| {
        let weekday = usize::try_from((first + day).rem_euclid(7)).expect("0 to 6");
        let minutes = hours.minutes_on(weekday);
        minutes.map(move |(from, to)| (day * DAY + from * 60, day * DAY + to * 60))
    });
    spans.collect()
}

/// Whether a shift has most of some hours, or mostly consists of hours.
fn is_turn((from, to): (i64, i64), spans: &[(i64, i64)]) -> bool {
    let shared = |&(start, end): &(i64, i64)| (end.min(to) - start.max(from)).max(0);
    let all: i64 = spans.iter().map(shared).sum();
    2 * all >= to - from || spans.iter().any(|span| 2 * shared(span) >= span.1 - span.0)
}

fn common_divisor(mut pair: (i64, i64)) -> i64 {
    while pair.1 != 0 {
        pair = (pair.1, pair.0 % pair.1);
    }
    pair.0
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// Turns of the first shifts from Monday, 7 December 2026.
    fn turns(time: &str, shift: i64, hours: &[&str], count: i64) -> Vec<i64> {
        let texts: Vec<String> = hours.iter().map(|text| (*text).to_owned()).collect();
        let hours = WeeklyHours::parse(&texts, TimeZone::UTC).unwrap();
        let start = format!("2026-12-07T{time}").parse().unwrap();
        let turns = TurnCount::new(start, shift, &hours);
        (0..count).map(|number| turns.turn(number)).collect()
    }

    #[test]
    fn shifts_without_hours_are_no_turns() {
        let week = turns("09:00", DAY, &["mon-fri 08:00-20:00"], 9);
        assert_eq!(week, [0, 1, 2, 3, 4, 5, 5, 5, 6]);
        let whole_days = turns("09:00", DAY, &["mon-fri 00:00-24:00"], 9);
        assert_eq!(whole_days, week);
        let with_saturday = turns("09:00", DAY, &["mon-fri 08:00-20:00", "sat 10:00-12:00"], 9);
        assert_eq!(with_saturday, [0, 1, 2, 3, 4, 5, 6, 6, 7]);
    }

    #[test]
    fn day_shifts_of_twelve_hours_take_turns_and_hours_within_a_day_do() {
        let halves = turns("08:00", DAY / 2, &["08:00-20:00"], 6);
        assert_eq!(halves, [0, 1, 1, 2, 2, 3]);
        let hourly = turns("08:00", 3_600, &["08:00-11:00"], 26);
        assert_eq!(hourly[..5], [0, 1, 2, 3, 3]);
        assert_eq!(hourly[24..], [3, 4]);
    }

    #[test]
    fn weekly_shifts_and_rotas_without_hours_count_every_shift() {
        assert_eq!(turns("09:00", WEEK, &["mon-fri 08:00-20:00"], 3), [0, 1, 2]);
        assert_eq!(turns("09:00", DAY, &[], 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(turns("09:00", 3_601, &["mon 08:00-09:00"], 3), [0, 1, 2]);
    }
}
