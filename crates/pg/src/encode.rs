//! Encodes cells as text or in PostgreSQL's binary formats (`*_send` in its sources).

use std::fmt::Write;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field};
use weir_dialect::array_element_text;
use weir_tables::Micros;

use crate::interval::IntervalStyle;
use crate::types::{PgType, ScalarType};
use crate::{interval, json, numeric};

/// Encoding of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

/// Days from 1970 to 2000, PostgreSQL's epoch.
const EPOCH_DAYS: i32 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;
/// First byte of a binary `jsonb`.
const JSONB_VERSION: u8 = 1;

/// The 16 bytes of a UUID's text.
fn uuid_bytes(text: &str) -> [u8; 16] {
    let digits = text.bytes().filter_map(|digit| char::from(digit).to_digit(16));
    let number = digits.fold(0_u128, |number, digit| number << 4 | u128::from(digit));
    number.to_be_bytes()
}

/// A column, prepared to be encoded cell by cell.
pub(crate) struct ColumnEncoder {
    column: ArrayRef,
    kind: PgType,
    /// Items of an array column.
    items: Option<Box<ColumnEncoder>>,
    style: IntervalStyle,
}

impl ColumnEncoder {
    /// Casts a column for its PostgreSQL type.
    ///
    /// # Errors
    /// When the column cannot be cast.
    pub(crate) fn new(column: &ArrayRef, kind: PgType) -> Result<Self, ArrowError> {
        if kind.is_array {
            let item = Field::new_list_field(item_type(column.data_type()), true);
            let column = cast(column, &DataType::List(item.into()))?;
            let items =
                Self::new(column.as_list::<i32>().values(), PgType { is_array: false, ..kind })?;
            return Ok(Self {
                column,
                kind,
                items: Some(Box::new(items)),
                style: IntervalStyle::default(),
            });
        }
        let column = match kind.scalar {
            ScalarType::Json if column.data_type().is_nested() => {
                std::sync::Arc::new(json::texts(column)?)
            }
            ScalarType::Oid => cast(column, &DataType::UInt32)?,
            ScalarType::Interval if matches!(column.data_type(), DataType::Duration(_)) => {
                interval::of_differences(column)?
            }
            ScalarType::Numeric => numeric::texts(column)?,
            other => cast(column, &other.to_arrow())?,
        };
        Ok(Self { column, kind, items: None, style: IntervalStyle::default() })
    }

    /// Writes intervals in this style.
    pub(crate) fn with_style(self, style: IntervalStyle) -> Self {
        let items = self.items.map(|items| Box::new(items.with_style(style)));
        Self { items, style, ..self }
    }

