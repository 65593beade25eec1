//! A batch: rows with their positions in the log, as JSON lines or as columns.

use std::ops::Range;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use weir_tables::{CopiedRows, LogPosition, Micros};

use crate::json::RowEncoder;

/// When a batch is sent.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Number of rows.
    pub rows: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// Age of its first row.
    pub wait: Duration,
}

/// Form of rows that a target needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchForm {
    /// A JSON object for each row, with or without `@timestamp`.
    Json { has_timestamp: bool },
    /// Arrow columns.
    Columns,
}

/// One row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRow {
    pub(crate) position: LogPosition,
    pub(crate) ts: Micros,
    /// Index into [`Batch::hosts`].
    host: usize,
    /// End of its JSON in [`Batch::text`]; a newline follows.
    end: usize,
}

/// Rows to send together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Epoch of the output: with a position, the id of a row.
    pub(crate) epoch: u64,
    pub(crate) rows: Vec<BatchRow>,
    /// JSON lines; empty for columns.
    text: Vec<u8>,
    hosts: Vec<String>,
    /// Columns; empty for JSON.
    pub(crate) columns: Vec<RecordBatch>,
    column_bytes: usize,
    /// Position after the batch.
    pub(crate) to: LogPosition,
}

impl Batch {
    /// An empty batch that starts at `from`.
    pub(crate) fn new(epoch: u64, from: LogPosition) -> Self {
        Self { epoch, to: from, ..Self::default() }
    }

    /// JSON of one row.
    pub(crate) fn json(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.rows[before].end + 1);
        &self.text[start..self.rows[row].end]
    }

    /// All rows as JSON lines.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.text
    }

    /// The host of one row.
    pub(crate) fn host(&self, row: usize) -> &str {
        &self.hosts[self.rows[row].host]
    }

    /// The id of one row: unique, and the same for every attempt.
    pub(crate) fn id(&self, row: usize) -> String {
        format!("{:016x}-{}", self.epoch, self.rows[row].position)
    }

    /// Approximate size when sent.
    pub(crate) fn byte_count(&self) -> usize {
        self.text.len() + self.column_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds rows until a limit is reached or, with `until`, exactly up to that position. Returns
    /// the remaining rows and whether the batch is full.
    pub(crate) fn fill(
        &mut self,
        mut piece: CopiedRows,
        plan: &FillPlan<'_>,
    ) -> (Option<CopiedRows>, bool) {
        let total = piece.places.len();
        let taken = self.take(&piece, plan);
        if taken < total {
            self.to = piece.places[taken];
            let rest = taken..total;
            piece.rows = piece.rows.slice(rest.start, rest.len());
            piece.places.drain(..taken);
            // Report lost records once.
            piece.lost_records = 0;
            return (Some(piece), true);
        }
        self.to = piece.next;
        let is_full =
            plan.until.map_or_else(|| self.is_over(plan.limits), |until| self.to >= until);
        (None, is_full)
    }

    fn take(&mut self, piece: &CopiedRows, plan: &FillPlan<'_>) -> usize {
        let is_wanted = |position: &&LogPosition| plan.until.is_none_or(|until| **position < until);
        let fitting = piece.places.iter().take_while(is_wanted).count();
        let ts = piece.rows.column(0).as_primitive::<TimestampMicrosecondType>();
        let hosts = piece.rows.column(1).as_string::<i32>();
        let writer = plan.encoder.map(|encoder| encoder.writer(&piece.rows));
        let row_bytes = row_bytes(&piece.rows);
        let mut taken = 0;
        while taken < fitting && (plan.until.is_some() || !self.is_over(plan.limits)) {
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
            self.rows.push(BatchRow {
                position: piece.places[taken],
                ts: Micros(ts.value(taken)),
                host,
                end,
            });
            taken += 1;
        }
        if writer.is_none() && taken > 0 {
            self.columns.push(piece.rows.slice(0, taken));
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

    fn is_over(&self, limits: &BatchLimits) -> bool {
        self.rows.len() >= limits.rows || self.byte_count() >= limits.bytes
    }

    /// Splits `pending` into parts of at most `count` rows.
    pub(crate) fn parts(pending: &[usize], count: usize) -> Vec<Range<usize>> {
        let count = count.max(1);
        (0..pending.len()).step_by(count).map(|at| at..(at + count).min(pending.len())).collect()
    }
}

/// How to fill a batch.
pub(crate) struct FillPlan<'a> {
    pub(crate) limits: &'a BatchLimits,
    /// The end that was planned for this batch before a restart.
    pub(crate) until: Option<LogPosition>,
    /// For JSON.
    pub(crate) encoder: Option<&'a RowEncoder>,
}

/// Average bytes of a row in memory.
fn row_bytes(rows: &RecordBatch) -> usize {
    let sizes = rows.columns().iter();
    let total: usize =
        sizes.map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum();
    total / rows.num_rows().max(1)
}

#[cfg(test)]
mod tests {
    use weir_tables::{Log, LogRows, Rows};

    use super::*;

    fn piece(numbers: Range<u64>) -> CopiedRows {
        let mut rows = LogRows::default();
        for number in numbers.clone() {
            let body = format!("line {number}");
            rows.push(&Log { host: "web1", body: &body, ..Default::default() });
        }
        CopiedRows {
            rows: rows.finish(),
            places: numbers.map(|row| LogPosition { sequence: 1, row }).collect(),
            next: LogPosition { sequence: 2, row: 0 },
            lost_records: 3,
        }
    }

    #[test]
    fn batches_end_at_their_limit_or_exactly_where_it_was_planned() {
        let limits = BatchLimits { rows: 4, bytes: usize::MAX, wait: Duration::ZERO };
        let body = Log::SPEC.columns.iter().position(|column| column.name == "body").unwrap();
        let encoder = RowEncoder::new(&Log::SPEC, &[body], false);
        for (until, rows) in [(None, 4), (Some(6), 6), (Some(2), 2)] {
            let until = until.map(|row| LogPosition { sequence: 1, row });
            let plan = FillPlan { limits: &limits, until, encoder: Some(&encoder) };
            let mut batch = Batch::default();
            let (rest, is_full) = batch.fill(piece(0..10), &plan);
            assert!(is_full);
            assert_eq!(batch.rows.len(), rows);
            assert_eq!(batch.to, LogPosition { sequence: 1, row: rows as u64 });
            let rest = rest.expect("ten rows do not fit");
            assert_eq!((rest.places.len(), rest.rows.num_rows()), (10 - rows, 10 - rows));
            assert_eq!((rest.places[0], rest.lost_records), (batch.to, 0));
            assert_eq!(batch.json(1), br#"{"body":"line 1"}"#);
            assert_eq!(batch.lines().iter().filter(|byte| **byte == b'\n').count(), rows);
        }
    }
}
