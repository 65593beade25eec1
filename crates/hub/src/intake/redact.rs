//! Rows that a protocol makes without lines (OTLP, Loki's structured entries, rejects) without what
//! is to be redacted.
//!
//! Lines are redacted by their parser. Here every text of such a row is, by the configuration and
//! by the pipeline that is for the row's source; a pipeline's conditions are not asked, because
//! they are about lines.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, MapArray, RecordBatch, StringArray, StructArray};
use weir_parse::{Parsers, is_of_the_fleet};
use weir_tables::{Batch, DataKind, LogFormat, LogSource, Program};

/// Tables that hold what people wrote.
const TABLES: [&str; 4] = ["log", "request", "span", "reject"];
/// Columns that say where a row is from, or join it to others.
const PLACES: [&str; 9] = [
    "host",
    "source",
    "tier",
    "parser",
    "reason",
    "repair",
    "trace_id",
    "span_id",
    "parent_span_id",
];

/// A log that came by a protocol, as pipelines match it: by its source.
pub(super) fn source(name: &str) -> LogSource {
    LogSource {
        path: name.into(),
        program: Program::Other,
        format: LogFormat::Auto,
        found_in: "intake".into(),
    }
}

/// The rows as they may be kept.
pub(super) fn cleaned(parsers: &Parsers, batch: Batch) -> Batch {
    if !TABLES.contains(&batch.table.name) || !parsers.redacts() {
        return batch;
    }
    let rows = &batch.rows;
    let sources = rows.column_by_name("source").map(|column| column.as_string::<i32>().clone());
    let cleaner = Cleaner { parsers, sources };
    let columns = batch.table.columns.iter().zip(rows.columns()).map(|(column, cells)| {
        let is_place = PLACES.contains(&column.name) || is_of_the_fleet(column.name);
        match column.kind {
            DataKind::Text if !is_place => cleaner.texts(cells.as_string()),
            DataKind::Attrs => cleaner.attrs(cells.as_map()),
            _ => Arc::clone(cells),
        }
    });
    let rows =
        RecordBatch::try_new(rows.schema(), columns.collect()).expect("the same types and lengths");
    Batch { table: batch.table, rows }
}

struct Cleaner<'a> {
    parsers: &'a Parsers,
    sources: Option<StringArray>,
}

impl Cleaner<'_> {
    fn clean(&self, row: usize, text: &str, out: &mut StringBuilder) {
        let name = self.sources.as_ref().map_or("", |sources| sources.value(row));
        out.append_value(self.parsers.redacted(text, &source(name), name));
    }

    fn texts(&self, cells: &StringArray) -> ArrayRef {
        let mut out = StringBuilder::new();
        for (row, text) in cells.iter().enumerate() {
            match text {
                Some(text) => self.clean(row, text, &mut out),
                None => out.append_null(),
            }
        }
        Arc::new(out.finish())
    }

    fn attrs(&self, cells: &MapArray) -> ArrayRef {
        let values = cells.values().as_string::<i32>();
        let mut out = StringBuilder::new();
        let offsets = cells.value_offsets();
        let first = usize::try_from(offsets[0]).unwrap_or_default();
        (0..first).for_each(|_| out.append_value(""));
        for (row, bounds) in offsets.windows(2).enumerate() {
            for at in bounds[0]..bounds[1] {
                let at = usize::try_from(at).unwrap_or_default();
                if values.is_null(at) {
                    out.append_null()
                } else {
                    self.clean(row, values.value(at), &mut out)
                }
            }
        }
        let last = usize::try_from(offsets[offsets.len() - 1]).unwrap_or_default();
        (last..values.len()).for_each(|_| out.append_value(""));
        let entries = cells.entries();
        let columns = vec![Arc::clone(entries.column(0)), Arc::new(out.finish()) as ArrayRef];
        let entries = StructArray::new(entries.fields().clone(), columns, None);
        let arrow_schema::DataType::Map(field, is_sorted) = cells.data_type() else {
            return Arc::new(cells.clone());
        };
        Arc::new(MapArray::new(
            Arc::clone(field),
            cells.offsets().clone(),
            entries,
            cells.nulls().cloned(),
            *is_sorted,
        ))
    }
}
