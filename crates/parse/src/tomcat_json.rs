//! Access lines of Tomcat as JSON (`JsonAccessLogValve`) in its own formats `common` and `combined`.
//!
//! Source: Tomcat's documentation, "JSON Access Log Valve". The surprising thing: `host` is the
//! client, as in `%h`, and not the requested host.

use crate::field::Field;
use crate::record::Record;

/// Gives the keys that mean something else than elsewhere their meaning.
pub(crate) fn rename(record: &mut Record<'_>) {
    let texts = record.take_texts();
    for (key, value, field) in texts.iter() {
        let field = match key {
            "host" => Field::ClientAddress,
            "size" => Field::ResponseBodyBytesOrDash,
            _ => field,
        };
        record.put([key, value], field);
    }
}
