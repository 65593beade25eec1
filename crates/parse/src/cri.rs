//! Lines of containerd and CRI-O: `2026-11-20T12:00:00.123456789Z stdout F text`.
//!
//! Source: Kubernetes' CRI log format. `P` marks a text that goes on in the next entry of the same
//! stream, because the runtime splits long ones; `container_join.rs` joins them, and what is left is
//! a row with `attrs['is_partial']`. Tags may follow the mark, separated by colons.

use crate::field::Field;
use crate::record::Record;

/// Reads an entry's values into the record and returns the container's line; `None`, with the record
/// unchanged, if it is not an entry.
pub(crate) fn detect<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let mut words = line.splitn(4, ' ');
    let (time, stream, tags) = (words.next()?, words.next()?, words.next()?);
    let is_entry = time.as_bytes().get(10) == Some(&b'T') && matches!(stream, "stdout" | "stderr");
    if !is_entry {
        return None;
    }
    let tag = tags.split(':').next().unwrap_or("");
    let is_partial = tag == "P";
    // CRI-O before 1.10 had no tags.
    let has_tags = is_partial || tag == "F";
    record.ts = Some(record.times.read(time)?);
    record.put(["stream", stream], Field::Attr);
    if is_partial {
        record.put(["is_partial", "true"], Field::Attr);
    }
    let text_start = if has_tags {
        time.len() + stream.len() + tags.len() + 3
    } else {
        time.len() + stream.len() + 2
    };
    Some(line.get(text_start..).unwrap_or(""))
}
