//! Records of the write-ahead log that were acknowledged and cannot be read any more.
//!
//! A start that ends at the first of them leaves a host without monitoring, and a start that cuts
//! them off loses rows in silence. So they are copied to a file beside the log, counted, logged as
//! an error, and shown in the status until weir ends.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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

    /// Notes that the position of an output changed after writing.
    pub(crate) fn copy_position(&mut self, name: &str) {
        let text = format!(
            "the position of the output `{name}` changed after writing: rows are sent again"
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
        if self.records == 0 && self.bytes == 0 {
            return Some(format!("{first}; check the disk"));
        }
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