    /// Appends a cell with its length, which is -1 for NULL.
    pub(crate) fn push(&self, out: &mut Vec<u8>, row: usize, format: Format) {
        if self.column.is_null(row) {
            return out.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match format {
            Format::Text => {
                let text = self.cell(row).unwrap_or_default();
                out.extend_from_slice(text.as_bytes());
            }
            Format::Binary => self.binary(out, row),
        }
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// A cell as text; `None` for NULL.
    pub(crate) fn cell(&self, row: usize) -> Option<String> {
        if self.column.is_null(row) {
            return None;
        }
        let mut text = String::new();
        self.text(&mut text, row);
        Some(text)
    }

    fn text(&self, out: &mut String, row: usize) {
        let column = &self.column;
        if let Some(items) = &self.items {
            return items.array_text(out, range(column, row));
        }
        match self.kind.scalar {
            ScalarType::Bool => out.push(if column.as_boolean().value(row) { 't' } else { 'f' }),
            ScalarType::Bytea => {
                out.push_str("\\x");
                for byte in column.as_binary::<i32>().value(row) {
                    put(out, format_args!("{byte:02x}"));
                }
            }
            ScalarType::Int2 => put(out, column.as_primitive::<Int16Type>().value(row)),
            ScalarType::Int4 => put(out, column.as_primitive::<Int32Type>().value(row)),
            ScalarType::Int8 => put(out, column.as_primitive::<Int64Type>().value(row)),
            ScalarType::Oid => put(out, column.as_primitive::<UInt32Type>().value(row)),
            ScalarType::Text
            | ScalarType::Json
            | ScalarType::Jsonb
            | ScalarType::Uuid
            | ScalarType::Numeric => out.push_str(column.as_string::<i32>().value(row)),
            ScalarType::Float4 => {
                let value = column.as_primitive::<Float32Type>().value(row);
                float(out, value.into(), &value.to_string(), &format!("{value:e}"), 6);
            }
            ScalarType::Float8 => {
                let value = column.as_primitive::<Float64Type>().value(row);
                float(out, value, &value.to_string(), &format!("{value:e}"), 15);
            }
            ScalarType::Date => {
                let days = column.as_primitive::<Date32Type>().value(row);
                let text = instant(i64::from(days) * DAY_MICROS);
                out.push_str(text.split(' ').next().unwrap_or_default());
            }
            ScalarType::Timestamp => out.push_str(&instant(micros(column, row))),
            ScalarType::Timestamptz => {
                out.push_str(&instant(micros(column, row)));
                out.push_str("+00");
            }
            ScalarType::Interval => {
                let value = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
                out.push_str(&self.style.text(value));
            }
            ScalarType::Time => {
                let text = instant(column.as_primitive::<Time64MicrosecondType>().value(row));
                out.push_str(text.split(' ').nth(1).unwrap_or_default());
            }
        }
    }

    fn binary(&self, out: &mut Vec<u8>, row: usize) {
        let column = &self.column;
        if let Some(items) = &self.items {
            return items.array_binary(out, range(column, row));
        }
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        match self.kind.scalar {
            ScalarType::Bool => put(&[u8::from(column.as_boolean().value(row))]),
            ScalarType::Bytea => put(column.as_binary::<i32>().value(row)),
            ScalarType::Int2 => put(&column.as_primitive::<Int16Type>().value(row).to_be_bytes()),
            ScalarType::Int4 => put(&column.as_primitive::<Int32Type>().value(row).to_be_bytes()),
            ScalarType::Int8 => put(&column.as_primitive::<Int64Type>().value(row).to_be_bytes()),
            ScalarType::Oid => put(&column.as_primitive::<UInt32Type>().value(row).to_be_bytes()),
            ScalarType::Text | ScalarType::Json => {
                put(column.as_string::<i32>().value(row).as_bytes())
            }
            ScalarType::Jsonb => {
                put(&[JSONB_VERSION]);
                put(column.as_string::<i32>().value(row).as_bytes());
            }
            ScalarType::Uuid => put(&uuid_bytes(column.as_string::<i32>().value(row))),
            ScalarType::Time => {
                put(&column.as_primitive::<Time64MicrosecondType>().value(row).to_be_bytes());
            }
            ScalarType::Numeric => numeric::push(out, column.as_string::<i32>().value(row)),
            ScalarType::Float4 => {
                put(&column.as_primitive::<Float32Type>().value(row).to_be_bytes())
            }
            ScalarType::Float8 => {
                put(&column.as_primitive::<Float64Type>().value(row).to_be_bytes())
            }
            ScalarType::Date => {
                let days = column.as_primitive::<Date32Type>().value(row);
                put(&days.saturating_sub(EPOCH_DAYS).to_be_bytes());
            }
            ScalarType::Timestamp | ScalarType::Timestamptz => {
                let since = micros(column, row).saturating_sub(i64::from(EPOCH_DAYS) * DAY_MICROS);
                put(&since.to_be_bytes());
            }
            ScalarType::Interval => {
                let value = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
                put(&(value.nanoseconds / 1000).to_be_bytes());
                put(&value.days.to_be_bytes());
                put(&value.months.to_be_bytes());
            }
        }
    }

    /// Appends an array such as `{a,"b c",NULL}`.
    fn array_text(&self, out: &mut String, rows: std::ops::Range<usize>) {
        out.push('{');
        for row in rows.clone() {
            if row > rows.start {
                out.push(',');
            }
            if self.column.is_null(row) {
                out.push_str("NULL");
                continue;
            }
            let mut item = String::new();
            self.text(&mut item, row);
            out.push_str(&array_element_text(&item));
        }
        out.push('}');
    }

    /// Appends an array: dimensions, NULL flag, item type, length, first index, items.
    fn array_binary(&self, out: &mut Vec<u8>, rows: std::ops::Range<usize>) {
        let has_nulls = rows.clone().any(|row| self.column.is_null(row));
        let length = i32::try_from(rows.len()).unwrap_or(i32::MAX);
        out.extend_from_slice(&i32::from(length > 0).to_be_bytes());
        out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
        out.extend_from_slice(&self.kind.scalar.oid().to_be_bytes());
        if length > 0 {
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&1_i32.to_be_bytes());
        }
        for row in rows {
            self.push(out, row, Format::Binary);
        }
    }
}

fn item_type(list: &DataType) -> DataType {
    match list {
        DataType::List(item) | DataType::LargeList(item) => item.data_type().clone(),
        DataType::Dictionary(_, value) => item_type(value),
        other => other.clone(),
    }
}

fn range(column: &ArrayRef, row: usize) -> std::ops::Range<usize> {
    let ends = column.as_list::<i32>().value_offsets();
    let at = |row: usize| usize::try_from(ends[row]).unwrap_or(0);
    at(row)..at(row + 1)
}

fn micros(column: &ArrayRef, row: usize) -> i64 {
    column.as_primitive::<TimestampMicrosecondType>().value(row)
}

fn put(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing to memory does not fail");
}

/// Formats an instant such as `2026-11-21 12:00:00.5`.
fn instant(micros: i64) -> String {
    let text = Micros(micros).to_string().replace('T', " ");
    let text = text.trim_end_matches('Z');
    if !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes a float as PostgreSQL does: with an exponent from `digits` places on, and below 0.0001.
/// `scientific` is its shortest text with an exponent, such as `1.5e20`.
fn float(out: &mut String, value: f64, plain: &str, scientific: &str, digits: i32) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let parts = scientific.split_once('e');
    match parts.and_then(|(mantissa, power)| Some((mantissa, power.parse::<i32>().ok()?))) {
        Some((mantissa, power)) if power < -4 || power >= digits => {
            let sign = if power < 0 { '-' } else { '+' };
            put(out, format_args!("{mantissa}e{sign}{:02}", power.abs()));
        }
        _ => out.push_str(plain),
    }
}

/// A text column.
pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    let mut column = StringBuilder::new();
    values.into_iter().for_each(|value| column.append_value(value));
    std::sync::Arc::new(column.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_texts_of_postgresql() {
        let text = |value: f64| {
            let mut out = String::new();
            float(&mut out, value, &value.to_string(), &format!("{value:e}"), 15);
            out
        };
        let texts: Vec<_> =
            [1e15, 1e14, 1e-5, 1e-4, 1.5e300, -2.5e-7, 0.0, -0.0, 0.1 + 0.2].map(text).into();
        let expected = ["1e+15", "100000000000000", "1e-05", "0.0001", "1.5e+300", "-2.5e-07"];
        assert_eq!(texts[..6], expected);
        assert_eq!(texts[6..], ["0", "-0", "0.30000000000000004"]);
        let mut real = String::new();
        float(&mut real, 1e20_f32.into(), "", &format!("{:e}", 1e20_f32), 6);
        assert_eq!(real, "1e+20");
    }

    #[test]
    fn uuids_and_json_have_their_binary_forms() {
        let column = texts(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]);
        let kind = PgType { scalar: ScalarType::Uuid, is_array: false };
        let mut out = Vec::new();
        ColumnEncoder::new(&column, kind).unwrap().push(&mut out, 0, Format::Binary);
        assert_eq!(out[..6], [0, 0, 0, 16, 0xa0, 0xee]);
        assert_eq!(out[19], 0x11);
        let kind = PgType { scalar: ScalarType::Jsonb, is_array: false };
        let mut out = Vec::new();
        ColumnEncoder::new(&texts(["{}"]), kind).unwrap().push(&mut out, 0, Format::Binary);
        assert_eq!(out, [0, 0, 0, 3, 1, b'{', b'}']);
    }
}
