//! HAProxy's `option httplog` and `option tcplog` (configuration manual §8.2.3 and §8.2.2), with or
//! without a syslog header; 1.8 to 3.x.
//!
//! `client:port [accept] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes cookie cookie flags
//! active/frontend/backend/server/retries serverqueue/backendqueue {request headers} {response
//! headers} "request"`
//!
//! `client:port [accept] frontend backend/server Tw/Tc/Tt bytes flags
//! active/frontend/backend/server/retries serverqueue/backendqueue`
//!
//! A record of `option tcplog` is a row of `log`, because a session is not a request: it may last
//! for days and carry anything. Its values are attributes named as the columns of `request`.
//!
//! `option httplog clf` is `haproxy_clf.rs`.
//!
//! Pitfalls: the time is the *start* of the request, so Ta is added to get its end; -1 means "not
//! reached"; a file also holds other messages of HAProxy, which are rows of `log`.

use weir_tables::Micros;
use weir_values::{number, severity};

use crate::field::Field;
use crate::format::{LineFormat, NamedFormat};
use crate::record::{Envelope, LineFault, Record, RowKind};
use crate::{combined, haproxy_parts, log_text, request_line, syslog_record, text};

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "haproxy_http",
    new: || Box::new(LineFormat { name: "haproxy_http", parse }),
};

/// Reads a line: an access record, or a message.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
    let header = syslog_record::header(line, record);
    let message = header.unwrap_or(line);
    if has_timers(message, SESSION_TIMERS) {
        record.ts = None;
        record.log.body = message;
        return match session(message, record) {
            Some(()) => Ok(RowKind::Log),
            None => {
                Err(LineFault::no_match("looks like a TCP record, but is truncated or malformed"))
            }
        };
    }
    if is_likely(message) {
        record.ts = None;
        return match access(message, record) {
            Some(()) => Ok(RowKind::Request),
            None => {
                Err(LineFault::no_match("looks like an HTTP record, but is truncated or malformed"))
            }
        };
    }
    if combined::is_likely(message) {
        let header = Envelope::take(message, record);
        if combined::detect(message, record).is_some() {
            record.envelope = header;
            return Ok(RowKind::Request);
        }
        header.restore(record);
    }
    if let Some((level, text)) = leveled(message) {
        record.log.severity = severity::of_word(level);
        record.log.body = text;
        return Ok(RowKind::Log);
    }
    match header {
        Some(message) => record.log.body = message,
        None => {
            log_text::parse(line, record);
            record.ts = record.ts.or_else(|| bracketed_time(line, record));
        }
    }
    Ok(RowKind::Log)
}

/// Level and text of what HAProxy writes to standard error and, from 2.4 on, to the journal:
/// `[ALERT]    (12) : backend 'be' has no server available!`; before 2.4 `[ALERT] 330/120000 (12) :`
fn leveled(message: &str) -> Option<(&str, &str)> {
    let (level, rest) = message.strip_prefix('[')?.split_once("] ")?;
    let (process, text) = rest.split_once(") : ")?;
    let process_id = process.rsplit_once('(')?.1;
    let is_level = matches!(level, "ALERT" | "WARNING" | "NOTICE" | "DIAG");
    (is_level && number::integer(process_id).is_some()).then_some((level, text))
}

/// The time of messages that start like records: `client:port [time] …`.
fn bracketed_time(line: &str, record: &Record<'_>) -> Option<Micros> {
    let (_, behind) = line.split_once(" [")?;
    record.times.read_front(behind).map(|(ts, _)| ts)
}

/// Whether a line of an unknown file is an access record.
pub(crate) fn is_access(line: &str) -> bool {
    let peer = line.split_once(" [").map_or("", |(head, _)| head);
    let start = peer.rfind(' ').map_or(0, |space| space + 1);
    is_likely(&line[start..]) && has_timers(&line[start..], REQUEST_TIMERS)
}

/// Reads a line of an unknown file that is a record of a session; `None`, with the record empty, if
/// it is not one.
pub(crate) fn detect_session<'a>(line: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    let (peer, start) = line.split_once(" [")?;
    let is_time = start.as_bytes().get(2) == Some(&b'/');
    if !is_time || !peer.contains(':') || !has_timers(line, SESSION_TIMERS) {
        return None;
    }
    let kind = parse(line, record).ok();
    if kind.is_none() {
        record.clear_texts();
    }
    kind
}

