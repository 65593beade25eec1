//! Logs of unknown format: the format of each line is detected.
//!
//! Only JSON lines can be rejected here: a line that starts like an object and is malformed was
//! truncated or written by hand. Every other line is at least plain text. A format that can be
//! detected has one line in [`DETECTORS`]. The text of an entry of Docker's log is detected in the
//! same way.

use crate::format::{Format, JSON_ESCAPE, NamedFormat, TEXT_ESCAPE};
use crate::json_lines::JsonLines;
use crate::record::{LineFault, Record, RowKind};
use crate::{
    apache_error, combined, docker, envoy, haproxy, klog, log_text, logfmt, nginx_error, passenger,
    syslog,
};

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "auto",
    new: || Box::new(AutoFormat { json: JsonLines::free(), contained: JsonLines::free() }),
};

/// Reads lines of any known format.
struct AutoFormat {
    json: JsonLines,
    /// Reads JSON that a container wrote.
    contained: JsonLines,
}

/// Reads a line if it is in a format; `None`, with the record unchanged, if it is not.
type DetectLine = for<'a> fn(&'a str, &mut Record<'a>) -> Option<Result<RowKind, LineFault>>;

/// Formats that are detected, in this order.
const DETECTORS: &[(&str, DetectLine)] = &[
    ("combined", combined::detect),
    ("envoy", |line, record| envoy::parse(line, record).map(Ok)),
    ("haproxy_http", |line, record| haproxy::is_access(line).then(|| haproxy::parse(line, record))),
    ("syslog", |line, record| {
        syslog::is_likely(line, record).then(|| Ok(syslog::parse(line, record)))
    }),
    ("passenger", |line, record| passenger::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("nginx_error", |line, record| {
        nginx_error::is_likely(line).then(|| Ok(nginx_error::parse(line, record)))
    }),
    ("apache_error", |line, record| {
        apache_error::is_likely(line).then(|| Ok(apache_error::parse(line, record)))
    }),
    ("klog", |line, record| klog::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("logfmt", |line, record| logfmt::parse(line, record).map(Ok)),
];

impl Format for AutoFormat {
    fn name(&self) -> &'static str {
        FORMAT.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        if !is_json(line.as_bytes()) {
            return read_text(line, record);
        }
        record.taken_for = "json";
        let kind = self.json.parse(line, record)?;
        match docker::take_entry(line, record) {
            Some(entry) => {
                let kind = read_contained(&mut self.contained, entry.text, record);
                entry.finish(kind, record);
                Ok(kind)
            }
            None => Ok(kind),
        }
    }

    fn byte_escape(&self, line: &[u8]) -> &'static str {
        if is_json(line) { JSON_ESCAPE } else { TEXT_ESCAPE }
    }
}

/// Reads a line that is not JSON.
fn read_text<'a>(line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
    for (name, detect) in DETECTORS {
        if let Some(outcome) = detect(line, record) {
            record.taken_for = name;
            return outcome;
        }
    }
    record.taken_for = "text";
    log_text::parse(line, record);
    Ok(RowKind::Log)
}

/// Reads a line that a container wrote. A torn one is text: the entry that holds it is whole.
fn read_contained<'a>(json: &mut JsonLines, line: &'a str, record: &mut Record<'a>) -> RowKind {
    let outcome =
        if is_json(line.as_bytes()) { json.parse(line, record) } else { read_text(line, record) };
    outcome.unwrap_or_else(|_| {
        record.clear_texts();
        record.taken_for = "text";
        log_text::parse(line, record);
        RowKind::Log
    })
}

/// Whether a line starts like a JSON object.
fn is_json(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.strip_prefix(b"{").is_some_and(|rest| matches!(rest.trim_ascii_start(), [b'"' | b'}', ..]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn the_format_of_each_line_is_detected() {
        check_format(
            LogFormat::Auto,
            r#"{"level":"info","msg":"json"}
{"level":"info","msg":"torn
{curly} text
1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"
Nov 20 11:59:59 web-01 cron[5]: (root) CMD (x)
2026/11/20 11:59:59 [warn] 1#1: low
[Fri Nov 20 11:59:59 2026] [error] [pid 1] down
lb:1 [20/Nov/2026:11:59:59.000] web app/a 0/0/1/1/2 200 1 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"
2026-11-20 11:59:59,250 ERROR [http-8080] com.acme.Pool - exhausted
	at com.acme.Pool.get(Pool.java:20)
ERROR: disk
hello
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 1.2.3.4
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 5
                  user_agent_original: curl
                request
                  ts: 2026-11-20T11:59:59.002Z
                  client_address: lb
                  client_port: 1
                  url_scheme: http
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_bytes: 1
                  duration_seconds: 0.002
                  request_read_seconds: 0.0
                  queue_seconds: 0.0
                  upstream_connect_seconds: 0.001
                  upstream_header_seconds: 0.002
                  upstream_response_seconds: 0.002
                  upstream_status_code: 200
                  upstream_tries: 1
                  proxy_frontend: web
                  proxy_backend: app
                  proxy_server: a
                  termination_state: ----
                  attrs: {actconn: 1, feconn: 1, beconn: 1, srv_conn: 1, srv_queue: 0, backend_queue: 0}
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: info
                  body: json
                log
                  ts: 2026-11-20T12:00:00Z
                  body: {curly} text
                log
                  ts: 2026-11-20T11:59:59Z
                  program: cron
                  process_id: 5
                  body: (root) CMD (x)
                  attrs: {syslog_hostname: web-01}
                log
                  ts: 2026-11-20T11:59:59Z
                  process_id: 1
                  severity: warn
                  body: low
                  attrs: {thread_id: 1}
                  message_template: low
                log
                  ts: 2026-11-20T11:59:59Z
                  process_id: 1
                  severity: error
                  body: down
                log
                  ts: 2026-11-20T11:59:59.250Z
                  severity: error
                  body: 2026-11-20 11:59:59,250 ERROR [http-8080] com.acme.Pool - exhausted
                log
                  ts: 2026-11-20T12:00:00Z
                  body: 	at com.acme.Pool.get(Pool.java:20)
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: error
                  body: ERROR: disk
                log
                  ts: 2026-11-20T12:00:00Z
                  body: hello
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: a string without end begins at byte 22
                  raw: {"level":"info","msg":"torn
            "#]],
        );
    }
}
