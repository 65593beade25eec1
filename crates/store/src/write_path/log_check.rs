//! Checks the segments of a write-ahead log without changing them, while a weir may append to it.

use std::path::Path;

use weir_datafile::StoreError;

use crate::write_path::damage::{has_later_group, is_changed};
use crate::write_path::wal::{SEGMENT_HEAD_BYTES, list, path_of, record_at, segment_head};

/// Problems of the segments from `floor` on: file name and reason.
///
/// # Errors
/// `Io`.
pub(crate) fn problems(dir: &Path, floor: u64) -> Result<Vec<(String, String)>, StoreError> {
    let mut problems = Vec::new();
    let numbers: Vec<u64> = list(dir)?.into_iter().filter(|number| *number >= floor).collect();
    let mut next = None;
    for number in &numbers {
        let path = path_of(dir, *number);
        let segment = match std::fs::read(&path) {
            Ok(segment) => segment,
            // A running weir has flushed it in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StoreError::io("read", &path, &error)),
        };
        let is_last = Some(number) == numbers.last();
        let (outcome, end) = check(&segment, next, is_last);
        if let Err(why) = outcome {
            problems.push((format!("wal/{number:010}.wal"), why));
        }
        next = end;
    }
    Ok(problems)
}

/// The first problem of a segment, and the number of the record after its last one.
fn check(segment: &[u8], next: Option<u64>, is_last: bool) -> (Result<(), String>, Option<u64>) {
    let Some(first) = segment_head(segment) else {
        // A segment that was only created.
        let is_new = is_last && segment.len() <= SEGMENT_HEAD_BYTES;
        let outcome = if is_new { Ok(()) } else { Err("has a damaged head".to_owned()) };
        return (outcome, None);
    };
    let mut outcome = match next {
        Some(next) if next != first => {
            Err(format!("begins with record {first}, but record {next} was expected"))
        }
        _ => Ok(()),
    };
    let (mut at, mut expected) = (SEGMENT_HEAD_BYTES, first);
    while at < segment.len() {
        let Some(record) = record_at(segment, at, |sequence| sequence == expected) else {
            let is_torn = is_last
                && !has_later_group(segment, at, expected)
                && !is_changed(segment, at, expected);
            if !is_torn {
                outcome = outcome.and(Err(format!("has a damaged record at byte {at}")));
                return (outcome, None);
            }
            break;
        };
        (at, expected) = (record.end, expected + 1);
    }
    (outcome, Some(expected))
}
