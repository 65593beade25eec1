//! A batch: rows with their places in the log, as JSON lines or as columns, from one position to another.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use weir_tables::{CopiedRows, LogPosition, Micros};

use crate::json::Encoder;
use crate::output::Limits;

/// What a target wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A JSON object for each row; whether it has `@timestamp`.
    Json { has_timestamp: bool },
    /// Columns.
    Columns,
}

/// One row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doc {
    pub(crate) place: LogPosition,
    pub(crate) ts: Micros,
    /// Into [`Batch::hosts`].
    host: usize,
    /// Where its JSON ends in [`Batch::text`]; the line's end follows.
    end: usize,
}

/// Rows to be sent together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// With a place, the name of a row.
    pub(crate) epoch: u64,
    pub(crate) docs: Vec<Doc>,
    /// JSON lines; empty for columns.
    text: Vec<u8>,
    hosts: Vec<String>,
    /// Columns; empty for JSON.
    pub(crate) rows: Vec<RecordBatch>,
    /// Bytes of `rows`.
    column_bytes: usize,
    /// What is sent with it: everything before.
    pub(crate) to: LogPosition,
}

impl Batch {
    /// An empty one that begins at `from`.
    pub(crate) fn new(epoch: u64, from: LogPosition) -> Self {
        Self { epoch, to: from, ..Self::default() }
    }

    /// JSON of one row.
    pub(crate) fn json(&self, doc: usize) -> &[u8] {
        let start = doc.checked_sub(1).map_or(0, |before| self.docs[before].end + 1);
        &self.text[start..self.docs[doc].end]
    }

    /// All rows as JSON lines.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.text
    }

    /// The host of one row.
    pub(crate) fn host(&self, doc: usize) -> &str {
        &self.hosts[self.docs[doc].host]
    }

    /// The name of one row: the same for every attempt, and no other row's.
    pub(crate) fn id(&self, doc: usize) -> String {
        format!("{:016x}-{}", self.epoch, self.docs[doc].place)
    }

    /// Bytes as they are sent, about.
    pub(crate) fn byte_count(&self) -> usize {
        self.text.len() + self.column_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.docs.is_empty()
    }

    /// Adds rows until a limit is reached or, with `until`, exactly up to there; gives what is left over.
    pub(crate) fn fill(
        &mut self,
        mut piece: CopiedRows,
        how: &Filling<'_>,
    ) -> (Option<CopiedRows>, bool) {
        let total = piece.places.len();
        let taken = self.take(&piece, how);
        if taken < total {
            self.to = piece.places[taken];
            let rest = taken..total;
            piece.rows = piece.rows.slice(rest.start, rest.len());
            piece.places.drain(..taken);
            return (Some(piece), true);
        }
        self.to = piece.next;
        let is_full = how.until.map_or_else(|| self.is_over(how.limits), |until| self.to >= until);
        (None, is_full)
    }

    fn take(&mut self, piece: &CopiedRows, how: &Filling<'_>) -> usize {
        let fits = |place: &LogPosition| how.until.is_none_or(|until| *place < until);
        let fitting = piece.places.iter().take_while(|place| fits(place)).count();
        let ts = piece.rows.column(0).as_primitive::<TimestampMicrosecondType>();
        let hosts = piece.rows.column(1).as_string::<i32>();
        let writer = how.encoder.map(|encoder| encoder.over(&piece.rows));
        let row_bytes = row_bytes(&piece.rows);
        let mut taken = 0;
        while taken < fitting && (how.until.is_some() || !self.is_over(how.limits)) {
            if let Some(writer) = &writer {
                writer.write(taken, &mut self.text);
            } else {
                self.column_bytes += row_bytes;
            }
            let end = self.text.len();
            if writer.is_some() {
                self.text.push(b'\n');
            }
            let host = self.host_number(hosts.value(taken));
            self.docs.push(Doc {
                place: piece.places[taken],
                ts: Micros(ts.value(taken)),
                host,
                end,
            });
            taken += 1;
        }
        if writer.is_none() && taken > 0 {
            self.rows.push(piece.rows.slice(0, taken));
        }
        taken
    }

    fn host_number(&mut self, host: &str) -> usize {
        if let Some(at) = self.hosts.iter().rposition(|known| known == host) {
            return at;
        }
        self.hosts.push(host.to_owned());
        self.hosts.len() - 1
    }

    fn is_over(&self, limits: &Limits) -> bool {
        self.docs.len() >= limits.rows || self.byte_count() >= limits.bytes
    }

    /// Rows that lie next to each other among `pending`, cut into parts of at most `count`.
    pub(crate) fn parts(pending: &[usize], count: usize) -> Vec<Range<usize>> {
        let count = count.max(1);
        (0..pending.len()).step_by(count).map(|at| at..(at + count).min(pending.len())).collect()
    }
}

/// How a batch is filled.
pub(crate) struct Filling<'a> {
    pub(crate) limits: &'a Limits,
    /// The end that was planned for this batch before a restart.
    pub(crate) until: Option<LogPosition>,
    /// For JSON.
    pub(crate) encoder: Option<&'a Encoder>,
}

/// Bytes of one row in memory, on average.
fn row_bytes(rows: &RecordBatch) -> usize {
    let sizes = rows.columns().iter();
    let total: usize =
        sizes.map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum();
    total / rows.num_rows().max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_tables::{Log, LogRows, Rows};

    use super::*;

    fn piece(first: u64, count: u64) -> CopiedRows {
        let mut rows = LogRows::default();
        for number in first..first + count {
            let body = format!("line {number}");
            rows.push(&Log { host: "web1", body: &body, ..Default::default() });
        }
        CopiedRows {
            rows: rows.finish(),
            places: (first..first + count).map(|row| LogPosition { sequence: 1, row }).collect(),
            next: LogPosition { sequence: 2, row: 0 },
            lost_records: 0,
        }
    }

    #[test]
    fn batches_end_at_their_limit_or_exactly_where_it_was_planned() {
        let limits = Limits { rows: 4, bytes: usize::MAX, wait: Duration::ZERO };
        let body = Log::SPEC.columns.iter().position(|column| column.name == "body").unwrap();
        let encoder = Encoder::new(&Log::SPEC, &[body], false);
        for (until, rows) in [(None, 4), (Some(6), 6), (Some(2), 2)] {
            let until = until.map(|row| LogPosition { sequence: 1, row });
            let how = Filling { limits: &limits, until, encoder: Some(&encoder) };
            let mut batch = Batch::default();
            let (rest, is_full) = batch.fill(piece(0, 10), &how);
            assert!(is_full);
            assert_eq!(batch.docs.len(), rows);
            assert_eq!(batch.to, LogPosition { sequence: 1, row: rows as u64 });
            let rest = rest.expect("ten are more");
            assert_eq!((rest.places.len(), rest.rows.num_rows()), (10 - rows, 10 - rows));
            assert_eq!(rest.places[0], batch.to);
            assert_eq!(batch.json(1), br#"{"body":"line 1"}"#);
            assert_eq!(batch.lines().iter().filter(|byte| **byte == b'\n').count(), rows);
        }
    }
}
