//! Access lines without the bracketed time of the combined format: Uvicorn, Granian, PHP-FPM, Gin,
//! uWSGI, and Node's `morgan`.
//!
//! Sources: the programs' documentation of their default formats.
//!
//! ```text
//! INFO:     127.0.0.1:33604 - "GET /a HTTP/1.1" 200 OK
//! [2026-11-20 12:00:00 +0000] 127.0.0.1 - "GET /a HTTP/1.1" 200 0.113
//! 127.0.0.1 -  20/Nov/2026:12:00:00 +0000 "GET /a.php" 200
//! [GIN] 2026/11/20 - 12:00:00 | 200 |      25.1µs |       127.0.0.1 | GET      "/a"
//! [pid: 12|app: 0|req: 1/1] 127.0.0.1 () {36 vars in 500 bytes} [Fri Nov 20 12:00:00 2026] GET /a => generated 3 bytes in 12 msecs (HTTP/1.1 200) …
//! 127.0.0.1 - GET /a HTTP/1.1 200 1 - 1.395 ms
//! GET /a 200 1.395 ms - 1
//! ```
//!
//! Most of these lines have no time, so their rows have the time of reading.

use weir_values::{number, peer_address, severity};

use crate::combined;
use crate::field::Field;
use crate::record::Record;
use crate::text;

/// Methods that programs write without quotes, where prose could have the same words.
pub(crate) const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"];

/// Reads a line; `None`, with the record empty, if it is in none of these formats.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let outcome = if line.starts_with("[GIN] ") {
        gin(line, record)
    } else if line.starts_with("[pid: ") {
        uwsgi(line, record)
    } else if memchr::memmem::find(line.as_bytes(), b" ms").is_some() && line.contains(" - ") {
        morgan(line, record)
    } else if memchr::memchr(b'"', line.as_bytes()).is_none() {
        return None;
    } else {
        quoted(line, record)
    };
    if outcome.is_none() {
        record.clear_texts();
    }
    outcome
}

/// `… address - [time] "request" status …`.
fn quoted<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (head, behind) = line.split_once(" \"")?;
    let (before, time) = match head.split_once(" - ") {
        Some(parts) => parts,
        None => (head.strip_suffix(" -")?, ""),
    };
    let (prefix, address) = before.rsplit_once(' ').unwrap_or(("", before));
    let (request, rest) = combined::request_end(behind)?;
    let (status, rest) = text::word(rest.strip_prefix(' ')?);
    let is_status = status.len() == 3 && number::integer(status).is_some();
    let time = if time == "-" { "" } else { time.trim_ascii() };
    let is_timed = !time.is_empty() && put_time(time, record);
    // PHP-FPM alone writes no version.
    let is_request = request.contains(" HTTP/") || is_timed && prefix.is_empty();
    if !is_status || !is_request || !peer_address::is_peer(address) || !time.is_empty() && !is_timed
    {
        return None;
    }
    put_prefix(prefix, record);
    record.put(["remote_addr", address], Field::ClientAddress);
    record.put(["request", text::unescape(request, record.arena)], Field::RequestLine);
    record.put(["status", status], Field::Status);
    // Granian writes milliseconds.
    let is_span = prefix.starts_with('[') && rest.contains('.') && number::float(rest).is_some();
    record.put(["rest", rest], if is_span { Field::DurationMillis } else { Field::Attr });
    Some(())
}

/// The time and the words that a logger writes in front; a level alone says nothing.
fn put_prefix<'a>(prefix: &'a str, record: &mut Record<'a>) {
    let front = prefix.strip_prefix('[').unwrap_or(prefix);
    let found = record.times.read_any_front(front);
    record.ts = record.ts.or(found.map(|(ts, _)| ts));
    let rest = found.map_or(prefix, |(_, used)| &front[used..]);
    let bare = rest.trim_matches([' ', ':', '[', ']', '|', '-']);
    if !bare.is_empty() && severity::of_word(bare).is_none() {
        record.attr(["logger_prefix", prefix.trim_ascii()]);
    }
}

fn put_time(text: &str, record: &mut Record<'_>) -> bool {
    let ts = record.times.read(text);
    record.ts = record.ts.or(ts);
    ts.is_some()
}

