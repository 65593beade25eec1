//! Decodes parameters from text or binary into values for the engine.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, IntervalMonthDayNanoBuilder, ListBuilder, StringBuilder,
};
use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;

use crate::encode::{ColumnEncoder, Format};
use crate::error::PgError;
use crate::frame::FieldReader;
use crate::types::{PgType, ScalarType};
use crate::{array_text, interval, numeric};

/// Microseconds from 1970 to 2000, PostgreSQL's epoch.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Days from 1970 to 2000.
const EPOCH_DAYS: i32 = 10_957;

/// Decodes a parameter of type `sent` into an array with one value of type `expected`.
///
/// # Errors
/// `22P02` for invalid text, `22P03` for invalid bytes, `0A000` for unsupported types.
pub(crate) fn parameter(
    bytes: Option<&[u8]>,
    format: Format,
    sent: PgType,
    expected: &DataType,
) -> Result<ArrayRef, PgError> {
    let Some(bytes) = bytes else { return Ok(new_null_array(expected, 1)) };
    let value = match (format, sent.is_array) {
        (Format::Text, false) if matches!(expected, DataType::Timestamp(..)) => {
            let text = text(bytes)?;
            // Clients leave out seconds, or the time before an offset.
            let full = weir_dialect::full_timestamp(text);
            scalar_text(full.as_deref().unwrap_or(text), sent.scalar)?
        }
        (Format::Text, false) => scalar_text(text(bytes)?, sent.scalar)?,
        (Format::Text, true) => {
            let text = text(bytes)?;
            let items = array_text::parse(text)
                .ok_or_else(|| invalid(&format!("`{text}` is not a one-dimensional array")))?;
            list(&items, sent.scalar)?
        }
        (Format::Binary, false) => binary(bytes, sent.scalar)?,
        (Format::Binary, true) => {
            let (items, scalar) = binary_items(bytes, sent.scalar)?;
            list(&items, scalar)?
        }
    };
    if value.data_type() == expected {
        return Ok(value);
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&value, expected, &options).map_err(|error| invalid(&error.to_string()))
}

fn invalid(why: &str) -> PgError {
    PgError::new("22P02", format!("invalid parameter: {why}"))
}

fn text(bytes: &[u8]) -> Result<&str, PgError> {
    std::str::from_utf8(bytes).map_err(|_| PgError::new("22021", "a parameter is not UTF-8"))
}

/// A value from its text. Arrow parses most of the types by a cast.
fn scalar_text(text: &str, scalar: ScalarType) -> Result<ArrayRef, PgError> {
    Ok(match scalar {
        ScalarType::Interval => Arc::new(IntervalMonthDayNanoArray::from(vec![span(text)?])),
        ScalarType::Bytea => Arc::new(BinaryArray::from(vec![bytes_of(text)?.as_slice()])),
        _ => Arc::new(StringArray::from(vec![text])),
    })
}

fn span(text: &str) -> Result<IntervalMonthDayNano, PgError> {
    interval::parse(text).ok_or_else(|| invalid(&format!("`{text}` is not an interval")))
}

