//! What Cloud Foundry's router writes behind the combined format: both connections, and pairs with
//! colons.
//!
//! Source: Cloud Foundry's documentation of its router's access log. The surprising things: the line
//! begins with the requested host, and has the length of the request before that of the response.
//!
//! ```text
//! host - [time] "request" status 0 5 "referer" "user agent" "client:1" "server:2" x_forwarded_for:"…" response_time:0.007 …
//! ```

use crate::field::Field;
use crate::record::Record;
use crate::text;

/// Whether the text behind the user agent is the router's.
pub(crate) fn is_end(rest: &str) -> bool {
    rest.starts_with('"') && memchr::memmem::find(rest.as_bytes(), b" vcap_request_id:\"").is_some()
}

/// Puts what differs from the combined format: the head, and both lengths.
pub(crate) fn put_head<'a>(head: &'a str, lengths: [&'a str; 2], record: &mut Record<'a>) {
    record.put(["http_host", head.trim_end_matches([' ', '-'])], Field::Host);
    record.put(["request_bytes", lengths[0]], Field::RequestBytes);
    record.put(["body_bytes_sent", lengths[1]], Field::ResponseBodyBytes);
}

/// Reads the text behind the user agent up to the first text that is no pair, which is an attribute.
pub(crate) fn put_end<'a>(rest: &'a str, record: &mut Record<'a>) {
    let (client, rest) = quoted(rest);
    let (server, mut rest) = quoted(rest);
    record.put(["client", client], Field::PeerAddress);
    record.put(["upstream_addr", server], Field::UpstreamAddress);
    while let Some((key, behind)) = rest.split_once(':').filter(|(key, _)| !key.contains(' ')) {
        let (value, behind) = match behind.starts_with('"') {
            true => quoted(behind),
            false => text::word(behind),
        };
        let field = match key {
            "x_forwarded_for" => Field::ClientAddress,
            "x_forwarded_proto" => Field::Scheme,
            "vcap_request_id" => Field::RequestId,
            "response_time" => Field::DurationSeconds,
            _ => Field::Attr,
        };
        record.put([key, value], field);
        rest = behind;
    }
    record.attr(["rest", rest]);
}

/// A value in quotes, and the text behind it and a blank.
fn quoted(text: &str) -> (&str, &str) {
    let found = text.strip_prefix('"').and_then(text::quoted_end);
    found.map_or(("", text), |(value, behind)| (value, behind.trim_start_matches(' ')))
}
