//! Functions of arrays that the engine lacks, or whose NULLs and empty arrays differ.

use std::cmp::Ordering;
use std::collections::HashSet;
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
    let mut all = functions(of_elements());
    all.extend(functions(of_bounds()));
    all
}

/// Functions that compare or change elements.
fn of_elements() -> Vec<RowFunction> {
    vec![
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
        RowFunction::new("contains_all", 2..=2, contained_type, contains_all),
        RowFunction::new(
            "shares_any",
            2..=2,
            |_| Ok(DataType::Boolean),
            |args, _| Ok(Some(shared(args, true)?).into()),
        ),
        RowFunction::new("round_elements", 1..=1, array_type, round_elements),
        RowFunction::new("trim_array", 2..=2, array_type, trim),
        RowFunction::new("array_order", 2..=2, |_| Ok(DataType::Int32), order),
        RowFunction {
            name: "equals_any",
            arity: 2..=2,
            result: |_| Ok(DataType::Boolean),
            run: equals_any,
            takes_null: true,
        },
    ]
}

/// Functions of dimensions.
fn of_bounds() -> Vec<RowFunction> {
    vec![
        RowFunction::new("array_length", 1..=2, |_| Ok(DataType::Int64), length),
        RowFunction::new("array_upper", 2..=2, |_| Ok(DataType::Int64), length),
        RowFunction::new(
            "array_lower",
            2..=2,
            |_| Ok(DataType::Int64),
            |args, options| {
                let length = length(args, options)?;
                Ok(ScalarValue::Int64((!length.is_null()).then_some(1)))
            },
        ),
        RowFunction::new("array_dims", 1..=1, |_| Ok(DataType::Utf8), dimensions),
    ]
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

pub(crate) fn elements(value: &ScalarValue) -> Result<Vec<ScalarValue>> {
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

/// -1, 0 or 1: whether an array is less than, equal to or greater than another.
fn order(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [one, other] = args else { return exec_err!("array_order takes two arrays") };
    Ok(ScalarValue::Int32(Some(compare_arrays(one, other)? as i32)))
}

fn compare_arrays(one: &ScalarValue, other: &ScalarValue) -> Result<Ordering> {
    let (left, right) = (elements(one)?, elements(other)?);
    for (one, other) in left.iter().zip(&right) {
        let order = match (one.is_null(), other.is_null()) {
            (false, false) if items(one).is_some() => compare_arrays(one, other)?,
            (false, false) => compare_elements(one, other)?,
            // NULL is greater than all else.
            (one, other) => one.cmp(&other),
        };
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(left.len().cmp(&right.len()))
}

fn compare_elements(one: &ScalarValue, other: &ScalarValue) -> Result<Ordering> {
    let order = if one.data_type() == other.data_type() {
        one.partial_cmp(other)
    } else {
        let is_number = one.data_type().is_numeric() && other.data_type().is_numeric();
        let kind = if is_number { DataType::Float64 } else { DataType::Utf8 };
        one.cast_to(&kind)?.partial_cmp(&other.cast_to(&kind)?)
    };
    match order {
        Some(order) => Ok(order),
        None => exec_err!("elements {one} and {other} of arrays have no order"),
    }
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

/// Two arrays, or two texts with JSON.
fn contained_type(types: &[DataType]) -> Result<DataType> {
    let are_lists: Vec<_> =
        types.iter().map(|kind| array_type(std::slice::from_ref(kind)).is_ok()).collect();
    match are_lists.as_slice() {
        [true, false] | [false, true] if !types.iter().any(DataType::is_null) => {
            plan_err!("`@>` takes two arrays or two JSON values: cast the other one to an array")
        }
        _ => Ok(DataType::Boolean),
    }
}

fn contains_all(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [whole, part] = args else { return exec_err!("`@>` takes two values") };
    if items(whole).is_none() {
        return crate::json_functions::contains([whole, part]);
    }
    Ok(Some(shared(&[part.clone(), whole.clone()], false)?).into())
}

/// Whether any, or each, element of the first array is one of the second; NULL is no element.
fn shared(args: &[ScalarValue], needs_any: bool) -> Result<bool> {
    let [searched, array] = args else { return exec_err!("this takes two arrays") };
    let (searched, elements) = (flat(searched)?, flat(array)?);
    let kind = elements.first().map_or(DataType::Null, ScalarValue::data_type);
    let known: HashSet<ScalarValue> = elements.into_iter().filter(|item| !item.is_null()).collect();
    let mut found = searched
        .iter()
        .map(|item| !item.is_null() && item.cast_to(&kind).is_ok_and(|item| known.contains(&item)));
    Ok(if needs_any { found.any(|is_known| is_known) } else { found.all(|is_known| is_known) })
}

/// Elements of all dimensions.
fn flat(value: &ScalarValue) -> Result<Vec<ScalarValue>> {
    let mut all = Vec::new();
    for item in elements(value)? {
        if items(&item).is_some() {
            all.extend(flat(&item)?);
        } else {
            all.push(item);
        }
    }
    Ok(all)
}

/// Bounds of each dimension, such as `[1:2][1:3]`; NULL for an empty array.
fn dimensions(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let Some(array) = args.first() else { return exec_err!("array_dims takes an array") };
    let mut text = String::new();
    for dimension in 1..=6_i64 {
        match length(&[array.clone(), ScalarValue::from(dimension)], options)? {
            ScalarValue::Int64(Some(length)) => text.push_str(&format!("[1:{length}]")),
            _ => break,
        }
    }
    Ok(ScalarValue::Utf8((!text.is_empty()).then_some(text)))
}

/// Floats rounded as in a cast to integers: a half to the even neighbour.
fn round_elements(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let Some(array) = args.first() else { return exec_err!("this takes an array") };
    rebuilt(array, |item| {
        Some(match item {
            ScalarValue::Float64(Some(value)) => ScalarValue::from(value.round_ties_even()),
            ScalarValue::Float32(Some(value)) => ScalarValue::from(value.round_ties_even()),
            other => other.clone(),
        })
    })
}

/// An array without its last elements.
fn trim(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [array, count] = args else { return exec_err!("trim_array takes an array and a number") };
    let all = elements(array)?;
    let count = integer_of(count).and_then(|count| usize::try_from(count).ok());
    let Some(left) = count.and_then(|count| all.len().checked_sub(count)) else {
        return exec_err!("trim_array: the number is not between 0 and {}", all.len());
    };
    let DataType::List(field) = array_type(&[array.data_type()])? else {
        return exec_err!("this takes an array");
    };
    Ok(ScalarValue::List(ScalarValue::new_list(&all[..left], field.data_type(), true)))
}
