//! Syslog lines: RFC 3164 and RFC 5424, as sent (`<34>…`) and as daemons write files (no priority).
//!
//! The line's host stays an attribute: a relay's file names other hosts, and `host` must join with
//! the other tables. The message is read like any other line, so requests and JSON in it have their
//! columns. A line without a header continues another; it is a row with the whole line as its body.

use crate::contained::ContainedFormat;
use crate::format::{Format, NamedFormat};
use crate::log_text;
use crate::record::{Envelope, LineFault, Record, RowKind};
use crate::syslog_record;

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "syslog",
    new: || Box::new(SyslogFormat { contained: ContainedFormat::default() }),
};

/// Reads the lines of one log.
struct SyslogFormat {
    contained: ContainedFormat,
}

impl Format for SyslogFormat {
    fn name(&self) -> &'static str {
        FORMAT.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        Ok(match syslog_record::header(line, record) {
            Some(message) => parse_message(message, &mut self.contained, record),
            None => {
                log_text::parse(line, record);
                RowKind::Log
            }
        })
    }
}

/// Reads the message of a line whose header is in the record.
pub(crate) fn parse_message<'a>(
    message: &'a str,
    contained: &mut ContainedFormat,
    record: &mut Record<'a>,
) -> RowKind {
    let header = Envelope::take(message, record);
    if let Some(kind) = contained.parse_known(message, record) {
        record.envelope = header;
        return kind;
    }
    header.restore(record);
    record.log.body = message;
    if record.log.severity.is_none() {
        record.log.severity = log_text::severity_of(message, record);
    }
    syslog_record::kernel_uptime(record);
    RowKind::Log
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::RowText;
    use crate::check::{check_format, rows};

    #[test]
    fn classic_lines_with_and_without_priority_are_read() {
        check_format(
            LogFormat::Syslog,
            r#"<34>Nov  2 12:00:00 web-01 sshd[1201]: Failed password for root from 10.0.0.1 port 22 ssh2
2026-11-20T12:00:00.123456+01:00 web-01 systemd[1]: Started nginx.service: ok.
Nov 20 12:00:00 web-01 kernel: [ 123.456789] TCP: request_sock_TCP: Possible SYN flooding on port 80.
<13>Nov 20 12:00:00 app: without host
"#,
            expect![[r#"
                log
                  ts: 2026-11-02T12:00:00Z
                  program: sshd
                  process_id: 1201
                  severity: critical
                  facility: auth
                  body: Failed password for root from 10.0.0.1 port 22 ssh2
                  attrs: {syslog_hostname: web-01}
                log
                  ts: 2026-11-20T11:00:00.123456Z
                  program: systemd
                  process_id: 1
                  body: Started nginx.service: ok.
                  attrs: {syslog_hostname: web-01}
                log
                  ts: 2026-11-20T12:00:00Z
                  program: kernel
                  body: TCP: request_sock_TCP: Possible SYN flooding on port 80.
                  attrs: {syslog_hostname: web-01, kernel_uptime_seconds: 123.456789}
                log
                  ts: 2026-11-20T12:00:00Z
                  program: app
                  severity: notice
                  facility: user
                  body: without host
            "#]],
        );
    }

    /// `error_log syslog:…` and `access_log syslog:…` (wazuh/wazuh #352).
    #[test]
    fn only_the_error_log_of_nginx_has_a_template() {
        let lines = r#"Nov 20 12:00:00 web-01 nginx: 2026/11/20 12:00:00 [error] 7#7: *5 open() "/srv/a" failed (24: Too many open files), client: 192.0.2.1, server: _, request: "GET /a HTTP/1.1"
Nov 20 12:00:00 web-01 nginx: 192.0.2.1 - 512 worker_connections are not enough [20/Nov/2026:12:00:00 +0000] "HEAD / HTTP/1.1" 200 0
Nov 20 12:00:00 web-01 sshd[2]: Invalid user Too many open files from 192.0.2.123 port 22
"#;
        let rows = RowText::all(&rows(LogFormat::Syslog, lines.as_bytes()).finish());
        let templates: Vec<_> = rows.iter().map(|row| row.get("message_template")).collect();
        let own = r#"open() "…" failed (24: Too many open files)"#;
        assert_eq!(templates, [Some(own), None, None]);
        assert_eq!(rows[0].get("program"), Some("nginx"));
    }

    #[test]
    fn rfc5424_lines_are_read() {
        check_format(
            LogFormat::Syslog,
            r#"<165>1 2026-11-20T12:00:00.003Z host.example evntslog 12 ID47 [ex@1 iut="3" t="a \"b\] c"][y z="1"] An event
<165>1 - - - - - - no more
<165>1 2026-11-20T12:00:00.003Z h app abc - [torn x="1 rest
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00.003Z
                  program: evntslog
                  process_id: 12
                  severity: notice
                  facility: local4
                  body: An event
                  attrs: {syslog_hostname: host.example, syslog_message_id: ID47, ex@1.iut: 3, ex@1.t: a "b\] c, y.z: 1}
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: notice
                  facility: local4
                  body: no more
                log
                  ts: 2026-11-20T12:00:00.003Z
                  program: app
                  severity: notice
                  facility: local4
                  body: [torn x="1 rest
                  attrs: {syslog_hostname: h, syslog_process_id: abc}
            "#]],
        );
    }

    #[test]
    fn lines_without_header_are_kept_whole() {
        check_format(
            LogFormat::Syslog,
            "\tat com.acme.Pool.get(Pool.java:20)\n<999>x\n<34>Nov 99 12:00:00 a b: c\n",
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  body: 	at com.acme.Pool.get(Pool.java:20)
                log
                  ts: 2026-11-20T12:00:00Z
                  body: <999>x
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: critical
                  facility: auth
                  body: Nov 99 12:00:00 a b: c
            "#]],
        );
    }
}
