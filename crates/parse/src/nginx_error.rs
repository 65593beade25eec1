//! nginx's `error_log` (ngx_log.c): `2026/11/20 12:00:00 [error] 12#34: *5 message, client: …,
//! server: …`.
//!
//! The named values at the end become attributes; the body is the message before them. A line
//! without the header continues the previous one (stack traces of FastCGI applications) and is a
//! row with the line as its body.

use crate::format::{LineFormat, NamedFormat};
use crate::log_text;
use crate::record::{Record, RowKind};
use crate::{number, severity};

/// Names that nginx appends to a message, in this order.
const NAMES: [&str; 8] =
    ["client", "server", "request", "subrequest", "upstream", "host", "referrer", "login"];

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "nginx_error",
    new: || {
        Box::new(LineFormat { name: "nginx_error", parse: |line, record| Ok(parse(line, record)) })
    },
};

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> RowKind {
    if head(line, record).is_none() {
        log_text::parse(line, record);
    }
    RowKind::Log
}

/// Whether a line starts with the header of the format.
pub(crate) fn is_likely(line: &str) -> bool {
    matches!(line.as_bytes(), [_, _, _, _, b'/', _, _, b'/', _, _, b' ', ..])
        && line.get(19..).is_some_and(|rest| rest.starts_with(" ["))
}

fn head<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (ts, used) = record.times.read_front(line)?;
    let (level, rest) = line[used..].strip_prefix(" [")?.split_once("] ")?;
    let (process, message) = rest.split_once(": ")?;
    let (process_id, thread_id) = process.split_once('#')?;
    record.log.process_id = Some(number::integer(process_id)?);
    record.log.severity = severity::of_word(level);
    record.ts = Some(ts);
    record.attr(["thread_id", thread_id]);
    let message = connection(message, record);
    record.log.body = named_values(message, record);
    Some(())
}

/// A leading `*5 ` is the number of the connection.
fn connection<'a>(message: &'a str, record: &mut Record<'a>) -> &'a str {
    let cut = message.strip_prefix('*').and_then(|rest| rest.split_once(' '));
    match cut.filter(|(number, _)| number::integer(number).is_some()) {
        Some((number, message)) => {
            record.attr(["connection", number]);
            message
        }
        None => message,
    }
}

/// Reads `, name: value` at the end and returns the text before the first.
///
/// The names have a fixed order, so a `, client: ` inside a request has no effect.
fn named_values<'a>(message: &'a str, record: &mut Record<'a>) -> &'a str {
    let client = first_mark(message, &NAMES[..1]);
    let Some((start, mut name)) = client.or_else(|| first_mark(message, &NAMES)) else {
        return message;
    };
    let mut rest = &message[start + name.len() + 4..];
    loop {
        let later = NAMES.iter().position(|other| *other == name).map_or(0, |at| at + 1);
        let next = first_mark(rest, &NAMES[later..]);
        record.attr([name, unquoted(next.map_or(rest, |(at, _)| &rest[..at]))]);
        let Some((at, next_name)) = next else { break };
        rest = &rest[at + next_name.len() + 4..];
        name = next_name;
    }
    &message[..start]
}

/// The first `, name: ` of any of `names`, and which.
fn first_mark(text: &str, names: &[&'static str]) -> Option<(usize, &'static str)> {
    let is_mark = |at: usize, name: &str| {
        text[at + 2..].strip_prefix(name).is_some_and(|behind| behind.starts_with(": "))
    };
    text.match_indices(", ")
        .find_map(|(at, _)| names.iter().find(|name| is_mark(at, name)).map(|name| (at, *name)))
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn named_values_leave_the_message() {
        check_format(
            LogFormat::NginxError,
            r#"2026/11/20 12:00:00 [error] 12#34: *5 connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.1, server: _, request: "GET /a, b HTTP/1.1", upstream: "http://127.0.0.1:8080/a", host: "a.example", referrer: "http://r/"
2026/11/20 12:00:00 [emerg] 12#12: bind() to 0.0.0.0:80 failed (98: Address already in use)
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  process_id: 12
                  severity: error
                  body: connect() failed (111: Connection refused) while connecting to upstream
                  attrs: {thread_id: 34, connection: 5, client: 10.0.0.1, server: _, request: GET /a, b HTTP/1.1, upstream: http://127.0.0.1:8080/a, host: a.example, referrer: http://r/}
                log
                  ts: 2026-11-20T12:00:00Z
                  process_id: 12
                  severity: emergency
                  body: bind() to 0.0.0.0:80 failed (98: Address already in use)
                  attrs: {thread_id: 12}
            "#]],
        );
    }

    #[test]
    fn names_inside_of_messages_and_requests_are_not_taken() {
        check_format(
            LogFormat::NginxError,
            r#"2026/11/20 12:00:00 [error] 1#1: *5 FastCGI sent in stderr: "PHP message: x, server: y" while reading upstream, client: 10.0.0.1, server: a, request: "GET /, client: 6.6.6.6 HTTP/1.1"
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  process_id: 1
                  severity: error
                  body: FastCGI sent in stderr: "PHP message: x, server: y" while reading upstream
                  attrs: {thread_id: 1, connection: 5, client: 10.0.0.1, server: a, request: GET /, client: 6.6.6.6 HTTP/1.1}
            "#]],
        );
    }

    #[test]
    fn continued_lines_are_kept_whole() {
        check_format(
            LogFormat::NginxError,
            "PHP message: #0 {main}\n2026/11/20 [x\n",
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  body: PHP message: #0 {main}
                log
                  ts: 2026-11-20T12:00:00Z
                  body: 2026/11/20 [x
            "#]],
        );
    }
}
