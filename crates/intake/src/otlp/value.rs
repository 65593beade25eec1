//! Values and resources of OTLP: `AnyValue`, `KeyValue`, `Resource`.

use std::borrow::Cow;

use serde_json::Value;
use weir_tables::{Micros, hex};

use super::MAX_DEPTH;
use crate::attrs::Attrs;
use crate::protobuf::{FieldReader, MalformedMessage, WireValue};

/// A resource: host, service and attributes shared by all of its rows.
#[derive(Clone, Debug)]
pub(super) struct Resource<'a> {
    pub(super) host: Cow<'a, str>,
    pub(super) service: Option<Cow<'a, str>>,
    pub(super) process_id: Option<i64>,
    pub(super) attrs: Attrs<'a>,
}

impl<'a> Resource<'a> {
    pub(super) fn new(peer: &'a str) -> Self {
        Self { host: peer.into(), service: None, process_id: None, attrs: Attrs::default() }
    }

    pub(super) fn read(&mut self, bytes: &'a [u8]) -> Result<(), MalformedMessage> {
        for attribute in FieldReader(bytes).messages(1) {
            key_value(attribute?, "", 0, &mut self.attrs)?;
        }
        if let Some(host) = self.attrs.take(&["host.name"]) {
            self.host = host;
        }
        self.service = self.attrs.take(&["service.name"]);
        self.process_id = self.attrs.take_number(&["process.pid"]);
        Ok(())
    }
}

/// Reads a `KeyValue` into attributes; nested lists of pairs become dotted keys.
pub(super) fn key_value<'a>(
    bytes: &'a [u8],
    prefix: &str,
    depth: usize,
    attrs: &mut Attrs<'a>,
) -> Result<(), MalformedMessage> {
    let (mut key, mut any) = ("", &[][..]);
    for field in FieldReader(bytes) {
        match field? {
            (1, value) => key = value.text().unwrap_or("invalid_utf8"),
            (2, value) => any = value.bytes(),
            _ => {}
        }
    }
    let key: Cow<'a, str> =
        if prefix.is_empty() { key.into() } else { format!("{prefix}.{key}").into() };
    for field in FieldReader(any) {
        let (number, value) = field?;
        if number == 6 && depth < MAX_DEPTH {
            for pair in FieldReader(value.bytes()).messages(1) {
                key_value(pair?, &key, depth + 1, attrs)?;
            }
        } else {
            attrs.push(key.clone(), scalar(number, value, depth)?);
        }
    }
    Ok(())
}

/// An `AnyValue` as text: plain for scalars, JSON for lists.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, MalformedMessage> {
    let mut out = Cow::Borrowed("");
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        out = scalar(number, value, 0)?;
    }
    Ok(out)
}

fn scalar(
    number: u64,
    value: WireValue<'_>,
    depth: usize,
) -> Result<Cow<'_, str>, MalformedMessage> {
    Ok(match number {
        1 => String::from_utf8_lossy(value.bytes()),
        2 => if value.integer() == 0 { "false" } else { "true" }.into(),
        3 => value.signed().to_string().into(),
        4 => value.double().to_string().into(),
        5 | 6 => json(number, value, depth)?.to_string().into(),
        7 => hex(value.bytes()).into(),
        _ => "".into(),
    })
}

fn json(number: u64, value: WireValue<'_>, depth: usize) -> Result<Value, MalformedMessage> {
    if depth >= MAX_DEPTH {
        return Ok("…".into());
    }
    Ok(match number {
        2 => (value.integer() != 0).into(),
        3 => value.signed().into(),
        4 => value.double().into(),
        5 => {
            let mut items = Vec::new();
            for item in FieldReader(value.bytes()).messages(1) {
                items.push(any_json(item?, depth + 1)?);
            }
            items.into()
        }
        6 => {
            let mut object = serde_json::Map::new();
            for pair in FieldReader(value.bytes()).messages(1) {
                let (key, item) = json_pair(pair?, depth + 1)?;
                object.insert(key, item);
            }
            object.into()
        }
        _ => scalar(number, value, depth)?.into_owned().into(),
    })
}

fn json_pair(bytes: &[u8], depth: usize) -> Result<(String, Value), MalformedMessage> {
    let (mut key, mut item) = (String::new(), Value::Null);
    for field in FieldReader(bytes) {
        match field? {
            (1, part) => key = String::from_utf8_lossy(part.bytes()).into_owned(),
            (2, part) => item = any_json(part.bytes(), depth)?,
            _ => {}
        }
    }
    Ok((key, item))
}

fn any_json(bytes: &[u8], depth: usize) -> Result<Value, MalformedMessage> {
    let mut out = Value::Null;
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        out = json(number, value, depth)?;
    }
    Ok(out)
}

/// Nanoseconds since 1970; 0 means unknown.
pub(super) fn time(nanos: u64) -> Option<Micros> {
    (nanos > 0).then(|| Micros(i64::try_from(nanos / 1000).unwrap_or(i64::MAX)))
}
