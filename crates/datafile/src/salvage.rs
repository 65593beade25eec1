//! Recovers readable rows of a damaged file, one row group at a time.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weir_tables::TableSpec;

use crate::checked_file::{load_with, read};
use crate::checksums::{BLOCK_BYTES, FileChecksums};
use crate::error::StoreError;
use crate::file_source::{FileSource, ReadAt};
use crate::shared_block::has_whole_rows;

/// Passes every readable batch to the callback; returns the reason if some were unreadable.
pub fn read_undamaged(
    path: &Path,
    table: &'static TableSpec,
    mut take: impl FnMut(&RecordBatch) -> Result<(), StoreError>,
) -> Result<Option<String>, StoreError> {
    let opened = open_checked(path, table).and_then(|file| Ok((rows_of(file.clone())?, file)));
    let (groups, file) = match opened {
        Ok((reader, file)) => (reader.metadata().num_row_groups(), file),
        Err(why) => return Ok(Some(why)),
    };
    let mut broken = None;
    for group in 0..groups {
        let reader = rows_of(file.clone()).and_then(|reader| {
            let reader = reader.with_row_groups(vec![group]).build();
            reader.map_err(|error| format!("cannot be read: {error}"))
        });
        let reader = match reader {
            Ok(reader) => reader,
            Err(why) => {
                broken = Some(why);
                continue;
            }
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

/// Opens a file with its checksums, so that damaged rows are not taken for good.
///
/// Where the end of the file is damaged, the checksums of the blocks still tell which rows changed. In
/// the last block, which may also have a part of the text index, rows are read if the damage is in
/// the index alone.
fn open_checked(path: &Path, table: &TableSpec) -> Result<FileSource, String> {
    let file = File::open(path).and_then(FileSource::of_file);
    let file = file.map_err(|error| format!("cannot be read: {error}"))?;
    // Without any checksums, rows count as readable that decode.
    let Ok(Some(sums)) = load_with(&file, FileChecksums::parse) else { return Ok(file) };
    let last = sums.data_end().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
    let is_shared = blocks_are_whole(&file, &sums, 0..last)
        && !blocks_are_whole(&file, &sums, last..sums.data_end())
        && has_whole_rows(rows_of(file.clone())?, &file, table, &sums);
    let trusted = if is_shared { last..sums.data_end() } else { 0..0 };
    Ok(FileSource::new(SalvagedFile { file, sums, trusted }))
}

/// Whether all blocks of a range of the data, which begins with a block, are as they were written.
fn blocks_are_whole(file: &FileSource, sums: &FileChecksums, range: Range<u64>) -> bool {
    let mut from = range.start;
    while from < range.end {
        let to = (from + BLOCK_BYTES).min(range.end);
        if !read(file, from..to).is_ok_and(|bytes| sums.verify(&bytes, from).is_ok()) {
            return false;
        }
        from = to;
    }
    true
}

/// A file whose damaged blocks cannot be read; what is behind its data is not checked.
struct SalvagedFile {
    file: FileSource,
    sums: FileChecksums,
    /// Rows are good here, although the checksum differs.
    trusted: Range<u64>,
}

impl ReadAt for SalvagedFile {
    fn length(&self) -> u64 {
        self.file.length()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        let data_end = self.sums.data_end();
        let mut from = offset / BLOCK_BYTES * BLOCK_BYTES;
        while from < data_end.min(offset.saturating_add(bytes.len() as u64)) {
            let to = (from + BLOCK_BYTES).min(data_end);
            if !self.trusted.contains(&from) {
                self.sums.verify(&read(&self.file, from..to)?, from)?;
            }
            from = to;
        }
        self.file.read_exact_at(bytes, offset)
    }
}

fn rows_of(file: FileSource) -> Result<ParquetRecordBatchReaderBuilder<FileSource>, String> {
    ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use weir_tables::{Log, LogRows, Micros, Rows as _};

    use super::*;
    use crate::file_maker::FileMaker;
    use crate::text_index::{METADATA_KEY, TextIndex};

    const ROWS: i64 = 20_000;

    fn body(number: i64) -> String {
        format!("line {number} of {}", number * 7919 % 100_003)
    }

    /// Writes a file; returns its path, its content, and where the rows and all data end.
    fn written(dir: &Path) -> (std::path::PathBuf, Vec<u8>, usize, usize) {
        let mut builder = LogRows::default();
        for number in 0..ROWS {
            let (ts, body) = (Micros(number), body(number));
            builder.push(&Log { ts, host: "web1", body: &body, ..Default::default() });
        }
        let maker = FileMaker::new(dir.to_owned(), 1);
        let files = maker.write(&Log::SPEC, &[builder.finish()], Micros(5)).unwrap();
        let path = dir.join(&files[0].path);
        let source = FileSource::of_file(File::open(&path).unwrap()).unwrap();
        let sums = load_with(&source, FileChecksums::of_tail).unwrap().unwrap();
        let reader = rows_of(source).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let text = pairs.iter().find(|pair| pair.key == METADATA_KEY).unwrap();
        let index = TextIndex::from_text(text.value.as_ref().unwrap(), ROWS.cast_unsigned());
        let rows_end = index.unwrap().sheets().map(|sheet| sheet.offset).min().unwrap();
        let ends = [rows_end, sums.data_end()].map(|end| usize::try_from(end).unwrap());
        let whole = std::fs::read(&path).unwrap();
        (path, whole, ends[0], ends[1])
    }

    /// Salvages a file, and asserts that each row is one that was written.
    fn salvaged(path: &Path) -> (usize, Option<String>) {
        let mut count = 0;
        let broken = read_undamaged(path, &Log::SPEC, |rows| {
            let bodies = rows.column_by_name("body").unwrap();
            let bodies = bodies.as_string::<i32>();
            for (found, ts) in bodies.iter().zip(crate::memtable::timestamps(rows)) {
                assert_eq!(found, Some(body(*ts).as_str()));
            }
            count += rows.num_rows();
            Ok(())
        });
        (count, broken.unwrap())
    }

    fn change(whole: &[u8], at: usize) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 1 << (at % 8);
        bytes
    }

    /// pmcfadin/cqlite#4196 and macanderson/stella#5282: damage beside the rows costs none of them.
    #[test]
    fn rows_are_taken_when_only_the_index_in_their_last_block_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let (path, whole, rows_end, data_end) = written(dir.path());
        let last = (data_end - 1) / 16_384 * 16_384;
        assert_eq!(salvaged(&path), (20_000, None));
        for at in [last.max(rows_end), data_end - 1, usize::midpoint(last.max(rows_end), data_end)]
        {
            std::fs::write(&path, change(&whole, at)).unwrap();
            assert_eq!(salvaged(&path), (20_000, None), "byte {at}");
        }
    }

    /// reddb-io/reddb#1968: what cannot be verified is skipped, not guessed.
    #[test]
    fn changed_rows_are_never_taken_wherever_the_damage_is() {
        let dir = tempfile::tempdir().unwrap();
        let (path, whole, rows_end, data_end) = written(dir.path());
        let step = rows_end / 60 + 1;
        for at in (0..rows_end).step_by(step).chain([rows_end - 1, rows_end - 100]) {
            let mut damaged = change(&whole, at);
            std::fs::write(&path, &damaged).unwrap();
            let (count, broken) = salvaged(&path);
            assert!(count < 20_000 && broken.is_some(), "byte {at}: {count} rows");
            // With a damaged page index, the checksums of the rows are still believed.
            damaged[data_end + 4 * data_end.div_ceil(16_384) + 20] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(salvaged(&path).1.is_some(), "byte {at} and the page index");
        }
    }
}
