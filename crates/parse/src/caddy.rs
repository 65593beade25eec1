//! Access lines of Caddy, as JSON of its logger `http.log.access` (Caddy's documentation, "How
//! logging works"). Headers are lists; the duration is seconds; `client_ip` is the address behind
//! trusted proxies, `remote_ip` that of the connection.

use crate::field::{self, Field};
use crate::json::{JsonScanner, JsonValue};
use crate::record::{Record, RowKind};

/// Reads the keys of a JSON object with `request.uri`, which are in the record; of other programs and
/// of Caddy's other loggers they keep their meanings.
pub(crate) fn parse_json(record: &mut Record<'_>) -> RowKind {
    let is_access = record.text("logger").is_some_and(|name| name.starts_with("http.log.access"))
        && record.text("status").is_some();
    if !is_access {
        return record.guess_kind();
    }
    let texts = record.take_texts();
    let client = texts.iter().find(|(key, ..)| *key == "request.client_ip");
    let peer = texts.iter().find(|(key, ..)| *key == "request.remote_ip");
    let is_direct = client.is_none() || client.map(|pair| pair.1) == peer.map(|pair| pair.1);
    let mut scheme = "http";
    for (key, value, _) in texts.iter() {
        if key.starts_with("request.tls.") {
            scheme = "https";
        }
        match meaning(key, is_direct) {
            Field::UserAgent | Field::Referer => {
                let first = first_of(value, record);
                record.put([key, first], meaning(key, is_direct));
            }
            Field::Message => {}
            field => record.put([key, value], field),
        }
    }
    record.put(["scheme", scheme], Field::Scheme);
    record.put(["program", "caddy"], Field::Program);
    RowKind::Request
}

fn meaning(key: &str, is_direct: bool) -> Field {
    match key {
        "request.client_ip" => Field::ClientAddress,
        // Caddy before 2.5 writes the address with its port.
        "request.remote_ip" | "request.remote_addr" => Field::PeerAddress,
        "request.remote_port" if is_direct => Field::ClientPort,
        "request.method" => Field::Method,
        "request.uri" => Field::Target,
        "request.host" => Field::Host,
        "request.proto" => Field::Protocol,
        "request.headers.User-Agent" => Field::UserAgent,
        "request.headers.Referer" => Field::Referer,
        "request.headers.X-Request-Id" => Field::Attr,
        "status" => Field::Status,
        "size" => Field::ResponseBodyBytes,
        "duration" => Field::DurationSeconds,
        // `handled request`, on every line.
        "msg" => Field::Message,
        "level" | "logger" => Field::Attr,
        _ if key.starts_with("request.") || key.starts_with("resp_headers.") => Field::Attr,
        _ => field::of_key(key),
    }
}

/// The first text of a list, or the text itself.
fn first_of<'a>(value: &'a str, record: &Record<'a>) -> &'a str {
    let Some(inner) = value.strip_prefix('[') else { return value };
    match JsonScanner::new(inner, record.arena).value() {
        Ok(JsonValue::Text(text)) => text,
        _ => value,
    }
}
