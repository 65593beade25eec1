//! Selects files to move to the cold tier, in order. A pure function of files, limits and time.

use std::collections::HashMap;
use std::sync::Arc;

use weir_datafile::{DataFile, Tier};
use weir_tables::Micros;

use crate::options::SlowOptions;

/// Selects local files to move. First come files whose last row arrived longer ago than their
/// table's `after`; then the oldest of each table until the rest fits its `fast_bytes`; then the
/// oldest of all until the rest fits the overall `fast_bytes`.
pub fn to_move(files: &[Arc<DataFile>], options: &SlowOptions, now: Micros) -> Vec<Arc<DataFile>> {
    let mut fast: Vec<_> = files.iter().filter(|file| file.tier == Tier::Local).collect();
    fast.sort_by_key(|file| (file.arrival_ts, file.id));
    let mut by_table: HashMap<&str, u64> = HashMap::new();
    for file in &fast {
        *by_table.entry(file.table.name).or_default() += file.byte_count;
    }
    let mut all: u64 = by_table.values().sum();
    let (mut moving, mut staying) = (Vec::new(), Vec::new());
    for file in fast {
        let rule = options.rule_of(file.table.name);
        let bytes = by_table.entry(file.table.name).or_default();
        let is_old = Micros(file.arrival_ts) + rule.after <= now;
        if is_old || *bytes > rule.fast_bytes {
            *bytes -= file.byte_count;
            all -= file.byte_count;
            moving.push(Arc::clone(file));
        } else {
            staying.push(file);
        }
    }
    for file in staying {
        if all <= options.fast_bytes {
            break;
        }
        all -= file.byte_count;
        moving.push(Arc::clone(file));
    }
    moving
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::{SlowPlace, SlowRule};

    const DAY: i64 = 86_400_000_000;

    fn file(id: i64, table: &str, arrival_day: i64, byte_count: u64) -> Arc<DataFile> {
        Arc::new(DataFile {
            day: arrival_day,
            row_count: 1,
            byte_count,
            arrival_ts: arrival_day * DAY,
            ..DataFile::new(id, weir_tables::table(table).unwrap(), String::new())
        })
    }

    fn check(files: &[Arc<DataFile>], change: impl Fn(&mut SlowOptions), expected: &[i64]) {
        let mut options = SlowOptions::new(SlowPlace::Directory("/slow".into()));
        options.rule = SlowRule { after: Duration::from_secs(10 * 86_400), fast_bytes: u64::MAX };
        change(&mut options);
        let moving = to_move(files, &options, Micros(100 * DAY));
        assert_eq!(moving.iter().map(|file| file.id).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn files_move_by_when_their_rows_came_in_the_oldest_first() {
        let files = [file(1, "log", 91, 1), file(2, "log", 90, 1), file(3, "request", 80, 1)];
        check(&files, |_| {}, &[3, 2]);
        let slow = Arc::new(DataFile { tier: Tier::Slow, ..(*files[2]).clone() });
        check(&[slow], |_| {}, &[]);
    }

    #[test]
    fn tables_have_rules_of_their_own() {
        let files = [file(1, "log", 95, 5), file(2, "log", 96, 5), file(3, "request", 95, 9)];
        let rule = |days: u64, fast_bytes| SlowRule {
            after: Duration::from_secs(days * 86_400),
            fast_bytes,
        };
        check(&files, of_log(rule(5, u64::MAX)), &[1]);
        check(&files, of_log(rule(99, 5)), &[1]);
        check(&files, of_log(rule(99, 10)), &[]);
    }

    fn of_log(rule: SlowRule) -> impl Fn(&mut SlowOptions) {
        move |all: &mut SlowOptions| all.by_table = vec![("log".into(), rule)]
    }

    #[test]
    fn oldest_of_all_tables_make_room() {
        let files = [file(1, "log", 95, 5), file(2, "log", 97, 5), file(3, "request", 96, 5)];
        check(&files, with_fast_bytes(15), &[]);
        check(&files, with_fast_bytes(14), &[1]);
        check(&files, with_fast_bytes(9), &[1, 3]);
        check(&files, with_fast_bytes(0), &[1, 3, 2]);
    }

    fn with_fast_bytes(bytes: u64) -> impl Fn(&mut SlowOptions) {
        move |all: &mut SlowOptions| all.fast_bytes = bytes
    }
}
