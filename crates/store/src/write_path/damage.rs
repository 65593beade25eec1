//! Records of the write-ahead log that were acknowledged and cannot be read any more.
//!
//! A start that ends at the first of them leaves a host without monitoring, and a start that cuts
//! them off loses rows in silence. So they are copied to a file beside the log, counted, logged as
//! an error, and shown in the status until weir ends.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::write_path::wal::{
    BEGINS_GROUP, RECORD_HEAD_BYTES, checksum, record_at, record_length, record_sequence,
};

/// A record after damage has a number this close.
const NEAR: u64 = 1 << 20;

/// What a start left out of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogDamage {
    /// Records that are lost, as far as their numbers tell.
    pub(crate) records: u64,
    /// Damaged bytes.
    bytes: u64,
    /// Where it begins, and why.
    first: Option<String>,
}

impl LogDamage {
    /// Whether the log was intact.
    pub(crate) fn is_none(&self) -> bool {
        self.first.is_none()
    }

    /// Copies damaged bytes to a separate file and counts `records`.
    pub(crate) fn set_aside(
        &mut self,
        path: &Path,
        at: usize,
        bytes: &[u8],
        records: u64,
        why: &str,
    ) {
        let copy = path.with_extension(format!("{at}.damaged"));
        if let Err(error) = write_once(&copy, bytes) {
            tracing::warn!("cannot write `{}`: {error}", copy.display());
        }
        self.bytes += bytes.len() as u64;
        self.note(records, format!("cannot read `{}` at byte {at}: {why}", path.display()));
    }

    /// Copies the beginning of a write that was not acknowledged, before it is cut off: a file that
    /// was truncated looks the same.
    pub(crate) fn keep_torn(&self, path: &Path, at: usize, bytes: &[u8]) {
        if bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        let copy = path.with_extension(format!("{at}.torn"));
        tracing::warn!(
            "`{}` ends within a record at byte {at}: that is usual after a power loss, otherwise check the disk; its {} bytes are in `{}`",
            path.display(),
            bytes.len(),
            copy.display()
        );
        if let Err(error) = write_once(&copy, bytes) {
            tracing::warn!("cannot write `{}`: {error}", copy.display());
        }
    }

    /// Notes that a directory has no log although a weir has written one.
    pub(crate) fn no_log(&mut self, dir: &Path) {
        let text = format!(
            "`{}` is empty, although weir wrote a log there: rows that were in no file are lost",
            dir.display()
        );
        self.note(0, text);
    }

    /// Counts records of segments that are missing before `path`.
    pub(crate) fn gap(&mut self, path: &Path, records: u64) {
        let text = format!("{records} records before `{}` at byte 0 are missing", path.display());
        self.note(records, text);
    }

    fn note(&mut self, records: u64, text: String) {
        tracing::error!(records, "{text}");
        self.records += records;
        self.first.get_or_insert(text);
    }

    /// The damage for people; `None` when there is none.
    pub(crate) fn message(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(format!(
            "{first}; {} records of the log ({} bytes) were left out of this start; check the disk: copies are in the same directory, named `*.damaged`",
            self.records, self.bytes
        ))
    }
}

/// A later start finds the same damage until the segment is flushed; the first copy stays.
fn write_once(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A run of zeros this long is a page that did not reach the disk.
const ZEROS: usize = 512;

/// Whether the invalid record at `at`, behind which no later group follows, was whole once: it has
/// the length that it states, or records of its own group follow, and no page of it is missing.
pub(crate) fn is_changed(segment: &[u8], at: usize, expected: u64) -> bool {
    let found = find_intact(segment, at, expected);
    let bytes = &segment[at..found.map_or(segment.len(), |(end, _)| end)];
    let is_whole = || {
        let head = bytes.first_chunk::<RECORD_HEAD_BYTES>();
        let fits = head.is_some_and(|head| RECORD_HEAD_BYTES + record_length(head) <= bytes.len());
        fits || is_whole_but_length(segment, at, expected)
    };
    let has_gap = bytes.split(|byte| *byte != 0).any(|zeros| zeros.len() >= ZEROS);
    (found.is_some() || is_whole()) && !has_gap && bytes.iter().any(|byte| *byte != 0)
}

/// Whether an intact record that begins a group follows `at`: if so, the bytes at `at` were synced
/// once.
pub(crate) fn has_later_group(segment: &[u8], at: usize, sequence: u64) -> bool {
    let is_near = |found: u64| found > sequence && found - sequence < 1 << 20;
    (at + 1..segment.len())
        .any(|at| record_at(segment, at, is_near).is_some_and(|record| record.begins_group))
}

/// Whether the bytes from `at` to the end are a record of this number but for its length.
fn is_whole_but_length(segment: &[u8], at: usize, sequence: u64) -> bool {
    let Some((head, bytes)) = segment[at..].split_first_chunk::<RECORD_HEAD_BYTES>() else {
        return false;
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX) & !BEGINS_GROUP;
    [0, BEGINS_GROUP]
        .iter()
        .any(|flag| head[4..8] == checksum(length | flag, sequence, bytes).to_le_bytes())
}

/// Offset and number of the next intact record after the damaged one at `at`. The length of the
/// damaged record is tried first, because a parcel may contain bytes that look like a record.
pub(crate) fn find_intact(segment: &[u8], at: usize, expected: u64) -> Option<(usize, u64)> {
    let intact = |at: usize| {
        let sequence = record_sequence(segment, at)?;
        let is_next = sequence >= expected && sequence - expected < NEAR;
        is_next.then_some((at, sequence))
    };
    let head = segment.get(at..).and_then(|rest| rest.first_chunk::<RECORD_HEAD_BYTES>());
    let behind = head.map(|head| at + RECORD_HEAD_BYTES + record_length(head));
    behind.and_then(intact).or_else(|| (at + 1..segment.len()).find_map(intact))
}
