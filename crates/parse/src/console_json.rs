//! Lines of zap's console encoder (Caddy, many Go services): time, level, logger, place and
//! message between tabs, and the fields as a JSON object at the end.
//!
//! Source: zap's `zapcore.NewConsoleEncoder`. The surprising thing: logger and place are both
//! optional; a place is a file with the number of a line.

use weir_values::severity;

use crate::detectors::is_json;
use crate::record::Record;

/// Most parts before the object: time, level, logger, place, message.
const MAX_PARTS: usize = 5;

/// The line as a JSON object with the keys that zap's JSON encoder writes; `None` if it is not in
/// this format.
pub(crate) fn as_json<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    if !line.ends_with('}') {
        return None;
    }
    let Some(at) = line.find("\t{") else { return behind_place(line, record) };
    let (head, object) = (&line[..at], &line[at + 1..]);
    let parts: Vec<&str> = head.split('\t').collect();
    if let [time, tag] = parts.as_slice() {
        return behind_tag([time, tag], object, record);
    }
    let [time, level, between @ .., message] = parts.as_slice() else { return None };
    let is_head = parts.len() <= MAX_PARTS
        && severity::of_word(level).is_some()
        && record.times.read(time).is_some();
    if !is_head || !is_json(object.as_bytes()) {
        return None;
    }
    let mut pairs = vec![("ts", *time), ("level", *level)];
    pairs.extend(
        between.iter().map(|part| (if is_place(part) { "caller" } else { "logger" }, *part)),
    );
    pairs.push(("msg", *message));
    let mut json = String::from("{");
    for (key, value) in pairs {
        json.push_str(&format!("\"{key}\":\"{}\",", escaped(value)));
    }
    let members = object.trim_start_matches('{').trim_start();
    if members.starts_with('}') {
        json.pop();
    }
    json.push_str(members);
    Some(record.arena.alloc_str(&json))
}

/// The object of Fluentd's `out_file`, `2026-11-20T12:00:00+00:00 TAB tag TAB {…}`, and behind its members
/// the time and the tag.
fn behind_tag<'a>(
    [time, tag]: [&str; 2],
    object: &str,
    record: &mut Record<'a>,
) -> Option<&'a str> {
    let members = object.strip_suffix('}')?.trim_end();
    record.times.read(time).filter(|_| is_json(object.as_bytes()))?;
    let comma = if members.ends_with('{') { "" } else { "," };
    let pairs = format!("\"tag\":\"{}\",\"time\":\"{}\"", escaped(tag), escaped(time));
    Some(record.arena.alloc_str(&format!("{members}{comma}{pairs}}}")))
}

/// The object of Beego's logger, `2026/11/20 12:00:00.123 [server.go:27]  {…}`, with its place.
fn behind_place<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let (head, members) = line.split_once("]  {")?;
    let (time, place) = head.split_once(" [")?;
    let is_head = is_place(place) && members.starts_with('"') && record.times.read(time).is_some();
    let json = is_head.then(|| format!("{{\"caller\":\"{}\",{members}", escaped(place)))?;
    Some(record.arena.alloc_str(&json))
}

/// A text as it stands in JSON.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// `dir/file.go:21`.
fn is_place(part: &str) -> bool {
    let line = part.rsplit_once(':').map_or("", |(_, line)| line);
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}
