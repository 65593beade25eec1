//! Rows in memory and in Parquet files: format, writing, merging, indexing and checking.
//!
//! The crate depends neither on a query engine nor on storage other than the file system, so its
//! tests run without either.

mod backup_list;
mod checked_file;
mod checksums;
mod data_file;
mod data_file_writer;
mod dictionary;
mod disk;
mod error;
mod file_check;
mod file_maker;
mod file_source;
mod log_segment;
mod memtable;
mod merge;
mod page_check;
mod parquet_file;
#[cfg(test)]
mod read_back;
mod row_group_source;
mod salvage;
mod shared_block;
mod text_column;
pub mod text_index;
mod visibility;

pub use backup_list::{BackupObject, ListEntry, SnapshotList};
pub use checked_file::{CheckedBlocks, ChecksumCache, ExpectedContent, checksums_at, seal_of};
pub use checksums::{FileChecksums, FileSeal, TailReading};
pub use data_file::{DataFile, SLOW_PREFIX, SlowLocation, Tier, file_number, file_path, is_inside};
pub use data_file_writer::DataFileWriter;
pub use dictionary::{dictionaries, is_same, schema_with};
pub use disk::{create_own, space, sync_dir};
pub use error::{ErrorKind, StoreError};
pub use file_check::{FileCheck, Inspection, TableCost, data_files};
pub use file_maker::{FOOTER_BYTES_HINT, FileMaker, PAGE_ROWS, ROW_GROUP_ROWS, SORT};
pub use file_source::{FileOpener, FileSource, ReadAt, SourceReader};
pub use log_segment::{
    RECORD_BYTES_MAX, RECORD_HEAD_BYTES, SEGMENT_HEAD_BYTES, SegmentPiece, SegmentPieces,
    check_segment, checked_parcel, first_sequence, record_head, record_length, record_sequence,
    segment_head,
};
pub use memtable::{
    FlushedRows, MemBatch, Snapshot, TableSnapshot, UniformColumns, row_bytes, table_index,
    timestamps,
};
pub use merge::{COPY_ROWS_MIN, FileMerge};
pub use parquet_file::{ParquetFile, ParquetStream, parquet_file, write_parquet};
pub use salvage::read_undamaged;
pub use visibility::{CutoffSide, VisibilityCutoff};
