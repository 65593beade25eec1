//! An answer on its way: described once, sent whole or in parts.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tokio::io::AsyncWrite;

use crate::Answer;
use crate::encode::{Cells, Format, texts};
use crate::out::{Out, push_text};
use crate::refusal::Refusal;
use crate::types::Type;

/// Rows that are not sent yet.
pub(crate) struct Rows {
    schema: SchemaRef,
    kinds: Vec<Type>,
    formats: Vec<Format>,
    tag: &'static str,
    batches: std::vec::IntoIter<RecordBatch>,
    batch: Option<Batch>,
    sent: usize,
}

struct Batch {
    cells: Vec<Cells>,
    rows: std::ops::Range<usize>,
}

impl Rows {
    /// All as text until something else is said.
    pub(crate) fn new(answer: Answer, tag: &'static str) -> Self {
        let Answer { schema, batches } = answer;
        let kinds: Vec<Type> = kinds(&schema);
        let formats = vec![Format::Text; kinds.len()];
        Self { schema, kinds, formats, tag, batches: batches.into_iter(), batch: None, sent: 0 }
    }

    /// Sends columns as they were described, in the formats that were asked for.
    pub(crate) fn promised(
        mut self,
        kinds: Vec<Type>,
        formats: Vec<Format>,
    ) -> Result<Self, Refusal> {
        if kinds.len() != self.kinds.len() {
            return Err(Refusal::new("0A000", "the answer has other columns than were described"));
        }
        (self.kinds, self.formats) = (kinds, formats);
        Ok(self)
    }

    /// Says what columns there are.
    pub(crate) fn describe<W: AsyncWrite + Unpin>(&self, out: &mut Out<W>) {
        describe(out, &self.schema, &self.formats);
    }

    /// Sends up to `limit` rows, all with 0, and what became of it; whether that was all.
    ///
    /// # Errors
    /// Outer: the connection broke. Inner: a cell cannot be written.
    pub(crate) async fn send<W: AsyncWrite + Unpin>(
        &mut self,
        out: &mut Out<W>,
        limit: usize,
    ) -> io::Result<Result<bool, Refusal>> {
        let mut left = if limit == 0 { usize::MAX } else { limit };
        loop {
            let has_more = match self.advance() {
                Ok(has_more) => has_more,
                Err(refusal) => return Ok(Err(refusal)),
            };
            if !has_more {
                break;
            }
            if left == 0 {
                out.message(b's', |_| {});
                return Ok(Ok(false));
            }
            self.push_row(out);
            left -= 1;
            out.relieve().await?;
        }
        let tag = match self.tag {
            "SELECT" => format!("SELECT {}", self.sent),
            other => other.to_owned(),
        };
        out.complete(&tag);
        Ok(Ok(true))
    }

    /// Sees to it that there is a next row; false at the end.
    fn advance(&mut self) -> Result<bool, Refusal> {
        while self.batch.as_ref().is_none_or(|batch| batch.rows.is_empty()) {
            let Some(batch) = self.batches.next() else { return Ok(false) };
            let columns = batch.columns().iter().zip(&self.kinds);
            let cells =
                columns.map(|(column, kind)| Cells::new(column, *kind)).collect::<Result<_, _>>();
            let cells = cells.map_err(|error| {
                Refusal::new(
                    "22000",
                    format!("a column cannot be sent as it was described: {error}"),
                )
            })?;
            self.batch = Some(Batch { cells, rows: 0..batch.num_rows() });
        }
        Ok(true)
    }

    fn push_row<W: AsyncWrite + Unpin>(&mut self, out: &mut Out<W>) {
        let Some(batch) = &mut self.batch else { return };
        let Some(row) = batch.rows.next() else { return };
        self.sent += 1;
        out.message(b'D', |body| {
            body.extend_from_slice(&count(batch.cells.len()));
            for (column, format) in batch.cells.iter().zip(&self.formats) {
                column.push(body, row, *format);
            }
        });
    }
}

/// Types of the columns.
pub(crate) fn kinds(schema: &Schema) -> Vec<Type> {
    schema.fields().iter().map(|field| Type::from_arrow(field.data_type())).collect()
}

/// Says what columns an answer has.
pub(crate) fn describe<W: AsyncWrite + Unpin>(
    out: &mut Out<W>,
    schema: &Schema,
    formats: &[Format],
) {
    out.message(b'T', |body| {
        body.extend_from_slice(&count(schema.fields().len()));
        for ((field, kind), format) in schema.fields().iter().zip(kinds(schema)).zip(formats) {
            push_text(body, field.name());
            // No table, no column of it: answers are computed.
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

/// The schema of one column of texts.
pub(crate) fn text_column(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]))
}

/// An answer of one text.
pub(crate) fn one_text(name: &str, value: &str) -> Answer {
    let schema = text_column(name);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![texts([value])])
        .expect("one column of one text");
    Answer { schema, batches: vec![batch] }
}
