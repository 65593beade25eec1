//! Decodes parameters from text or binary into values for the engine.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;

use crate::encode::Format;
use crate::error::PgError;
use crate::types::{PgType, ScalarType};

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
    if sent.is_array {
        return Err(PgError::unsupported("array parameters are not supported")
            .hint("send one text and split it: `= any(string_to_array($1, ','))`"));
    }
    let value = match format {
        Format::Text => Arc::new(StringArray::from(vec![text(bytes)?])) as ArrayRef,
        Format::Binary => binary(bytes, sent.scalar)?,
    };
    if value.data_type() == expected {
        return Ok(value);
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&value, expected, &options)
        .map_err(|error| PgError::new("22P02", format!("invalid parameter: {error}")))
}

fn text(bytes: &[u8]) -> Result<&str, PgError> {
    std::str::from_utf8(bytes).map_err(|_| PgError::new("22021", "a parameter is not UTF-8"))
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
        ScalarType::Float4 => Arc::new(Float32Array::from(vec![f32::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Float8 => Arc::new(Float64Array::from(vec![f64::from_be_bytes(fixed(bytes)?)])),
        ScalarType::Date => {
            let days = i32::from_be_bytes(fixed(bytes)?).saturating_add(EPOCH_DAYS);
            Arc::new(Date32Array::from(vec![days]))
        }
        ScalarType::Timestamp | ScalarType::Timestamptz => {
            let micros = i64::from_be_bytes(fixed(bytes)?).saturating_add(EPOCH_MICROS);
            let array = TimestampMicrosecondArray::from(vec![micros]);
            Arc::new(
                array.with_timezone_opt((scalar == ScalarType::Timestamptz).then_some("+00:00")),
            )
        }
        ScalarType::Interval | ScalarType::Numeric => {
            return Err(PgError::unsupported("binary parameters of this type are not supported")
                .hint("send it as text, or as a float8"));
        }
    })
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], PgError> {
    bytes.try_into().map_err(|_| {
        PgError::new("22P03", format!("a parameter has {} bytes instead of {N}", bytes.len()))
    })
}