/// Whether a message is `address:port [time] frontend backend/server timers…`, or a truncated one.
fn is_likely(message: &str) -> bool {
    let Some((peer, behind)) = split_peer(message) else { return false };
    let is_peer = !peer.contains(' ') && (peer.contains(':') || peer.is_empty());
    let is_cut = !peer.is_empty() && behind.split(' ').count() < 4;
    is_peer && (has_timers(message, REQUEST_TIMERS) || is_cut)
}

/// Splits at the bracket of the time; a format of one's own may lack the client.
fn split_peer(message: &str) -> Option<(&str, &str)> {
    let without = message.strip_prefix('[').map(|behind| ("", behind));
    without.or_else(|| message.split_once(" ["))
}

/// `TR/Tw/Tc/Tr/Ta`.
const REQUEST_TIMERS: usize = 5;
/// `Tw/Tc/Tt`.
const SESSION_TIMERS: usize = 3;

/// Whether a message is `address:port [time] frontend backend/server` and `count` timers.
fn has_timers(message: &str, count: usize) -> bool {
    let Some((peer, behind)) = split_peer(message) else { return false };
    let mut words = behind.split_once("] ").map_or("", |(_, behind)| behind).split(' ').skip(1);
    !peer.contains(' ')
        && words.next().is_some_and(|names| names.contains('/'))
        && (words.next().is_some_and(|timers| timers.split('/').count() == count)
            || words.next().is_some_and(|timers| is_timers(timers, count)))
}

fn is_timers(word: &str, count: usize) -> bool {
    word.split('/').count() == count
        && word.bytes().all(|byte| byte.is_ascii_digit() || b"/-+".contains(&byte))
}

/// A record of `option tcplog`.
fn session<'a>(message: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (peer, rest) = message.split_once(" [")?;
    let (start, rest) = rest.split_once("] ")?;
    let mut words = WordIter { rest };
    let frontend = words.next()?;
    let (backend, server) = words.next()?.split_once('/')?;
    let spans = words.next()?;
    let mut timers = spans.split('/');
    for name in ["queue_seconds", "upstream_connect_seconds", "duration_seconds"] {
        let timer = timers.next()?;
        let Some(span) = haproxy_parts::milliseconds(timer)? else { continue };
        let seconds = record.arena.alloc_str(&(span / 1000.0).to_string());
        record.put([name, seconds], Field::Attr);
    }
    let total = haproxy_parts::milliseconds(spans.rsplit('/').next()?)?.unwrap_or(0.0);
    let start = record.times.read(start)?;
    let (bytes, state) = (words.next()?, words.next()?);
    number::integer(bytes.strip_prefix('+').unwrap_or(bytes))?;
    let (address, port) = peer.rsplit_once(':')?;
    for (name, value) in [
        ("client_address", address),
        ("client_port", port),
        ("proxy_frontend", frontend.strip_suffix('~').unwrap_or(frontend)),
        ("proxy_backend", backend),
        ("response_bytes", bytes.strip_prefix('+').unwrap_or(bytes)),
        ("termination_state", state),
    ] {
        record.put([name, value], Field::Attr);
    }
    record.request.proxy_server = Some(server).filter(|name| !name.starts_with('<'));
    if let Some(server) = record.request.proxy_server {
        record.put(["proxy_server", server], Field::Attr);
    }
    haproxy_parts::counters([words.next()?, words.next()?], record)?;
    if let Some(tries) = record.request.upstream_tries {
        let tries = record.arena.alloc_str(&tries.to_string());
        record.put(["upstream_tries", tries], Field::Attr);
    }
    record.ts = Some(Micros(start.0.saturating_add(Micros::from_unix_seconds(total / 1000.0).0)));
    // `--` marks a session that both sides ended normally.
    record.log.severity = Some(if state == "--" { "info" } else { "warn" });
    Some(())
}

fn access<'a>(message: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (peer, rest) = split_peer(message)?;
    let (start, rest) = rest.split_once("] ")?;
    let mut words = WordIter { rest };
    haproxy_parts::proxy_names([words.next()?, words.next()?], record)?;
    let mut spans = words.next()?;
    if spans.split('/').count() != REQUEST_TIMERS {
        // A format of one's own has captured headers here, without braces.
        record.put(["captured_request_headers", spans], Field::Attr);
        spans = words.next()?;
    }
    let total = haproxy_parts::timers(spans, record)?;
    let start = record.times.read(start)?;
    let end =
        start.0.saturating_add(total.map_or(0, |seconds| Micros::from_unix_seconds(seconds).0));
    record.ts = Some(Micros(end));
    status([words.next()?, words.next()?], record)?;
    record.put(["captured_request_cookie", words.next()?], Field::Attr);
    record.put(["captured_response_cookie", words.next()?], Field::Attr);
    record.request.termination_state = Some(words.next()?);
    haproxy_parts::counters([words.next()?, words.next()?], record)?;
    request(words.rest, record)?;
    if let Some((address, port)) = peer.rsplit_once(':') {
        record.request.client_address = Some(address).filter(|address| *address != "-");
        // Behind `unix:` is the number of the listening socket.
        record.request.client_port = number::integer(port).filter(|_| address != "unix");
    }
    Some(())
}

