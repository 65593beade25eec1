//! Access lines of Node's `pino-http` (Fastify's logger is pino as well) and `express-winston`: JSON
//! with `req`, `res` and `responseTime` in milliseconds.
//!
//! Source: `pino-std-serializers`. The surprising thing: an error's line has `req` too, so only a
//! line with the status of a response is a request.

use crate::field::{self, Field};
use crate::record::{Record, RowKind};

/// Reads the keys of a JSON object with `req.url`, which are in the record.
pub(crate) fn parse_json(record: &mut Record<'_>) -> RowKind {
    let texts = record.take_texts();
    let is_access = [Field::Status, Field::Method]
        .iter()
        .all(|wanted| texts.iter().any(|(key, ..)| meaning(key) == *wanted));
    for (key, value, field) in texts.iter() {
        let field = if is_access { meaning(key) } else { field };
        record.put([key, value], field);
    }
    if is_access { RowKind::Request } else { RowKind::Log }
}

fn meaning(key: &str) -> Field {
    match key.strip_prefix("meta.").unwrap_or(key) {
        "req.method" => Field::Method,
        "req.url" => Field::Target,
        "req.remoteAddress" | "req.ip" => Field::PeerAddress,
        "req.remotePort" => Field::ClientPort,
        "req.httpVersion" => Field::Protocol,
        "req.headers.host" | "req.host" => Field::Host,
        "req.headers.user-agent" => Field::UserAgent,
        "req.headers.referer" => Field::Referer,
        "req.headers.x-request-id" => Field::RequestId,
        "res.statusCode" => Field::Status,
        "res.headers.content-length" => Field::ResponseBodyBytes,
        "responseTime" => Field::DurationMillis,
        name if name.starts_with("req.") || name.starts_with("res.") => Field::Attr,
        _ => field::of_key(key),
    }
}
