//! Statistics of the store, as `/api/status` and `/metrics` show them.

use weir_datafile::{CutoffSide, Snapshot, Tier, VisibilityCutoff};
use weir_tables::TABLES;
use weir_tier::BucketStats;

/// Statistics of the store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Rows in the memtable and the immutable memtable.
    pub hot_rows: u64,
    /// Bytes of the rows in memory.
    pub hot_bytes: u64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: u64,
    /// Records of the write-ahead log that this start found damaged and set aside.
    pub lost_records: u64,
    /// Parquet files that queries read.
    pub file_count: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Rows in these files.
    pub file_rows: u64,
    /// Number of files in the cold tier.
    pub slow_file_count: u64,
    /// Bytes of the files in the cold tier.
    pub slow_file_bytes: u64,
    /// Requests to the cold tier's bucket since the store was opened; `None` without a bucket.
    pub bucket: Option<BucketStats>,
    /// Whether appends are refused because the disk is full.
    pub is_full: bool,
    /// Problem to show to the operator: why the store is full, why the last flush failed, or why
    /// the cold tier cannot be used.
    pub message: Option<String>,
    /// What is wrong with files and log.
    pub faults: Vec<StoreFault>,
    /// Hidden rows too far ahead of the clock, in memory and in files.
    pub future_rows: u64,
    /// Rows of each table, in memory and in files, in the order of [`TABLES`].
    pub row_counts: Vec<(&'static str, u64)>,
}

/// Something that is wrong with the store's files or log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFault {
    /// `missing_file`, `damaged_file`, `damaged_log` or `retention_held`.
    pub kind: &'static str,
    /// The file, below the data directory; empty where it is not about one.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl StoreFault {
    /// The fault as one line.
    pub fn text(&self) -> String {
        match self.path.as_str() {
            "" => self.message.clone(),
            path => format!("`{path}` {}", self.message),
        }
    }
}

impl StoreStats {
    /// Statistics derived from a view; the rest stays empty.
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

/// Counts rows beyond the horizon in memory and in files.
fn future_rows(view: &Snapshot, horizon: VisibilityCutoff) -> u64 {
    let horizon = VisibilityCutoff { side: CutoffSide::Future, ..horizon };
    let files = view.tables.iter().flat_map(|table| table.files.iter());
    let in_files = files.filter(|file| horizon.shows_file(file)).map(|file| file.row_count);
    let memory = view.tables.iter().flat_map(|table| table.hot.iter().chain(&*table.frozen));
    let ahead = memory.filter(|batch| batch.max_ts > horizon.ts);
    let in_memory = ahead.filter_map(|batch| horizon.rows_of(batch));
    in_files.chain(in_memory.map(|batch| batch.rows.num_rows() as u64)).sum()
}
