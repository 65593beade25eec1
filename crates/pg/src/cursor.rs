//! Cursors of SQL: a result that is kept, and a position in it.
//!
//! ```text
//! position   0     1 … n     n + 1
//!         before   rows      after
//! ```
//!
//! The query runs at `declare`, so a cursor does not change while it is read.

use std::ops::RangeInclusive;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use tokio::io::AsyncWrite;

use crate::QueryResult;
use crate::cursor_statements::{CursorDeclaration, CursorFetch, FetchDirection};
use crate::encode::Format;
use crate::error::PgError;
use crate::rows::{RowSender, kinds};
use crate::session::Session;

/// Limit of open cursors per session: each keeps its result in memory.
const CURSORS_MAX: usize = 32;

/// An open cursor.
pub(crate) struct Cursor {
    result: QueryResult,
    rows: usize,
    position: usize,
    format: Format,
    has_scroll: bool,
    pub(crate) has_hold: bool,
    /// Number of cursors that the session declared before.
    pub(crate) number: u64,
}

/// Rows of a fetch, counted from 1.
struct FetchedRows {
    rows: RangeInclusive<usize>,
    is_backward: bool,
    /// Position after the fetch.
    position: usize,
}

impl Cursor {
    fn new(result: QueryResult, declaration: &CursorDeclaration, number: u64) -> Self {
        let rows = result.batches.iter().map(RecordBatch::num_rows).sum();
        let format = if declaration.is_binary { Format::Binary } else { Format::Text };
        let CursorDeclaration { has_scroll, has_hold, .. } = *declaration;
        Self { result, rows, position: 0, format, has_scroll, has_hold, number }
    }

    /// Names and types of its columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.result.schema
    }

    /// Formats of its columns in a simple query.
    pub(crate) fn formats(&self) -> Vec<Format> {
        vec![self.format; self.schema().fields().len()]
    }

    /// Moves the position, and returns the rows on the way.
    ///
    /// # Errors
    /// `55000` backward with `no scroll`.
    fn advance(&mut self, direction: FetchDirection) -> Result<FetchedRows, PgError> {
        let fetched = self.fetched(direction);
        let is_repeated = !fetched.rows.is_empty() && *fetched.rows.start() <= self.position;
        if !self.has_scroll && (is_repeated || fetched.position < self.position) {
            return Err(PgError::new("55000", "the cursor can only move forward")
                .hint("declare it with `scroll`"));
        }
        self.position = fetched.position;
        Ok(fetched)
    }

    fn fetched(&self, direction: FetchDirection) -> FetchedRows {
        let (here, end) = (self.position, self.rows + 1);
        match direction {
            FetchDirection::Forward(0) => self.one(here),
            FetchDirection::Forward(count) if count < 0 => self.backward(magnitude(count)),
            FetchDirection::Forward(count) => self.forward(magnitude(count)),
            FetchDirection::AllForward => self.forward(usize::MAX),
            FetchDirection::AllBackward => self.backward(usize::MAX),
            FetchDirection::Absolute(at) if at < 0 => self.one(end.saturating_sub(magnitude(at))),
            FetchDirection::Absolute(at) => self.one(magnitude(at)),
            FetchDirection::Relative(by) if by < 0 => self.one(here.saturating_sub(magnitude(by))),
            FetchDirection::Relative(by) => self.one(here.saturating_add(magnitude(by))),
        }
    }

    fn forward(&self, count: usize) -> FetchedRows {
        let position = self.position.saturating_add(count).min(self.rows + 1);
        let rows = self.position + 1..=position.min(self.rows);
        FetchedRows { rows, is_backward: false, position }
    }

    fn backward(&self, count: usize) -> FetchedRows {
        let position = self.position.saturating_sub(count);
        let last = self.position.saturating_sub(1);
        FetchedRows { rows: position.max(1)..=last, is_backward: true, position }
    }

    /// The row at a position, if there is one.
    fn one(&self, at: usize) -> FetchedRows {
        let position = at.min(self.rows + 1);
        // Before the first and after the last row, the range is empty.
        let rows = position.max(1)..=position.min(self.rows);
        FetchedRows { rows, is_backward: false, position }
    }

    /// The fetched rows as batches.
    fn batches(&self, fetched: &FetchedRows) -> Vec<RecordBatch> {
        let (mut found, mut before) = (Vec::new(), 0);
        for batch in &self.result.batches {
            let own = before + 1..=before + batch.num_rows();
            let start = *fetched.rows.start().max(own.start());
            let end = *fetched.rows.end().min(own.end());
            if start <= end {
                found.push(batch.slice(start - before - 1, end + 1 - start));
            }
            before += batch.num_rows();
        }
        if fetched.is_backward {
            let rows = found.iter().rev();
            let rows =
                rows.flat_map(|batch| (0..batch.num_rows()).rev().map(|at| batch.slice(at, 1)));
            return rows.collect();
        }
        found
    }
}

