//! Rows copied to other systems: in the order of the store's log, each with its position there.

use std::fmt;

use arrow_array::RecordBatch;

/// A position in the store's log: the record, and the row within it. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The record's sequence number.
    pub sequence: u64,
    /// The row's number among the record's rows of the table.
    pub row: u64,
}

/// `SEQUENCE-ROW`.
impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.sequence, self.row)
    }
}

/// Rows of one table that match the condition of a copy.
#[derive(Clone, Debug)]
pub struct CopiedRows {
    /// The rows, in the table's schema; may be empty.
    pub rows: RecordBatch,
    /// Position of each row.
    pub places: Vec<LogPosition>,
    /// Position to continue from, past rows that did not match.
    pub next: LogPosition,
    /// Records before these rows that no longer exist, with an unknown number of rows.
    pub lost_records: u64,
}
