//! Texts of values where the engine's differ from PostgreSQL's: times, floats, arrays.

use arrow_array::Array;
use arrow_schema::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_dialect::{array_element_text, decimal_text, double_text, real_text, timestamp_text};

use crate::clock_functions::{is_instant, micros_of, session_zone};
use crate::interval_functions::parts_of;
use crate::row_function::{RowFunction, functions, text_of, text_type};

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    functions(vec![
        RowFunction {
            name: "value_text",
            arity: 1..=1,
            result: text_type,
            run: value_text,
            takes_null: false,
        },
        RowFunction {
            name: "array_to_string",
            arity: 2..=3,
            result: text_type,
            run: joined,
            takes_null: true,
        },
    ])
}

/// Whether PostgreSQL writes values of this type differently.
pub(crate) fn has_own_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Timestamp(..)
            | DataType::Float32
            | DataType::Float64
            | DataType::Time64(_)
            | DataType::Time32(_)
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Decimal128(..)
            | DataType::Interval(_)
            | DataType::Duration(_)
    )
}

fn value_text(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    match args {
        [value] => Ok(ScalarValue::Utf8(text(value, options)?)),
        _ => exec_err!("value_text takes a value"),
    }
}

/// The text of a value as a cast has it; `None` for NULL.
pub(crate) fn text(value: &ScalarValue, options: &ConfigOptions) -> Result<Option<String>> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(match value {
        ScalarValue::Float64(Some(number)) => Some(double_text(*number)),
        ScalarValue::Float32(Some(number)) => Some(real_text(*number)),
        _ => match value.data_type() {
            kind @ DataType::Timestamp(..) => {
                let zone = is_instant(&kind).then(|| session_zone(options)).transpose()?;
                let text =
                    micros_of(value).and_then(|micros| timestamp_text(micros, zone.as_ref()));
                if text.is_none() {
                    return exec_err!("a time is beyond the years that exist");
                }
                text
            }
            DataType::Time32(_) | DataType::Time64(_) => text_of(value).map(|text| {
                if text.contains('.') { text.trim_end_matches('0').to_owned() } else { text }
            }),
            DataType::Decimal128(precision, scale) => {
                text_of(value).map(|text| decimal_text(&text, precision, scale).to_owned())
            }
            DataType::Interval(_) | DataType::Duration(_) => {
                parts_of(value).map(|parts| parts.text())
            }
            _ => match elements(value)? {
                Some(elements) => Some(array_text(&elements, options)?),
                None => text_of(value),
            },
        },
    })
}

/// Elements of a list; `None` for other values.
fn elements(value: &ScalarValue) -> Result<Option<Vec<ScalarValue>>> {
    let items = match value {
        ScalarValue::List(list) => list.value(0),
        ScalarValue::LargeList(list) => list.value(0),
        ScalarValue::FixedSizeList(list) => list.value(0),
        _ => return Ok(None),
    };
    let all = (0..items.len()).map(|at| ScalarValue::try_from_array(&items, at));
    all.collect::<Result<Vec<_>>>().map(Some)
}

/// Text of an array, such as `{1,NULL,"a b"}`.
fn array_text(elements_of: &[ScalarValue], options: &ConfigOptions) -> Result<String> {
    let mut parts = Vec::with_capacity(elements_of.len());
    for element in elements_of {
        let is_list = elements(element)?.is_some();
        parts.push(match text(element, options)? {
            None => "NULL".to_owned(),
            Some(text) if is_list => text,
            Some(text) => array_element_text(&text),
        });
    }
    Ok(format!("{{{}}}", parts.join(",")))
}

/// Elements with a separator; NULLs are left out, or have a given text.
fn joined(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let (Some(list), Some(separator)) = (args.first(), args.get(1).and_then(text_of)) else {
        return Ok(ScalarValue::Utf8(None));
    };
    if list.is_null() {
        return Ok(ScalarValue::Utf8(None));
    }
    let mut parts = Vec::new();
    flatten(list, args.get(2).and_then(text_of).as_deref(), options, &mut parts)?;
    Ok(ScalarValue::Utf8(Some(parts.join(&separator))))
}

fn flatten(
    list: &ScalarValue,
    null: Option<&str>,
    options: &ConfigOptions,
    parts: &mut Vec<String>,
) -> Result<()> {
    let Some(all) = elements(list)? else {
        return exec_err!("array_to_string takes an array");
    };
    for element in &all {
        if !element.is_null() && elements(element)?.is_some() {
            flatten(element, null, options, parts)?;
        } else {
            parts.extend(text(element, options)?.or_else(|| null.map(str::to_owned)));
        }
    }
    Ok(())
}