/// Bytes from `\xdead`, or from PostgreSQL's older notation with `\\` and octal escapes.
fn bytes_of(text: &str) -> Result<Vec<u8>, PgError> {
    let parsed = match text.strip_prefix("\\x") {
        Some(digits) => hex(digits),
        None => escaped(text.as_bytes()),
    };
    parsed.ok_or_else(|| invalid(&format!("`{text}` is not a bytea")))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let pairs = pairs.iter().map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

fn escaped(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        text = match text {
            [] => return Some(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', digits @ ..] => {
                let octal = std::str::from_utf8(digits.get(..3)?).ok()?;
                bytes.push(u8::from_str_radix(octal, 8).ok()?);
                &digits[3..]
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

/// A list of one array from the texts of its items.
fn list(items: &[Option<String>], scalar: ScalarType) -> Result<ArrayRef, PgError> {
    let texts = items.iter().map(Option::as_deref);
    match scalar {
        ScalarType::Interval => {
            let mut lists = ListBuilder::new(IntervalMonthDayNanoBuilder::new());
            for item in texts {
                lists.values().append_option(item.map(span).transpose()?);
            }
            Ok(one_list(lists))
        }
        ScalarType::Bytea => {
            let mut lists = ListBuilder::new(BinaryBuilder::new());
            for item in texts {
                lists.values().append_option(item.map(bytes_of).transpose()?);
            }
            Ok(one_list(lists))
        }
        _ => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            texts.for_each(|item| lists.values().append_option(item));
            Ok(one_list(lists))
        }
    }
}

fn one_list<B: ArrayBuilder>(mut lists: ListBuilder<B>) -> ArrayRef {
    lists.append(true);
    Arc::new(lists.finish())
}

/// Items of a binary array as text, and their type, which the array names itself.
fn binary_items(
    bytes: &[u8],
    scalar: ScalarType,
) -> Result<(Vec<Option<String>>, ScalarType), PgError> {
    let mut fields = FieldReader(bytes);
    let (dimensions, _has_nulls, oid) = (fields.i32()?, fields.i32()?, fields.i32()?);
    let own = PgType::from_oid(u32::from_be_bytes(oid.to_be_bytes()));
    let scalar = own.filter(|own| !own.is_array).map_or(scalar, |own| own.scalar);
    if dimensions == 0 {
        return Ok((Vec::new(), scalar));
    }
    if dimensions != 1 {
        return Err(PgError::unsupported("arrays of several dimensions are not supported"));
    }
    let (length, _first) = (fields.i32()?, fields.i32()?);
    let kind = PgType { scalar, is_array: false };
    let items = (0..length).map(|_| match fields.value()? {
        None => Ok(None),
        Some(item) => {
            let value = binary(item, scalar)?;
            let encoder = ColumnEncoder::new(&value, kind);
            let encoder = encoder.map_err(|error| invalid(&error.to_string()))?;
            Ok(encoder.cell(0))
        }
    });
    Ok((items.collect::<Result<_, PgError>>()?, scalar))
}

fn binary(bytes: &[u8], scalar: ScalarType) -> Result<ArrayRef, PgError> {
    Ok(match scalar {
        ScalarType::Bool => Arc::new(BooleanArray::from(vec![fixed::<1>(bytes)?[0] != 0])),
        ScalarType::Bytea => Arc::new(BinaryArray::from(vec![bytes])),
        ScalarType::Int2 => Arc::new(Int16Array::from(vec![i16::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Int4 => Arc::new(Int32Array::from(vec![i32::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Int8 => Arc::new(Int64Array::from(vec![i64::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Oid => {
            Arc::new(Int64Array::from(vec![i64::from(u32::from_be_bytes(fixed(bytes)?))]))
        }
        ScalarType::Text | ScalarType::Json => Arc::new(StringArray::from(vec![text(bytes)?])),
        ScalarType::Jsonb => match bytes {
            // The version of the format.
            [1, json @ ..] => Arc::new(StringArray::from(vec![text(json)?])),
            _ => return Err(PgError::new("22P03", "a jsonb parameter has an unknown version")),
        },
        ScalarType::Uuid => Arc::new(StringArray::from(vec![uuid(fixed(bytes)?)])),
        ScalarType::Float4 => Arc::new(Float32Array::from(vec![f32::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Float8 => Arc::new(Float64Array::from(vec![f64::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Date => {
            let days = i32::from_be_bytes(fixed(bytes)?).saturating_add(EPOCH_DAYS);
            Arc::new(Date32Array::from(vec![days]))
        }
        ScalarType::Time => {
            Arc::new(Time64MicrosecondArray::from(vec![i64::from_be_bytes(fixed(bytes)?)]))
        }
        ScalarType::Timestamp | ScalarType::Timestamptz => {
            let micros = i64::from_be_bytes(fixed(bytes)?).saturating_add(EPOCH_MICROS);
            let array = TimestampMicrosecondArray::from(vec![micros]);
            Arc::new(
                array.with_timezone_opt((scalar == ScalarType::Timestamptz).then_some("+00:00")),
            )
        }
        ScalarType::Interval => {
            let mut fields = FieldReader(bytes);
            let micros = i64::from_be_bytes(fixed(fields.bytes(8)?)?);
            let (days, months) = (fields.i32()?, fields.i32()?);
            let nanos = micros.checked_mul(1000);
            let nanos = nanos.ok_or_else(|| invalid("the interval is longer than 292 years"))?;
            let value = IntervalMonthDayNano::new(months, days, nanos);
            Arc::new(IntervalMonthDayNanoArray::from(vec![value]))
        }
        ScalarType::Numeric => {
            let text = numeric::read(bytes)
                .ok_or_else(|| PgError::new("22P03", "a numeric parameter is no finite number"))?;
            Arc::new(StringArray::from(vec![text]))
        }
    })
}

/// A UUID such as `6f1a…-…`.
fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], PgError> {
    bytes.try_into().map_err(|_| {
        PgError::new("22P03", format!("a parameter has {} bytes instead of {N}", bytes.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::ColumnEncoder;

    /// A parameter, decoded and shown as text.
    fn shown(bytes: &[u8], format: Format, kind: PgType) -> Result<Option<String>, PgError> {
        let item = kind.scalar.to_arrow();
        let expected = if kind.is_array { DataType::new_list(item, true) } else { item };
        let value = parameter(Some(bytes), format, kind, &expected)?;
        Ok(ColumnEncoder::new(&value, kind).expect("its own type").cell(0))
    }

    #[test]
    fn each_type_survives_text_and_binary_alone_and_in_arrays() {
        for (scalar, text) in [
            (ScalarType::Bool, "t"),
            (ScalarType::Bytea, "\\xdead"),
            (ScalarType::Int2, "-2"),
            (ScalarType::Int4, "40000"),
            (ScalarType::Int8, "5000000000"),
            (ScalarType::Oid, "4000000000"),
            (ScalarType::Text, "it's, \"é\""),
            (ScalarType::Json, "{\"a\": 1}"),
            (ScalarType::Float4, "0.5"),
            (ScalarType::Float8, "1e+300"),
            (ScalarType::Date, "2026-11-21"),
            (ScalarType::Time, "12:00:00.5"),
            (ScalarType::Timestamp, "2026-11-21 12:00:00.25"),
            (ScalarType::Timestamptz, "2026-11-21 12:00:00.25+00"),
            (ScalarType::Interval, "1 mon 2 days 03:00:00"),
            (ScalarType::Numeric, "12.5"),
        ] {
            let single = PgType { scalar, is_array: false };
            let array = PgType { scalar, is_array: true };
            let same = Ok(Some(text.to_owned()));
            assert_eq!(shown(text.as_bytes(), Format::Text, single), same);
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            let items = format!("{{\"{quoted}\",NULL}}");
            let value = parameter(
                Some(items.as_bytes()),
                Format::Text,
                array,
                &DataType::new_list(scalar.to_arrow(), true),
            );
            let encoder = ColumnEncoder::new(&value.expect("an array"), array).expect("its type");
            let mut wire = Vec::new();
            encoder.push(&mut wire, 0, Format::Binary);
            if scalar != ScalarType::Numeric {
                let again = shown(&wire[4..], Format::Binary, array);
                assert_eq!(again, Ok(encoder.cell(0)), "{text}");
            }
        }
    }

    #[test]
    fn types_that_only_clients_have_are_read_from_binary() {
        let one = |scalar| PgType { scalar, is_array: false };
        let bytes: Vec<u8> = (0..16).collect();
        let text = shown(&bytes, Format::Binary, one(ScalarType::Uuid));
        assert_eq!(text, Ok(Some("00010203-0405-0607-0809-0a0b0c0d0e0f".to_owned())));
        let text = shown(b"\x01{}", Format::Binary, one(ScalarType::Jsonb));
        assert_eq!(text, Ok(Some("{}".to_owned())));
        let empty = [0; 12];
        let text =
            shown(&empty, Format::Binary, PgType { is_array: true, ..one(ScalarType::Int8) });
        assert_eq!(text, Ok(Some("{}".to_owned())));
    }

    #[test]
    fn times_may_lack_seconds_or_the_time() {
        let kind = PgType { scalar: ScalarType::Timestamptz, is_array: false };
        for (text, expected) in [
            ("2026-11-21 12:00+00", "2026-11-21 12:00:00+00"),
            ("2026-11-21 +00", "2026-11-21 00:00:00+00"),
            ("2026-11-21 12:00:00.5+00:00:00", "2026-11-21 12:00:00.5+00"),
            ("2026-11-21", "2026-11-21 00:00:00+00"),
        ] {
            let found = shown(text.as_bytes(), Format::Text, kind);
            assert_eq!(found, Ok(Some(expected.to_owned())), "{text}");
        }
    }

    #[test]
    fn malformed_parameters_are_refused() {
        let many = |scalar| PgType { scalar, is_array: true };
        let two = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 20];
        for (bytes, format, kind, state) in [
            (&b"{{1},{2}}"[..], Format::Text, many(ScalarType::Int8), "22P02"),
            (b"1", Format::Text, many(ScalarType::Int8), "22P02"),
            (b"{x}", Format::Text, many(ScalarType::Int8), "22P02"),
            (&two, Format::Binary, many(ScalarType::Int8), "0A000"),
            (&two[..9], Format::Binary, many(ScalarType::Int8), "08P01"),
        ] {
            assert_eq!(shown(bytes, format, kind).expect_err("malformed").state, state);
        }
    }
}
