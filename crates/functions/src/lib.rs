//! SQL functions for logs and addresses that the engine lacks. Each is pure: NULL in, NULL out.

mod address;
mod counter;
mod percentile;
mod phrase;
mod search;
mod sketch;
mod token;
mod top_k;
mod url;

pub use search::SearchRewrite;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, StringArray};
use arrow_schema::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{AggregateUDF, ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::scalar::ScalarValue;

/// All scalar functions; `docs/sql.md` documents them for users.
pub fn all() -> Vec<ScalarUDF> {
    vec![
        token::has_token(),
        phrase::has_phrase(),
        search::search(),
        address::ip_in(),
        address::ip_network(),
        url::url_host(),
        url::url_parameter(),
    ]
}

/// All aggregate functions.
pub fn aggregates() -> Vec<AggregateUDF> {
    vec![
        percentile::percentile(),
        counter::counter_increase(),
        counter::counter_rate(),
        top_k::top_k(),
    ]
}

/// A function of a text and constants: `prepare` parses the constants once per batch and returns
/// the function of each value.
fn of_text<F, T>(
    name: &'static str,
    constants: Vec<DataType>,
    prepare: impl Fn(&[Option<ScalarValue>]) -> Result<F> + Send + Sync + 'static,
) -> ScalarUDF
where
    F: Fn(&str) -> Option<T>,
    T: Cell,
{
    let types = [vec![DataType::Utf8], constants].concat();
    let run = move |args: &[ColumnarValue]| {
        let [text, constants @ ..] = args else { return exec_err!("{name} takes a text") };
        let constants = constants.iter().map(|constant| match constant {
            ColumnarValue::Scalar(value) => Ok((!value.is_null()).then(|| value.clone())),
            ColumnarValue::Array(_) => {
                exec_err!(
                    "only the first argument of {name} may be a column, the others are constants"
                )
            }
        });
        let each = prepare(&constants.collect::<Result<Vec<_>>>()?)?;
        let texts = text.to_array(1)?;
        let answer = T::array(texts.as_string::<i32>().iter().map(|text| text.and_then(&each)));
        Ok(match text {
            ColumnarValue::Scalar(_) => ScalarValue::try_from_array(&answer, 0)?.into(),
            ColumnarValue::Array(_) => ColumnarValue::Array(answer),
        })
    };
    create_udf(name, types, T::TYPE, Volatility::Immutable, Arc::new(run))
}

/// Result type of a function.
trait Cell: Sized {
    const TYPE: DataType;

    fn array(cells: impl Iterator<Item = Option<Self>>) -> ArrayRef;
}

impl Cell for bool {
    const TYPE: DataType = DataType::Boolean;

    fn array(cells: impl Iterator<Item = Option<Self>>) -> ArrayRef {
        Arc::new(cells.collect::<BooleanArray>())
    }
}

impl Cell for String {
    const TYPE: DataType = DataType::Utf8;

    fn array(cells: impl Iterator<Item = Option<Self>>) -> ArrayRef {
        Arc::new(cells.collect::<StringArray>())
    }
}

/// Text of a constant; `None` for NULL.
fn text_of(constant: Option<&Option<ScalarValue>>) -> Option<&str> {
    constant?.as_ref()?.try_as_str().flatten()
}

/// Integer of a constant; `None` for NULL.
fn number_of(constant: Option<&Option<ScalarValue>>) -> Option<i64> {
    match constant?.as_ref()? {
        ScalarValue::Int64(number) => *number,
        _ => None,
    }
}
