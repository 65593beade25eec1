//! Keeps rows, answers SQL: write-ahead log, hot rows, Parquet, manifest.

mod adapt;
mod error;
mod hot;
mod manifest;
mod options;
mod query;
mod stats;
mod store;
mod streams;
mod table_provider;
mod writer;

pub use error::{ErrorKind, StoreError};
pub use options::{QueryLimits, Retention, StoreOptions};
pub use query::QueryResult;
pub use stats::StoreStats;
pub use store::Store;
pub use writer::Appended;
