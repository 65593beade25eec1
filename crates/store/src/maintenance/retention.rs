//! Selects files for deletion by age and total size. Pure: takes files, limits and the time,
//! returns files.

use std::sync::Arc;

use weir_datafile::DataFile;
use weir_tables::Micros;

use crate::options::Retention;

/// Files whose last row arrived longer ago than the table's retention, then the oldest until the
/// rest fits `total_bytes`. Findings are never deleted for size: they are small, and hold the
/// history of incidents.
pub(crate) fn expired(
    files: &[Arc<DataFile>],
    retention: &Retention,
    now: Micros,
) -> Vec<Arc<DataFile>> {
    let (mut expired, mut kept): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| {
        let days = i64::from(retention.days_of(file.table.name));
        file.arrival_ts < now.0.saturating_sub(days.saturating_mul(86_400_000_000))
    });
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
}
