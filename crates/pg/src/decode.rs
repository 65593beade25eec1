//! Parameters that clients send, as text or binary, to values of the engine.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;

use crate::encode::Format;
use crate::refusal::Refusal;
use crate::types::{Scalar, Type};

/// Microseconds and days from 1970 to 2000.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;

/// A parameter as an array of one value of type `wanted`; `sent` says what the client takes it for.
///
/// # Errors
/// `22P02` when the text does not read as that, `22P03` when the bytes do not, `0A000` for types that are not read here.
pub(crate) fn parameter(
    bytes: Option<&[u8]>,
    format: Format,
    sent: Type,
    wanted: &DataType,
) -> Result<ArrayRef, Refusal> {
    let Some(bytes) = bytes else { return Ok(new_null_array(wanted, 1)) };
    if sent.is_array {
        return Err(Refusal::unsupported("cannot take an array as a parameter")
            .hint("send one text and take it apart: `= any(string_to_array($1, ','))`"));
    }
    let value = match format {
        Format::Text => Arc::new(StringArray::from(vec![text(bytes)?])) as ArrayRef,
        Format::Binary => binary(bytes, sent.scalar)?,
    };
    if value.data_type() == wanted {
        return Ok(value);
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&value, wanted, &options)
        .map_err(|error| Refusal::new("22P02", format!("cannot read a parameter: {error}")))
}

fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::new("22021", "a parameter is not UTF-8"))
}

fn binary(bytes: &[u8], scalar: Scalar) -> Result<ArrayRef, Refusal> {
    Ok(match scalar {
        Scalar::Bool => Arc::new(BooleanArray::from(vec![fixed::<1>(bytes)?[0] != 0])),
        Scalar::Bytea => Arc::new(BinaryArray::from(vec![bytes])),
        Scalar::Int2 => Arc::new(Int16Array::from(vec![i16::from_be_bytes(fixed(bytes)?)])),
        Scalar::Int4 => Arc::new(Int32Array::from(vec![i32::from_be_bytes(fixed(bytes)?)])),
        Scalar::Int8 => Arc::new(Int64Array::from(vec![i64::from_be_bytes(fixed(bytes)?)])),
        Scalar::Oid => {
            Arc::new(Int64Array::from(vec![i64::from(u32::from_be_bytes(fixed(bytes)?))]))
        }
        Scalar::Text | Scalar::Json => Arc::new(StringArray::from(vec![text(bytes)?])),
        Scalar::Float4 => Arc::new(Float32Array::from(vec![f32::from_be_bytes(fixed(bytes)?)])),
        Scalar::Float8 => Arc::new(Float64Array::from(vec![f64::from_be_bytes(fixed(bytes)?)])),
        Scalar::Date => {
            let days = i32::from_be_bytes(fixed(bytes)?).saturating_add(EPOCH_DAYS);
            Arc::new(Date32Array::from(vec![days]))
        }
        Scalar::Timestamp | Scalar::Timestamptz => {
            let micros = i64::from_be_bytes(fixed(bytes)?).saturating_add(EPOCH_MICROS);
            let array = TimestampMicrosecondArray::from(vec![micros]);
            Arc::new(array.with_timezone_opt((scalar == Scalar::Timestamptz).then_some("+00:00")))
        }
        Scalar::Interval | Scalar::Numeric => {
            return Err(Refusal::unsupported("cannot take this type as a binary parameter")
                .hint("send it as text, or as a float8"));
        }
    })
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Refusal> {
    bytes.try_into().map_err(|_| {
        Refusal::new("22P03", format!("a parameter has {} bytes instead of {N}", bytes.len()))
    })
}
