//! What Ingress-NGINX (`upstreaminfo`) and APISIX write behind the combined format: lengths, times and the
//! servers that were tried.
//!
//! Sources: Ingress-NGINX, "Log format"; APISIX, `nginx_config.http.access_log_format`.
//!
//! ```text
//! … "referer" "user agent" 100 30.001 [ns-svc-80] [] 10.0.0.3:80, 10.0.0.4:80 0, 150 15.000, 15.001 504, 502 id
//! … "referer" "user agent" 10.0.0.3:80 502 30.000 "http://backend/a"
//! ```
//!
//! Lists are separated by commas, and by colons where a request was redirected within nginx.

use crate::field::Field;
use crate::number;
use crate::record::Record;
use crate::text;

/// Reads the text behind the user agent; `None`, with the record unchanged, if it is not
/// Ingress-NGINX's.
pub(crate) fn parse_end<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (request_length, rest) = text::word(rest);
    let (request_time, rest) = text::word(rest);
    let (name, rest) = rest.strip_prefix('[')?.split_once("] [")?;
    let (other_name, rest) = rest.split_once("] ")?;
    let (addresses, rest) = list(rest);
    let (lengths, rest) = list(rest);
    let (times, rest) = list(rest);
    let (statuses, request_id) = list(rest);
    number::integer(request_length)?;
    number::float(request_time)?;
    if statuses.is_empty() {
        return None;
    }
    record.put(["program", "nginx"], Field::Program);
    record.put(["request_length", request_length], Field::RequestBytes);
    record.put(["request_time", request_time], Field::DurationSeconds);
    record.put(["proxy_upstream_name", name], Field::UpstreamName);
    record.attr(["proxy_alternative_upstream_name", other_name]);
    record.attr(["upstream_response_length", lengths]);
    record.put(["upstream_addr", addresses], Field::UpstreamAddress);
    record.put(["upstream_response_time", times], Field::UpstreamResponse);
    record.put(["upstream_status", statuses], Field::UpstreamStatus);
    record.put(["req_id", request_id], Field::RequestId);
    Some(())
}

/// Reads the text behind the user agent of a line of APISIX, which has the requested host before the
/// request; `None`, with the record unchanged, if it is not APISIX's.
pub(crate) fn parse_apisix_end<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (addresses, rest) = list(rest);
    let (statuses, rest) = list(rest);
    let (times, url) = list(rest);
    let url = url.strip_prefix('"')?.strip_suffix('"')?;
    record.put(["program", "apisix"], Field::Program);
    record.put(["upstream_addr", addresses], Field::UpstreamAddress);
    record.put(["upstream_status", statuses], Field::UpstreamStatus);
    record.put(["upstream_response_time", times], Field::UpstreamResponse);
    record.attr(["upstream_url", url]);
    Some(())
}

/// A list at the front of a text, and the text behind it.
fn list(text: &str) -> (&str, &str) {
    let mut end = 0;
    loop {
        end += text[end..].find(' ').unwrap_or(text.len() - end);
        let rest = &text[end..];
        if text[..end].ends_with(',') && !rest.is_empty() {
            end += 1;
        } else if rest.starts_with(" : ") {
            end += 3;
        } else {
            return (&text[..end], rest.strip_prefix(' ').unwrap_or(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn servers_that_were_tried_are_columns() {
        check_format(
            LogFormat::Auto,
            r#"192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 502 150 "-" "curl/8" 100 30.001 [ns-svc-80] [] 10.0.0.3:80, 10.0.0.4:80 0, 150 15.000, 15.001 504, 502 7d00
192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 503 190 "-" "curl/8" 78 0.000 [ns-svc-80] [] - - - - 7d01
192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] e.example "GET /a HTTP/1.1" 502 150 30.001 "-" "curl/8" 10.0.0.3:80 502 30.000 "http://e.example"
203.0.113.5 - - [20/Nov/2026:12:00:00 +0000] "GET /a.js HTTP/1.1" 200 126403 1.137143 0.003614 "https://r.example/" "Mozilla/5.0"
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  program: nginx
                  request_id: 7d00
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /a
                  network_protocol_version: 1.1
                  http_response_status_code: 502
                  request_bytes: 100
                  response_body_bytes: 150
                  user_agent_original: curl/8
                  duration_seconds: 30.001
                  upstream_response_seconds: 30.001
                  upstream_address: 10.0.0.4:80
                  upstream_status_code: 502
                  upstream_tries: 2
                  proxy_backend: ns-svc-80
                  attrs: {upstream_response_length: 0, 150}
                request
                  ts: 2026-11-20T12:00:00Z
                  program: nginx
                  request_id: 7d01
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /a
                  network_protocol_version: 1.1
                  http_response_status_code: 503
                  request_bytes: 78
                  response_body_bytes: 190
                  user_agent_original: curl/8
                  duration_seconds: 0.0
                  upstream_tries: 0
                  proxy_backend: ns-svc-80
                request
                  ts: 2026-11-20T12:00:00Z
                  program: apisix
                  client_address: 192.0.2.1
                  server_address: e.example
                  http_request_method: GET
                  url_path: /a
                  network_protocol_version: 1.1
                  http_response_status_code: 502
                  response_body_bytes: 150
                  user_agent_original: curl/8
                  duration_seconds: 30.001
                  upstream_response_seconds: 30.0
                  upstream_address: 10.0.0.3:80
                  upstream_status_code: 502
                  upstream_tries: 1
                  attrs: {upstream_url: http://e.example}
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 203.0.113.5
                  http_request_method: GET
                  url_path: /a.js
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 126403
                  user_agent_original: Mozilla/5.0
                  http_request_header_referer: https://r.example/
                  attrs: {request_time: 1.137143 0.003614}
            "#]],
        );
    }
}
