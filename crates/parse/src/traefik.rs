//! What Traefik's access log adds to `common`: `… "referer" "user agent" 12 "router"
//! "http://10.0.0.1:80" 3ms` (CommonLogFormatter of Traefik's package accesslog).
//!
//! The status is `-` where Traefik answered itself before 2.0, and the address of the server lacks
//! its quotes where there is none.

use weir_values::number;

use crate::field::Field;
use crate::record::Record;
use crate::text;

/// The end of a line.
#[derive(Debug)]
struct LineEnd<'a> {
    request_count: &'a str,
    router: &'a str,
    server_url: &'a str,
    duration_ms: &'a str,
}

/// Whether the text behind the user agent is Traefik's.
pub(crate) fn is_end(rest: &str) -> bool {
    line_end(rest).is_some()
}

/// Reads the text behind the user agent; `None`, with the record unchanged, if it is not
/// Traefik's.
pub(crate) fn parse_end<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    let end = line_end(rest)?;
    record.put(["program", "traefik"], Field::Program);
    record.put(["RequestCount", end.request_count], Field::Attr);
    record.put(["proxy_frontend", text::unescape(end.router, record.arena)], Field::Column);
    let url = text::unescape(end.server_url, record.arena);
    let address = url.split_once("://").map_or(url, |(_, behind)| behind);
    let address = address.split_once('/').map_or(address, |(address, _)| address);
    record.put(["upstream_address", address], Field::UpstreamAddress);
    if url.len() > "http://".len() + address.len() {
        record.put(["ServiceURL", url], Field::Attr);
    }
    record.put(["Duration", end.duration_ms], Field::DurationMillis);
    Some(())
}

/// The text of a value that Traefik did not know: early versions of 1.4 wrote Go's word for it.
pub(crate) fn known(word: &str) -> &str {
    if word == "%!d(<nil>)" { "-" } else { word }
}

fn line_end(rest: &str) -> Option<LineEnd<'_>> {
    let (request_count, rest) = text::word(rest.strip_suffix("ms")?);
    let (router, rest) = value(rest)?;
    let (server_url, duration_ms) = value(rest)?;
    number::integer(request_count).filter(|count| *count >= 0)?;
    number::integer(duration_ms)?;
    Some(LineEnd { request_count, router, server_url, duration_ms })
}

/// A value in quotes, or `-`, and the text behind it.
pub(crate) fn value(text: &str) -> Option<(&str, &str)> {
    let (value, rest) = match text.strip_prefix('"') {
        Some(quoted) => text::quoted_end(quoted)?,
        None => text.strip_prefix('-').map(|rest| ("-", rest))?,
    };
    Some((value, rest.strip_prefix(' ')?))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn a_visitor_and_another_program_cannot_write_the_end() {
        check_format(
            LogFormat::Combined,
            r#"10.0.0.7 - - [20/Nov/2026:11:59:59 +0000] "GET / HTTP/1.1" 200 5 "-" "x\" 1 \"r\" \"http://1.2.3.4:80\" 3ms"
10.0.0.7 - - [20/Nov/2026:11:59:59 +0000] "GET / HTTP/1.1" 200 5 "-" "x" 12 "a" 3ms
10.0.0.7 - - [20/Nov/2026:11:59:59 +0000] "GET / HTTP/1.1" - - "-" "x" 12 "a" "b" 3s
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:59Z
                  client_address: 10.0.0.7
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 5
                  user_agent_original: x" 1 "r" "http://1.2.3.4:80" 3ms
                request
                  ts: 2026-11-20T11:59:59Z
                  client_address: 10.0.0.7
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 5
                  user_agent_original: x
                  attrs: {rest: 12 "a" 3ms}
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: 10.0.0.7 - - [20/Nov/2026:11:59:59 +0000] "GET / HTTP/1.1" - - "-" "x" 12 "a" "b" 3s
            "#]],
        );
    }
}
