//! How far the store is: what `/api/status` and `/metrics` show of it.

use weir_datafile::{CutoffSide, Snapshot, Tier, VisibilityCutoff};
use weir_tables::TABLES;
use weir_tier::BucketStats;

/// The store's own figures at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Rows in memory that are not in files yet.
    pub hot_rows: u64,
    /// Their bytes.
    pub hot_bytes: u64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: u64,
    /// Parquet files that queries read.
    pub file_count: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Their rows.
    pub file_rows: u64,
    /// Of these files, those in the slow tier.
    pub slow_file_count: u64,
    /// Their bytes.
    pub slow_file_bytes: u64,
    /// What was asked of the slow tier's bucket since the store is open; `None` without one.
    pub bucket: Option<BucketStats>,
    /// Whether appends are refused for want of room.
    pub is_full: bool,
    /// What a person should know: why the store is full, why the last flush failed, or why the slow tier cannot be used.
    pub message: Option<String>,
    /// Rows that are too far ahead of the clock to be shown in tables, in memory and in files.
    pub future_rows: u64,
    /// Rows of each table, in memory and in files, in the order of [`TABLES`].
    pub row_counts: Vec<(&'static str, u64)>,
}

impl StoreStats {
    /// What a view tells; the rest stays empty.
    pub(crate) fn of(view: &Snapshot, horizon: VisibilityCutoff) -> Self {
        let (hot_rows, hot_bytes) = view.hot_totals();
        let files = || view.tables.iter().flat_map(|table| &*table.files);
        let slow = || files().filter(|file| file.tier == Tier::Slow);
        let row_counts =
            TABLES.iter().zip(&view.tables).map(|(spec, table)| (spec.name, table.row_count()));
        Self {
            hot_rows,
            hot_bytes,
            file_count: files().count() as u64,
            file_bytes: files().map(|file| file.byte_count).sum(),
            file_rows: files().map(|file| file.row_count).sum(),
            slow_file_count: slow().count() as u64,
            slow_file_bytes: slow().map(|file| file.byte_count).sum(),
            future_rows: future_rows(view, horizon),
            row_counts: row_counts.collect(),
            ..Self::default()
        }
    }
}

/// Rows beyond the horizon, wherever it is asked from.
fn future_rows(view: &Snapshot, horizon: VisibilityCutoff) -> u64 {
    let horizon = VisibilityCutoff { side: CutoffSide::Future, ..horizon };
    let files = view.tables.iter().flat_map(|table| table.files.iter());
    let in_files = files.filter(|file| horizon.shows_file(file)).map(|file| file.row_count);
    let memory = view.tables.iter().flat_map(|table| table.hot.iter().chain(&*table.frozen));
    let ahead = memory.filter(|batch| batch.max_ts > horizon.ts);
    let in_memory = ahead.filter_map(|batch| horizon.rows_of(batch));
    in_files.chain(in_memory.map(|batch| batch.rows.num_rows() as u64)).sum()
}
