//! Encodes maps, structs and nested lists as JSON.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, StringArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use serde_json::{Map, Value};

/// Encodes each cell of a column as JSON.
pub(crate) fn texts(column: &dyn Array) -> Result<StringArray, ArrowError> {
    (0..column.len())
        .map(|row| {
            let cell = value(column, row)?;
            Ok((!cell.is_null()).then(|| cell.to_string()))
        })
        .collect()
}

fn value(column: &dyn Array, row: usize) -> Result<Value, ArrowError> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match column.data_type() {
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pairs = (0..entries.len()).map(|at| Ok((key(keys, at)?, value(values, at)?)));
            Value::Object(pairs.collect::<Result<Map<_, _>, ArrowError>>()?)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            let pairs =
                columns.map(|(field, cells)| Ok((field.name().clone(), value(cells, row)?)));
            Value::Object(pairs.collect::<Result<Map<_, _>, ArrowError>>()?)
        }
        DataType::List(_) => list(&column.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(&column.as_list::<i64>().value(row))?,
        DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
        kind if kind.is_integer() => {
            let number = cast(&column.slice(row, 1), &DataType::Int64)?;
            Value::from(number.as_primitive::<Int64Type>().value(0))
        }
        kind if kind.is_floating() => {
            let number = cast(&column.slice(row, 1), &DataType::Float64)?;
            Value::from(number.as_primitive::<Float64Type>().value(0))
        }
        _ => Value::String(key(column, row)?),
    })
}

fn list(cells: &dyn Array) -> Result<Value, ArrowError> {
    (0..cells.len()).map(|at| value(cells, at)).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn key(column: &dyn Array, row: usize) -> Result<String, ArrowError> {
    let text = cast(&column.slice(row, 1), &DataType::Utf8)?;
    Ok(text.as_string::<i32>().value(0).to_owned())
}
