//! Rows as JSON objects: column names as keys, times as RFC 3339 in UTC with microseconds.
//!
//! NULL is left out, and so are numbers that JSON cannot represent (NaN, infinity). A key that
//! occurs twice in `attrs` is written once, because Elasticsearch refuses duplicates.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, BooleanArray, Float64Array, Int64Array, MapArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use weir_tables::{DataKind, Micros, TableSpec};

/// Encodes chosen columns of a table.
#[derive(Debug)]
pub(crate) struct RowEncoder {
    columns: Vec<EncodedColumn>,
    /// Whether `ts` is also written as `@timestamp`, as Elasticsearch's data streams require.
    has_timestamp: bool,
}

#[derive(Debug)]
struct EncodedColumn {
    index: usize,
    /// The key with quotes and colon.
    key: Vec<u8>,
    kind: DataKind,
}

impl RowEncoder {
    /// An encoder of these columns of the table.
    pub(crate) fn new(table: &TableSpec, columns: &[usize], has_timestamp: bool) -> Self {
        let columns = columns.iter().map(|index| {
            let column = &table.columns[*index];
            let key = format!("\"{}\":", column.name).into_bytes();
            EncodedColumn { index: *index, key, kind: column.kind }
        });
        Self { columns: columns.collect(), has_timestamp }
    }

    /// A writer of rows of `batch`, which has the table's schema.
    pub(crate) fn writer<'a>(&'a self, batch: &'a RecordBatch) -> RowWriter<'a> {
        let cells = self.columns.iter().map(|column| {
            (column.key.as_slice(), ColumnCells::new(batch, column.index, column.kind))
        });
        let ts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        RowWriter { cells: cells.collect(), ts: self.has_timestamp.then_some(ts) }
    }
}

/// Writes rows of one batch.
pub(crate) struct RowWriter<'a> {
    cells: Vec<(&'a [u8], ColumnCells<'a>)>,
    ts: Option<&'a TimestampMicrosecondArray>,
}

