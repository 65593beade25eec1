//! How far ahead of the clock rows may be: those beyond are kept apart, so that one wrong clock does not stand at the top
//! of every list, and are shown when their time comes.
//!
//! Files are taken as a whole, by their oldest row: they hold rows of one day.

use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;

use crate::data_file::DataFile;
use crate::memtable::{MemBatch, timestamps};

/// Which rows a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibilityCutoff {
    /// µs since 1970.
    pub ts: i64,
    /// Which rows are shown.
    pub side: CutoffSide,
}

/// Before the horizon or beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutoffSide {
    /// Rows up to the cutoff.
    Past,
    /// Rows beyond the cutoff.
    Future,
}

impl VisibilityCutoff {
    /// Whether a file, which holds rows of one day, is on this side.
    pub fn shows_file(self, file: &DataFile) -> bool {
        (file.min_ts > self.ts) == (self.side == CutoffSide::Future)
    }

    /// The rows of a batch that are on this side; `None` when there are none.
    pub fn rows_of(self, batch: &MemBatch) -> Option<MemBatch> {
        let is_future = self.side == CutoffSide::Future;
        let (has_past, has_future) = (batch.min_ts <= self.ts, batch.max_ts > self.ts);
        match (has_past, has_future) {
            (true, true) => {
                let keep = timestamps(&batch.rows).iter().map(|ts| (*ts > self.ts) == is_future);
                let keep: BooleanArray = keep.map(Some).collect();
                let rows = filter_record_batch(&batch.rows, &keep).expect("as long as the rows");
                MemBatch::new(rows)
            }
            (_, has_future) => (has_future == is_future).then(|| batch.clone()),
        }
    }
}
