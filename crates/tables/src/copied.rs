//! Rows as they are copied to other systems: in the order of the store's log, each with its place there.

use std::fmt;

use arrow_array::RecordBatch;

/// A place in the store's log: the record, and a row among those of one table in it. Never given to two rows.
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

/// Some rows of one table, those that the condition of a copy chose.
#[derive(Clone, Debug)]
pub struct CopiedRows {
    /// The rows, in the table's schema; maybe none.
    pub rows: RecordBatch,
    /// Where each row is.
    pub places: Vec<LogPosition>,
    /// Where to go on behind them, also past rows that were not chosen.
    pub next: LogPosition,
    /// Records before them that are not there any more, with an unknown number of rows.
    pub lost_records: u64,
}
