//! Recovers readable rows of a damaged file, one row group at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weir_tables::TableSpec;

use crate::checksums::ChecksumCache;
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

/// Opens the rows with their checksums, so that damaged ones are not taken for good; with a damaged
/// footer the checksums cannot be trusted, and rows count as readable that decode.
fn open_rows(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<FileSource>, String> {
    let checksums = Arc::new(ChecksumCache::default());
    let file = match checksums.check(path, &[]) {
        Ok(()) => checksums.open(path),
        Err(_) => File::open(path).and_then(FileSource::of_file),
    };
    let file = file.map_err(|error| format!("cannot be read: {error}"))?;
    ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|error| format!("cannot be read: {error}"))
}
