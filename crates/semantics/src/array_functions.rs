//! Functions of arrays that the engine lacks, or whose NULLs and empty arrays differ.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;

use crate::row_function::{RowFunction, functions, integer_of};

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    functions(vec![
        RowFunction {
            name: "array_length",
            arity: 1..=2,
            result: |_| Ok(DataType::Int64),
            run: length,
            takes_null: false,
        },
        RowFunction {
            name: "array_upper",
            arity: 2..=2,
            result: |_| Ok(DataType::Int64),
            run: length,
            takes_null: false,
        },
        RowFunction {
            name: "array_lower",
            arity: 2..=2,
            result: |_| Ok(DataType::Int64),
            run: |args, options| {
                let length = length(args, options)?;
                Ok(ScalarValue::Int64((!length.is_null()).then_some(1)))
            },
            takes_null: false,
        },
        RowFunction {
            name: "array_remove",
            arity: 2..=2,
            result: array_type,
            run: remove,
            takes_null: true,
        },
        RowFunction {
            name: "array_replace",
            arity: 3..=3,
            result: array_type,
            run: replace,
            takes_null: true,
        },
        RowFunction {
            name: "equals_any",
            arity: 2..=2,
            result: |_| Ok(DataType::Boolean),
            run: equals_any,
            takes_null: true,
        },
    ])
}

fn array_type(types: &[DataType]) -> Result<DataType> {
    match types.first() {
        Some(DataType::List(item) | DataType::LargeList(item)) => Ok(list_type(item.data_type())),
        Some(DataType::FixedSizeList(item, _)) => Ok(list_type(item.data_type())),
        _ => plan_err!("this takes an array"),
    }
}

fn list_type(item: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item.clone(), true)))
}

/// Elements of an array.
fn items(value: &ScalarValue) -> Option<ArrayRef> {
    match value {
        ScalarValue::List(list) => Some(list.value(0)),
        ScalarValue::LargeList(list) => Some(list.value(0)),
        ScalarValue::FixedSizeList(list) => Some(list.value(0)),
        _ => None,
    }
}

fn elements(value: &ScalarValue) -> Result<Vec<ScalarValue>> {
    let Some(items) = items(value) else { return exec_err!("this takes an array") };
    (0..items.len()).map(|at| ScalarValue::try_from_array(&items, at)).collect()
}

/// Length of one dimension; NULL for that of an empty array, and for one that is not there.
fn length(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let dimension = args.get(1).map_or(Some(1), integer_of).unwrap_or_default();
    let mut array = args.first().and_then(items);
    for _ in 1..dimension {
        let first = array.filter(|array| !array.is_empty());
        let first = first.map(|array| ScalarValue::try_from_array(&array, 0)).transpose()?;
        array = first.as_ref().and_then(items);
    }
    let length = array.map_or(0, |array| array.len());
    let is_there = length > 0 && dimension > 0;
    Ok(ScalarValue::Int64(i64::try_from(length).ok().filter(|_| is_there)))
}

fn remove(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [array, removed] = args else { return exec_err!("array_remove takes two arguments") };
    rebuilt(array, |item| (!is_same(item, removed)).then(|| item.clone()))
}

fn replace(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [array, old, new] = args else { return exec_err!("array_replace takes three arguments") };
    rebuilt(array, |item| Some(if is_same(item, old) { new.clone() } else { item.clone() }))
}

/// Whether two elements are the same; two NULLs are.
fn is_same(one: &ScalarValue, other: &ScalarValue) -> bool {
    if one.is_null() || other.is_null() {
        return one.is_null() && other.is_null();
    }
    other.cast_to(&one.data_type()).is_ok_and(|other| *one == other)
}

/// The array with other elements.
fn rebuilt(
    array: &ScalarValue,
    change: impl Fn(&ScalarValue) -> Option<ScalarValue>,
) -> Result<ScalarValue> {
    let kind = array_type(&[array.data_type()])?;
    if array.is_null() {
        return ScalarValue::try_from(&kind);
    }
    let DataType::List(field) = &kind else { return exec_err!("this takes an array") };
    let all = elements(array)?;
    let changed = all.iter().filter_map(change);
    let changed =
        changed.map(|item| item.cast_to(field.data_type())).collect::<Result<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list(&changed, field.data_type(), true)))
}

/// `value = any(array)`: NULL if no element is equal but one is NULL.
fn equals_any(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [value, array] = args else { return exec_err!("`any` takes a value and an array") };
    if array.is_null() {
        return Ok(ScalarValue::Boolean(None));
    }
    let elements = elements(array)?;
    if elements.is_empty() {
        return Ok(ScalarValue::Boolean(Some(false)));
    }
    if value.is_null() {
        return Ok(ScalarValue::Boolean(None));
    }
    if elements.iter().any(|item| !item.is_null() && is_same(item, value)) {
        return Ok(ScalarValue::Boolean(Some(true)));
    }
    let has_null = elements.iter().any(ScalarValue::is_null);
    Ok(ScalarValue::Boolean((!has_null).then_some(false)))
}
