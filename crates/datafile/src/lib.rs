//! Rows in memory and as Parquet files: what a file holds, how it is written, merged, indexed and checked.
//!
//! It names neither a query engine nor a place beyond the file system, so that its tests run without either.

mod check;
mod data_file;
mod dictionary;
mod disk;
mod donor;
mod draft;
mod error;
mod file;
mod horizon;
mod hot;
mod merge;
mod page_check;
mod parquet_file;
#[cfg(test)]
mod read_back;
mod salvage;
mod source;
mod text_column;
pub mod text_index;

pub use check::{Inspection, Look, TableCost, data_files};
pub use data_file::{FOOTER_BYTES_HINT, FileMaker, PAGE_ROWS, ROW_GROUP_ROWS, SORT};
pub use dictionary::{dictionaries, is_same, schema_with};
pub use disk::{space, sync_dir};
pub use draft::Draft;
pub use error::{ErrorKind, StoreError};
pub use file::{DataFile, SLOW_PREFIX, Tier};
pub use horizon::{Horizon, Side};
pub use hot::{Flushed, HotBatch, TableView, Uniform, View, row_bytes, table_index, timestamps};
pub use merge::{COPY_ROWS_MIN, Merge};
pub use parquet_file::{ParquetFile, parquet_file, write_parquet};
pub use salvage::read_undamaged;
pub use source::{FileOpener, ReadAt, Source, SourceReader};
