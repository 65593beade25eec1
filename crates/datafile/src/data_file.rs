//! A table's Parquet file as the manifest describes it: everything known before the file is opened.

use std::sync::OnceLock;

use weir_tables::TableSpec;

use crate::text_index::TextIndex;

/// Tier that holds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Under the data directory.
    Local,
    /// In the cold tier.
    Slow,
}

/// Prefix of a cold-tier path where tier and path share one name.
pub const SLOW_PREFIX: &str = "slow/";

/// One Parquet file of a table.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// File number in the manifest.
    pub id: i64,
    /// Table of the file's rows.
    pub table: &'static TableSpec,
    /// Path below the tier's directory, with `/` separators.
    pub path: String,
    /// Tier that holds the file.
    pub tier: Tier,
    /// Days since 1970-01-01 of the oldest row's `ts`.
    pub day: i64,
    /// Number of rows.
    pub row_count: u64,
    /// File size in bytes.
    pub byte_count: u64,
    /// Smallest `ts`, µs since 1970.
    pub min_ts: i64,
    /// Largest `ts`, µs since 1970.
    pub max_ts: i64,
    /// Arrival time of the last row.
    pub arrival_ts: i64,
    /// Text index, once loaded; the inner `None` means that the file has none.
    pub index: OnceLock<Option<TextIndex>>,
    /// For each column, whether it is fully dictionary-encoded; set once known.
    pub dictionaries: OnceLock<Vec<bool>>,
}

impl DataFile {
    /// A file description without rows.
    pub fn new(id: i64, table: &'static TableSpec, path: String) -> Self {
        Self {
            id,
            table,
            path,
            tier: Tier::Local,
            day: 0,
            row_count: 0,
            byte_count: 0,
            min_ts: 0,
            max_ts: 0,
            arrival_ts: 0,
            index: OnceLock::new(),
            dictionaries: OnceLock::new(),
        }
    }

    /// Name of the file in query plans.
    pub fn location(&self) -> String {
        match self.tier {
            Tier::Local => self.path.clone(),
            Tier::Slow => format!("{SLOW_PREFIX}{}", self.path),
        }
    }
}
