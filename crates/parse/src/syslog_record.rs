//! The header of a syslog line, put into a record, and what the message itself has in front.

use weir_values::{number, severity};

use crate::detectors::is_json;
use crate::field::Field;
use crate::record::Record;
use crate::syslog_header::{HeaderTime, SyslogHeader};
use crate::{cef, routeros, text};

/// Most digits of a count before a message.
const MAX_COUNT_DIGITS: usize = 5;

/// Reads the header and returns the message; `None`, with the record unchanged, without a header.
pub(crate) fn header<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let header = SyslogHeader::read(line)?;
    put_header(&header, record)
}

/// Reads the header of a line of an unknown log; `None`, with the record unchanged, if it has no
/// priority and is not a time, a host and a tag.
pub(crate) fn detect<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let line = behind_count(line).unwrap_or(line);
    if !may_be_header(line.as_bytes()) {
        return None;
    }
    let header = SyslogHeader::read(line)?;
    // Files of dnsmasq have no host.
    let is_named = !header.host.is_empty()
        || !header.level.is_empty()
        || header.program == "kernel"
        || matches!(header.program, "app" | "heroku") && !header.process.is_empty()
        || !header.process.is_empty() && line.starts_with(|first: char| first.is_ascii_uppercase());
    let is_whole = is_named && (!header.program.is_empty() || is_data(header.message));
    (header.priority.is_some() || is_whole).then(|| put_header(&header, record))?
}

/// A message behind the count of RFC 6587, which some relays write into files.
fn behind_count(line: &str) -> Option<&str> {
    let digits = line.bytes().take(MAX_COUNT_DIGITS).take_while(u8::is_ascii_digit).count();
    let rest = line[digits..].strip_prefix(' ')?;
    (digits > 0 && rest.starts_with('<')).then_some(rest)
}

/// Whether a message needs no tag: firewalls send pairs and events, and programs objects.
fn is_data(message: &str) -> bool {
    text::word(message).0.contains('=')
        || is_json(message.as_bytes())
        || cef::start(message).is_some()
        || routeros::topics(message).is_some()
}

/// Whether a line begins as a header does: a priority, a time, or a number of seconds.
fn may_be_header(line: &[u8]) -> bool {
    match line {
        [b'<' | b'A'..=b'Z', ..] | [_, _, _, _, _, _, _, _, _, _, b'T', ..] => true,
        [b'[', b' ' | b'0'..=b'9', ..] => true,
        // `2026 Nov 20 12:00:00`.
        [b'0'..=b'9', _, _, _, b' ', b'A'..=b'Z', ..] => true,
        // `kern  :warn  : [`.
        [b'a'..=b'z', _, _, _, _, _, b':', _, _, _, _, _, _, b':', ..] => true,
        [first, .., _] if first.is_ascii_digit() => {
            matches!(line.get(10), Some(b' ' | b'.')) && line[..10].iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Fills the columns and returns the message; `None` if the time is no day of the calendar.
fn put_header<'a>(header: &SyslogHeader<'a>, record: &mut Record<'a>) -> Option<&'a str> {
    record.ts = match header.time {
        HeaderTime::None => None,
        HeaderTime::Clock(reading) => Some(record.times.settle(reading)?),
        HeaderTime::Epoch(digits) => Some(record.times.read(digits)?),
    };
    let level = || severity::of_word(header.level);
    record.log.severity = header.severity().and_then(severity::of_syslog).or_else(level);
    record.log.facility = header.priority.and_then(|number| severity::facility(number / 8));
    record.log.program = Some(header.program).filter(|program| !program.is_empty());
    record.log.process_id = number::integer(header.process);
    record.attr(["syslog_hostname", header.host]);
    record.attr(["syslog_message_id", header.message_id]);
    record.attr(["syslog_sequence", header.sequence]);
    record.attr(["syslog_uptime", header.uptime]);
    record.attr(["syslog_device", header.device]);
    if record.log.process_id.is_none() {
        record.attr(["syslog_process_id", header.process]);
    }
    let message =
        if header.is_modern { structured_data(header.message, record) } else { header.message };
    let message = message.strip_prefix('\u{feff}').unwrap_or(message);
    let event = if header.program.is_empty() { cef::start(message) } else { None };
    match event {
        None | Some(0) => Some(message),
        Some(start) => {
            record.attr(["syslog_prefix", message[..start].trim_ascii()]);
            Some(&message[start..])
        }
    }
}

/// `[id name="value" …][…] `, where `\"`, `\\` and `\]` are escapes; names become `id.name`.
fn structured_data<'a>(rest: &'a str, record: &mut Record<'a>) -> &'a str {
    if let Some(message) = rest.strip_prefix('-') {
        return message.strip_prefix(' ').unwrap_or(message);
    }
    let mut rest = rest;
    while let Some(element) = rest.strip_prefix('[') {
        let Some(behind) = element_params(element, record) else {
            colon_params(element, record);
            return rest;
        };
        rest = behind;
    }
    rest.strip_prefix(' ').unwrap_or(rest)
}

fn element_params<'a>(element: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let end = element.find([' ', ']'])?;
    let (id, mut rest) = element.split_at(end);
    while let Some(param) = rest.strip_prefix(' ') {
        let (name, quoted) = param.split_once("=\"")?;
        let (value, behind) = text::quoted_end(quoted)?;
        let key = record.arena.alloc_str(&format!("{id}.{name}"));
        let value = text::unescape(value, record.arena);
        record.put([key, value], Field::Attr);
        rest = behind;
    }
    rest.strip_prefix(']')
}

/// Check Point's `action:"Accept"; src:"192.0.2.1"; ]`, which becomes attributes if it is whole.
fn colon_params<'a>(element: &'a str, record: &mut Record<'a>) -> Option<()> {
    let mut rest = element;
    let mut pairs = Vec::new();
    while !rest.starts_with(']') {
        let (name, quoted) = rest.split_once(":\"")?;
        let (value, behind) = text::quoted_end(quoted)?;
        let name = name.trim_end_matches(':');
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        pairs.push(is_name.then_some([name, value])?);
        rest = behind.strip_prefix(';').unwrap_or(behind).trim_start_matches(' ');
    }
    for [name, value] in pairs {
        record.attr([name, text::unescape(value, record.arena)]);
    }
    Some(())
}

/// Moves the kernel's own timestamp, `[12345.678901] `, out of the body.
pub(crate) fn kernel_uptime(record: &mut Record<'_>) {
    if record.log.program != Some("kernel") {
        return;
    }
    // F5 writes two colons.
    let body = record.log.body.trim_start_matches([':', ' ']);
    let stamp = body.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    if let Some((uptime, message)) =
        stamp.filter(|(uptime, _)| number::seconds(uptime.trim_ascii()).is_some())
    {
        record.attr(["kernel_uptime_seconds", uptime.trim_ascii()]);
        record.log.body = message;
    }
}
