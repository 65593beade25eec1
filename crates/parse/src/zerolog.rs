//! Lines of zerolog's console writer (Traefik 3, many Go services): `2026-11-20T12:00:00Z DBG
//! proxy.go:121 > 502 Bad Gateway error="dial tcp 10.0.0.7:80: connect: connection refused"`.
//!
//! The place in the code may lack, and ` |` may stand before the fields. A level of three letters
//! stands where syslog has the host.

use crate::record::Record;
use crate::text;

/// The writer's word for a level, and the severity.
const LEVELS: [(&str, &str); 7] = [
    ("TRC", "trace"),
    ("DBG", "debug"),
    ("INF", "info"),
    ("WRN", "warn"),
    ("ERR", "error"),
    ("FTL", "critical"),
    ("PNC", "critical"),
];

/// Whether a line starts with a time and one of the writer's levels.
pub(crate) fn is_likely(line: &str) -> bool {
    head(line).is_some()
}

/// Reads a line; `None`, with the record unchanged, if it is not in this format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (time, severity, rest) = head(line)?;
    record.ts = Some(record.times.read(time)?);
    record.log.severity = Some(severity);
    let place = rest.split_once(" > ").filter(|(place, _)| !place.contains(' '));
    if let Some((place, _)) = place {
        record.attr(["code_location", place]);
    }
    let text = place.map_or(rest, |(_, text)| text);
    let at = next_field(text).unwrap_or(text.len());
    let message = text[..at].trim_end();
    record.log.body = message.strip_suffix(" |").unwrap_or(message);
    put_fields(text[at..].trim_start(), record);
    Some(())
}

fn head(line: &str) -> Option<(&str, &'static str, &str)> {
    let (time, rest) = line.split_once(' ')?;
    let (level, rest) = rest.split_once(' ')?;
    let (_, severity) = LEVELS.iter().find(|(word, _)| *word == level)?;
    (time.as_bytes().get(10) == Some(&b'T')).then_some((time, *severity, rest))
}

fn put_fields<'a>(mut rest: &'a str, record: &mut Record<'a>) {
    while let Some((key, behind)) = rest.split_once('=').filter(|(key, _)| is_key(key)) {
        let quoted = behind.strip_prefix('"').and_then(text::quoted_end);
        let (value, more) = match quoted {
            Some((value, more)) => (text::unescape(value, record.arena), more),
            None => behind.split_at(next_field(behind).unwrap_or(behind.len())),
        };
        record.attr([key, value]);
        rest = more.trim_start();
    }
}

/// Where the blank before the next `key=` is.
fn next_field(text: &str) -> Option<usize> {
    text.match_indices(' ').map(|(at, _)| at).find(|at| {
        let word = text[at + 1..].split(' ').next().unwrap_or_default();
        word.split_once('=').is_some_and(|(key, _)| is_key(key))
    })
}

fn is_key(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}
