//! Recovers readable rows of a damaged file, one row group at a time.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weir_tables::TableSpec;

use crate::checksums::{BLOCK_BYTES, ChecksumCache};
use crate::error::StoreError;
use crate::file_source::FileSource;

/// Passes every readable batch to the callback; returns the reason if some were unreadable.
pub fn read_undamaged(
    path: &Path,
    table: &'static TableSpec,
    mut take: impl FnMut(&RecordBatch) -> Result<(), StoreError>,
) -> Result<Option<String>, StoreError> {
    let groups = match open_rows(path) {
        Ok(reader) => reader.metadata().num_row_groups(),
        Err(why) => return Ok(Some(why)),
    };
    let mut broken = None;
    for group in 0..groups {
        let reader = match open_rows(path).map(|reader| reader.with_row_groups(vec![group]).build())
        {
            Ok(Ok(reader)) => reader,
            Ok(Err(error)) => {
                broken = Some(format!("cannot be read: {error}"));
                continue;
            }
            Err(why) => return Ok(Some(why)),
        };
        for rows in reader {
            let rows = rows.map_err(|error| format!("cannot be read: {error}"));
            let rows = rows.and_then(|rows| {
                table.fit(&rows).map_err(|error| format!("has other columns: {error}"))
            });
            match rows {
                Ok(rows) => take(&rows)?,
                Err(why) => {
                    broken = Some(why);
                    break;
                }
            }
        }
    }
    Ok(broken)
}

/// Opens the rows with their checksums, so that damaged ones are not taken for good.
///
/// Rows count as readable that decode where the checksums cannot tell: with a damaged footer, and in
/// the last block, which may also have a part of the text index.
fn open_rows(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<FileSource>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).and_then(FileSource::of_file).map_err(unreadable)?;
    let rows = rows_of(file)?;
    let checksums = Arc::new(ChecksumCache::default());
    if checksums.check(path, &[]).is_err() {
        return Ok(rows);
    }
    let columns = rows.metadata().row_groups().iter().flat_map(|group| group.columns());
    let end = columns.map(|column| column.byte_range()).map(|(start, length)| start + length).max();
    let whole = end.unwrap_or(0) / BLOCK_BYTES * BLOCK_BYTES;
    let is_whole =
        |blocks: Range<u64>| checksums.check(path, std::slice::from_ref(&blocks)).is_ok();
    // With damage before the last block too, what is read stays checked.
    if is_whole(0..whole) && !is_whole(whole..whole + 1) {
        return Ok(rows);
    }
    rows_of(checksums.open(path).map_err(unreadable)?)
}

fn rows_of(file: FileSource) -> Result<ParquetRecordBatchReaderBuilder<FileSource>, String> {
    ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|error| format!("cannot be read: {error}"))
}
