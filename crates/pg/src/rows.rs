//! Sends a result: its columns once, its rows at once or in portions.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tokio::io::AsyncWrite;

use crate::QueryResult;
use crate::encode::{ColumnEncoder, Format, texts};
use crate::error::PgError;
use crate::interval::IntervalStyle;
use crate::settings::Setting;
use crate::types::PgType;
use crate::writer::{MessageWriter, push_text};

/// A result, of which rows remain to be sent.
pub(crate) struct RowSender {
    schema: SchemaRef,
    kinds: Vec<PgType>,
    formats: Vec<Format>,
    tag: &'static str,
    batches: std::vec::IntoIter<RecordBatch>,
    batch: Option<CurrentBatch>,
    sent: usize,
    style: IntervalStyle,
}

struct CurrentBatch {
    cells: Vec<ColumnEncoder>,
    rows: std::ops::Range<usize>,
}

impl RowSender {
    /// Sends all columns as text, unless [`Self::with_columns`] changes that.
    pub(crate) fn new(result: QueryResult, tag: &'static str) -> Self {
        let QueryResult { schema, batches } = result;
        let kinds: Vec<PgType> = kinds(&schema);
        let formats = vec![Format::Text; kinds.len()];
        let (batches, style) = (batches.into_iter(), IntervalStyle::default());
        Self { schema, kinds, formats, tag, batches, batch: None, sent: 0, style }
    }

    /// Sends the texts of intervals in this style.
    pub(crate) fn set_interval_style(&mut self, style: IntervalStyle) {
        self.style = style;
    }

    /// Sends columns with the described types, in the requested formats.
    pub(crate) fn with_columns(
        mut self,
        kinds: Vec<PgType>,
        formats: Vec<Format>,
    ) -> Result<Self, PgError> {
        if kinds.len() != self.kinds.len() {
            return Err(PgError::new("0A000", "the result's columns differ from the description"));
        }
        (self.kinds, self.formats) = (kinds, formats);
        Ok(self)
    }

    /// Sends the description of the columns.
    pub(crate) fn describe<W: AsyncWrite + Unpin>(&self, writer: &mut MessageWriter<W>) {
        describe(writer, &self.schema, &self.formats);
    }

    /// Sends up to `limit` rows, or all if it is 0, and the completion or suspension. Returns
    /// whether the result is complete.
    ///
    /// # Errors
    /// Outer: the connection failed. Inner: a cell cannot be encoded.
    pub(crate) async fn send<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut MessageWriter<W>,
        limit: usize,
    ) -> io::Result<Result<bool, PgError>> {
        let mut left = if limit == 0 { usize::MAX } else { limit };
        loop {
            let has_more = match self.advance() {
                Ok(has_more) => has_more,
                Err(error) => return Ok(Err(error)),
            };
            if !has_more {
                break;
            }
            if left == 0 {
                writer.message(b's', |_| {});
                return Ok(Ok(false));
            }
            self.push_row(writer);
            left -= 1;
            writer.flush_if_full().await?;
        }
        let tag = match self.tag {
            tag @ ("SELECT" | "FETCH") => format!("{tag} {}", self.sent),
            other => other.to_owned(),
        };
        writer.complete(&tag);
        Ok(Ok(true))
    }

    /// Passes over rows, as many as there are up to `count`; returns their number.
    pub(crate) fn pass(&mut self, count: usize) -> Result<usize, PgError> {
        let mut passed = 0;
        while passed < count && self.advance()? {
            let Some(batch) = &mut self.batch else { break };
            let here = batch.rows.len().min(count - passed);
            batch.rows.start += here;
            passed += here;
        }
        Ok(passed)
    }

    /// Advances to the next row; false at the end.
    fn advance(&mut self) -> Result<bool, PgError> {
        while self.batch.as_ref().is_none_or(|batch| batch.rows.is_empty()) {
            let Some(batch) = self.batches.next() else { return Ok(false) };
            let columns = batch.columns().iter().zip(&self.kinds);
            let cells = columns
                .map(|(column, kind)| {
                    ColumnEncoder::new(column, *kind).map(|column| column.with_style(self.style))
                })
                .collect::<Result<_, _>>();
            let cells = cells.map_err(|error| {
                PgError::new("22000", format!("cannot encode a column as described: {error}"))
            })?;
            self.batch = Some(CurrentBatch { cells, rows: 0..batch.num_rows() });
        }
        Ok(true)
    }

    fn push_row<W: AsyncWrite + Unpin>(&mut self, writer: &mut MessageWriter<W>) {
        let Some(batch) = &mut self.batch else { return };
        let Some(row) = batch.rows.next() else { return };
        self.sent += 1;
        if batch.cells.len() > usize::from(u16::MAX) {
            return writer.break_off("a result has more than 65535 columns");
        }
        writer.message(b'D', |body| {
            body.extend_from_slice(&count(batch.cells.len()));
            for (column, format) in batch.cells.iter().zip(&self.formats) {
                column.push(body, row, *format);
            }
        });
    }
}

/// PostgreSQL types of the columns.
pub(crate) fn kinds(schema: &Schema) -> Vec<PgType> {
    schema.fields().iter().map(|field| PgType::of_field(field)).collect()
}

/// Sends the description of columns.
pub(crate) fn describe<W: AsyncWrite + Unpin>(
    writer: &mut MessageWriter<W>,
    schema: &Schema,
    formats: &[Format],
) {
    if schema.fields().len() > usize::from(u16::MAX) {
        return writer.break_off("a result has more than 65535 columns");
    }
    writer.message(b'T', |body| {
        body.extend_from_slice(&count(schema.fields().len()));
        for ((field, kind), format) in schema.fields().iter().zip(kinds(schema)).zip(formats) {
            push_text(body, field.name());
            // No table and no column number, since results are computed.
            body.extend_from_slice(&[0; 6]);
            body.extend_from_slice(&kind.oid().to_be_bytes());
            body.extend_from_slice(&kind.size().to_be_bytes());
            body.extend_from_slice(&(-1_i32).to_be_bytes());
            body.extend_from_slice(&u16::from(*format == Format::Binary).to_be_bytes());
        }
    });
}

fn count(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// Schema of a single text column.
pub(crate) fn text_column(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]))
}

/// Result with columns of texts.
pub(crate) fn table_of_texts<const N: usize>(
    names: [&str; N],
    rows: &[[String; N]],
) -> QueryResult {
    let fields = names.map(|name| Field::new(name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let columns = (0..N).map(|at| texts(rows.iter().map(|row| row[at].as_str())));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect());
    QueryResult { schema, batches: vec![batch.expect("columns of equal length")] }
}

/// Result with a single text.
pub(crate) fn one_text(setting: &Setting<'_>) -> QueryResult {
    let schema = text_column(setting.name);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![texts([setting.value])])
        .expect("one column of one text");
    QueryResult { schema, batches: vec![batch] }
}
