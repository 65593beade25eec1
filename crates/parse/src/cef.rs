//! Security events of devices: ArcSight's Common Event Format (CEF) and IBM's LEEF.
//!
//! Sources: "ArcSight Common Event Format" (version 26), IBM's "LEEF 1.0 and 2.0 overview". Both have
//! a header between bars and pairs behind it. The surprising thing: CEF has nothing between its pairs
//! but a space, and values have spaces, so a value ends where the next ` key=` begins.
//!
//! ```text
//! CEF:0|Acme|Firewall|1.2|100|Port scan|7|src=192.0.2.1 msg=many ports cs1Label=zone cs1=dmz
//! LEEF:1.0|Acme|Firewall|1.2|100|src=192.0.2.1⇥sev=7        LEEF:2.0|Acme|Firewall|1.2|100|^|src=192.0.2.1^sev=7
//! ```

use std::collections::{HashMap, HashSet};

use weir_values::{TimeForm, number, severity};

use crate::field::{self, Field};
use crate::record::{Record, RowKind};

/// Most bytes of a key.
const MAX_KEY_BYTES: usize = 255;
/// Most bytes of a sender's words before an event.
const MAX_PREFIX_BYTES: usize = 128;
/// Names of the parts of a header, which are attributes.
const HEADER: [&str; 4] = ["device_vendor", "device_product", "device_version", "event_class_id"];

/// Where an event begins in a message of syslog: at its front, or behind a few words of its sender.
pub(crate) fn start(message: &str) -> Option<usize> {
    let head = &message.as_bytes()[..message.len().min(MAX_PREFIX_BYTES)];
    let ends = memchr::memmem::find_iter(head, b"EF:");
    let mut starts = ends.filter_map(|at| {
        let name = [&b"LE"[..], b"C"].into_iter().find(|name| head[..at].ends_with(name))?;
        Some(at - name.len())
    });
    starts.find(|start| *start == 0 || head[start - 1] == b' ')
}

/// Reads a line or a message; `None`, with the record unchanged, if it is in neither format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    match line.as_bytes() {
        [b'C', b'E', b'F', b':', ..] => cef(line[4..].trim_start_matches(' '), record),
        [b'L', b'E', b'E', b'F', b':', ..] => leef(line[5..].trim_start_matches(' '), record),
        _ => None,
    }
}

/// `version|vendor|product|version|class|name|severity|pairs`.
fn cef<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    let mut rest = after_version(rest)?;
    let mut parts = [""; 6];
    for part in &mut parts {
        let end = bar(rest);
        // Some devices leave parts out, and the pairs follow at once.
        if end == rest.len() && !spaced_pairs(rest, record).is_empty() {
            break;
        }
        *part = unescaped(rest[..end].trim_ascii(), record);
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    let [vendor, product, version, class, name, severity] = parts;
    if vendor.is_empty() && product.is_empty() && name.is_empty() {
        return None;
    }
    put_header([vendor, product, version, class], record);
    record.log.severity = severity_of(severity);
    record.attr(["event_severity", severity]);
    let pairs = spaced_pairs(rest.trim_ascii(), record);
    let value = |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    record.ts = ["rt", "end"].into_iter().find_map(|name| record.times.read(value(name)?));
    let message = put_pairs(&pairs, record);
    Some(finish([message, Some(name)], record))
}

/// `version|vendor|product|version|class|pairs`, in version 2 with the character between pairs.
fn leef<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    let is_second = rest.starts_with('2');
    let mut rest = after_version(rest)?;
    let mut parts = [""; 4];
    for part in &mut parts {
        let (text, behind) = rest.split_once('|')?;
        (*part, rest) = (text, behind);
    }
    let mark = is_second.then(|| rest.split_once('|')).flatten().and_then(|(written, behind)| {
        let mark = delimiter(written)?;
        rest = behind;
        Some(mark)
    });
    put_header(parts, record);
    let pairs = delimited_pairs(rest, mark);
    let value = |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let written = value("devTimeFormat").and_then(|form| TimeForm::parse(form).ok());
    let time = value("devTime").unwrap_or_default();
    let by_form = written.and_then(|form| record.times.settle(form.read(time)?));
    record.ts = by_form.or_else(|| record.times.read(time));
    record.log.severity = value("sev").and_then(severity_of);
    let message = put_pairs(&pairs, record);
    Some(finish([message, None], record))
}

