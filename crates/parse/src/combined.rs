//! The combined log format of nginx and Apache, and `common`, which lacks its last two values.
//!
//! `addr - user [time] "request" status bytes "referer" "user agent"`; the rest is kept as `rest`,
//! unless it is Traefik's, and a leading `host:port` (Apache's `vhost_combined`) is accepted.

use crate::field::Field;
use crate::format::{LineFormat, NamedFormat};
use crate::record::{LineFault, Record, RowKind};
use crate::{number, text, traefik};

pub(crate) const FORMAT: NamedFormat =
    NamedFormat { name: "combined", new: || Box::new(LineFormat { name: "combined", parse }) };

/// Reads a line.
fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
    match fields(line, record) {
        Some(()) => Ok(RowKind::Request),
        None => Err(LineFault::no_match("not `address - user [time] \"request\" status bytes`")),
    }
}

/// Reads a line that is in this format; leaves the record empty if it is not.
pub(crate) fn detect<'a>(
    line: &'a str,
    record: &mut Record<'a>,
) -> Option<Result<RowKind, LineFault>> {
    if is_likely(line) && parse(line, record).is_ok() {
        return Some(Ok(RowKind::Request));
    }
    record.clear_texts();
    None
}

/// Whether a line has the bracketed time and the quoted request of the format.
fn is_likely(line: &str) -> bool {
    let Some((head, behind)) = line.split_once(" [") else { return false };
    let is_time = behind.as_bytes().get(2) == Some(&b'/') && behind.contains("] \"");
    is_time && head.split(' ').count() <= 5
}

fn fields<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (head, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let (request, rest) = quoted_end(rest)?;
    let (status, rest) = text::word(rest.strip_prefix(' ')?);
    let (bytes, rest) = text::word(rest);
    let (status, bytes) = (traefik::known(status), traefik::known(bytes));
    let values = TailValues::new(rest);
    record.ts = Some(record.times.read(time)?);
    if number::integer(status).is_none() && !(status == "-" && traefik::is_end(values.rest)) {
        return None;
    }
    head_fields(head, record).filter(|()| !bytes.is_empty())?;
    record.put(["request", text::unescape(request, record.arena)], Field::RequestLine);
    record.put(["status", status], Field::Status);
    record.put(["body_bytes_sent", bytes], Field::ResponseBodyBytesOrDash);
    tail_fields(&values, record);
    Some(())
}

/// `[vhost:port] address logname user`; a user name may hold spaces, a logname is nearly always
/// `-`.
fn head_fields<'a>(head: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (first, behind) = head.split_once(' ')?;
    let (second, _) = behind.split_once(' ')?;
    let has_port = first.rsplit_once(':').is_some_and(|(_, port)| number::integer(port).is_some());
    let rest = if has_port && second != "-" {
        record.put(["vhost", first], Field::Host);
        behind
    } else {
        head
    };
    let (address, rest) = rest.split_once(' ')?;
    let (logname, user) = rest.split_once(' ')?;
    record.put(["remote_addr", address], Field::ClientAddress);
    record.attr(["remote_logname", logname]);
    record.attr(["remote_user", text::unescape(user, record.arena)]);
    Some(())
}

/// The values behind the bytes.
struct TailValues<'a> {
    referer: Option<&'a str>,
    user_agent: Option<&'a str>,
    rest: &'a str,
}

impl<'a> TailValues<'a> {
    fn new(text: &'a str) -> Self {
        let (referer, rest) = tail_value(text);
        let (user_agent, rest) = if referer.is_some() { tail_value(rest) } else { (None, rest) };
        Self { referer, user_agent, rest }
    }
}

/// A value in quotes, or the `-` that Traefik wrote without, and the text behind it.
fn tail_value(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix('"').and_then(quoted_end) {
        Some((value, behind)) => (Some(value), behind.strip_prefix(' ').unwrap_or(behind)),
        None => text.strip_prefix("- ").map_or((None, text), |behind| (Some("-"), behind)),
    }
}

fn tail_fields<'a>(values: &TailValues<'a>, record: &mut Record<'a>) {
    if let Some(referer) = values.referer {
        record.put(["http_referer", text::unescape(referer, record.arena)], Field::Referer);
    }
    if let Some(agent) = values.user_agent {
        record.put(["http_user_agent", text::unescape(agent, record.arena)], Field::UserAgent);
    }
    if traefik::parse_end(values.rest, record).is_none() {
        record.attr(["rest", values.rest]);
    }
}

/// Splits at the closing quote; `\"` does not close.
pub(crate) fn quoted_end(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'"', &bytes[from..])?;
        let slash_count = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if slash_count % 2 == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn combined_common_and_vhost_lines_are_read() {
        check_format(
            LogFormat::Combined,
            r#"1.2.3.4 - bob [20/Nov/2026:12:00:00 +0100] "GET /a?b=\x22c HTTP/1.1" 200 612 "https://r.example/" "a \"b\" c" "9.9.9.9"
::1 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.0" 304 -
1.2.3.4 - John Doe [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.0" 304 -
www.example.com:443 1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "-" 408 0 "-" "-"
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:00:00Z
                  client_address: 1.2.3.4
                  http_request_method: GET
                  url_path: /a
                  url_query: b="c
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 612
                  user_agent_original: a "b" c
                  http_request_header_referer: https://r.example/
                  attrs: {remote_user: bob, rest: "9.9.9.9"}
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: ::1
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.0
                  http_response_status_code: 304
                  response_body_bytes: 0
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 1.2.3.4
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.0
                  http_response_status_code: 304
                  response_body_bytes: 0
                  attrs: {remote_user: John Doe}
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 1.2.3.4
                  server_address: www.example.com
                  server_port: 443
                  http_response_status_code: 408
                  response_body_bytes: 0
            "#]],
        );
    }

    #[test]
    fn torn_and_foreign_lines_are_rejected() {
        check_format(
            LogFormat::Combined,
            "1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTT\n1.2.3.4 - - [noon] \"GET / HTTP/1.1\" 200 1\nhello\n",
            expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: 1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTT
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: 1.2.3.4 - - [noon] "GET / HTTP/1.1" 200 1
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: hello
            "#]],
        );
    }
}