struct WordIter<'a> {
    rest: &'a str,
}

impl<'a> WordIter<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = text::word(self.rest);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// `status bytes`.
fn status(words: [&str; 2], record: &mut Record<'_>) -> Option<()> {
    let [status, bytes] = words;
    let code = number::integer(status)?;
    let row = &mut record.request;
    row.http_response_status_code = Some(code).filter(|code| *code > 0);
    // The status is the server's if it sent a header; else HAProxy generated it.
    row.upstream_status_code =
        row.http_response_status_code.filter(|_| row.upstream_header_seconds.is_some());
    row.response_bytes = Some(number::integer(bytes.strip_prefix('+').unwrap_or(bytes))?);
    Some(())
}

/// `{request headers} {response headers} "request"`; braces only when headers are captured.
fn request<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    let mut rest = rest;
    for name in ["captured_request_headers", "captured_response_headers"] {
        if let Some((headers, behind)) =
            rest.strip_prefix('{').and_then(|rest| rest.split_once("} "))
        {
            record.put([name, headers], Field::Attr);
            rest = behind;
        }
    }
    // A format of one's own has the version and the cipher of TLS here.
    if !rest.starts_with('"') {
        let at = rest.find(" \"")?;
        record.attr(["before_request", &rest[..at]]);
        rest = &rest[at + 1..];
    }
    // The request is cut at 1024 bytes, and then its closing quote is missing.
    let quoted = rest.strip_prefix('"')?;
    let (line, tail) = quoted.rsplit_once('"').unwrap_or((quoted, ""));
    record.attr(["tls", tail.trim_ascii()]);
    match request_line::parse(line) {
        Some(_) => record.put(["request", line], Field::RequestLine),
        None => record.put(["request", line], Field::Attr),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn messages_of_standard_error_have_a_level() {
        check_format(
            LogFormat::HaproxyHttp,
            "[ALERT]    (10199) : backend 'none' has no server available!\n[WARNING] 330/120000 (7) : Server be/s1 is DOWN.\n[ALERT] (x) : y\n",
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: alert
                  body: backend 'none' has no server available!
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: warn
                  body: Server be/s1 is DOWN.
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: alert
                  body: [ALERT] (x) : y
            "#]],
        );
    }

    #[test]
    fn http_record_behind_a_syslog_header_fills_the_columns() {
        check_format(
            LogFormat::HaproxyHttp,
            r#"<134>Nov 20 12:00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:11:59:59.655] web~ static/srv1 10/5/30/69/109 200 2750 - SID=1 ---- 12/11/5/2/+1 3/4 {1wt.eu|x} {nginx} "GET /a?b=1 HTTP/1.1""#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:59.764Z
                  client_address: 10.1.2.3
                  client_port: 33317
                  url_scheme: https
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_bytes: 2750
                  duration_seconds: 0.109
                  request_read_seconds: 0.01
                  queue_seconds: 0.005
                  upstream_connect_seconds: 0.03
                  upstream_header_seconds: 0.099
                  upstream_response_seconds: 0.099
                  upstream_status_code: 200
                  upstream_tries: 2
                  proxy_frontend: web
                  proxy_backend: static
                  proxy_server: srv1
                  termination_state: ----
                  attrs: {syslog_hostname: lb1, captured_response_cookie: SID=1, actconn: 12, feconn: 11, beconn: 5, srv_conn: 2, is_redispatched: true, srv_queue: 3, backend_queue: 4, captured_request_headers: 1wt.eu|x, captured_response_headers: nginx}
            "#]],
        );
    }

    #[test]
    fn phases_not_reached_are_null() {
        check_format(
            LogFormat::HaproxyHttp,
            r#"10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web web/<NOSRV> -1/-1/-1/-1/2001 408 212 - - cR-- 1/1/0/0/0 0/0 "<BADREQ>"
::1:5 [20/Nov/2026:12:00:00.000] web app/a 0/0/-1/-1/+3002 -1 +0 - - SC-- 1/1/0/0/3 0/0 "GET /long
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:02.001Z
                  client_address: 10.1.2.3
                  client_port: 33317
                  url_scheme: http
                  http_response_status_code: 408
                  response_bytes: 212
                  duration_seconds: 2.001
                  upstream_tries: 0
                  proxy_frontend: web
                  proxy_backend: web
                  termination_state: cR--
                  attrs: {actconn: 1, feconn: 1, beconn: 0, srv_conn: 0, srv_queue: 0, backend_queue: 0, request: <BADREQ>}
                request
                  ts: 2026-11-20T12:00:03.002Z
                  client_address: ::1
                  client_port: 5
                  url_scheme: http
                  http_request_method: GET
                  url_path: /long
                  response_bytes: 0
                  duration_seconds: 3.002
                  request_read_seconds: 0.0
                  queue_seconds: 0.0
                  upstream_response_seconds: 3.002
                  upstream_tries: 4
                  proxy_frontend: web
                  proxy_backend: app
                  proxy_server: a
                  termination_state: SC--
                  attrs: {actconn: 1, feconn: 1, beconn: 0, srv_conn: 0, srv_queue: 0, backend_queue: 0}
            "#]],
        );
    }

    #[test]
    fn tcp_sessions_are_log_rows_with_what_haproxy_measured() {
        check_format(
            LogFormat::HaproxyHttp,
            r#"Nov 20 12:00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:11:59:58.500] db postgres/pg1 1/4/1500 9301 -- 3/2/1/0/0 0/0
10.1.2.3:33318 [20/Nov/2026:12:00:00.000] db~ postgres/<NOSRV> -1/-1/+7 +0 SC 3/2/1/0/+3 0/1
10.1.2.3:33318 [20/Nov/2026:12:00:00.000] db postgres/pg1 1/4/x 9301 -- 3/2/1/0/0 0/0
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  program: haproxy
                  process_id: 812
                  severity: info
                  body: 10.1.2.3:33317 [20/Nov/2026:11:59:58.500] db postgres/pg1 1/4/1500 9301 -- 3/2/1/0/0 0/0
                  attrs: {syslog_hostname: lb1, queue_seconds: 0.001, upstream_connect_seconds: 0.004, duration_seconds: 1.5, client_address: 10.1.2.3, client_port: 33317, proxy_frontend: db, proxy_backend: postgres, response_bytes: 9301, termination_state: --, proxy_server: pg1, actconn: 3, feconn: 2, beconn: 1, srv_conn: 0, srv_queue: 0, backend_queue: 0, upstream_tries: 1}
                log
                  ts: 2026-11-20T12:00:00.007Z
                  severity: warn
                  body: 10.1.2.3:33318 [20/Nov/2026:12:00:00.000] db~ postgres/<NOSRV> -1/-1/+7 +0 SC 3/2/1/0/+3 0/1
                  attrs: {duration_seconds: 0.007, client_address: 10.1.2.3, client_port: 33318, proxy_frontend: db, proxy_backend: postgres, response_bytes: 0, termination_state: SC, actconn: 3, feconn: 2, beconn: 1, srv_conn: 0, is_redispatched: true, srv_queue: 0, backend_queue: 1, upstream_tries: 0}
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: looks like a TCP record, but is truncated or malformed
                  raw: 10.1.2.3:33318 [20/Nov/2026:12:00:00.000] db postgres/pg1 1/4/x 9301 -- 3/2/1/0/0 0/0
            "#]],
        );
    }

    #[test]
    fn messages_of_haproxy_are_log_rows_and_torn_records_rejects() {
        check_format(
            LogFormat::HaproxyHttp,
            r#"Nov 20 12:00:00 lb1 haproxy[812]: Server app/a is DOWN, reason: Layer4 timeout.
2026-11-20T12:00:00.123456+00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web/1: SSL handshake failure
Nov 20 12:00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web ap
Nov 20 12:00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web app/a 0/0/x/1/2 200 1 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  program: haproxy
                  process_id: 812
                  body: Server app/a is DOWN, reason: Layer4 timeout.
                  attrs: {syslog_hostname: lb1}
                  message_template: Server app/a is DOWN, reason: Layer4 timeout.
                log
                  ts: 2026-11-20T12:00:00.123456Z
                  program: haproxy
                  process_id: 812
                  body: 10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web/1: SSL handshake failure
                  attrs: {syslog_hostname: lb1}
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: looks like an HTTP record, but is truncated or malformed
                  raw: Nov 20 12:00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web ap
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: looks like an HTTP record, but is truncated or malformed
                  raw: Nov 20 12:00:00 lb1 haproxy[812]: 10.1.2.3:33317 [20/Nov/2026:12:00:00.000] web app/a 0/0/x/1/2 200 1 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"
            "#]],
        );
    }
}