enum ColumnCells<'a> {
    Time(&'a TimestampMicrosecondArray),
    Text(&'a StringArray),
    Int(&'a Int64Array),
    Float(&'a Float64Array),
    Flag(&'a BooleanArray),
    Attrs(&'a MapArray),
}

impl<'a> ColumnCells<'a> {
    fn new(batch: &'a RecordBatch, index: usize, kind: DataKind) -> Self {
        let column = batch.column(index);
        match kind {
            DataKind::Time => Self::Time(column.as_primitive()),
            DataKind::Text => Self::Text(column.as_string()),
            DataKind::Int => Self::Int(column.as_primitive::<Int64Type>()),
            DataKind::Float => Self::Float(column.as_primitive::<Float64Type>()),
            DataKind::Flag => Self::Flag(column.as_boolean()),
            DataKind::Attrs => Self::Attrs(column.as_map()),
        }
    }

    /// Whether the row has a value to write.
    fn has_value(&self, row: usize) -> bool {
        match self {
            Self::Time(column) => column.is_valid(row),
            Self::Text(column) => column.is_valid(row),
            Self::Int(column) => column.is_valid(row),
            Self::Float(column) => column.is_valid(row) && column.value(row).is_finite(),
            Self::Flag(column) => column.is_valid(row),
            Self::Attrs(column) => column.is_valid(row) && column.value_length(row) > 0,
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Time(column) => push_time(Micros(column.value(row)), out),
            Self::Text(column) => push_text(column.value(row), out),
            Self::Int(column) => drop(write!(out, "{}", column.value(row))),
            Self::Float(column) => drop(serde_json::to_writer(out, &column.value(row))),
            Self::Flag(column) => drop(write!(out, "{}", column.value(row))),
            Self::Attrs(column) => push_attrs(column, row, out),
        }
    }
}

impl RowWriter<'_> {
    /// Writes one row as an object, without a newline.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        let start = out.len();
        if let Some(ts) = self.ts {
            out.extend_from_slice(b"\"@timestamp\":");
            push_time(Micros(ts.value(row)), out);
        }
        for (key, cells) in &self.cells {
            if cells.has_value(row) {
                if out.len() > start {
                    out.push(b',');
                }
                out.extend_from_slice(key);
                cells.write(row, out);
            }
        }
        out.push(b'}');
    }
}

fn push_time(time: Micros, out: &mut Vec<u8>) {
    let _ = write!(out, "\"{time}\"");
}

/// Writing to memory does not fail.
fn push_text(value: &str, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

fn push_attrs(column: &MapArray, row: usize, out: &mut Vec<u8>) {
    let (keys, values) = (column.keys().as_string::<i32>(), column.values().as_string::<i32>());
    let [start, end] = [row, row + 1]
        .map(|at| usize::try_from(column.value_offsets()[at]).expect("offsets are not negative"));
    let entries = start..end;
    out.push(b'{');
    let start = out.len();
    for at in entries.clone() {
        let is_repeated = (entries.start..at).any(|other| keys.value(other) == keys.value(at));
        if is_repeated || values.is_null(at) {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        push_text(keys.value(at), out);
        out.push(b':');
        push_text(values.value(at), out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::{Log, LogRows, Metric, MetricRows, Micros, Rows};

    use super::*;

    fn lines(table: &TableSpec, columns: &[usize], batch: &RecordBatch, has_ts: bool) -> String {
        let encoder = RowEncoder::new(table, columns, has_ts);
        let mut out = Vec::new();
        for row in 0..batch.num_rows() {
            encoder.writer(batch).write(row, &mut out);
            out.push(b'\n');
        }
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn rows_are_objects_without_null() {
        let mut rows = LogRows::default();
        rows.push(&Log {
            ts: Micros(1_709_210_096_000_005),
            host: "web1",
            body: "a \"quoted\"\nline \u{1}",
            process_id: Some(7),
            attrs: &[("a", "1"), ("b", "ö"), ("a", "2")],
            ..Default::default()
        });
        rows.push(&Log { ts: Micros(0), host: "web2", body: "", ..Default::default() });
        let batch = rows.finish();
        let wanted = ["ts", "host", "body", "process_id", "attrs"];
        let columns: Vec<usize> = wanted
            .iter()
            .map(|name| Log::SPEC.columns.iter().position(|column| column.name == *name).unwrap())
            .collect();
        expect![[r#"
            {"@timestamp":"2024-02-29T12:34:56.000005Z","ts":"2024-02-29T12:34:56.000005Z","host":"web1","body":"a \"quoted\"\nline \u0001","process_id":7,"attrs":{"a":"1","b":"ö"}}
            {"@timestamp":"1970-01-01T00:00:00.000000Z","ts":"1970-01-01T00:00:00.000000Z","host":"web2","body":""}
        "#]]
        .assert_eq(&lines(&Log::SPEC, &columns, &batch, true));
    }

    #[test]
    fn numbers_that_json_cannot_represent_are_left_out_and_slices_are_respected() {
        let mut rows = MetricRows::default();
        for value in [f64::NAN, 1.5, f64::INFINITY] {
            let labels = [("le", "0.1")];
            rows.push(&Metric {
                name: "m",
                value: Some(value),
                labels: &labels,
                ..Default::default()
            });
        }
        let batch = rows.finish();
        let columns: Vec<usize> = ["name", "labels", "value"]
            .iter()
            .map(|name| Metric::SPEC.columns.iter().position(|one| one.name == *name).unwrap())
            .collect();
        expect![[r#"
            {"name":"m","labels":{"le":"0.1"},"value":1.5}
            {"name":"m","labels":{"le":"0.1"}}
        "#]]
        .assert_eq(&lines(&Metric::SPEC, &columns, &batch.slice(1, 2), false));
    }
}
