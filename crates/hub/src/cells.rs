//! Cells of an answer as JSON and CSV: one place that decides how a value is written, for the API
//! and the commands.
//!
//! Times are RFC 3339 in UTC with microseconds whatever the unit of the Arrow type; floats that are
//! not finite are null, since JSON has no word for them.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use serde_json::{Map, Number, Value};
use weir_tables::Micros;

/// The columns of one batch, ready to be read cell by cell.
pub struct Cells {
    columns: Vec<Column>,
    row_count: usize,
}

enum Column {
    Null,
    Int(PrimitiveArray<Int64Type>),
    Unsigned(PrimitiveArray<UInt64Type>),
    Float(PrimitiveArray<Float64Type>),
    Flag(BooleanArray),
    Text(StringArray),
    Time(PrimitiveArray<TimestampMicrosecondType>),
    Map(ArrayRef),
    List(ArrayRef),
    Struct(ArrayRef),
    Other(ArrayRef),
}

/// The word of `docs/api.md` for what a column holds.
pub fn kind_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => "timestamp",
        DataType::Boolean => "boolean",
        DataType::Map(..) | DataType::Struct(_) => "map",
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => "list",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "float",
        DataType::Dictionary(_, value) => kind_of(value),
        kind if kind.is_integer() => "integer",
        kind if kind.is_floating() => "float",
        _ => "text",
    }
}

impl Cells {
    /// The cells of a batch.
    pub fn new(batch: &RecordBatch) -> Self {
        Self {
            columns: batch.columns().iter().map(readable).collect(),
            row_count: batch.num_rows(),
        }
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Appends one row as a JSON array: what [`Cells::row`] says, without building it first.
    pub fn push_json(&self, row: usize, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            column.push_json(row, out);
        }
        out.push(b']');
    }

    /// One row, left to right.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Value> + '_ {
        self.columns.iter().map(move |column| column.value(row))
    }
}

fn readable(array: &ArrayRef) -> Column {
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let column = match kind_of(array.data_type()) {
        "timestamp" => as_type(array, &micros).map(|a| Column::Time(a.as_primitive().clone())),
        "boolean" => {
            as_type(array, &DataType::Boolean).map(|a| Column::Flag(a.as_boolean().clone()))
        }
        "float" => {
            as_type(array, &DataType::Float64).map(|a| Column::Float(a.as_primitive().clone()))
        }
        "integer" if *array.data_type() == DataType::UInt64 => {
            Some(Column::Unsigned(array.as_primitive().clone()))
        }
        "integer" => {
            as_type(array, &DataType::Int64).map(|a| Column::Int(a.as_primitive().clone()))
        }
        "text" if *array.data_type() == DataType::Null => Some(Column::Null),
        "text" if array.data_type().is_string() || is_text_dictionary(array.data_type()) => {
            as_type(array, &DataType::Utf8).map(|a| Column::Text(a.as_string().clone()))
        }
        "map" if matches!(array.data_type(), DataType::Map(..)) => Some(Column::Map(array.clone())),
        "map" => Some(Column::Struct(array.clone())),
        "list" if matches!(array.data_type(), DataType::List(_)) => {
            Some(Column::List(array.clone()))
        }
        _ => None,
    };
    column.unwrap_or_else(|| Column::Other(array.clone()))
}

fn as_type(array: &ArrayRef, data_type: &DataType) -> Option<ArrayRef> {
    cast(array, data_type).ok()
}

fn is_text_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, value) if value.is_string())
}

impl Column {
    fn value(&self, row: usize) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Int(cells) => present(cells, row, || cells.value(row).into()),
            Self::Unsigned(cells) => present(cells, row, || cells.value(row).into()),
            Self::Float(cells) => present(cells, row, || {
                Number::from_f64(cells.value(row)).map_or(Value::Null, Value::Number)
            }),
            Self::Flag(cells) => present(cells, row, || cells.value(row).into()),
            Self::Text(cells) => present(cells, row, || cells.value(row).into()),
            Self::Time(cells) => {
                present(cells, row, || Micros(cells.value(row)).to_string().into())
            }
            Self::Map(cells) => present(cells, row, || map_value(&cells.as_map().value(row))),
            Self::Struct(cells) => present(cells, row, || struct_value(cells, row)),
            Self::List(cells) => {
                present(cells, row, || list_value(&cells.as_list::<i32>().value(row)))
            }
            Self::Other(cells) => present(cells, row, || shown(cells, row)),
        }
    }

    fn push_json(&self, row: usize, out: &mut Vec<u8>) {
        let is_null = match self {
            Self::Int(cells) => cells.is_null(row),
            Self::Text(cells) => cells.is_null(row),
            Self::Time(cells) => cells.is_null(row),
            Self::Null => true,
            _ => false,
        };
        let written = match self {
            _ if is_null => out.write_all(b"null"),
            // Faster than formatting.
            Self::Int(cells) => serde_json::to_writer(out, &cells.value(row)).map_err(Into::into),
            Self::Time(cells) => write!(out, "\"{}\"", Micros(cells.value(row))),
            Self::Text(cells) => serde_json::to_writer(out, cells.value(row)).map_err(Into::into),
            other => serde_json::to_writer(out, &other.value(row)).map_err(Into::into),
        };
        written.expect("writing to memory does not fail");
    }
}

