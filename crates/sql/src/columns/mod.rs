//! Queries over columns in memory: those of rows that are not in files yet, and those of files that queries asked for.
//!
//! ```text
//!  plan ──► ColumnScan ──► conditions, once per value where values repeat ──► the other columns of what is left
//!              │
//!              ├─ newest rows: units from the end, until no older one can matter        (newest.rs)
//!              └─ groups: rows counted by the numbers of their values, without hashing  (groups.rs);
//!                 once for all places of a plan that need them                           (alike.rs)
//! ```
//!
//! Columns of files come into memory by row group when a query needs them and stay there up to a limit (cache.rs), as
//! numbers of distinct values where values repeat (column.rs). Everything that is not understood here is left to
//! DataFusion, which scans the same columns, or to Parquet's own way when there is too much for the limit (plan.rs).

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
