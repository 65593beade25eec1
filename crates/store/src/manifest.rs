//! The manifest: which files are the tables, and where every stream stands. `docs/formats/manifest.md`.

use weir_tables::TableSpec;

/// One Parquet file of a table.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    pub(crate) id: i64,
    pub(crate) table: &'static TableSpec,
    /// Below the data directory, with `/`.
    pub(crate) path: String,
    /// Days since 1970-01-01 of every row's `ts`.
    pub(crate) day: i64,
    pub(crate) row_count: u64,
    pub(crate) byte_count: u64,
    pub(crate) min_ts: i64,
    pub(crate) max_ts: i64,
}
