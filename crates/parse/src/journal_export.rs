//! Entries in the journal's export format, `journalctl -o export`
//! (systemd, "Journal Export Formats"), and of `journalctl -o verbose`, whose fields are indented
//! below a time and a cursor.
//!
//! An entry is lines of `FIELD=value` up to a blank line, so a multi-line rule joins them before
//! they get here. A value with a line end is `FIELD`, a newline, its length in eight bytes with the
//! lowest first, the value and a newline.
//!
//! ```text
//! __CURSOR=s=1;i=2
//! __REALTIME_TIMESTAMP=1795175999123456
//! MESSAGE=worker exited
//! ```

use crate::contained::ContainedFormat;
use crate::journal;
use crate::record::{Record, RowKind};

/// Bytes of a length.
const LENGTH_BYTES: usize = 8;

/// Reads an entry; `None`, with the record unchanged, if the text does not begin like one.
pub(crate) fn parse<'a>(
    text: &'a str,
    contained: &mut ContainedFormat,
    record: &mut Record<'a>,
) -> Option<RowKind> {
    if !text.starts_with("__CURSOR=") || !text.contains('\n') {
        return verbose(text, contained, record);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = match line.split_once('=') {
            Some(field) => {
                journal::take(field, record);
                behind
            }
            None if line.is_empty() => behind,
            None => {
                let (value, behind) = long_value(behind);
                journal::take((line, value), record);
                behind
            }
        };
    }
    Some(journal::settle_entry(contained, record))
}

/// Reads `Fri 2026-11-20 12:00:00.123456 UTC [s=1;i=2]`, and a field in each indented line below.
fn verbose<'a>(
    text: &'a str,
    contained: &mut ContainedFormat,
    record: &mut Record<'a>,
) -> Option<RowKind> {
    if text.as_bytes().get(8) != Some(&b'-') {
        return None;
    }
    let (head, fields) = text.split_once("\n    ")?;
    let (time, _) = head.split_once(" [s=")?;
    record.ts = Some(record.times.read(time.get(4..)?)?);
    let mut start = 0;
    while start < fields.len() {
        // A value's further lines are indented as far as its first.
        let ends = fields[start..].match_indices("\n    ").map(|(at, _)| start + at);
        let is_next = |at: &usize| !fields[at + "\n    ".len()..].starts_with(' ');
        let end = ends.into_iter().find(is_next).unwrap_or(fields.len());
        if let Some(field) = fields[start..end].split_once('=') {
            journal::take(field, record);
        }
        start = end + "\n    ".len();
    }
    Some(journal::settle_entry(contained, record))
}

/// A value behind its length, and the text behind it.
///
/// Bytes that are not UTF-8 are escaped by now, so the value ends at the first newline that is not
/// before its length.
fn long_value(text: &str) -> (&str, &str) {
    let head = text.as_bytes().get(..LENGTH_BYTES).filter(|head| head.is_ascii());
    let (Some(head), Some(value)) = (head, text.get(LENGTH_BYTES..)) else {
        return text.split_once('\n').unwrap_or((text, ""));
    };
    let length = head.iter().rev().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    let start = value.floor_char_boundary(length.min(value.len()));
    let end = value[start..].find('\n').map_or(value.len(), |at| start + at);
    (&value[..end], value.get(end + 1..).unwrap_or(""))
}
