//! Formats of `/api/sql`: rows are encoded batch by batch, so that no answer is whole in memory.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use serde_json::{Value, json};
use weir_store::{ParquetStream, StoreError};
use weir_tables::unit_of;

use super::cluster::ARROW;
use crate::cells::{Cells, kind_of, plain, push_csv};

/// A format of `/api/sql`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFormat {
    Json,
    Csv,
    Ndjson,
    Arrow,
    Parquet,
}

impl AnswerFormat {
    /// The format with this name; JSON by default.
    pub(super) fn of(name: Option<&str>) -> Option<Self> {
        Some(match name {
            None | Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            Some("ndjson") => Self::Ndjson,
            Some("arrow") => Self::Arrow,
            Some("parquet") => Self::Parquet,
            Some(_) => return None,
        })
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => "application/x-ndjson",
            Self::Arrow => ARROW,
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// Encodes rows. Errors name what this format cannot represent.
pub(super) enum RowEncoder {
    /// Number of rows so far.
    Json(usize),
    Csv,
    /// Names of the columns.
    Ndjson(Vec<String>),
    /// An IPC stream, not compressed: every implementation reads it.
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Parquet(Box<ParquetStream>),
}

impl RowEncoder {
    /// Begins an answer with its head.
    pub(super) fn begin(
        format: AnswerFormat,
        schema: &SchemaRef,
    ) -> Result<(Self, Vec<u8>), String> {
        let names = schema.fields().iter().map(|field| field.name().clone());
        let mut out = Vec::new();
        let encoder = match format {
            AnswerFormat::Json => {
                out = json_head(schema);
                Self::Json(0)
            }
            AnswerFormat::Csv => {
                push_csv(&mut out, names);
                Self::Csv
            }
            AnswerFormat::Ndjson => Self::Ndjson(names.collect()),
            AnswerFormat::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), schema).map_err(not_arrow)?;
                Self::Arrow(Box::new(writer))
            }
            AnswerFormat::Parquet => {
                Self::Parquet(Box::new(ParquetStream::new(schema).map_err(not_parquet)?))
            }
        };
        Ok((encoder, out))
    }

    /// Appends rows to `out`.
    pub(super) fn push(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Arrow(writer) => {
                writer.write(batch).map_err(not_arrow)?;
                out.append(writer.get_mut());
            }
            Self::Parquet(stream) => {
                out.append(&mut stream.write(batch).map_err(not_parquet)?);
            }
            Self::Json(_) | Self::Csv | Self::Ndjson(_) => {
                let cells = Cells::new(batch);
                for row in 0..cells.row_count() {
                    self.push_row(&cells, row, out);
                }
            }
        }
        Ok(())
    }

    fn push_row(&mut self, cells: &Cells, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Json(row_count) => {
                if *row_count > 0 {
                    out.push(b',');
                }
                *row_count += 1;
                cells.push_json(row, out);
            }
            Self::Ndjson(names) => {
                let pairs = names.iter().cloned().zip(cells.row(row));
                push_json(out, &Value::Object(pairs.collect()));
                out.push(b'\n');
            }
            _ => push_csv(out, cells.row(row).map(|cell| plain(&cell))),
        }
    }

    /// Appends the end of the answer to `out`.
    pub(super) fn end(
        self,
        is_truncated: bool,
        elapsed: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self {
            Self::Json(row_count) => out.extend_from_slice(
                format!(
                    "],\"row_count\":{row_count},\"is_truncated\":{is_truncated},\"elapsed_seconds\":{}}}",
                    elapsed.as_secs_f64()
                )
                .as_bytes(),
            ),
            Self::Csv | Self::Ndjson(_) => {}
            Self::Arrow(writer) => out.append(&mut writer.into_inner().map_err(not_arrow)?),
            Self::Parquet(stream) => out.append(&mut stream.finish().map_err(not_parquet)?),
        }
        Ok(())
    }
}

fn json_head(schema: &SchemaRef) -> Vec<u8> {
    let columns = schema.fields().iter().map(|field| {
        json!({
            "name": field.name(),
            "kind": kind_of(field.data_type()),
            "unit": unit_of(field.name()),
        })
    });
    let mut out = b"{\"columns\":".to_vec();
    push_json(&mut out, &Value::Array(columns.collect()));
    out.extend_from_slice(b",\"rows\":[");
    out
}

fn push_json(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}

fn not_arrow(error: ArrowError) -> String {
    format!("cannot write Arrow: {error}")
}

fn not_parquet(error: StoreError) -> String {
    error.message
}
