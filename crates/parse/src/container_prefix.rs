//! What commands write before the lines of containers: `docker compose up` and `logs` (`web-1  | text`),
//! `docker logs -t` and `kubectl logs --timestamps` (a time), `kubectl logs --prefix`
//! (`[pod/web-5d/app] text`).
//!
//! Sources: the commands' own output. A word before a bar is in tables as well, and a time before
//! every logger's line, so only a number at the end of the name, or a known line behind the prefix,
//! makes it one.

use weir_values::severity;

use crate::detectors::is_json;
use crate::record::{Envelope, Record};

/// Longest name of a container, with the blanks behind it.
const MAX_NAME_BYTES: usize = 80;
/// Longest time.
const MAX_TIME_BYTES: usize = 36;
/// Length of a time in nanoseconds.
const NANOS_BYTES: usize = "2026-11-20T12:00:00.123456789Z".len();

/// A line behind a prefix.
pub(crate) struct PrefixedLine<'a> {
    pub(crate) entry: Envelope<'a>,
    /// Whether the prefix is one whatever follows it.
    pub(crate) is_certain: bool,
}

/// Splits a line; `None` if it has no such prefix.
pub(crate) fn split<'a>(line: &'a str, record: &mut Record<'a>) -> Option<PrefixedLine<'a>> {
    if !may_be_prefixed(line.as_bytes()) {
        return None;
    }
    // Compose erases the line before it writes one.
    let line = line.strip_prefix("\u{1b}[2K").unwrap_or(line);
    let mut found = match named(line) {
        Some((name, text)) => PrefixedLine {
            is_certain: is_numbered(name) && line[name.len()..].starts_with("  "),
            entry: Envelope { text, attrs: vec![("container.name", name)], ..Envelope::default() },
        },
        None => PrefixedLine { is_certain: line.starts_with("[pod/"), entry: pod(line)? },
    };
    if let Some((time, text)) = stamped(found.entry.text) {
        found.entry.ts = record.times.read(time);
        found.entry.text = text;
    }
    let is_line = found.is_certain || !found.entry.text.trim_ascii().is_empty();
    (is_line && found.entry.text.len() < line.len()).then_some(found)
}

/// A cheap test, since every line of text is tried.
fn may_be_prefixed(line: &[u8]) -> bool {
    match line {
        [b'a'..=b'z' | b'\x1b', ..] => {
            memchr::memchr(b'|', &line[..line.len().min(MAX_NAME_BYTES)]).is_some()
        }
        [b'[', b'p', b'o', b'd', b'/', ..] => true,
        [b'0'..=b'9', _, _, _, _, _, _, _, _, _, b'T', ..] => {
            let head = &line[..line.len().min(MAX_TIME_BYTES)];
            line.get(NANOS_BYTES - 1) == Some(&b'Z')
                || memchr::memchr(b' ', head).is_some_and(|at| line.get(at + 1) == Some(&b'{'))
        }
        _ => false,
    }
}

/// `web-1  | text`.
fn named(line: &str) -> Option<(&str, &str)> {
    let head = &line.as_bytes()[..line.len().min(MAX_NAME_BYTES)];
    let at = memchr::memchr(b'|', head)?;
    let name = line[..at].strip_suffix(' ')?.trim_end_matches(' ');
    let text = &line[at + 1..];
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && severity::of_word(name).is_none();
    let text = if text.is_empty() { text } else { text.strip_prefix(' ')? };
    is_name.then_some((name, text))
}

/// `web-1`, `shop_web_1`.
fn is_numbered(name: &str) -> bool {
    let number = name.rsplit_once(['-', '_']).map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// `[pod/web-5d/app] text`, or any line, which may begin with a time.
fn pod(line: &str) -> Option<Envelope<'_>> {
    let Some(rest) = line.strip_prefix("[pod/") else {
        return Some(Envelope { text: line, ..Envelope::default() });
    };
    let (names, text) = rest.split_once("] ")?;
    let (pod, container) = names.split_once('/')?;
    let attrs = vec![("k8s.pod.name", pod), ("k8s.container.name", container)];
    Some(Envelope { text, attrs, ..Envelope::default() })
}

/// The time of a daemon, in nanoseconds, or any before an object.
fn stamped(line: &str) -> Option<(&str, &str)> {
    let head = &line.as_bytes()[..line.len().min(MAX_TIME_BYTES)];
    let is_time = head.get(10) == Some(&b'T') && head[0].is_ascii_digit();
    let at = memchr::memchr(b' ', head).filter(|_| is_time)?;
    let (time, text) = (&line[..at], &line[at + 1..]);
    let is_nanos = time.len() == NANOS_BYTES && time.ends_with('Z');
    (is_nanos || is_json(text.as_bytes())).then_some((time, text))
}