fn magnitude(count: i64) -> usize {
    usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
}

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    /// Runs `declare`: the query, up to its whole result.
    pub(crate) async fn declare(
        &mut self,
        declaration: &CursorDeclaration,
        parameters: Vec<ArrayRef>,
    ) -> Result<(), PgError> {
        let name = &declaration.name;
        if !declaration.has_hold {
            self.transaction.check_open("DECLARE CURSOR")?;
        }
        if self.cursors.contains_key(name) || self.portals.contains_key(name) {
            return Err(PgError::new("42P03", format!("cursor `{name}` already exists")));
        }
        if self.cursors.len() >= CURSORS_MAX {
            let text = format!("the limit of {CURSORS_MAX} cursors is reached");
            return Err(PgError::new("54000", text).hint("close some"));
        }
        let result = self.run_query(&declaration.sql, parameters).await?;
        let cursor = Cursor::new(result, declaration, self.cursor_count);
        self.cursor_count += 1;
        self.cursors.insert(name.clone(), cursor);
        Ok(())
    }

    /// Runs `fetch`.
    pub(crate) fn fetch(&mut self, fetch: &CursorFetch) -> Result<RowSender, PgError> {
        let cursor = self.cursors.get_mut(&fetch.name).ok_or_else(|| no_cursor(&fetch.name))?;
        let fetched = cursor.advance(fetch.direction)?;
        let schema = SchemaRef::clone(cursor.schema());
        let (kinds, formats) = (kinds(&schema), cursor.formats());
        let result = QueryResult { batches: cursor.batches(&fetched), schema };
        RowSender::new(result, "FETCH").with_columns(kinds, formats)
    }

    /// Runs `move`. Returns its tag.
    pub(crate) fn move_cursor(&mut self, fetch: &CursorFetch) -> Result<String, PgError> {
        let cursor = self.cursors.get_mut(&fetch.name).ok_or_else(|| no_cursor(&fetch.name))?;
        Ok(format!("MOVE {}", cursor.advance(fetch.direction)?.rows.count()))
    }

    /// Runs `close`; `None` closes all cursors. Returns its tag.
    pub(crate) fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str, PgError> {
        let Some(name) = name else {
            self.cursors.clear();
            return Ok("CLOSE CURSOR ALL");
        };
        self.cursors.remove(name).ok_or_else(|| no_cursor(name))?;
        Ok("CLOSE CURSOR")
    }
}

pub(crate) fn no_cursor(name: &str) -> PgError {
    PgError::new("34000", format!("there is no cursor `{name}`"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    /// A cursor over 1 to 5, in two batches.
    fn cursor(has_scroll: bool) -> Cursor {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let batches = [vec![1, 2, 3], vec![4, 5]].map(|numbers| {
            RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(numbers))]).unwrap()
        });
        let declaration = CursorDeclaration {
            name: "c".into(),
            is_binary: false,
            has_scroll,
            has_hold: false,
            sql: String::new(),
        };
        Cursor::new(QueryResult { schema, batches: batches.to_vec() }, &declaration, 0)
    }

    fn rows(cursor: &mut Cursor, direction: FetchDirection) -> Vec<i64> {
        let fetched = cursor.advance(direction).expect("it scrolls");
        let batches = cursor.batches(&fetched);
        let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
        columns.flat_map(|column| (0..column.len()).map(|at| column.value(at))).collect()
    }

    #[test]
    fn each_direction_returns_its_rows_and_moves_the_position() {
        use FetchDirection::*;
        let mut cursor = cursor(true);
        // As PostgreSQL 15 answers, one after the other.
        for (direction, expected) in [
            (Forward(2), &[1, 2][..]),
            (Forward(0), &[2]),
            (Forward(2), &[3, 4]),
            (Forward(-2), &[3, 2]),
            (AllForward, &[3, 4, 5]),
            (Forward(1), &[]),
            (Forward(-1), &[5]),
            (Absolute(2), &[2]),
            (Relative(2), &[4]),
            (Relative(-3), &[1]),
            (Absolute(-1), &[5]),
            (AllBackward, &[4, 3, 2, 1]),
            (Forward(-1), &[]),
            (Absolute(9), &[]),
            (Forward(-9), &[5, 4, 3, 2, 1]),
            (Absolute(0), &[]),
            (Relative(0), &[]),
            (Forward(i64::MAX), &[1, 2, 3, 4, 5]),
        ] {
            assert_eq!(rows(&mut cursor, direction), expected, "{direction:?}");
        }
    }

    #[test]
    fn a_cursor_without_scroll_only_moves_forward() {
        use FetchDirection::*;
        let mut cursor = cursor(false);
        assert_eq!(rows(&mut cursor, Absolute(2)), [2]);
        for direction in [Forward(-1), Forward(0), Absolute(1), Relative(-1), AllBackward] {
            let refused = cursor.advance(direction).err().expect("backward");
            assert_eq!(refused.state, "55000", "{direction:?}");
        }
        assert_eq!(rows(&mut cursor, Relative(1)), [3]);
    }
}
