//! What Ruby's `Logger` writes before a message: `I, [2026-11-20T12:00:00.123456 #77]  INFO -- app: text`.
//!
//! Source: Ruby's `Logger::Formatter`. Rails adds tags in brackets behind it.

use weir_values::{number, severity};

use crate::record::{Envelope, Record};

/// The message, with what is before it; `None` if a line does not begin so.
pub(crate) fn split<'a>(line: &'a str, record: &mut Record<'a>) -> Option<Envelope<'a>> {
    if line.as_bytes().get(1..4)? != b", [" {
        return None;
    }
    let (time, rest) = line.get(4..)?.split_once(" #")?;
    let (process, rest) = rest.split_once("] ")?;
    let (level, rest) = rest.trim_start_matches(' ').split_once(" -- ")?;
    let (program, mut text) = rest.split_once(": ")?;
    let mut entry = Envelope {
        ts: Some(record.times.read(time)?),
        severity: severity::of_word(level),
        process_id: Some(number::integer(process)?),
        program: Some(program).filter(|program| !program.is_empty()),
        ..Envelope::default()
    };
    while let Some((tag, behind)) = text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        entry.attrs.push(("log_tag", tag));
        text = behind;
    }
    entry.text = text;
    (!text.is_empty()).then_some(entry)
}
