//! Cells as text or in PostgreSQL's binary formats (`*_send` of its sources).

use std::fmt::Write;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimestampMicrosecondType, UInt32Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field};
use weir_tables::Micros;

use crate::types::{Scalar, Type};
use crate::{json, numeric};

/// How a cell is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

/// From 1970 to 2000, where PostgreSQL's time begins.
const EPOCH_DAYS: i32 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;

/// A column, ready to be written cell by cell.
pub(crate) struct Cells {
    column: ArrayRef,
    kind: Type,
    /// Of an array: its items.
    items: Option<Box<Cells>>,
}

impl Cells {
    /// Brings a column into the form in which its type is written.
    ///
    /// # Errors
    /// When the column cannot be written so.
    pub(crate) fn new(column: &ArrayRef, kind: Type) -> Result<Self, ArrowError> {
        if kind.is_array {
            let item = Field::new_list_field(item_type(column.data_type()), true);
            let column = cast(column, &DataType::List(item.into()))?;
            let items =
                Self::new(column.as_list::<i32>().values(), Type { is_array: false, ..kind })?;
            return Ok(Self { column, kind, items: Some(Box::new(items)) });
        }
        let column = match kind.scalar {
            Scalar::Json if column.data_type().is_nested() => {
                std::sync::Arc::new(json::texts(column)?)
            }
            Scalar::Oid => cast(column, &DataType::UInt32)?,
            Scalar::Numeric => cast(column, &DataType::Utf8)?,
            other => cast(column, &other.to_arrow())?,
        };
        Ok(Self { column, kind, items: None })
    }

    /// Writes a cell with its length before it, -1 for NULL.
    pub(crate) fn push(&self, out: &mut Vec<u8>, row: usize, format: Format) {
        if self.column.is_null(row) {
            return out.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match format {
            Format::Text => {
                let mut text = String::new();
                self.text(&mut text, row);
                out.extend_from_slice(text.as_bytes());
            }
            Format::Binary => self.binary(out, row),
        }
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn text(&self, out: &mut String, row: usize) {
        let column = &self.column;
        if let Some(items) = &self.items {
            return items.array_text(out, range(column, row));
        }
        match self.kind.scalar {
            Scalar::Bool => out.push(if column.as_boolean().value(row) { 't' } else { 'f' }),
            Scalar::Bytea => {
                out.push_str("\\x");
                for byte in column.as_binary::<i32>().value(row) {
                    put(out, format_args!("{byte:02x}"));
                }
            }
            Scalar::Int2 => put(out, column.as_primitive::<Int16Type>().value(row)),
            Scalar::Int4 => put(out, column.as_primitive::<Int32Type>().value(row)),
            Scalar::Int8 => put(out, column.as_primitive::<Int64Type>().value(row)),
            Scalar::Oid => put(out, column.as_primitive::<UInt32Type>().value(row)),
            Scalar::Text | Scalar::Json | Scalar::Numeric => {
                out.push_str(column.as_string::<i32>().value(row));
            }
            Scalar::Float4 => {
                let value = column.as_primitive::<Float32Type>().value(row);
                float(out, f64::from(value), &value.to_string());
            }
            Scalar::Float8 => {
                let value = column.as_primitive::<Float64Type>().value(row);
                float(out, value, &value.to_string());
            }
            Scalar::Date => {
                let days = column.as_primitive::<Date32Type>().value(row);
                let text = instant(i64::from(days) * DAY_MICROS);
                out.push_str(text.split(' ').next().unwrap_or_default());
            }
            Scalar::Timestamp => out.push_str(&instant(micros(column, row))),
            Scalar::Timestamptz => {
                out.push_str(&instant(micros(column, row)));
                out.push_str("+00");
            }
            Scalar::Interval => {
                interval(out, column.as_primitive::<IntervalMonthDayNanoType>().value(row));
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
            Scalar::Bool => put(&[u8::from(column.as_boolean().value(row))]),
            Scalar::Bytea => put(column.as_binary::<i32>().value(row)),
            Scalar::Int2 => put(&column.as_primitive::<Int16Type>().value(row).to_be_bytes()),
            Scalar::Int4 => put(&column.as_primitive::<Int32Type>().value(row).to_be_bytes()),
            Scalar::Int8 => put(&column.as_primitive::<Int64Type>().value(row).to_be_bytes()),
            Scalar::Oid => put(&column.as_primitive::<UInt32Type>().value(row).to_be_bytes()),
            Scalar::Text | Scalar::Json => put(column.as_string::<i32>().value(row).as_bytes()),
            Scalar::Numeric => numeric::push(out, column.as_string::<i32>().value(row)),
            Scalar::Float4 => put(&column.as_primitive::<Float32Type>().value(row).to_be_bytes()),
            Scalar::Float8 => put(&column.as_primitive::<Float64Type>().value(row).to_be_bytes()),
            Scalar::Date => {
                let days = column.as_primitive::<Date32Type>().value(row);
                put(&days.saturating_sub(EPOCH_DAYS).to_be_bytes());
            }
            Scalar::Timestamp | Scalar::Timestamptz => {
                let since = micros(column, row).saturating_sub(i64::from(EPOCH_DAYS) * DAY_MICROS);
                put(&since.to_be_bytes());
            }
            Scalar::Interval => {
                let value = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
                put(&(value.nanoseconds / 1000).to_be_bytes());
                put(&value.days.to_be_bytes());
                put(&value.months.to_be_bytes());
            }
        }
    }

    /// `{a,"b c",NULL}`
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
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:+-/".contains(&byte);
            if !item.is_empty() && item.bytes().all(is_plain) && !item.eq_ignore_ascii_case("null")
            {
                out.push_str(&item);
                continue;
            }
            out.push('"');
            for letter in item.chars() {
                if matches!(letter, '"' | '\\') {
                    out.push('\\');
                }
                out.push(letter);
            }
            out.push('"');
        }
        out.push('}');
    }

    /// Dimensions, whether there are NULLs, the type, length and first index, the items.
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

/// `2026-11-21 12:00:00.5`
fn instant(micros: i64) -> String {
    let text = Micros(micros).to_string().replace('T', " ");
    let text = text.trim_end_matches('Z');
    if !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn float(out: &mut String, value: f64, plain: &str) {
    let size = value.abs();
    match value {
        _ if value.is_nan() => out.push_str("NaN"),
        _ if value.is_infinite() => {
            out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" })
        }
        _ if size != 0.0 && !(1e-5..1e15).contains(&size) => put(out, format_args!("{value:e}")),
        _ => out.push_str(plain),
    }
}

/// `1 year 2 mons 3 days 04:05:06.5`
fn interval(out: &mut String, value: IntervalMonthDayNano) {
    let (years, months) = (value.months / 12, value.months % 12);
    for (count, unit) in [(years, "year"), (months, "mon"), (value.days, "day")] {
        if count != 0 {
            let end = if count == 1 { "" } else { "s" };
            put(out, format_args!("{count} {unit}{end} "));
        }
    }
    let micros = value.nanoseconds / 1000;
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, rest) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    put(out, format_args!("{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60));
    if rest > 0 {
        let rest = format!(".{rest:06}");
        out.push_str(rest.trim_end_matches('0'));
    }
}

/// One column of texts, for answers that come from here.
pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    let mut column = StringBuilder::new();
    values.into_iter().for_each(|value| column.append_value(value));
    std::sync::Arc::new(column.finish())
}
