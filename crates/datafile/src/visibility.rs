//! Visibility of rows with future timestamps: rows too far ahead of the clock stay hidden until
//! their time comes, so that one wrong clock does not fill the top of every list.
//!
//! Files hold one day and are shown or hidden as a whole, by their oldest row.

use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;

use crate::data_file::DataFile;
use crate::memtable::{MemBatch, timestamps};

/// Time filter of a table scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibilityCutoff {
    /// Cutoff, µs since 1970.
    pub ts: i64,
    /// Side of the cutoff to show.
    pub side: CutoffSide,
}

/// Side of the cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutoffSide {
    /// Rows up to the cutoff.
    Past,
    /// Rows beyond the cutoff.
    Future,
}

impl VisibilityCutoff {
    /// Whether to show a file (which holds one day of rows).
    pub fn shows_file(self, file: &DataFile) -> bool {
        (file.min_ts > self.ts) == (self.side == CutoffSide::Future)
    }

    /// Rows of the batch on this side; `None` if there are none.
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