/// Decides the table: an event with method, target and status is a request. The name of the event is
/// the body where it has no message.
fn finish<'a>([message, name]: [Option<&'a str>; 2], record: &mut Record<'a>) -> RowKind {
    let is_request =
        [Field::Method, Field::Target, Field::Status].iter().all(|field| !record.is_free(*field));
    if !is_request {
        record.log.body = message.or(name).unwrap_or_default();
    }
    if is_request || message.is_some() {
        record.attr(["event_name", name.unwrap_or_default()]);
    }
    if is_request {
        record.attr(["msg", message.unwrap_or_default()]);
        return RowKind::Request;
    }
    RowKind::Log
}

/// The text behind `0|` or `1.0|`.
fn after_version(rest: &str) -> Option<&str> {
    let (version, rest) = rest.split_once('|')?;
    let is_version =
        version.starts_with(|digit: char| digit.is_ascii_digit()) && version.len() <= 4;
    is_version.then_some(rest)
}

/// Where a part of a header ends: a bar, unless it is escaped.
fn bar(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'|', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'|' {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// `\\`, `\|`, `\=`, `\n` and `\r`; another backslash stands for itself, as in paths of Windows.
fn unescaped<'a>(value: &'a str, record: &Record<'a>) -> &'a str {
    if memchr::memchr(b'\\', value.as_bytes()).is_none() {
        return value;
    }
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = letters.peek().copied().filter(|_| letter == '\\');
        out.push(match escaped {
            Some(mark @ ('\\' | '|' | '=' | '/')) => mark,
            Some('n') if !is_path(value) => '\n',
            Some('r') if !is_path(value) => '\r',
            _ => {
                out.push(letter);
                continue;
            }
        });
        letters.next();
    }
    record.arena.alloc_str(&out)
}

/// `C:\new`, whose backslashes are no escapes.
fn is_path(value: &str) -> bool {
    matches!(value.as_bytes(), [b'A'..=b'Z' | b'a'..=b'z', b':', b'\\', ..] | [b'\\', b'\\', ..])
}

/// Pairs of CEF. A `=` begins a value only behind a word that is a key; any other is part of the value,
/// though the specification wants it escaped.
fn spaced_pairs<'a>(text: &'a str, record: &Record<'a>) -> Vec<(&'a str, &'a str)> {
    let bytes = text.as_bytes();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let (mut key, mut value_start) = ("", 0);
    for at in memchr::memchr_iter(b'=', bytes) {
        // Longer words are no keys.
        let from = value_start.max(at.saturating_sub(MAX_KEY_BYTES + 1));
        let space = bytes[from..at].iter().rposition(|byte| *byte == b' ' || *byte == b'\t');
        let start = match space {
            Some(space) => from + space + 1,
            None if key.is_empty() => from,
            None => continue,
        };
        let word = &text[start..at];
        if !is_key(word) {
            continue;
        }
        if !key.is_empty() {
            pairs.push((key, unescaped(text[value_start..start].trim_ascii(), record)));
        }
        (key, value_start) = (word, at + 1);
    }
    if !key.is_empty() {
        pairs.push((key, unescaped(text[value_start..].trim_ascii(), record)));
    }
    pairs
}

/// Whether a word in front of `=` is a key: `src`, `cs1Label`, `ad.field[0]`.
fn is_key(word: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-[]".contains(&byte);
    (1..=MAX_KEY_BYTES).contains(&word.len())
        && word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && word.bytes().all(is_letter)
}

