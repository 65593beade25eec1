//! Selects files for deletion by age and total size. Pure: takes files, limits and the time,
//! returns files.

use std::sync::Arc;
use std::time::Duration;

use weir_datafile::DataFile;
use weir_tables::{Micros, TABLES};

use super::trusted_clock::{ClockReading, TOLERANCE, TrustedClock};
use crate::options::Retention;

const DAY_MICROS: i64 = 86_400_000_000;
/// A jump of the clock waits when it expires more than one part in this many of a table.
const SHARE: u64 = 10;

/// What one run of the retention deletes, and what it holds back.
#[derive(Debug, Default)]
pub(crate) struct RetentionRun {
    pub(crate) expired: Vec<Arc<DataFile>>,
    pub(crate) held: Option<HeldFiles>,
}

/// Files that expired by a jump of the wall clock only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldFiles {
    pub(crate) file_count: usize,
    pub(crate) byte_count: u64,
    /// How far the wall clock is ahead of the time that passed.
    pub(crate) ahead: Duration,
    /// Running time after which they expire.
    pub(crate) left: Duration,
}

impl RetentionRun {
    /// Decides by both clocks. A jump that would delete much more than one run should is doubted
    /// first; a jump backward never deletes.
    pub(crate) fn new(
        clock: &mut TrustedClock,
        reading: ClockReading,
        files: &[Arc<DataFile>],
        retention: &Retention,
    ) -> Self {
        clock.advance(reading);
        let trusted = clock.at(reading.monotonic);
        let is_backward = reading.wall + TOLERANCE < trusted;
        let is_doubtful = is_backward || deletes_much(files, retention, trusted, reading.wall);
        let left = if is_doubtful {
            clock.doubt(reading.wall, retention.clock_patience)
        } else {
            clock.accept(reading.wall);
            Duration::ZERO
        };
        let now = clock.at(reading.monotonic).min(reading.wall);
        let expired = expired(files, retention, now);
        let held = || {
            files.iter().filter(|file| {
                is_old(file, retention, reading.wall) && !is_old(file, retention, now)
            })
        };
        let file_count = held().count();
        let byte_count = held().map(|file| file.byte_count).sum();
        let micros = reading.wall.0.saturating_sub(trusted.0).max(0).cast_unsigned();
        let ahead = Duration::from_micros(micros);
        let held = HeldFiles { file_count, byte_count, ahead, left };
        Self { expired, held: (file_count > 0).then_some(held) }
    }
}

impl HeldFiles {
    /// The delay for people.
    pub(crate) fn message(&self) -> String {
        let Self { file_count, byte_count, ahead, left } = self;
        let ahead = ahead.as_secs() / 3600;
        let left = left.as_secs().div_ceil(3600);
        format!(
            "the clock is {} d {} h ahead of the time that passed while weir ran: {file_count} files ({} MiB) that expire by it are deleted in {left} h; if the clock is wrong, set it right, else raise `store.retention_days` to keep them",
            ahead / 24,
            ahead % 24,
            byte_count >> 20
        )
    }
}

/// Whether the time from `trusted` to `wall` expires much of a table: more than a tenth of its
/// bytes, by a jump of more than a tenth of its retention (an hour at least, a day at most).
fn deletes_much(
    files: &[Arc<DataFile>],
    retention: &Retention,
    trusted: Micros,
    wall: Micros,
) -> bool {
    TABLES.iter().any(|table| {
        let days = i64::from(retention.days_of(table.name));
        let slack = (days * DAY_MICROS / 10).clamp(DAY_MICROS / 24, DAY_MICROS);
        if wall.0.saturating_sub(trusted.0) <= slack {
            return false;
        }
        let of_table = || files.iter().filter(|file| file.table.name == table.name);
        let by_jump = of_table()
            .filter(|file| is_old(file, retention, wall) && !is_old(file, retention, trusted));
        let jumped: u64 = by_jump.map(|file| file.byte_count).sum();
        let all: u64 = of_table().map(|file| file.byte_count).sum();
        jumped.saturating_mul(SHARE) > all
    })
}

