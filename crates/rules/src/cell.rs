//! Answers of SQL as plain rows: a finding keeps a few of them, so they are copied out of Arrow
//! once.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use weir_tables::Micros;

/// The longest text that is kept of one cell, in bytes.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL: not measured.
    Null,
    /// True or false.
    Flag(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// An instant.
    Time(Micros),
    /// Anything else, as text.
    Text(String),
}

impl Cell {
    /// The value as JSON; non-finite floats are `null`, times are RFC 3339.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Flag(flag) => (*flag).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Time(at) => at.to_string().into(),
            Self::Text(text) => text.as_str().into(),
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "for comparing and printing with few digits"
            )]
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// One row of an answer: values with the names of their columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    names: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    /// The value of a column; `None` if the answer has no such column.
    pub fn get(&self, column: &str) -> Option<&Cell> {
        self.names.iter().position(|name| name == column).map(|at| &self.cells[at])
    }

    /// Replaces the value of a column, if the answer has it.
    pub(crate) fn set(&mut self, column: &str, cell: Cell) {
        if let Some(at) = self.names.iter().position(|name| name == column) {
            self.cells[at] = cell;
        }
    }

    /// The text of a column; `None` if it is missing, NULL or no text.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.get(column) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Names and values in the order of the answer.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.names.iter().map(String::as_str).zip(&self.cells)
    }

    /// One JSON object, columns in the order of the answer.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (index, (name, cell)) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&serde_json::Value::from(name).to_string());
            out.push(':');
            out.push_str(&cell.to_json().to_string());
        }
        out.push('}');
        out
    }

    /// Reads what [`Row::to_json`] wrote; times come back as text. `None` for anything but a JSON
    /// object.
    pub fn from_json(value: &serde_json::Value) -> Option<Self> {
        let (names, cells): (Vec<_>, Vec<_>) = value
            .as_object()?
            .iter()
            .map(|(name, value)| {
                let cell = match value {
                    serde_json::Value::Null => Cell::Null,
                    serde_json::Value::Bool(flag) => Cell::Flag(*flag),
                    serde_json::Value::String(text) => Cell::Text(text.clone()),
                    other => match (other.as_i64(), other.as_f64()) {
                        (Some(number), _) => Cell::Int(number),
                        (None, Some(number)) => Cell::Float(number),
                        (None, None) => Cell::Text(other.to_string()),
                    },
                };
                (name.clone(), cell)
            })
            .unzip();
        Some(Self { names: names.into(), cells })
    }
}

/// The rows of an answer, at most `limit`.
pub fn rows_of(answer: &[RecordBatch], limit: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in answer {
        let names: Arc<[String]> =
            batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        for index in 0..batch.num_rows().min(limit.saturating_sub(rows.len())) {
            let cells = batch.columns().iter().map(|column| cell(column.as_ref(), index)).collect();
            rows.push(Row { names: Arc::clone(&names), cells });
        }
    }
    rows
}

fn cell(array: &dyn Array, index: usize) -> Cell {
    if array.is_null(index) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Boolean => Cell::Flag(array.as_boolean().value(index)),
        DataType::Int8 => Cell::Int(array.as_primitive::<Int8Type>().value(index).into()),
        DataType::Int16 => Cell::Int(array.as_primitive::<Int16Type>().value(index).into()),
        DataType::Int32 => Cell::Int(array.as_primitive::<Int32Type>().value(index).into()),
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(index)),
        DataType::UInt8 => Cell::Int(array.as_primitive::<UInt8Type>().value(index).into()),
        DataType::UInt16 => Cell::Int(array.as_primitive::<UInt16Type>().value(index).into()),
        DataType::UInt32 => Cell::Int(array.as_primitive::<UInt32Type>().value(index).into()),
        DataType::UInt64 => {
            let number = array.as_primitive::<UInt64Type>().value(index);
            Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
        }
        DataType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(index).into()),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(index)),
        DataType::Utf8 => text(array.as_string::<i32>().value(index)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(index)),
        DataType::Utf8View => text(array.as_string_view().value(index)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Cell::Time(Micros(array.as_primitive::<TimestampMicrosecondType>().value(index)))
        }
        // What `date_bin` and `now()` make of a time.
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let nanos = array.as_primitive::<TimestampNanosecondType>().value(index);
            Cell::Time(Micros(nanos.div_euclid(1_000)))
        }
        _ => match ArrayFormatter::try_new(array, &FormatOptions::default()) {
            Ok(formatter) => text(&formatter.value(index).to_string()),
            Err(_) => Cell::Null,
        },
    }
}

fn text(value: &str) -> Cell {
    if value.len() <= MAX_TEXT_BYTES {
        return Cell::Text(value.to_owned());
    }
    let cut = (0..=MAX_TEXT_BYTES).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
    Cell::Text(format!("{}…", &value[..cut]))
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Float64Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
        TimestampNanosecondArray,
    };
    use expect_test::expect;

    use super::*;

    #[test]
    fn row_keeps_the_order_of_columns_and_becomes_json() {
        let batch = RecordBatch::try_from_iter([
            ("z", Arc::new(Int64Array::from(vec![Some(7), None])) as Arc<dyn Array>),
            ("a", Arc::new(StringViewArray::from(vec!["x\"y", "ü"]))),
            ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
            ("ts", Arc::new(TimestampMicrosecondArray::from(vec![0, 1]))),
            ("slot", Arc::new(TimestampNanosecondArray::from(vec![0, 1_000]))),
        ])
        .unwrap();
        let rows = rows_of(&[batch], 10);
        let json: Vec<String> = rows.iter().map(Row::to_json).collect();
        expect![[r#"
            {"z":7,"a":"x\"y","f":0.5,"ts":"1970-01-01T00:00:00.000000Z","slot":"1970-01-01T00:00:00.000000Z"}
            {"z":null,"a":"ü","f":null,"ts":"1970-01-01T00:00:00.000001Z","slot":"1970-01-01T00:00:00.000001Z"}"#]]
        .assert_eq(&json.join("\n"));
        let back = Row::from_json(&serde_json::from_str(&json[0]).unwrap()).unwrap();
        assert_eq!(back.get("z"), Some(&Cell::Int(7)));
        assert_eq!(rows_of(&[], 10), []);
    }
}
