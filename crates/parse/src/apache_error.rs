//! Apache's `ErrorLog` (core, default `ErrorLogFormat` of 2.4, and that of 2.2).
//!
//! `[Fri Nov 20 12:00:00.123456 2026] [core:error] [pid 12:tid 34] (2)No such file: [client 1.2.3.4:5] AH00128: …`

use crate::log_text;
use crate::record::{Kind, Record};
use crate::{number, severity};

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Kind {
    if head(line, record).is_none() {
        log_text::parse(line, record);
    }
    Kind::Log
}

/// Whether a line has the head of the format.
pub(crate) fn is_likely(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.first() == Some(&b'[') && bytes.get(4) == Some(&b' ') && line.contains("] [")
}

fn head<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (stamp, mut rest) = line.strip_prefix('[')?.split_once("] ")?;
    record.ts = Some(record.times.read(stamp)?);
    while let Some((inner, behind)) = bracket(rest).filter(|(inner, _)| is_head(inner)) {
        head_value(inner, record);
        rest = behind;
    }
    record.log.body = message(rest, record);
    Some(())
}

fn bracket(text: &str) -> Option<(&str, &str)> {
    let (inner, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((inner, rest.strip_prefix(' ').unwrap_or(rest)))
}

fn is_head(inner: &str) -> bool {
    let level = inner.rsplit_once(':').map_or(inner, |(_, level)| level);
    inner.starts_with("pid ") || inner.starts_with("client ") || severity::of_word(level).is_some()
}

fn head_value<'a>(inner: &'a str, record: &mut Record<'a>) {
    if let Some(process) = inner.strip_prefix("pid ") {
        let (process_id, thread_id) = process.split_once(":tid ").unwrap_or((process, ""));
        record.log.process_id = number::integer(process_id);
        record.attr("thread_id", thread_id);
    } else if let Some(client) = inner.strip_prefix("client ") {
        record.attr("client", client);
    } else {
        let (module, level) = inner.rsplit_once(':').unwrap_or(("", inner));
        record.attr("module", module);
        record.log.severity = severity::of_word(level);
    }
}

/// The message without the client in its middle, the error code in front of it and the referer behind it.
fn message<'a>(rest: &'a str, record: &mut Record<'a>) -> &'a str {
    let mut body = rest;
    if let Some((system_error, behind)) = rest.split_once(": [client ")
        && let Some((client, message)) = behind.split_once("] ")
        && system_error.starts_with('(')
    {
        record.attr("system_error", system_error);
        record.attr("client", client);
        body = message;
    }
    if let Some((code, _)) = body.split_once(": ")
        && code.starts_with("AH")
        && number::integer(&code[2..]).is_some()
    {
        record.attr("error_code", code);
    }
    match body.rsplit_once(", referer: ") {
        Some((message, referer)) => {
            record.attr("referer", referer);
            message
        }
        None => body,
    }
}
