//! Syslog lines: RFC 3164 and RFC 5424, as sent (`<34>…`) and as daemons write files (no priority,
//! a classic or an RFC 3339 timestamp).
//!
//! The line's host stays an attribute: a relay's file names other hosts, and `host` must join with
//! the other tables. A line without a header continues another; it is a row with the whole line as
//! its body.

use crate::field::Field;
use crate::format::{LineFormat, NamedFormat};
use crate::log_text;
use crate::record::{Record, RowKind};
use crate::{nginx_error, number, severity, text};

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "syslog",
    new: || Box::new(LineFormat { name: "syslog", parse: |line, record| Ok(parse(line, record)) }),
};

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> RowKind {
    match header(line, record) {
        // `error_log syslog:…` sends nginx's own header as well.
        Some(message) if record.log.program == Some("nginx") && nginx_error::is_likely(message) => {
            return nginx_error::parse(message, record);
        }
        Some(message) => record.log.body = message,
        None => log_text::parse(line, record),
    }
    kernel_uptime(record);
    RowKind::Log
}

/// Reads the header and returns the message; `None`, with the record unchanged, without a header.
pub(crate) fn header<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let (priority, rest) = priority(line);
    let message = match rest.strip_prefix("1 ").filter(|_| priority.is_some()) {
        Some(rest) => modern(rest, record)?,
        None => classic(rest, record)?,
    };
    if let Some(priority) = priority {
        record.log.severity = severity::of_syslog(priority % 8);
        record.log.facility = severity::facility(priority / 8);
    }
    Some(message)
}

/// Whether a line starts with a priority, or with a timestamp and a host.
pub(crate) fn is_likely(line: &str, record: &Record<'_>) -> bool {
    let (priority, rest) = priority(line);
    let rest = rest.strip_prefix("1 ").filter(|_| priority.is_some()).unwrap_or(rest);
    let Some((_, used)) = record.times.read_front(rest) else { return false };
    let is_stamp =
        rest.as_bytes()[0].is_ascii_alphabetic() || rest.as_bytes().get(10) == Some(&b'T');
    let behind = rest[used..].strip_prefix(' ').unwrap_or("");
    let (host, behind) = text::word(behind);
    is_stamp && is_host(host) && (priority.is_some() || tag(behind).is_some())
}

fn priority(line: &str) -> (Option<i64>, &str) {
    let cut = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match cut.and_then(|(digits, rest)| Some((number::integer(digits)?, rest))) {
        Some((priority, rest)) if (0..=191).contains(&priority) => (Some(priority), rest),
        _ => (None, line),
    }
}

fn is_host(word: &str) -> bool {
    (1..=255).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte))
        && !word.ends_with(':')
}

/// `timestamp host tag[pid]: message`; lines that programs send to `/dev/log` have no host.
fn classic<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let (ts, used) = record.times.read_front(rest)?;
    let behind = rest[used..].strip_prefix(' ')?;
    record.ts = Some(ts);
    let (host, message) = text::word(behind);
    let message = if is_host(host) {
        record.attr(["syslog_hostname", host]);
        message
    } else {
        behind
    };
    let Some((program, pid, message)) = tag(message) else { return Some(message) };
    record.log.program = Some(program);
    record.log.process_id = pid;
    Some(message)
}

/// `tag[pid]: ` or `tag: ` (RFC 3164 §4.1.3).
fn tag(text: &str) -> Option<(&str, Option<i64>, &str)> {
    let (tag, message) = text.split_once(':')?;
    let (program, pid) = match tag.strip_suffix(']').and_then(|tag| tag.split_once('[')) {
        Some((program, pid)) => (program, Some(number::integer(pid)?)),
        None => (tag, None),
    };
    let fits = (1..=64).contains(&program.len())
        && program.bytes().all(|byte| byte.is_ascii_graphic() && !b"[=\"".contains(&byte));
    fits.then(|| (program, pid, message.strip_prefix(' ').unwrap_or(message)))
}

/// `timestamp host app procid msgid [structured data] message` (RFC 5424 §6).
fn modern<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let (stamp, rest) = rest.split_once(' ')?;
    let (host, rest) = rest.split_once(' ')?;
    let (program, rest) = rest.split_once(' ')?;
    let (process_id, rest) = rest.split_once(' ')?;
    let (message_id, rest) = text::word(rest);
    record.ts = if stamp == "-" { None } else { Some(record.times.read(stamp)?) };
    let known = |word: &'a str| Some(word).filter(|word| *word != "-");
    record.log.program = known(program);
    record.log.process_id = number::integer(process_id);
    record.attr(["syslog_hostname", known(host).unwrap_or("")]);
    record.attr(["syslog_message_id", known(message_id).unwrap_or("")]);
    if record.log.process_id.is_none() {
        record.attr(["syslog_process_id", known(process_id).unwrap_or("")]);
    }
    let message = structured_data(rest, record);
    Some(message.strip_prefix('\u{feff}').unwrap_or(message))
}

/// `[id name="value" …][…] `, where `\"`, `\\` and `\]` are escapes; names become `id.name`.
fn structured_data<'a>(rest: &'a str, record: &mut Record<'a>) -> &'a str {
    if let Some(message) = rest.strip_prefix('-') {
        return message.strip_prefix(' ').unwrap_or(message);
    }
    let mut rest = rest;
    while let Some(element) = rest.strip_prefix('[') {
        let Some(behind) = element_params(element, record) else { return rest };
        rest = behind;
    }
    rest.strip_prefix(' ').unwrap_or(rest)
}

fn element_params<'a>(element: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let end = element.find([' ', ']'])?;
    let (id, mut rest) = element.split_at(end);
    while let Some(param) = rest.strip_prefix(' ') {
        let (name, quoted) = param.split_once("=\"")?;
        let (value, behind) = crate::combined::quoted_end(quoted)?;
        let key = record.arena.alloc_str(&format!("{id}.{name}"));
        let value = text::unescape(value, record.arena);
        record.put([key, value], Field::Attr);
        rest = behind;
    }
    rest.strip_prefix(']')
}

/// Moves the kernel's own timestamp, `[12345.678901] `, out of the body.
fn kernel_uptime(record: &mut Record<'_>) {
    if record.log.program != Some("kernel") {
        return;
    }
    let body = record.log.body;
    let stamp = body.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    if let Some((uptime, message)) =
        stamp.filter(|(uptime, _)| number::seconds(uptime.trim_ascii()).is_some())
    {
        record.attr(["kernel_uptime_seconds", uptime.trim_ascii()]);
        record.log.body = message;
    }
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
                  body: <34>Nov 99 12:00:00 a b: c
            "#]],
        );
    }
}
