//! Logs of unknown format: the format of each line is detected.
//!
//! Only JSON lines can be rejected here: a line that starts like an object and is malformed was
//! truncated or written by hand. Every other line is at least plain text. A format that can be
//! detected has one line in `detectors.rs`. Entries of Docker's and the CRI's logs, syslog messages
//! and the `message` of a shipper's JSON hold a line of their own, which is detected in the same
//! way.

use crate::contained::ContainedFormat;
use crate::detectors::{is_json, read_known};
use crate::field::Field;
use crate::format::{Format, JSON_ESCAPE, LineJoin, NamedFormat, TEXT_ESCAPE};
use crate::json_lines::JsonLines;
use crate::record::{Envelope, LineFault, Record, RowKind};
use crate::{
    ansi, console_json, container_prefix, cri, docker, haproxy, journal, journal_export,
    json_message, log_text, ruby_logger, syslog, syslog_record, zerolog,
};

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "auto",
    new: || Box::new(AutoFormat { json: JsonLines::free(), contained: ContainedFormat::default() }),
};

/// Reads lines of any known format.
struct AutoFormat {
    json: JsonLines,
    contained: ContainedFormat,
}

impl Format for AutoFormat {
    fn name(&self) -> &'static str {
        FORMAT.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        let line = ansi::plain(line, record.arena);
        // A record separator is before each object of a JSON text sequence (RFC 7464).
        let line = line.strip_prefix('\u{1e}').unwrap_or(line);
        if !is_json(line.as_bytes()) {
            return self.read_text(line, record);
        }
        record.taken_for = "json";
        let kind = self.json.parse(line, record)?;
        if let Some(entry) = docker::take_entry(line, record) {
            return Ok(self.read_entry(entry, record));
        }
        if !record.is_free(Field::JournalTime) {
            record.taken_for = "journal";
            return Ok(journal::parse_entry(line, &mut self.contained, record));
        }
        Ok(json_message::parse(kind, &mut self.contained, record))
    }

    fn byte_escape(&self, line: &[u8]) -> &'static str {
        if is_json(line) { JSON_ESCAPE } else { TEXT_ESCAPE }
    }

    fn line_join(&self) -> LineJoin {
        LineJoin::Pieces
    }
}

impl AutoFormat {
    /// Reads a line that is not JSON.
    fn read_text<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<RowKind, LineFault> {
        if let Some(json) = console_json::as_json(line, record) {
            record.taken_for = "console_json";
            let kind = self.json.parse(json, record)?;
            return Ok(json_message::parse(kind, &mut self.contained, record));
        }
        if let Some(kind) = journal_export::parse(line, &mut self.contained, record) {
            record.taken_for = "journal";
            return Ok(kind);
        }
        if let Some(text) = cri::detect(line, record) {
            let entry = Envelope::take(text, record);
            record.taken_for = "cri";
            return Ok(self.read_entry(entry, record));
        }
        if let Some(kind) = self.read_prefixed(line, record) {
            return Ok(kind);
        }
        if !haproxy::is_access(line)
            && !zerolog::is_likely(line)
            && let Some(message) = syslog_record::detect(line, record)
        {
            let kind = syslog::parse_message(message, &mut self.contained, record);
            record.taken_for = "syslog";
            return Ok(kind);
        }
        if let Some(outcome) = read_known(line, record) {
            return outcome;
        }
        record.clear_texts();
        record.is_plain = true;
        record.taken_for = "text";
        log_text::parse(line, record);
        Ok(RowKind::Log)
    }

    /// Reads a line behind what a command wrote before it; `None`, with the record empty, without.
    fn read_prefixed<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
        if let Some(entry) = ruby_logger::split(line, record) {
            record.taken_for = "ruby_logger";
            return Some(self.read_entry(entry, record));
        }
        let found = container_prefix::split(line, record)?;
        record.taken_for = "prefixed";
        let kind = self.read_entry(found.entry, record);
        if found.is_certain || record.taken_for != "text" || record.ts.is_some() {
            return Some(kind);
        }
        record.envelope = Envelope::default();
        record.clear_texts();
        None
    }

    /// Reads the line of a container.
    fn read_entry<'a>(&mut self, entry: Envelope<'a>, record: &mut Record<'a>) -> RowKind {
        if entry.text.trim_ascii().is_empty() {
            entry.restore(record);
            record.is_blank = true;
            return RowKind::Log;
        }
        let outer = record.taken_for;
        let entry = Envelope { text: ansi::plain(entry.text, record.arena), ..entry };
        let is_console = zerolog::is_likely(entry.text);
        let header = if is_console { None } else { syslog_record::detect(entry.text, record) };
        let kind = match header {
            Some(message) => {
                record.log.body = message;
                RowKind::Log
            }
            None => self.contained.parse(entry.text, record),
        };
        if outer == "cri" {
            record.taken_for = outer;
        }
        record.envelope = entry;
        kind
    }
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
                  program: nginx
                  process_id: 1
                  severity: warn
                  body: low
                  attrs: {thread_id: 1}
                  message_template: low
                log
                  ts: 2026-11-20T11:59:59Z
                  program: apache
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
