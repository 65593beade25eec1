//! What parsing gives: builders of rows for the three tables a line can end in, and counts.

use weir_tables::{Batch, LogRows, RejectRows, RequestRows, Rows};

/// Rows made of lines, not yet record batches. Each line that is not blank is one row in one of the three.
///
/// Text columns count with 31 bits, so call [`ParsedRows::finish`] well before 1 GiB of lines.
#[derive(Debug, Default)]
pub struct ParsedRows {
    /// Lines that are no requests.
    pub log: LogRows,
    /// Requests as a proxy recorded them.
    pub request: RequestRows,
    /// Lines that were not understood, raw.
    pub reject: RejectRows,
    /// Lines seen since the last [`ParsedRows::finish`], blank ones included.
    pub lines: u64,
    /// Lines that had to be mended to be read (column `repair`).
    pub repaired: u64,
}

impl ParsedRows {
    /// The rows as batches, tables without rows left out; rows and counts start again from nothing.
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
