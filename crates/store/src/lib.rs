//! Keeps rows, answers SQL: write-ahead log, hot rows, Parquet, manifest.

mod adapt;
mod compaction;
mod data_file;
mod directory;
mod error;
mod explain;
mod hot;
mod maintenance;
mod manifest;
mod options;
mod parquet_file;
mod query;
mod retention;
mod shared;
mod stats;
mod store;
mod streams;
mod table_provider;
mod wal;
mod writer;

pub use error::{ErrorKind, StoreError};
pub use options::{QueryLimits, Retention, StoreOptions};
pub use parquet_file::{ParquetFile, write_parquet};
pub use query::QueryResult;
pub use stats::StoreStats;
pub use store::Store;
pub use writer::Appended;
