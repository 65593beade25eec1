//! How old lines are when they are read, by the host's clock: what a clock or a time zone that is
//! off shows in.
//!
//! Old lines alone prove nothing: lines read in one go may have been there for long, and a buffer
//! is written when it is full. Lines that are written at the pace of their own timestamps and all
//! have the same age carry the timestamps of a clock that is off. So ages are kept for stretches of
//! lines that are in step.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMicrosecondType};
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use weir_tables::{Batch, Micros};

/// Ages within this distance count as equal: timestamps are often whole seconds, and files are
/// polled five times a second.
const SAME_MICROS: i64 = 2_000_000;
/// A stretch needs this many lines to be evidence, with timestamps this far apart.
const TELLING_LINES: u64 = 20;
const TELLING_MICROS: i64 = 4_000_000;

/// The last lines of one log that say their time, as far back as they are of the same age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineAges {
    /// How many lines.
    pub(super) lines: u64,
    /// The least and the greatest age, in microseconds; below 0 for a line from the future.
    ages: (i64, i64),
    /// The least and the greatest time that a line says.
    said: (i64, i64),
}

/// Times of one line, in microseconds.
struct LineTimes {
    /// Timestamp of the line.
    said: i64,
    /// When it was read.
    read: i64,
    /// How long the request took that it is about.
    took: i64,
}

/// Ages by path of the log.
pub(super) type AgesOf = HashMap<Arc<str>, LineAges>;

impl LineAges {
    /// Ages of the rows of a parcel; `None` when no line has a timestamp.
    pub(super) fn of(batches: &[Batch]) -> Option<Self> {
        batches.iter().filter_map(|batch| Self::of_rows(&batch.rows)).reduce(Self::and)
    }

    /// A row without a timestamp has the time of its reading in both columns. Some proxies log a
    /// request's start time when it ends: its duration does not make the line old.
    fn of_rows(rows: &RecordBatch) -> Option<Self> {
        let times =
            |name: &str| rows.column_by_name(name)?.as_primitive_opt::<TimestampMicrosecondType>();
        let (said, read) = (times("ts")?.values(), times("observed_ts")?.values());
        let took = rows.column_by_name("duration_seconds").map(|took| took.as_primitive_opt());
        let took: Option<&PrimitiveArray<Float64Type>> = took.flatten();
        let took_micros = |row: usize| {
            let seconds =
                took.filter(|took| took.is_valid(row)).map_or(0.0, |took| took.value(row));
            let took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            i64::try_from(took.as_micros()).unwrap_or(i64::MAX)
        };
        (0..said.len())
            .filter(|row| said[*row] != read[*row])
            .map(|row| LineTimes { said: said[row], read: read[row], took: took_micros(row) })
            .map(Self::of_line)
            .reduce(Self::and)
    }

    fn of_line(LineTimes { said, read, took }: LineTimes) -> Self {
        let age = read.saturating_sub(said);
        let age = if age > 0 { (age - took).max(0) } else { age };
        Self { lines: 1, ages: (age, age), said: (said, said) }
    }

    fn and(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            ages: both(self.ages, other.ages),
            said: both(self.said, other.said),
        }
    }

    /// The stretch extended by the lines that were read next; a different age starts a new stretch.
    pub(super) fn then(self, next: Self) -> Self {
        let joined = self.and(next);
        if joined.is_same_age() { joined } else { next }
    }

    fn is_same_age(self) -> bool {
        self.ages.1 - self.ages.0 <= SAME_MICROS
    }

    /// Whether the lines are written at the pace of their times, and late all the same.
    pub(super) fn is_behind(self) -> bool {
        self.is_same_age()
            && self.lines >= TELLING_LINES
            && self.said.1 - self.said.0 >= TELLING_MICROS
            && self.ages.0 > SAME_MICROS
    }

    /// When the stretch began, by its own times.
    pub(super) fn begun(self) -> Micros {
        Micros(self.said.0)
    }

    /// Least and greatest age, and how far apart the times are, in seconds.
    pub(super) fn seconds(self) -> (f64, f64, f64) {
        (seconds((0, self.ages.0)), seconds((0, self.ages.1)), seconds(self.said))
    }
}

