//! Log records of OTLP to rows of `log`.

use weir_tables::Log;

use super::value::{Resource, key_value, text, time};
use crate::attrs::Attrs;
use crate::document;
use crate::harvest::Harvest;
use crate::number::hex;
use crate::protobuf::{Fields, Malformed};

/// Reads a `LogRecord`.
pub(super) fn read(
    bytes: &[u8],
    resource: &Resource<'_>,
    harvest: &mut Harvest,
) -> Result<(), Malformed> {
    let (mut at, mut observed, mut severity_number) = (None, None, 0);
    let (mut severity_text, mut body) = ("", "".into());
    let mut attrs = Attrs::default();
    Fields(bytes).each(|number, value| {
        match number {
            1 => at = time(value.integer()),
            2 => severity_number = value.integer(),
            3 => severity_text = value.text().unwrap_or(""),
            5 => body = text(value.bytes())?,
            6 => key_value(value.bytes(), "", 0, &mut attrs)?,
            9 => attrs.push("trace_id", hex(value.bytes())),
            10 => attrs.push("span_id", hex(value.bytes())),
            11 => observed = time(value.integer()),
            12 => attrs.push("event_name", String::from_utf8_lossy(value.bytes())),
            _ => {}
        }
        Ok(())
    })?;
    let severity = severity(severity_number).or_else(|| document::severity(severity_text));
    if severity.is_none() {
        attrs.push("severity_text", severity_text);
    }
    let source = attrs.take(&["log.file.path"]);
    attrs.extend(&resource.attrs);
    harvest.log_row(&Log {
        ts: at.or(observed).unwrap_or(harvest.now),
        host: &resource.host,
        observed_ts: harvest.now,
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

/// OpenTelemetry's 24 numbers are six words with four grades each.
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