/// Whether a file's last row arrived longer ago than the table's retention.
fn is_old(file: &DataFile, retention: &Retention, now: Micros) -> bool {
    let days = i64::from(retention.days_of(file.table.name));
    file.arrival_ts < now.0.saturating_sub(days.saturating_mul(DAY_MICROS))
}

/// Files whose last row arrived longer ago than the table's retention, then the oldest until the
/// rest fits `total_bytes`. Findings are never deleted for size: they are small, and hold the
/// history of incidents.
fn expired(files: &[Arc<DataFile>], retention: &Retention, now: Micros) -> Vec<Arc<DataFile>> {
    let (mut expired, mut kept): (Vec<_>, Vec<_>) =
        files.iter().cloned().partition(|file| is_old(file, retention, now));
    let mut bytes: u64 = kept.iter().map(|file| file.byte_count).sum();
    kept.sort_by_key(|file| (file.arrival_ts, file.id));
    for file in kept.into_iter().filter(|file| file.table.name != "finding") {
        if bytes <= retention.total_bytes {
            break;
        }
        bytes -= file.byte_count;
        expired.push(file);
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn file(id: i64, table: &str, max_day: i64, byte_count: u64) -> Arc<DataFile> {
        let table = weir_tables::table(table).unwrap();
        let max_ts = max_day * DAY;
        Arc::new(DataFile {
            day: max_day,
            row_count: 1,
            byte_count,
            min_ts: max_ts,
            max_ts,
            arrival_ts: max_ts,
            ..DataFile::new(id, table, String::new())
        })
    }

    fn check(files: &[Arc<DataFile>], retention: &Retention, expected: &[i64]) {
        let ids: Vec<i64> =
            expired(files, retention, Micros(1000 * DAY)).iter().map(|file| file.id).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn old_files_go_by_the_days_of_their_table() {
        let files = [
            file(1, "log", 960, 1),
            file(2, "log", 980, 1),
            file(3, "finding", 960, 1),
            file(4, "finding", 500, 1),
        ];
        check(&files, &Retention::default(), &[1, 4]);
    }

    #[test]
    fn what_rows_say_of_their_time_neither_keeps_nor_deletes_them() {
        let of = |id, max_ts, arrival_day| {
            let file = file(id, "log", 0, 1);
            Arc::new(DataFile { max_ts, arrival_ts: arrival_day * DAY, ..(*file).clone() })
        };
        let files = [of(1, i64::MAX, 960), of(2, i64::MIN, 999), of(3, 0, 971)];
        check(&files, &Retention::default(), &[1]);
        let by_size = Retention { total_bytes: 1, ..Retention::default() };
        check(&files, &by_size, &[1, 3]);
    }

    #[test]
    fn oldest_go_first_for_size_and_findings_never() {
        let files =
            [file(1, "finding", 980, 50), file(2, "log", 990, 50), file(3, "request", 985, 50)];
        check(&files, &retention_of(150), &[]);
        check(&files, &retention_of(149), &[3]);
        check(&files, &retention_of(1), &[3, 2]);
    }

    fn retention_of(total_bytes: u64) -> Retention {
        Retention { total_bytes, ..Retention::default() }
    }

    /// Days 971 to 1000 of `log`, a file each, and a finding of each day.
    fn month() -> Vec<Arc<DataFile>> {
        let days = 971..1001;
        days.flat_map(|day| [file(day, "log", day, 1000), file(day + 1000, "finding", day, 1)])
            .collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "days of a test are few")]
    fn at(wall_day: f64, hours: u32) -> ClockReading {
        let wall = Micros((wall_day * 86_400e6) as i64);
        ClockReading { wall, monotonic: Duration::from_secs(3600) * hours }
    }

    fn run(clock: &mut TrustedClock, reading: ClockReading) -> (usize, Option<usize>) {
        let run = RetentionRun::new(clock, reading, &month(), &Retention::default());
        (run.expired.len(), run.held.map(|held| held.file_count))
    }

    #[test]
    fn clock_40_days_ahead_deletes_nothing_and_says_so_until_it_is_right_again() {
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        assert_eq!(run(&mut clock, at(1000.0, 0)), (0, None));
        let ahead = RetentionRun::new(&mut clock, at(1040.0, 1), &month(), &Retention::default());
        assert!(ahead.expired.is_empty());
        let held = ahead.held.unwrap();
        assert_eq!((held.file_count, held.byte_count), (30, 30_000));
        assert_eq!(held.left, Duration::from_secs(86_400));
        assert!(held.ahead.as_secs() / 86_400 == 39, "an hour passed meanwhile: {:?}", held.ahead);
        assert_eq!(run(&mut clock, at(1040.5, 13)), (0, Some(30)), "half a day later");
        assert_eq!(run(&mut clock, at(1000.6, 14)), (0, None), "it is right again");
        assert_eq!(run(&mut clock, at(1001.1, 26)), (1, None), "one day's file, as ever");
    }

    #[test]
    fn clock_that_stays_ahead_for_a_day_is_trusted() {
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        assert_eq!(run(&mut clock, at(1040.0, 0)), (0, Some(30)));
        assert_eq!(run(&mut clock, at(1040.0 + 23.0 / 24.0, 23)), (0, Some(30)));
        assert_eq!(run(&mut clock, at(1041.0, 24)), (30, None));
    }

    #[test]
    fn second_jump_starts_the_wait_over() {
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        assert_eq!(run(&mut clock, at(1040.0, 0)), (0, Some(30)));
        assert_eq!(run(&mut clock, at(1140.5, 12)), (0, Some(30)));
        assert_eq!(run(&mut clock, at(1141.0, 24)), (0, Some(30)), "12 h of the second one");
        assert_eq!(run(&mut clock, at(1141.5, 36)), (30, None));
    }

    #[test]
    fn clock_behind_deletes_nothing_and_nothing_more_when_it_comes_back() {
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        assert_eq!(run(&mut clock, at(0.0, 1)), (0, None), "1970, as after a reset");
        assert_eq!(run(&mut clock, at(960.0, 2)), (0, None));
        assert_eq!(run(&mut clock, at(1000.2, 5)), (0, None));
        assert_eq!(run(&mut clock, at(1001.2, 29)), (1, None), "day 971 is 30 days old");
    }

    #[test]
    fn resumed_machine_and_restart_after_a_night_delete_what_is_due() {
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        assert_eq!(run(&mut clock, at(1001.2, 1)), (1, None), "suspended for a day");
        assert_eq!(run(&mut clock, at(1003.5, 2)), (3, None), "a weekend of 30 days");
    }

    #[test]
    fn hub_that_was_off_for_40_days_waits_and_says_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clock");
        let newest = Some(Micros(1000 * DAY));
        let mut clock = TrustedClock::open(path.clone(), newest, at(1040.0, 0));
        assert_eq!(run(&mut clock, at(1040.0, 0)), (0, Some(30)));
        clock.save();
        let mut wrong = TrustedClock::open(path, Some(Micros(1040 * DAY)), at(1040.1, 0));
        assert_eq!(
            run(&mut wrong, at(1040.1, 0)),
            (0, Some(30)),
            "a restart, after files were written by the wrong clock"
        );
    }

    #[test]
    fn short_retention_is_protected_from_a_jump_of_hours() {
        let files: Vec<_> = (0..24)
            .map(|hour| {
                let arrival_ts = 999 * DAY + hour * DAY / 24;
                Arc::new(DataFile { arrival_ts, ..(*file(hour, "log", 999, 10)).clone() })
            })
            .collect();
        let retention = Retention { days: 1, ..Retention::default() };
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        let run = RetentionRun::new(&mut clock, at(1000.5, 0), &files, &retention);
        assert_eq!((run.expired.len(), run.held.map(|held| held.file_count)), (0, Some(12)));
    }

    #[test]
    fn size_limit_holds_whatever_the_clock_says() {
        let mut clock = TrustedClock::new(Micros(1000 * DAY), at(1000.0, 0));
        let run = RetentionRun::new(&mut clock, at(1040.0, 0), &month(), &retention_of(29_100));
        assert_eq!(run.expired.len(), 1);
    }
}
