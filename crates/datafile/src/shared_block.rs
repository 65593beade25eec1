//! The last block of a file's data, which rows and text index share.
//!
//! Its checksum covers both. When it differs, the damage is in the index alone if the index that
//! belongs to the rows gives the block its checksum back. Otherwise rows of the block may have
//! changed.

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weir_tables::TableSpec;

use crate::checked_file::read;
use crate::checksums::{BLOCK_BYTES, FileChecksums};
use crate::file_check::has_columns;
use crate::file_source::FileSource;
use crate::text_index::{BLOCK_ROWS, IndexBuilder, METADATA_KEY, TextIndex};

/// Whether the rows in the last block are unchanged although its checksum differs.
/// `rows` reads the file without checks; all blocks before the last one must be whole.
pub(crate) fn has_whole_rows(
    rows: ParquetRecordBatchReaderBuilder<FileSource>,
    file: &FileSource,
    table: &TableSpec,
    sums: &FileChecksums,
) -> bool {
    mended_block(rows, file, table, sums)
        .is_some_and(|(block, from)| sums.verify(&block, from).is_ok())
}

/// The last block with the index of the rows in place of the stored one, and its offset.
fn mended_block(
    rows: ParquetRecordBatchReaderBuilder<FileSource>,
    file: &FileSource,
    table: &TableSpec,
    sums: &FileChecksums,
) -> Option<(Vec<u8>, u64)> {
    let from = sums.data_end().checked_sub(1)? / BLOCK_BYTES * BLOCK_BYTES;
    let mut block = read(file, from..sums.data_end()).ok()?;
    let footer = rows.metadata().file_metadata();
    let pairs = footer.key_value_metadata()?;
    let text = pairs.iter().find(|pair| pair.key == METADATA_KEY)?.value.as_deref()?;
    let index = TextIndex::from_text(text, footer.num_rows().cast_unsigned())?;
    let mut builder = IndexBuilder::new(table)?;
    if !index.is_current() || !has_columns(rows.schema(), table) {
        return None;
    }
    let mut offsets: Vec<u64> = index.sheets().map(|sheet| sheet.offset).collect();
    offsets.sort_unstable();
    let mut offsets = offsets.into_iter();
    let mut put = |bytes: &[u8]| {
        let offset = offsets.next().ok_or(())?;
        overlay(&mut block, from, (offset, bytes));
        Ok::<_, ()>(offset)
    };
    for rows in rows.with_batch_size(BLOCK_ROWS).build().ok()? {
        builder.push(&rows.ok()?, &index.group_rows, &mut put).ok()?;
    }
    builder.finish(&mut put).ok()?;
    Some((block, from))
}

/// Copies the part of `bytes`, which belong at an offset of the file, that is in the block at `from`.
fn overlay(block: &mut [u8], from: u64, (offset, bytes): (u64, &[u8])) {
    let skipped = usize::try_from(from.saturating_sub(offset)).unwrap_or(usize::MAX);
    let at = usize::try_from(offset.saturating_sub(from)).unwrap_or(usize::MAX);
    let bytes = bytes.get(skipped..).unwrap_or_default();
    let place = block.get_mut(at..).unwrap_or_default();
    for (to, byte) in place.iter_mut().zip(bytes) {
        *to = *byte;
    }
}
