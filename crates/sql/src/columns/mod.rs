//! Queries over columns in memory: rows not yet in files, and cached columns of files.
//!
//! ```text
//!  plan ──► ColumnScan ──► conditions, once per distinct value ──► other selected columns
//!              │
//!              ├─ newest rows: morsels from the end, until no older one matters (newest_morsels)
//!              └─ groups: rows aggregated by dictionary codes, without hashing  (groups);
//!                 computed once per plan                                       (common_subplans)
//! ```
//!
//! Columns of files are loaded per row group when a query needs them and stay cached up to a limit
//! (`cache`), as dictionary codes where values repeat (`column`). Plans that are not supported here
//! fall back to DataFusion, which scans the same columns, or to a Parquet scan when the columns
//! exceed the limit (`plan`).
//!
//! # Example
//! `select status, count(*) … group by status` over a row group with the statuses 200, 200, 404,
//! 200 reads the codes 0, 0, 1, 0 and the dictionary `[200, 404]`. Conditions and keys are
//! evaluated twice, once for each dictionary entry, and the four rows only add to the counters of
//! groups 0 and 1.

mod cache;
mod chunk;
mod column;
mod common_subplans;
mod filter;
mod group_ids;
mod group_rule;
mod groups;
mod keys;
mod morsel;
mod newest_morsels;
mod pair_interner;
mod plan;
mod scan;

pub(crate) use cache::ColumnCache;
pub(crate) use group_rule::DictionaryGroups;
pub(crate) use newest_morsels::NewestMorsels;
pub(crate) use plan::{ScanRequest, plan};
pub(crate) use scan::ColumnScan;