fn both(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.min(b.0), a.1.max(b.1))
}

fn seconds((from, to): (i64, i64)) -> f64 {
    Micros(to).seconds_since(Micros(from))
}

#[cfg(test)]
mod tests {
    use weir_tables::{Log, LogRows, Request, RequestRows, Rows};

    use super::*;

    /// Lines by what they say and when they were read, in tenths of a second.
    fn batch(times: &[(i64, i64)]) -> Batch {
        let mut rows = LogRows::default();
        for (said, read) in times {
            let (ts, observed_ts) = (Micros(said * 100_000), Micros(read * 100_000));
            rows.push(&Log { ts, observed_ts, ..Default::default() });
        }
        Batch { table: LogRows::SPEC, rows: rows.finish() }
    }

    #[test]
    fn ages_are_of_lines_that_say_their_time() {
        let ages = LineAges::of(&[batch(&[(100, 100), (40, 100)]), batch(&[(70, 100)])]);
        let ages = ages.expect("two lines");
        assert_eq!((ages.lines, ages.seconds()), (2, (3.0, 6.0, 3.0)));
        let future = LineAges::of(&[batch(&[(130, 100), (90, 100)])]).expect("two lines");
        assert_eq!(future.seconds(), (-3.0, 1.0, 4.0));
        assert_eq!(LineAges::of(&[batch(&[(100, 100)])]), None);
        assert_eq!(LineAges::of(&[]), None);
    }

    #[test]
    fn what_a_request_took_makes_its_line_no_older() {
        let mut rows = RequestRows::default();
        for duration_seconds in [Some(3.0), Some(9.0), None] {
            rows.push(&Request {
                ts: Micros(10_000_000),
                observed_ts: Micros(15_000_000),
                duration_seconds,
                ..Default::default()
            });
        }
        let batch = Batch { table: RequestRows::SPEC, rows: rows.finish() };
        let ages = LineAges::of(&[batch]).expect("three lines");
        assert_eq!(ages.ages, (0, 5_000_000));
    }

    /// Looks five times a second at a log of 50 lines a second, from second 0 on, whose times are
    /// whole seconds.
    fn watched(seconds: std::ops::Range<i64>, behind: i64) -> impl Iterator<Item = LineAges> {
        (seconds.start * 5..seconds.end * 5).map(move |look| {
            let lines: Vec<_> =
                (0..10).map(|_| (look / 5 * 10 - behind * 10, look * 2 + 1)).collect();
            LineAges::of(&[batch(&lines)]).expect("lines")
        })
    }

    #[test]
    fn lines_at_the_pace_of_their_times_are_one_stretch_until_the_clock_moves() {
        let right = watched(0..60, 0).reduce(LineAges::then).expect("lines");
        assert_eq!((right.lines, right.is_behind()), (3000, false));
        // Twenty minutes back: told five seconds later.
        let mut stretch = right;
        let late: Vec<bool> = watched(60..70, 1200)
            .map(|lines| {
                stretch = stretch.then(lines);
                stretch.is_behind()
            })
            .collect();
        let first = late.iter().position(|is_behind| *is_behind).expect("it is told");
        assert!((20..=25).contains(&first), "{first}");
        assert!(late[first..].iter().all(|is_behind| *is_behind));
        assert_eq!(stretch.lines, 500);
        let right_again = watched(70..80, 0).fold(stretch, LineAges::then);
        assert_eq!((right_again.lines, right_again.is_behind()), (500, false));
    }

    #[test]
    fn what_is_read_in_one_go_and_what_is_buffered_is_not_behind() {
        let old: Vec<_> = (0..600).map(|line| (line, 36_000)).collect();
        assert!(!LineAges::of(&[batch(&old)]).expect("lines").is_behind());
        // A buffer that is written once a minute, twice.
        assert!(!buffer(600).then(buffer(1200)).is_behind());
    }

    fn buffer(at: i64) -> LineAges {
        let lines: Vec<_> = (0..600).map(|line| (at - 625 + line, at)).collect();
        LineAges::of(&[batch(&lines)]).expect("lines")
    }
}
