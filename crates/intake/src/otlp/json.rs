//! Converts OTLP's JSON to protobuf: names to numbers by a schema, values by their kind.
//!
//! From the OTLP specification, "JSON Protobuf Encoding": lowerCamelCase names, ids in hex, 64-bit
//! integers as text or numbers, enumerations as numbers, unknown names ignored. As in the
//! OpenTelemetry Collector, enumerations may also be names, and names snake_case as in the `.proto`
//! files. The conversion is streaming, so it needs no document tree.

use std::fmt;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use memchr::memmem;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Signal;
use crate::number::{signed, unsigned};
use crate::protobuf::{WireType, push_bytes, push_key, push_varint};

/// Encoding of a value.
#[derive(Clone, Copy)]
enum FieldKind {
    Text,
    /// Bytes, hex digits in JSON.
    Hex,
    Base64,
    /// Booleans and integers.
    Varint,
    /// A number, or one of the names behind the prefix; the first is 0.
    Enumeration(&'static str, &'static [&'static str]),
    Fixed64,
    Double,
    Message(&'static Schema),
}

/// Name, number and kind of a field.
type SchemaField = (&'static str, u64, FieldKind);
type Schema = [SchemaField];

use FieldKind::{Base64, Double, Enumeration, Fixed64, Hex, Message, Text, Varint};

const SEVERITY: FieldKind = Enumeration(
    "SEVERITY_NUMBER_",
    &[
        "UNSPECIFIED",
        "TRACE",
        "TRACE2",
        "TRACE3",
        "TRACE4",
        "DEBUG",
        "DEBUG2",
        "DEBUG3",
        "DEBUG4",
        "INFO",
        "INFO2",
        "INFO3",
        "INFO4",
        "WARN",
        "WARN2",
        "WARN3",
        "WARN4",
        "ERROR",
        "ERROR2",
        "ERROR3",
        "ERROR4",
        "FATAL",
        "FATAL2",
        "FATAL3",
        "FATAL4",
    ],
);
const SPAN_KIND: FieldKind = Enumeration(
    "SPAN_KIND_",
    &["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"],
);
const STATUS_CODE: FieldKind = Enumeration("STATUS_CODE_", &["UNSET", "OK", "ERROR"]);
const TEMPORALITY: FieldKind =
    Enumeration("AGGREGATION_TEMPORALITY_", &["UNSPECIFIED", "DELTA", "CUMULATIVE"]);

const LOGS: &Schema = &[(
    "resourceLogs",
    1,
    Message(&[
        ("resource", 1, Message(RESOURCE)),
        ("scopeLogs", 2, Message(SCOPE_LOGS)),
        ("instrumentationLibraryLogs", 2, Message(SCOPE_LOGS)),
    ]),
)];
const TRACES: &Schema = &[(
    "resourceSpans",
    1,
    Message(&[
        ("resource", 1, Message(RESOURCE)),
        ("scopeSpans", 2, Message(SCOPE_SPANS)),
        ("instrumentationLibrarySpans", 2, Message(SCOPE_SPANS)),
    ]),
)];
const METRICS: &Schema = &[(
    "resourceMetrics",
    1,
    Message(&[
        ("resource", 1, Message(RESOURCE)),
        ("scopeMetrics", 2, Message(SCOPE_METRICS)),
        ("instrumentationLibraryMetrics", 2, Message(SCOPE_METRICS)),
    ]),
)];

/// OTLP before 0.15 calls scopes instrumentation libraries.
const SCOPE_LOGS: &Schema = &[("logRecords", 2, Message(LOG_RECORD))];
const SCOPE_SPANS: &Schema = &[("spans", 2, Message(SPAN))];
const SCOPE_METRICS: &Schema = &[("metrics", 2, Message(METRIC))];

const RESOURCE: &Schema = &[("attributes", 1, Message(&KEY_VALUE))];
static KEY_VALUE: [(&str, u64, FieldKind); 2] =
    [("key", 1, Text), ("value", 2, Message(&ANY_VALUE))];
/// Statics, because they refer to each other.
static ANY_VALUE: [(&str, u64, FieldKind); 7] = [
    ("stringValue", 1, Text),
    ("boolValue", 2, Varint),
    ("intValue", 3, Varint),
    ("doubleValue", 4, Double),
    ("arrayValue", 5, Message(&[("values", 1, Message(&ANY_VALUE))])),
    ("kvlistValue", 6, Message(&[("values", 1, Message(&KEY_VALUE))])),
    ("bytesValue", 7, Base64),
];
const LOG_RECORD: &Schema = &[
    ("timeUnixNano", 1, Fixed64),
    ("severityNumber", 2, SEVERITY),
    ("severityText", 3, Text),
    ("body", 5, Message(&ANY_VALUE)),
    ("attributes", 6, Message(&KEY_VALUE)),
    ("traceId", 9, Hex),
    ("spanId", 10, Hex),
    ("observedTimeUnixNano", 11, Fixed64),
    ("eventName", 12, Text),
];
const SPAN: &Schema = &[
    ("traceId", 1, Hex),
    ("spanId", 2, Hex),
    ("parentSpanId", 4, Hex),
    ("name", 5, Text),
    ("kind", 6, SPAN_KIND),
    ("startTimeUnixNano", 7, Fixed64),
    ("endTimeUnixNano", 8, Fixed64),
    ("attributes", 9, Message(&KEY_VALUE)),
    ("events", 11, Message(&[("name", 2, Text)])),
    ("status", 15, Message(&[("message", 2, Text), ("code", 3, STATUS_CODE)])),
];
const METRIC: &Schema = &[
    ("name", 1, Text),
    ("unit", 3, Text),
    ("gauge", 5, Message(POINTS)),
    ("sum", 7, Message(POINTS)),
    (
        "histogram",
        9,
        Message(&[
            ("dataPoints", 1, Message(HISTOGRAM_POINT)),
            ("aggregationTemporality", 2, TEMPORALITY),
        ]),
    ),
    (
        "exponentialHistogram",
        10,
        Message(&[
            ("dataPoints", 1, Message(EXPONENTIAL_POINT)),
            ("aggregationTemporality", 2, TEMPORALITY),
        ]),
    ),
    ("summary", 11, Message(&[("dataPoints", 1, Message(SUMMARY_POINT))])),
];
const POINTS: &Schema = &[
    ("dataPoints", 1, Message(NUMBER_POINT)),
    ("aggregationTemporality", 2, TEMPORALITY),
    ("isMonotonic", 3, Varint),
];
const NUMBER_POINT: &Schema = &[
    ("timeUnixNano", 3, Fixed64),
    ("asDouble", 4, Double),
    ("asInt", 6, Fixed64),
    ("attributes", 7, Message(&KEY_VALUE)),
    ("flags", 8, Varint),
];
const HISTOGRAM_POINT: &Schema = &[
    ("timeUnixNano", 3, Fixed64),
    ("count", 4, Fixed64),
    ("sum", 5, Double),
    ("bucketCounts", 6, Fixed64),
    ("explicitBounds", 7, Double),
    ("attributes", 9, Message(&KEY_VALUE)),
    ("flags", 10, Varint),
];
const EXPONENTIAL_POINT: &Schema = &[
    ("attributes", 1, Message(&KEY_VALUE)),
    ("timeUnixNano", 3, Fixed64),
    ("count", 4, Fixed64),
    ("sum", 5, Double),
    ("positive", 8, Message(&[("bucketCounts", 2, Varint)])),
    ("negative", 9, Message(&[("bucketCounts", 2, Varint)])),
    ("flags", 10, Varint),
];
const SUMMARY_POINT: &Schema = &[
    ("timeUnixNano", 3, Fixed64),
    ("count", 4, Fixed64),
    ("sum", 5, Double),
    ("quantileValues", 6, Message(&[("quantile", 1, Double), ("value", 2, Double)])),
    ("attributes", 7, Message(&KEY_VALUE)),
    ("flags", 8, Varint),
];

/// Converts an export request to protobuf.
pub(super) fn to_protobuf(signal: Signal, body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let (schema, names) = match signal {
        Signal::Logs => (LOGS, ["resourceLogs", "resource_logs"]),
        Signal::Traces => (TRACES, ["resourceSpans", "resource_spans"]),
        Signal::Metrics => (METRICS, ["resourceMetrics", "resource_metrics"]),
    };
    let mut out = Vec::with_capacity(body.len() / 2);
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    ObjectSeed { schema, out: &mut out }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    // Another signal, or no export at all: success would lose it.
    let is_export = names.iter().any(|name| memmem::find(body, name.as_bytes()).is_some());
    if out.is_empty() && !is_export && body.trim_ascii() != b"{}" {
        return Err(serde_json::Error::custom(format!("no `{}`", names[0])));
    }
    Ok(out)
}

/// Reads an object and appends its fields to `out`.
struct ObjectSeed<'a> {
    schema: &'static Schema,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match self.schema.iter().find(|field| is_named(field, &name)) {
                Some((name, number, kind)) => {
                    let (number, kind) = (*number, *kind);
                    map.next_value_seed(FieldSeed { name, number, kind, out: self.out })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Whether a field has the name, in lowerCamelCase or in snake_case.
fn is_named((known, ..): &SchemaField, name: &str) -> bool {
    if *known == name {
        return true;
    }
    let mut letters = name.bytes();
    known.bytes().all(|letter| {
        if letter.is_ascii_uppercase() {
            letters.next() == Some(b'_') && letters.next() == Some(letter.to_ascii_lowercase())
        } else {
            letters.next() == Some(letter)
        }
    }) && letters.next().is_none()
}

/// Reads one value or a list of values.
struct FieldSeed<'a> {
    name: &'static str,
    number: u64,
    kind: FieldKind,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl FieldSeed<'_> {
    /// An error that names the field and what it should be.
    fn wrong<E: Error>(&self) -> E {
        let expected = match self.kind {
            Text => "a text",
            Hex => "a text of hex digits",
            Base64 => "a text in Base64",
            Varint | Fixed64 => "an integer, as number or text",
            Enumeration(prefix, names) => {
                let last = names.last().copied().unwrap_or_default();
                let message = format!(
                    "`{}` is neither a number nor a name such as {prefix}{last}",
                    self.name
                );
                return E::custom(message);
            }
            Double => "a number",
            Message(_) => "an object",
        };
        E::custom(format!("`{}` is not {expected}", self.name))
    }

    fn push_integer<E: Error>(self, value: u64) -> Result<(), E> {
        match self.kind {
            Varint | Enumeration(..) => {
                push_key(self.out, self.number, WireType::Varint);
                push_varint(self.out, value);
            }
            Fixed64 => {
                push_key(self.out, self.number, WireType::Fixed64);
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            _ => return Err(self.wrong()),
        }
        Ok(())
    }

    fn push_double(self, value: f64) {
        push_key(self.out, self.number, WireType::Fixed64);
        self.out.extend_from_slice(&value.to_bits().to_le_bytes());
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of this field's type")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push_integer(u64::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        if matches!(self.kind, Double) {
            return self.visit_f64(unsigned(value));
        }
        self.push_integer(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        if matches!(self.kind, Double) {
            return self.visit_f64(signed(value));
        }
        self.push_integer(value.cast_unsigned())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if matches!(self.kind, Double) {
            self.push_double(value);
            return Ok(());
        }
        // As in ProtoJSON, `1.0` and `1e2` are integers.
        let Some(integer) = whole(value) else { return Err(self.wrong()) };
        self.push_integer(integer.cast_unsigned())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.kind {
            Text => push_bytes(self.out, self.number, text.as_bytes()),
            Hex => {
                let bytes = unhex(text).ok_or_else(|| self.wrong())?;
                push_bytes(self.out, self.number, &bytes);
            }
            Base64 => {
                let bytes = unbase64(text).ok_or_else(|| self.wrong())?;
                push_bytes(self.out, self.number, &bytes);
            }
            Double => {
                let value = match text {
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    other => other.parse().map_err(|_| self.wrong())?,
                };
                self.push_double(value);
            }
            Varint | Fixed64 => {
                let unsigned = text.parse::<u64>().ok();
                let value = unsigned.or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned));
                let value = value.ok_or_else(|| self.wrong())?;
                return self.push_integer(value);
            }
            Enumeration(prefix, names) => {
                let name = text.strip_prefix(prefix).unwrap_or(text);
                let place = names.iter().position(|known| *known == name);
                let place = place.and_then(|place| u64::try_from(place).ok());
                let value = place.or_else(|| text.parse().ok()).ok_or_else(|| self.wrong())?;
                return self.push_integer(value);
            }
            Message(_) => return Err(self.wrong()),
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        loop {
            let item = FieldSeed {
                name: self.name,
                number: self.number,
                kind: self.kind,
                out: &mut *self.out,
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<(), M::Error> {
        let Message(schema) = self.kind else {
            return Err(self.wrong());
        };
        let mut inner = Vec::new();
        ObjectSeed { schema, out: &mut inner }.visit_map(map)?;
        push_bytes(self.out, self.number, &inner);
        Ok(())
    }
}

/// A number without a fraction as an integer, up to the largest that a float has exactly.
#[expect(clippy::cast_possible_truncation, reason = "the value is whole and below 2^53")]
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
}

/// Standard or URL-safe Base64, with padding or without, as in ProtoJSON.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    BASE64_STANDARD_NO_PAD.decode(text).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(text)).ok()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let bytes =
        pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}
