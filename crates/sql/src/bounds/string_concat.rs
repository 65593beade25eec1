//! `a || b || c` of texts or bytes as one function call, so that the bytes of its result can be bounded, and a chain
//! is not as deep as it is long.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::{GenericBinaryBuilder, GenericStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_schema::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use super::bounded_function::bounded;

const NAME: &str = "string_concat";

/// The function: NULL if an argument is NULL, unlike `concat`.
pub(super) fn string_concat() -> ScalarUDF {
    let function = ScalarUDF::new_from_impl(StringConcat::default());
    bounded(&function).unwrap_or(function)
}

/// The call for `left || right`, which joins the chain in `left`.
pub(super) fn call(left: Expr, right: Expr) -> Expr {
    match left {
        Expr::ScalarFunction(mut call) if call.name() == NAME => {
            call.args.push(right);
            Expr::ScalarFunction(call)
        }
        left => Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(string_concat()),
            vec![left, right],
        )),
    }
}

/// Type of `left || right` if that is a text, or bytes.
pub(super) fn text_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let kind = BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type();
    kind.ok().filter(|kind| {
        is_bytes(kind) || matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    })
}

fn is_bytes(kind: &DataType) -> bool {
    matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StringConcat {
    signature: Signature,
}

impl Default for StringConcat {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for StringConcat {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        for (at, arg) in args.iter().enumerate() {
            let sign = if at == 0 { "" } else { " || " };
            write!(name, "{sign}{}", arg.schema_name())?;
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(kind) => Ok(kind.clone()),
            None => plan_err!("`||` needs two texts"),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [first, others @ ..] = types else { return plan_err!("`||` needs two texts") };
        let mut common = first.clone();
        for other in others {
            common = BinaryTypeCoercer::new(&common, &Operator::StringConcat, other)
                .get_result_type()?;
        }
        Ok(vec![common; types.len()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let kind = args.return_type();
        let plain = match kind {
            DataType::LargeUtf8 | DataType::LargeBinary => kind,
            kind if is_bytes(kind) => &DataType::Binary,
            _ => &DataType::Utf8,
        };
        let texts = args.args.iter().map(|arg| {
            let array = match arg {
                ColumnarValue::Array(array) => Arc::clone(array),
                ColumnarValue::Scalar(scalar) => scalar.to_array()?,
            };
            Ok(arrow_cast::cast(&array, plain)?)
        });
        let texts: Vec<ArrayRef> = texts.collect::<Result<_>>()?;
        let joined = match plain {
            DataType::LargeUtf8 => join::<i64>(&texts, rows)?,
            DataType::LargeBinary => join_bytes::<i64>(&texts, rows)?,
            DataType::Binary => join_bytes::<i32>(&texts, rows)?,
            _ => join::<i32>(&texts, rows)?,
        };
        let joined = arrow_cast::cast(&joined, kind)?;
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?)
        } else {
            ColumnarValue::Array(joined)
        })
    }
}

fn join<O: OffsetSizeTrait>(texts: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let texts: Vec<_> = texts.iter().map(|text| text.as_string::<O>()).collect();
    let bytes =
        bytes_of::<O>(texts.iter().map(|text| (text.len(), text.value_data().len())), rows)?;
    let mut joined = GenericStringBuilder::<O>::with_capacity(rows, bytes);
    for row in 0..rows {
        if texts.iter().any(|text| text.is_null(row_in(*text, row))) {
            joined.append_null();
            continue;
        }
        for text in &texts {
            joined.write_str(text.value(row_in(*text, row)))?;
        }
        joined.append_value("");
    }
    Ok(Arc::new(joined.finish()))
}

fn join_bytes<O: OffsetSizeTrait>(parts: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let parts: Vec<_> = parts.iter().map(|part| part.as_binary::<O>()).collect();
    let bytes =
        bytes_of::<O>(parts.iter().map(|part| (part.len(), part.value_data().len())), rows)?;
    let mut joined = GenericBinaryBuilder::<O>::with_capacity(rows, bytes);
    for row in 0..rows {
        if parts.iter().any(|part| part.is_null(row_in(*part, row))) {
            joined.append_null();
            continue;
        }
        let values = parts.iter().map(|part| part.value(row_in(*part, row)));
        joined.append_value(values.collect::<Vec<_>>().concat());
    }
    Ok(Arc::new(joined.finish()))
}

/// Row of an array with a value for each row, or one for all.
fn row_in(array: &dyn Array, row: usize) -> usize {
    if array.len() == 1 { 0 } else { row }
}

/// Bytes of the result, from length and bytes of each array.
fn bytes_of<O: OffsetSizeTrait>(
    arrays: impl Iterator<Item = (usize, usize)>,
    rows: usize,
) -> Result<usize> {
    let bytes = arrays.map(|(length, bytes)| match length {
        1 => bytes.saturating_mul(rows),
        _ => bytes,
    });
    let bytes = bytes.fold(0_usize, usize::saturating_add);
    match O::from_usize(bytes) {
        Some(_) => Ok(bytes),
        None => exec_err!("`||` would make {bytes} bytes, which is too much for one column"),
    }
}
