//! Keeps rows, answers SQL: write-ahead log, hot rows, Parquet, manifest.

mod adapt;
mod compaction;
mod condition;
mod copies;
mod copy;
mod copy_positions;
mod data_file;
mod directory;
mod error;
mod explain;
mod functions;
mod hot;
mod maintenance;
mod manifest;
mod objects;
mod options;
mod query;
mod retention;
mod segments;
mod shared;
mod stats;
mod store;
mod streams;
mod table_provider;
mod wal;
mod writer;

pub use copies::CopyOptions;
pub use copy::Copy;
pub use error::{ErrorKind, StoreError};
pub use objects::{Bucket, BucketOptions, parquet_file};
pub use options::{QueryLimits, Retention, StoreOptions};
pub use query::QueryResult;
pub use stats::StoreStats;
pub use store::Store;
pub use writer::Appended;
