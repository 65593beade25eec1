//! A data file whose row groups a merge copies without decoding their rows.
//!
//! Each page is decompressed once before the copy, so that corruption in a small file does not
//! spread to a merged one.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};
use parquet::column::page::PageReader;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use crate::file_source::FileSource;
use crate::text_index::{FilterBlock, IndexBuilder, METADATA_KEY, TextIndex};

/// An open input of row group copies.
pub(crate) struct RowGroupSource {
    source: FileSource,
    /// Footer, including encodings and page indexes.
    footer: Arc<ParquetMetaData>,
    index: Option<TextIndex>,
    /// Row group filters of the text index, read on first use.
    groups: OnceLock<Bytes>,
}

impl RowGroupSource {
    pub(crate) fn new(source: FileSource, footer: Arc<ParquetMetaData>) -> Self {
        let pairs = footer.file_metadata().key_value_metadata().into_iter().flatten();
        let text =
            pairs.filter(|pair| pair.key == METADATA_KEY).find_map(|pair| pair.value.as_ref());
        let rows = footer.file_metadata().num_rows().cast_unsigned();
        let index = text.and_then(|text| TextIndex::from_text(text, rows));
        Self { source, footer, index, groups: OnceLock::new() }
    }

    /// Whether a file with this schema and index can take row groups of this one.
    pub(crate) fn fits(&self, schema: &SchemaDescriptor, builder: Option<&IndexBuilder>) -> bool {
        let own = self.footer.file_metadata().schema_descr();
        if own.columns() != schema.columns() {
            return false;
        }
        let Some(builder) = builder else { return true };
        let rows = self.footer.row_groups().iter().map(|group| usize::try_from(group.num_rows()));
        self.index.as_ref().is_some_and(|index| {
            builder.is_like(index) && rows.eq(index.group_rows.iter().map(|rows| Ok(*rows)))
        })
    }

    /// Reads a row group and decompresses all its pages as a check.
    ///
    /// # Errors
    /// The row group cannot be read, or a page cannot be decompressed.
    pub(crate) fn read(&self, group: usize) -> Result<Vec<Arc<ColumnChunk>>> {
        let group = self.footer.row_group(group);
        let rows = usize::try_from(group.num_rows())?;
        group
            .columns()
            .iter()
            .map(|column| {
                let (start, length) = column.byte_range();
                let bytes = self.source.get_bytes(start, usize::try_from(length)?)?;
                let chunk = Arc::new(ColumnChunk { start, bytes });
                let mut pages = SerializedPageReader::new(Arc::clone(&chunk), column, rows, None)?;
                while pages.get_next_page()?.is_some() {}
                Ok(chunk)
            })
            .collect()
    }

    /// Writes a row group from [`read`](Self::read), then its part of the text index, to a file
    /// that satisfies [`fits`](Self::fits). Returns the row count.
    ///
    /// # Errors
    /// The index cannot be read, or the file cannot be written.
    pub(crate) fn copy<W: Write + Send>(
        &self,
        group: usize,
        chunks: &[Arc<ColumnChunk>],
        file: &mut SerializedFileWriter<W>,
        builder: Option<&mut IndexBuilder>,
    ) -> Result<u64> {
        let mut copied = file.next_row_group()?;
        for (leaf, chunk) in chunks.iter().enumerate() {
            copied.append_column(&**chunk, self.described(ChunkPlace { group, leaf }))?;
        }
        copied.close()?;
        if let (Some(builder), Some(index)) = (builder, &self.index) {
            let groups = self.groups(index)?;
            builder.copy_group(index, group, &groups, |sheet| {
                let bytes = self.sheet(sheet)?;
                let offset = file.bytes_written() as u64;
                file.write_all(&bytes)?;
                Ok::<_, ParquetError>(offset)
            })?;
        }
        Ok(self.footer.row_group(group).num_rows().cast_unsigned())
    }

    fn groups(&self, index: &TextIndex) -> Result<Bytes> {
        if let Some(groups) = self.groups.get() {
            return Ok(groups.clone());
        }
        let groups = index.groups.as_ref().map(|sheet| self.sheet(sheet)).transpose()?;
        Ok(self.groups.get_or_init(|| groups.unwrap_or_default()).clone())
    }

    fn sheet(&self, sheet: &FilterBlock) -> Result<Bytes> {
        self.source.get_bytes(sheet.offset, usize::try_from(sheet.byte_count())?)
    }

    /// Footer metadata of a column chunk.
    fn described(&self, ChunkPlace { group, leaf }: ChunkPlace) -> ColumnCloseResult {
        let metadata = self.footer.row_group(group).column(leaf).clone();
        let column_index = self.footer.column_index().map(|index| index[group][leaf].clone());
        ColumnCloseResult {
            bytes_written: metadata.compressed_size().cast_unsigned(),
            rows_written: self.footer.row_group(group).num_rows().cast_unsigned(),
            metadata,
            bloom_filter: None,
            column_index: column_index.filter(|index| !matches!(index, ColumnIndexMetaData::NONE)),
            offset_index: self.footer.offset_index().map(|index| index[group][leaf].clone()),
        }
    }
}

/// Numbers of the row group and of the leaf column of a column chunk.
struct ChunkPlace {
    group: usize,
    leaf: usize,
}

/// Bytes of a column chunk, addressed by file offset.
pub(crate) struct ColumnChunk {
    start: u64,
    bytes: Bytes,
}

impl ColumnChunk {
    fn behind(&self, start: u64) -> Result<Bytes> {
        let skipped =
            start.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        let skipped = skipped.filter(|skipped| *skipped <= self.bytes.len());
        let skipped = skipped.ok_or_else(|| ParquetError::EOF(format!("no byte {start} in it")))?;
        Ok(self.bytes.slice(skipped..))
    }
}

impl Length for ColumnChunk {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ColumnChunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.behind(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.behind(start)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF(format!("no {length} bytes from {start} on in it")));
        }
        Ok(bytes.slice(..length))
    }
}
