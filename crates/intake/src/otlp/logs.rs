//! Log records of OTLP to rows of `log`.

use weir_tables::{Log, hex};

use super::value::{Resource, key_value, text, time};
use crate::attrs::Attrs;
use crate::batch_builder::BatchBuilder;
use crate::document;
use crate::protobuf::{FieldReader, MalformedMessage};

/// Reads a `LogRecord`.
pub(super) fn read(
    bytes: &[u8],
    resource: &Resource<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let (mut at, mut observed, mut severity_number) = (None, None, 0);
    let (mut severity_text, mut body) = ("", "".into());
    let mut attrs = Attrs::default();
    for field in FieldReader(bytes) {
        match field? {
            (1, value) => at = time(value.integer()),
            (2, value) => severity_number = value.integer(),
            (3, value) => severity_text = value.text().unwrap_or(""),
            (5, value) => body = text(value.bytes())?,
            (6, value) => key_value(value.bytes(), "", 0, &mut attrs)?,
            (9, value) => attrs.push("trace_id", hex(value.bytes())),
            (10, value) => attrs.push("span_id", hex(value.bytes())),
            (11, value) => observed = time(value.integer()),
            (12, value) => attrs.push("event_name", String::from_utf8_lossy(value.bytes())),
            _ => {}
        }
    }
    let severity = severity(severity_number).or_else(|| document::severity(severity_text));
    if severity.is_none() {
        attrs.push("severity_text", severity_text);
    }
    let source = attrs.take(&["log.file.path"]);
    attrs.extend(&resource.attrs);
    builder.log_row(&Log {
        ts: at.or(observed).unwrap_or(builder.now),
        host: &resource.host,
        observed_ts: builder.now,
        source: source.as_deref().unwrap_or("otlp"),
        program: resource.service.as_deref(),
        process_id: resource.process_id,
        severity,
        body: &body,
        attrs: &attrs.finish(),
        ..Log::default()
    });
    Ok(())
}

/// The word for one of OpenTelemetry's 24 numbers: six words with four grades each.
fn severity(number: u64) -> Option<&'static str> {
    match number {
        1..=4 => Some("trace"),
        5..=8 => Some("debug"),
        9..=12 => Some("info"),
        13..=16 => Some("warn"),
        17..=20 => Some("error"),
        21..=24 => Some("critical"),
        _ => None,
    }
}
