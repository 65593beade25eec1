//! A scalar function that is evaluated row by row.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::new_empty_array;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::json_functions::{CLIENT_TYPE, ObjectType};

/// Value of one row from its arguments.
pub(crate) type Evaluate = fn(&[ScalarValue], &ConfigOptions) -> Result<ScalarValue>;
/// Type of the result from those of the arguments.
type ResultType = fn(&[DataType]) -> Result<DataType>;

/// A function of one row.
pub(crate) struct RowFunction {
    pub(crate) name: &'static str,
    /// Number of arguments.
    pub(crate) arity: RangeInclusive<usize>,
    pub(crate) result: ResultType,
    /// Called without NULL arguments only, unless `takes_null`.
    pub(crate) run: Evaluate,
    pub(crate) takes_null: bool,
}

impl RowFunction {
    /// A function whose result is NULL if an argument is.
    pub(crate) fn new(
        name: &'static str,
        arity: RangeInclusive<usize>,
        result: ResultType,
        run: Evaluate,
    ) -> Self {
        Self { name, arity, result, run, takes_null: false }
    }
}

/// Builds the functions of this table.
pub(crate) fn functions(table: Vec<RowFunction>) -> Vec<ScalarUDF> {
    table
        .into_iter()
        .map(|function| {
            let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
            let signature = Signature::one_of(any, Volatility::Immutable);
            ScalarUDF::from(EachRow { function, signature })
        })
        .collect()
}

struct EachRow {
    function: RowFunction,
    signature: Signature,
}

impl fmt::Debug for EachRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name)
    }
}

/// Names are unique.
impl PartialEq for EachRow {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for EachRow {}

impl Hash for EachRow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl EachRow {
    fn row(
        &self,
        args: &[ScalarValue],
        result: &DataType,
        options: &ConfigOptions,
    ) -> Result<ScalarValue> {
        if !self.function.takes_null && args.iter().any(ScalarValue::is_null) {
            return ScalarValue::try_from(result);
        }
        (self.function.run)(args, options)
    }
}

impl ScalarUDFImpl for EachRow {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if !self.function.arity.contains(&types.len()) {
            let (name, arity) = (self.function.name, &self.function.arity);
            return plan_err!(
                "{name} takes {} to {} arguments, not {}",
                arity.start(),
                arity.end(),
                types.len()
            );
        }
        (self.function.result)(types)
    }

    /// The result's field says which of PostgreSQL's types a text is.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|arg| arg.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let kinds: Vec<_> = args.arg_fields.iter().map(|arg| ObjectType::of_field(arg)).collect();
        Ok(match ObjectType::of_result(self.name(), &kinds) {
            Some(kind) => {
                let metadata = [(CLIENT_TYPE.to_owned(), kind.name().to_owned())];
                Arc::new(field.with_metadata(metadata.into()))
            }
            None => Arc::new(field),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = &args.config_options;
        let result = args.return_type();
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if is_constant {
            let row = args.args.iter().filter_map(|arg| match arg {
                ColumnarValue::Scalar(value) => Some(value.clone()),
                ColumnarValue::Array(_) => None,
            });
            return Ok(self.row(&row.collect::<Vec<_>>(), result, options)?.into());
        }
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let cells = (0..args.number_rows).map(|at| {
            let row = columns.iter().map(|column| ScalarValue::try_from_array(column, at));
            self.row(&row.collect::<Result<Vec<_>>>()?, result, options)
        });
        let cells = cells.collect::<Result<Vec<_>>>()?;
        if cells.is_empty() {
            return Ok(ColumnarValue::Array(new_empty_array(result)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(cells)?))
    }
}

/// Text of a value in PostgreSQL's form; `None` for NULL.
pub(crate) fn text_of(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Boolean(Some(flag)) => Some(if *flag { "t" } else { "f" }.to_owned()),
        other if other.is_null() => None,
        ScalarValue::Float64(Some(number)) => Some(weir_dialect::double_text(*number)),
        ScalarValue::Float32(Some(number)) => Some(weir_dialect::real_text(*number)),
        other => match other.cast_to(&DataType::Utf8) {
            Ok(ScalarValue::Utf8(text)) => text,
            _ => Some(other.to_string()),
        },
    }
}

/// Integer of a value; `None` for NULL and for what is no number.
pub(crate) fn integer_of(value: &ScalarValue) -> Option<i64> {
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => number,
        _ => None,
    }
}

/// Float of a value; `None` for NULL and for what is no number.
pub(crate) fn float_of(value: &ScalarValue) -> Option<f64> {
    match value.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    }
}

/// Result type of a function of texts.
pub(crate) fn text_type(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Utf8)
}
