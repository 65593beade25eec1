//! Results of parsing: row builders for the three tables of lines, and counts.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use bumpalo::Bump;
use weir_tables::{Batch, DataKind, LogRows, Micros, RejectRows, RequestRows, Rows};

/// Rows of lines, before they become record batches. Each line that is not blank is one row.
///
/// Text columns have 31-bit offsets, so call [`ParsedRows::finish`] well before 1 GiB of lines.
#[derive(Debug, Default)]
pub struct ParsedRows {
    /// Lines that are not requests.
    pub log: LogRows,
    /// Requests as a proxy recorded them.
    pub request: RequestRows,
    /// Lines that could not be parsed, raw.
    pub reject: RejectRows,
    /// Lines seen since the last [`ParsedRows::finish`], blank ones included.
    pub lines: u64,
    /// Lines that needed a repair (column `repair`).
    pub repaired: u64,
    /// Arena for texts of a chunk; here, because there are many parsers and few of these.
    pub(crate) arena: Bump,
}

impl ParsedRows {
    /// The rows as batches, without empty tables; resets rows and counts.
    pub fn finish(&mut self) -> Vec<Batch> {
        (self.lines, self.repaired) = (0, 0);
        let mut batches = Vec::with_capacity(3);
        take(&mut self.request, &mut batches);
        take(&mut self.log, &mut batches);
        take(&mut self.reject, &mut batches);
        batches
    }

    /// Rows of all three tables.
    pub fn row_count(&self) -> usize {
        self.request.len() + self.log.len() + self.reject.len()
    }
}

fn take<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

/// One row as names and texts, for tests of pipelines and for `weir parse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowText {
    /// The table.
    pub table: &'static str,
    /// Byte offset of the line.
    pub source_offset: Option<i64>,
    /// Columns that are not NULL and not empty, in the order of the table, with their kinds.
    pub columns: Vec<(&'static str, DataKind, String)>,
    /// Attributes.
    pub attrs: Vec<(String, String)>,
}

impl RowText {
    /// All rows of batches, in the order of their lines.
    pub fn all(batches: &[Batch]) -> Vec<Self> {
        let mut rows: Vec<Self> = batches
            .iter()
            .flat_map(|batch| (0..batch.rows.num_rows()).map(|row| Self::new(batch, row)))
            .collect();
        rows.sort_by_key(|row| row.source_offset);
        rows
    }

    fn new(batch: &Batch, row: usize) -> Self {
        let mut out = Self { table: batch.table.name, ..Self::default() };
        for (column, array) in batch.table.columns.iter().zip(batch.rows.columns()) {
            if array.is_null(row) {
                continue;
            }
            let text = match column.kind {
                DataKind::Time => {
                    Micros(array.as_primitive::<TimestampMicrosecondType>().value(row)).to_string()
                }
                DataKind::Text => array.as_string::<i32>().value(row).to_owned(),
                DataKind::Int => array.as_primitive::<Int64Type>().value(row).to_string(),
                DataKind::Float => array.as_primitive::<Float64Type>().value(row).to_string(),
                DataKind::Flag => array.as_boolean().value(row).to_string(),
                DataKind::Attrs => {
                    out.attrs = attrs(&batch.rows, row);
                    continue;
                }
            };
            if column.name == "source_offset" {
                out.source_offset = text.parse().ok();
            }
            if !text.is_empty() {
                out.columns.push((column.name, column.kind, text));
            }
        }
        out
    }

    /// The text of a column, or of an attribute as `attrs.NAME`.
    pub fn get(&self, name: &str) -> Option<&str> {
        if let Some((_, _, text)) = self.columns.iter().find(|(column, _, _)| *column == name) {
            return Some(text);
        }
        let name = name.strip_prefix("attrs.")?;
        self.attrs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn attrs(rows: &RecordBatch, row: usize) -> Vec<(String, String)> {
    let Some(column) = rows.column_by_name("attrs") else { return Vec::new() };
    let map = column.as_map().value(row);
    let (keys, values) = (map.column(0).as_string::<i32>(), map.column(1).as_string::<i32>());
    let pairs = keys
        .iter()
        .zip(values)
        .filter_map(|(key, value)| Some((key?.to_owned(), value.unwrap_or_default().to_owned())));
    pairs.collect()
}
