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

use weir_values::{number, peer_address};

use crate::field::Field;
use crate::record::Record;
use crate::text;

/// Reads the text behind the user agent; `None`, with the record unchanged, if it is not
/// Ingress-NGINX's.
pub(crate) fn parse_end<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (request_length, rest) = text::word(rest);
    let (request_time, rest) = text::word(rest);
    let (name, rest) = rest.strip_prefix('[')?.split_once("] ")?;
    // Versions before 0.22 have no alternative.
    let other = rest.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let (other_name, rest) = other.unwrap_or(("", rest));
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
    let first = addresses.split([',', ' ']).next()?;
    let is_address = first == "-" || first.starts_with("unix:") || peer_address::is_peer(first);
    is_address.then_some(())?;
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