/// `[GIN] date - clock | status | duration | client | METHOD "path"`.
fn gin<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (time, rest) = line.strip_prefix("[GIN] ")?.split_once(" |")?;
    let (date, clock) = time.split_once(" - ")?;
    let mut parts = rest.splitn(4, '|').map(str::trim_ascii);
    let (status, span, client, request) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (method, path) = request.split_once(' ')?;
    let path = path.trim_ascii_start().strip_prefix('"')?;
    let (path, rest) = path.rsplit_once('"')?;
    if !put_time(&format!("{date} {clock}"), record) || number::integer(status).is_none() {
        return None;
    }
    record.put(["status", status], Field::Status);
    record.put(["remote_addr", client], Field::ClientAddress);
    record.put(["method", method], Field::Method);
    record.put(["path", path], Field::Target);
    record.put(["duration", span], Field::DurationText);
    record.put(["program", "gin"], Field::Program);
    record.attr(["rest", rest.trim_ascii()]);
    Some(())
}

/// `[pid: …|app: …|req: …] client (user) {…} [time] METHOD target => generated N bytes in N msecs (HTTP/1.1 200) …`.
fn uwsgi<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (pid, rest) = line.strip_prefix("[pid: ")?.split_once('|')?;
    let (client, rest) = rest.split_once("] ")?.1.split_once(" (")?;
    let (user, rest) = rest.split_once(") {")?;
    let (time, rest) = rest.split_once("} [")?.1.split_once("] ")?;
    // The target is the client's, and may have the words that follow it.
    let (request, rest) = rest.rsplit_once(" => generated ")?;
    let (method, target) = request.split_once(' ')?;
    let (bytes, rest) = rest.split_once(" bytes in ")?;
    let (span, rest) = rest.split_once(" (")?;
    let (protocol, rest) = rest.split_once(' ')?;
    let (status, rest) = rest.split_once(')')?;
    if !put_time(time, record) || number::integer(status).is_none() {
        return None;
    }
    record.put(["program", "uwsgi"], Field::Program);
    record.attr(["process_id", pid]);
    record.attr(["remote_user", user]);
    record.put(["remote_addr", client], Field::ClientAddress);
    record.put(["method", method], Field::Method);
    record.put(["target", target], Field::Target);
    record.put(["protocol", protocol], Field::Protocol);
    record.put(["status", status], Field::Status);
    record.put(["bytes", bytes], Field::ResponseBodyBytes);
    let span = span.strip_suffix(" via sendfile()").unwrap_or(span);
    match span.strip_suffix(" micros") {
        Some(micros) => record.put(["duration", micros], Field::DurationMicros),
        None => record.put(["duration", span], Field::DurationText),
    }
    record.attr(["rest", rest.trim_ascii()]);
    Some(())
}

/// `tiny`, `short` and `dev`, also behind a time or an address.
fn morgan<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let words: Vec<&str> = line.split(' ').collect();
    let (head, status, span, length) = match words.as_slice() {
        [head @ .., status, length, "-", span, "ms"] => (head, status, span, length),
        [head @ .., status, span, "ms", "-", length] => (head, status, span, length),
        _ => return None,
    };
    let (version, head) = match head {
        [head @ .., version] if version.starts_with("HTTP/") => (*version, head),
        head => ("", head),
    };
    let [before @ .., method, target] = head else { return None };
    // `varnishlog` aligns what VCL logs.
    let is_request = METHODS.contains(method)
        && !before.contains(&"")
        && (target.starts_with(['/', '*']) || target.contains("://"))
        && [length, span].iter().all(|number| **number == "-" || number::float(number).is_some())
        && (*status == "-" || status.len() == 3 && number::integer(status).is_some());
    if !is_request {
        return None;
    }
    for word in before {
        if peer_address::is_peer(word) {
            record.put(["remote_addr", word], Field::ClientAddress);
        } else if !put_time(word, record) && *word != "-" {
            record.attr(["logger_prefix", word]);
        }
    }
    record.put(["method", method], Field::Method);
    record.put(["url", target], Field::Target);
    record.put(["http_version", version], Field::Protocol);
    record.put(["status", status], Field::Status);
    record.put(["content_length", length], Field::ResponseBodyBytes);
    record.put(["response_time", span], Field::DurationMillis);
    Some(())
}