/// Pairs of LEEF. Without a delimiter, it is a tab, rsyslog's `#011` for one, or a bar.
fn delimited_pairs(text: &str, delimiter: Option<char>) -> Vec<(&str, &str)> {
    let mut buffer = [0; 4];
    let delimiter: &str = match delimiter {
        Some(delimiter) => delimiter.encode_utf8(&mut buffer),
        None => ["\t", "#011", "|"].into_iter().find(|mark| text.contains(mark)).unwrap_or("\t"),
    };
    let pairs = text.split(delimiter).filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.trim_ascii(), value.trim_ascii())).collect()
}

/// One character, or its number (`x5E`, `0x5E`); `None` if the text is no delimiter but pairs.
fn delimiter(written: &str) -> Option<char> {
    let digits = written.strip_prefix("0x").or_else(|| written.strip_prefix('x'));
    if let Some(number) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
        return char::from_u32(number);
    }
    let mut letters = written.chars();
    match (letters.next(), letters.next()) {
        (None, _) => Some('\t'),
        (Some(letter), None) => Some(letter),
        _ => None,
    }
}

/// The product is the program.
fn put_header<'a>(parts: [&'a str; 4], record: &mut Record<'a>) {
    for (name, part) in HEADER.into_iter().zip(parts).filter(|(_, part)| !part.is_empty()) {
        let field = if name == HEADER[1] { Field::Program } else { Field::Attr };
        record.put([name, part], field);
    }
}

/// Puts the pairs with their meanings; returns the message. A value whose name is in a label has that
/// name: `cs1Label=zone cs1=dmz`.
fn put_pairs<'a>(pairs: &[(&'a str, &'a str)], record: &mut Record<'a>) -> Option<&'a str> {
    let labels = pairs.iter().filter(|(_, name)| !name.is_empty());
    let labels: HashMap<&str, &str> =
        labels.filter_map(|(key, name)| Some((key.strip_suffix("Label")?, *name))).collect();
    let used: HashSet<&str> =
        pairs.iter().map(|(key, _)| *key).filter(|key| labels.contains_key(key)).collect();
    let mut message = None;
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        if key.strip_suffix("Label").is_some_and(|labelled| used.contains(labelled)) {
            continue;
        }
        match labels.get(key) {
            Some(name) => record.put([name, value], field::of_key(name)),
            None if *key == "msg" && message.is_none() => message = Some(*value),
            None => record.put([key, value], field_of(key)),
        }
    }
    message
}

/// The meaning of a key of CEF's dictionary or LEEF's predefined attributes.
fn field_of(key: &str) -> Field {
    match key {
        "src" | "sourceAddress" => Field::ClientAddress,
        "spt" | "srcPort" => Field::ClientPort,
        "dst" | "destinationAddress" => Field::ServerAddress,
        "dhost" => Field::Host,
        "dpt" | "dstPort" => Field::ServerPort,
        "requestMethod" => Field::Method,
        "request" | "url" => Field::Target,
        "requestClientApplication" => Field::UserAgent,
        "requestContext" => Field::Referer,
        "dvcpid" => Field::ProcessId,
        _ => Field::Attr,
    }
}

/// 0 to 10, or words: Unknown, Low, Medium, High, Very-High.
fn severity_of(text: &str) -> Option<&'static str> {
    let level = text.trim_ascii();
    match number::float(level) {
        Some(0.0..4.0) => Some("info"),
        Some(4.0..7.0) => Some("warn"),
        Some(7.0..9.0) => Some("error"),
        Some(9.0..) => Some("critical"),
        Some(_) => None,
        None => match level.to_ascii_lowercase().as_str() {
            "low" => Some("info"),
            "medium" => Some("warn"),
            "high" => Some("error"),
            "very-high" | "very high" | "veryhigh" => Some("critical"),
            word => severity::of_word(word),
        },
    }
}
