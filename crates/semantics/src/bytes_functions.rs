//! Functions of bytes that the engine lacks: digests, single bytes and bits.

use arrow_schema::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

use crate::row_function::{RowFunction, functions, integer_of};

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    functions(vec![
        RowFunction::new("sha256", 1..=1, bytes_type, |args, _| hashed(args, &SHA256)),
        RowFunction::new("sha384", 1..=1, bytes_type, |args, _| hashed(args, &SHA384)),
        RowFunction::new("sha512", 1..=1, bytes_type, |args, _| hashed(args, &SHA512)),
        RowFunction::new("get_byte", 2..=2, number_type, byte_at),
        RowFunction::new("get_bit", 2..=2, number_type, bit_at),
        RowFunction::new("bit_count", 1..=1, |_| Ok(DataType::Int64), ones),
    ])
}

fn is_bytes(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Null
    )
}

fn check(types: &[DataType]) -> Result<()> {
    match types.first() {
        Some(kind) if !is_bytes(kind) => plan_err!("this function takes bytes, not {kind}"),
        _ => Ok(()),
    }
}

fn bytes_type(types: &[DataType]) -> Result<DataType> {
    check(types).map(|()| DataType::Binary)
}

fn number_type(types: &[DataType]) -> Result<DataType> {
    check(types).map(|()| DataType::Int32)
}

/// Bytes of a value, or of a text in UTF-8.
pub(crate) fn bytes_of(value: &ScalarValue) -> Option<&[u8]> {
    match value {
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes)
        | ScalarValue::FixedSizeBinary(_, bytes) => bytes.as_deref(),
        text => text.try_as_str().flatten().map(str::as_bytes),
    }
}

fn first(args: &[ScalarValue]) -> Result<&[u8]> {
    match args.first().and_then(bytes_of) {
        Some(bytes) => Ok(bytes),
        None => exec_err!("this function takes bytes"),
    }
}

fn hashed(args: &[ScalarValue], algorithm: &'static Algorithm) -> Result<ScalarValue> {
    Ok(ScalarValue::Binary(Some(digest(algorithm, first(args)?).as_ref().to_vec())))
}

/// The second argument, if it is below `end`.
fn index(args: &[ScalarValue], end: usize) -> Result<usize> {
    let at = args.get(1).and_then(integer_of);
    match at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < end) {
        Some(at) => Ok(at),
        None => exec_err!("index {} out of valid range, 0..{}", at.unwrap_or(0), end as i64 - 1),
    }
}

fn byte_at(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let bytes = first(args)?;
    Ok(ScalarValue::Int32(Some(i32::from(bytes[index(args, bytes.len())?]))))
}

/// Bits are counted from the lowest of the first byte.
fn bit_at(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let bytes = first(args)?;
    let at = index(args, bytes.len() * 8)?;
    Ok(ScalarValue::Int32(Some(i32::from(bytes[at / 8] >> (at % 8) & 1))))
}

fn ones(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let ones: u32 = first(args)?.iter().map(|byte| byte.count_ones()).sum();
    Ok(ScalarValue::Int64(Some(i64::from(ones))))
}
