//! Lines of Heroku's router: `at=info method=GET path="/" host=a.example fwd="192.0.2.1" dyno=web.1
//! connect=1ms service=18ms status=200 bytes=13` (Heroku's documentation, "HTTP routing").
//!
//! `service` is the time between the connection to the application and the last byte.

use weir_values::number;

use crate::field::{self, Field};
use crate::record::Record;

/// Whether a line of pairs with these meanings is the router's.
pub(crate) fn is_router(seen: u64, line: &str) -> bool {
    let needed = Field::Method.bit() | Field::Target.bit() | Field::Status.bit();
    seen & needed == needed && ["fwd=", "dyno=", "service="].iter().all(|key| line.contains(key))
}

/// Puts a pair with the router's meaning.
pub(crate) fn put<'a>([key, value]: [&'a str; 2], record: &mut Record<'a>) {
    let spans = value.strip_suffix("ms").filter(|span| number::seconds(span).is_some());
    match (key, spans) {
        ("service", Some(span)) => record.put([key, span], Field::DurationMillis),
        ("connect", Some(span)) => {
            let seconds = number::seconds(span).unwrap_or_default() / 1e3;
            let seconds = record.arena.alloc_str(&seconds.to_string());
            record.put([key, seconds], Field::UpstreamConnect);
        }
        ("fwd", _) => record.put([key, value], Field::ForwardedFor),
        ("host", _) => record.put([key, value], Field::Host),
        ("bytes", _) => record.put([key, value], Field::ResponseBodyBytes),
        ("protocol", _) if !value.contains(['.', '/']) => record.put([key, value], Field::Scheme),
        _ => record.put([key, value], field::of_key(key)),
    }
}
