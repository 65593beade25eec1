//! A Parquet file of a table as the manifest describes it: what a reader has to know before it opens the file.

use std::sync::OnceLock;

use weir_tables::TableSpec;

use crate::text_index::TextIndex;

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Below the data directory.
    Local,
    /// In the slow tier.
    Slow,
}

/// Before the path of a file of the slow tier where one name has to say both.
pub const SLOW_PREFIX: &str = "slow/";

/// One Parquet file of a table.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// Number in the manifest.
    pub id: i64,
    /// Table whose rows it holds.
    pub table: &'static TableSpec,
    /// Below the directory of its tier, with `/`.
    pub path: String,
    /// Tier that holds the file.
    pub tier: Tier,
    /// Days since 1970-01-01 of the oldest row's `ts`.
    pub day: i64,
    /// Number of rows.
    pub row_count: u64,
    /// Size of the file.
    pub byte_count: u64,
    /// Smallest `ts`, µs since 1970.
    pub min_ts: i64,
    /// Largest `ts`, µs since 1970.
    pub max_ts: i64,
    /// When the last of its rows came in.
    pub arrival_ts: i64,
    /// Its index of texts once that is known; `None` inside: it has none.
    pub index: OnceLock<Option<TextIndex>>,
    /// Which of its columns are stored as dictionaries, once that is known.
    pub dictionaries: OnceLock<Vec<bool>>,
}

impl DataFile {
    /// A file without rows.
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

    /// What it is called in query plans.
    pub fn location(&self) -> String {
        match self.tier {
            Tier::Local => self.path.clone(),
            Tier::Slow => format!("{SLOW_PREFIX}{}", self.path),
        }
    }
}
