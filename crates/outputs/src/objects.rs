//! Objects in a bucket: one per batch, JSON lines or Parquet.
//!
//! The name is made of the place of the first row, and a batch that was begun before a restart is made again with the same
//! rows, so a repeat overwrites the same object and every row is in the bucket once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use arrow_array::RecordBatch;

use crate::batch::{Batch, Form};
use crate::target::Pending;

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    JsonLines,
    /// Parquet, zstd.
    Parquet,
}

/// A write on its way.
pub type Put<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// What can write objects and make Parquet of rows.
pub trait Sink: Send {
    /// Writes an object whole, or says why not.
    fn put(&self, name: String, bytes: Vec<u8>) -> Put<'_>;
    /// Rows as a file of Parquet.
    ///
    /// # Errors
    /// Why they cannot be one.
    fn parquet(&self, rows: &[RecordBatch]) -> Result<Vec<u8>, String>;
}

/// A bucket, and how objects are named in it.
pub struct Objects {
    sink: Box<dyn Sink>,
    /// Before the names; empty or ending in `/`.
    prefix: String,
    table: &'static str,
    /// Numbers of the columns that a file of Parquet has.
    columns: Vec<usize>,
    format: Format,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Objects {
    /// Objects `PREFIX TABLE/date=…/NAME`.
    pub fn new(
        sink: Box<dyn Sink>,
        prefix: String,
        table: &'static str,
        columns: Vec<usize>,
        format: Format,
    ) -> Self {
        Self { sink, prefix, table, columns, format }
    }

    pub(crate) fn form(&self) -> Form {
        match self.format {
            Format::JsonLines => Form::Json { has_timestamp: false },
            Format::Parquet => Form::Columns,
        }
    }

    pub(crate) async fn send(&self, batch: &Batch, pending: &mut Pending) -> Result<(), String> {
        let bytes = match self.format {
            Format::JsonLines => batch.lines().to_vec(),
            Format::Parquet => self.sink.parquet(&self.projected(batch)?)?,
        };
        self.sink.put(self.name(batch), bytes).await?;
        pending.copied += pending.docs.len() as u64;
        pending.docs.clear();
        Ok(())
    }

    fn projected(&self, batch: &Batch) -> Result<Vec<RecordBatch>, String> {
        let project = |rows: &RecordBatch| rows.project(&self.columns);
        let rows: Result<Vec<_>, _> = batch.rows.iter().map(project).collect();
        rows.map_err(|error| error.to_string())
    }

    /// By the day of the first row, as tools that read partitions expect it.
    fn name(&self, batch: &Batch) -> String {
        let first = &batch.docs[0];
        let date: String = first.ts.to_string().chars().take(10).collect();
        let end = match self.format {
            Format::JsonLines => "jsonl",
            Format::Parquet => "parquet",
        };
        let (sequence, row) = (first.place.sequence, first.place.row);
        let (prefix, table, epoch) = (&self.prefix, self.table, batch.epoch);
        format!("{prefix}{table}/date={date}/{epoch:016x}-{sequence:012}-{row:07}.{end}")
    }
}
