//! Checks the segments of a write-ahead log without changing them, while a weir may append to it.

use std::path::Path;

use weir_datafile::{StoreError, check_segment};

use crate::write_path::wal::{list, path_of};

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
        let (outcome, end) = check_segment(&segment, next, is_last);
        if let Err(why) = outcome {
            problems.push((format!("wal/{number:010}.wal"), why));
        }
        next = end;
    }
    Ok(problems)
}