fn present(array: &dyn Array, row: usize, value: impl FnOnce() -> Value) -> Value {
    if array.is_null(row) { Value::Null } else { value() }
}

fn map_value(entries: &arrow_array::StructArray) -> Value {
    let (keys, values) = (readable(entries.column(0)), readable(entries.column(1)));
    let pairs = (0..entries.len()).map(|at| {
        let key = match keys.value(at) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        (key, values.value(at))
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn struct_value(cells: &ArrayRef, row: usize) -> Value {
    let fields = cells.as_struct();
    let pairs = fields
        .fields()
        .iter()
        .zip(fields.columns())
        .map(|(field, column)| (field.name().clone(), readable(column).value(row)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn list_value(items: &ArrayRef) -> Value {
    let cells = readable(items);
    Value::Array((0..items.len()).map(|at| cells.value(at)).collect())
}

fn shown(cells: &ArrayRef, row: usize) -> Value {
    ArrayFormatter::try_new(cells.as_ref(), &FormatOptions::default())
        .map_or(Value::Null, |formatter| formatter.value(row).to_string().into())
}

/// A cell as text, for CSV and tables; null is empty.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Appends one CSV record (RFC 4180, lines end in LF as every Unix tool expects).
pub fn push_csv(out: &mut Vec<u8>, cells: impl Iterator<Item = String>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if cell.contains(['"', ',', '\n', '\r']) {
            out.push(b'"');
            out.extend_from_slice(cell.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        } else {
            out.extend_from_slice(cell.as_bytes());
        }
    }
    out.push(b'\n');
}

/// RFC 3339 as weir writes it (`2026-11-20T12:21:00.000000Z`) back to an instant.
pub fn parse_time(text: &str) -> Option<Micros> {
    let zoned = arrow_cast::parse::string_to_timestamp_nanos(text).ok()?;
    Some(Micros(zoned.div_euclid(1000)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
        TimestampNanosecondArray, UInt64Array,
    };
    use expect_test::expect;
    use weir_tables::{Log, LogRows, Micros, Rows};

    use super::{Cells, kind_of, parse_time, push_csv};

    fn check(batch: &RecordBatch, expected: &expect_test::Expect) {
        let cells = Cells::new(batch);
        let rows: Vec<serde_json::Value> =
            (0..cells.row_count()).map(|row| cells.row(row).collect()).collect();
        let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
        for (row, text) in text.iter().enumerate() {
            let mut out = Vec::new();
            cells.push_json(row, &mut out);
            assert_eq!(&String::from_utf8(out).expect("text"), text);
        }
        expected.assert_eq(&text.join("\n"));
    }

    #[test]
    fn every_kind_has_one_way_to_be_written() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("ts", Arc::new(TimestampNanosecondArray::from(vec![Some(1_500), None]))),
            ("i", Arc::new(Int64Array::from(vec![Some(-1), None]))),
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
            ("f", Arc::new(Float64Array::from(vec![f64::NAN, 0.5]))),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("t", Arc::new(StringViewArray::from(vec![Some("ä\n"), None]))),
        ];
        check(
            &RecordBatch::try_from_iter(columns).expect("columns of one length"),
            &expect![[r#"
                ["1970-01-01T00:00:00.000001Z",-1,18446744073709551615,null,true,"ä\n"]
                [null,null,0,0.5,null,null]"#]],
        );
    }

    #[test]
    fn attrs_are_an_object() {
        let mut rows = LogRows::default();
        rows.push(&Log { ts: Micros(1), attrs: &[("a", "1"), ("b", "2")], ..Default::default() });
        let batch = rows.finish();
        let at = batch.schema().index_of("attrs").expect("in the spec");
        check(&batch.project(&[at]).expect("a column"), &expect![[r#"[{"a":"1","b":"2"}]"#]]);
        assert_eq!(kind_of(batch.column(at).data_type()), "map");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let mut out = Vec::new();
        push_csv(&mut out, ["a", "b,c", "say \"hi\"", ""].into_iter().map(str::to_owned));
        assert_eq!(String::from_utf8(out).expect("text"), "a,\"b,c\",\"say \"\"hi\"\"\",\n");
    }

    #[test]
    fn times_read_back_as_written() {
        for micros in [0, 1_795_178_460_000_001, -1] {
            assert_eq!(parse_time(&Micros(micros).to_string()), Some(Micros(micros)));
        }
        assert_eq!(parse_time("yesterday"), None);
    }
}
