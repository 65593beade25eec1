//! Values and resources of OTLP: `AnyValue`, `KeyValue`, `Resource`.

use std::borrow::Cow;

use serde_json::Value;
use weir_tables::Micros;

use super::MAX_DEPTH;
use crate::attrs::Attrs;
use crate::number::hex;
use crate::protobuf::{Fields, Malformed, Wire};

/// Who recorded something: the attributes that all rows of it share.
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

    pub(super) fn read(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        Fields(bytes).each(|number, value| {
            if number == 1 { key_value(value.bytes(), "", 0, &mut self.attrs) } else { Ok(()) }
        })?;
        if let Some(host) = self.attrs.take(&["host.name"]) {
            self.host = host;
        }
        self.service = self.attrs.take(&["service.name"]);
        self.process_id = self.attrs.take_number(&["process.pid"]);
        Ok(())
    }
}

/// Reads a `KeyValue` into attributes; lists of pairs become dotted keys.
pub(super) fn key_value<'a>(
    bytes: &'a [u8],
    prefix: &str,
    depth: usize,
    attrs: &mut Attrs<'a>,
) -> Result<(), Malformed> {
    let (mut key, mut any) = ("", &[][..]);
    Fields(bytes).each(|number, value| {
        match number {
            1 => key = value.text().unwrap_or("invalid_utf8"),
            2 => any = value.bytes(),
            _ => {}
        }
        Ok(())
    })?;
    let key: Cow<'a, str> =
        if prefix.is_empty() { key.into() } else { format!("{prefix}.{key}").into() };
    let mut fields = Fields(any);
    while let Some((number, value)) = fields.next()? {
        if number == 6 && depth < MAX_DEPTH {
            Fields(value.bytes()).each(|number, pair| {
                if number == 1 { key_value(pair.bytes(), &key, depth + 1, attrs) } else { Ok(()) }
            })?;
        } else {
            attrs.push(key.clone(), scalar(number, value, depth)?);
        }
    }
    Ok(())
}

/// An `AnyValue` as text: plain for scalars, JSON for lists.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    let mut out = Cow::Borrowed("");
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        out = scalar(number, value, 0)?;
    }
    Ok(out)
}

fn scalar(number: u64, value: Wire<'_>, depth: usize) -> Result<Cow<'_, str>, Malformed> {
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

fn json(number: u64, value: Wire<'_>, depth: usize) -> Result<Value, Malformed> {
    if depth >= MAX_DEPTH {
        return Ok("…".into());
    }
    Ok(match number {
        2 => (value.integer() != 0).into(),
        3 => value.signed().into(),
        4 => value.double().into(),
        5 => {
            let mut items = Vec::new();
            Fields(value.bytes()).each(|number, item| {
                if number == 1 {
                    items.push(any_json(item.bytes(), depth + 1)?);
                }
                Ok(())
            })?;
            items.into()
        }
        6 => {
            let mut object = serde_json::Map::new();
            Fields(value.bytes()).each(|number, pair| {
                if number == 1 {
                    let mut key = String::new();
                    let mut item = Value::Null;
                    Fields(pair.bytes()).each(|number, part| {
                        match number {
                            1 => key = String::from_utf8_lossy(part.bytes()).into_owned(),
                            2 => item = any_json(part.bytes(), depth + 1)?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    object.insert(key, item);
                }
                Ok(())
            })?;
            object.into()
        }
        _ => scalar(number, value, depth)?.into_owned().into(),
    })
}

fn any_json(bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let mut out = Value::Null;
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        out = json(number, value, depth)?;
    }
    Ok(out)
}

/// Nanoseconds since 1970; 0 means unknown.
pub(super) fn time(nanos: u64) -> Option<Micros> {
    (nanos > 0).then(|| Micros(i64::try_from(nanos / 1000).unwrap_or(i64::MAX)))
}

/// From one instant to another, not negative.
#[expect(clippy::cast_precision_loss, reason = "spans of interest are far below 2^53 nanoseconds")]
pub(super) fn seconds_between(from_nanos: u64, to_nanos: u64) -> f64 {
    to_nanos.saturating_sub(from_nanos) as f64 / 1e9
}
