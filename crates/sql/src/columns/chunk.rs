//! Reads columns of a row group: whole columns with one read, single rows by the pages that contain
//! them.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_cast::cast;
use arrow_schema::DataType;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use weir_datafile::{DataFile, FileOpener, FileSource, schema_with};
use weir_tables::TableSpec;
use weir_tier::FileLocations;

use super::column::Column;
use crate::limits::{QueryUsage, count_read};

/// Key of a column of a row group: file, row group, column index in the table.
pub(super) type ChunkKey = (i64, usize, usize);

/// Columns whose values exceed this size are not read as a whole.
const COLUMN_BYTES_MAX: i64 = 256 << 20;

/// Footer of a file, with what the scan derives from it.
#[derive(Debug)]
pub(crate) struct FileFooter {
    reading: ArrowReaderMetadata,
    /// Bytes by row group and column; see [`FileFooter::estimate`].
    sizes: Vec<Vec<u64>>,
    pub(super) bytes: usize,
}

impl FileFooter {
    /// The footer of a file of `table`; `stored` says per column whether it is dictionary-encoded.
    ///
    /// # Errors
    /// When the file's columns differ from its table's.
    pub(super) fn new(
        table: &'static TableSpec,
        stored: &[bool],
        footer: Arc<ParquetMetaData>,
    ) -> Result<Self> {
        let fields = table.schema();
        let places = (0..stored.len()).filter(|place| stored[*place]);
        let texts: Vec<usize> =
            places.filter(|place| *fields.field(*place).data_type() == DataType::Utf8).collect();
        let bytes = footer.memory_size();
        let options = ArrowReaderOptions::new().with_schema(schema_with(table, &texts));
        let reading = ArrowReaderMetadata::try_new(footer, options)?;
        let sizes = sizes(&reading);
        Ok(Self { reading, sizes, bytes })
    }

    pub(crate) fn metadata(&self) -> &ParquetMetaData {
        self.reading.metadata()
    }

    pub(crate) fn row_groups(&self) -> &[RowGroupMetaData] {
        self.metadata().row_groups()
    }

    /// Estimated bytes in memory of these columns of a row group.
    pub(crate) fn estimate(&self, group: usize, columns: &[usize]) -> u64 {
        columns.iter().map(|column| self.sizes[group][*column]).sum()
    }
}

/// Bytes of each column of each row group: the uncompressed size in the file, but at least a
/// minimum per row.
fn sizes(reading: &ArrowReaderMetadata) -> Vec<Vec<u64>> {
    let schema = reading.parquet_schema();
    let of_group = |group: &RowGroupMetaData| {
        let rows = group.num_rows().cast_unsigned();
        let least = |kind: &DataType| if kind.is_temporal() { 8 * rows } else { rows / 4 };
        let fields = reading.schema().fields().iter();
        let mut sizes: Vec<u64> = fields.map(|field| least(field.data_type())).collect();
        for (leaf, column) in group.columns().iter().enumerate() {
            let size = &mut sizes[schema.get_column_root_idx(leaf)];
            *size = (*size).max(column.uncompressed_size().cast_unsigned());
        }
        sizes
    };
    reading.metadata().row_groups().iter().map(of_group).collect()
}

/// A row group of a file, to read columns from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnChunk<'a> {
    pub(crate) places: &'a FileLocations,
    pub(crate) file: &'a Arc<DataFile>,
    pub(crate) footer: &'a FileFooter,
    pub(crate) group: usize,
    /// Identifies the scan.
    pub(crate) scan: usize,
}

impl ColumnChunk<'_> {
    pub(super) fn key(&self, column: usize) -> ChunkKey {
        (self.file.id, self.group, column)
    }

    fn meta(&self) -> &RowGroupMetaData {
        &self.footer.row_groups()[self.group]
    }

    pub(super) fn row_count(&self) -> usize {
        usize::try_from(self.meta().num_rows()).unwrap_or(usize::MAX)
    }

    fn open(&self) -> Result<FileSource> {
        QueryUsage::note_opened(self.file);
        Ok(self.places.open_file(self.file)?)
    }

    pub(super) fn read_whole(&self, column: usize) -> Result<Column> {
        let schema = self.footer.reading.parquet_schema();
        let leaves = (0..schema.num_columns())
            .filter(|leaf| schema.get_column_root_idx(*leaf) == column)
            .map(|leaf| self.meta().column(leaf));
        let ranges: Vec<(u64, u64)> = leaves.clone().map(|leaf| leaf.byte_range()).collect();
        if leaves.map(|leaf| leaf.uncompressed_size()).sum::<i64>() > COLUMN_BYTES_MAX {
            let text = format!("a column of `{}` is too large", self.file.path);
            return Err(DataFusionError::External(text.into()));
        }
        let start = ranges.iter().map(|range| range.0).min().unwrap_or_default();
        let end = ranges.iter().map(|range| range.0 + range.1).max().unwrap_or_default();
        count_read(end - start)?;
        let length = usize::try_from(end - start).unwrap_or(usize::MAX);
        let bytes = self.open()?.get_bytes(start, length)?;
        let stretch = ByteSpan { start, bytes };
        let mut arrays = self.decode(stretch, &[column], None)?;
        Column::new(&arrays.pop().expect("a column was asked for"))
    }

    /// Reads some rows of columns; texts come without a dictionary.
    pub(super) fn read_rows(&self, columns: &[usize], rows: &[u32]) -> Result<Vec<ArrayRef>> {
        let source = CountedSource(self.open()?);
        let arrays = self.decode(source, columns, Some(rows))?;
        arrays
            .into_iter()
            .map(|array| match array.data_type() {
                DataType::Dictionary(_, value) => Ok(cast(&array, value)?),
                _ => Ok(array),
            })
            .collect()
    }

    /// Decodes columns in ascending order of their indexes; all rows, or some.
    fn decode(
        &self,
        source: impl ChunkReader + 'static,
        columns: &[usize],
        rows: Option<&[u32]>,
    ) -> Result<Vec<ArrayRef>> {
        let reading = self.footer.reading.clone();
        let mask = ProjectionMask::roots(reading.parquet_schema(), columns.iter().copied());
        let count = rows.map_or(self.row_count(), <[u32]>::len);
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, reading)
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size(count.max(1));
        if let Some(rows) = rows {
            builder = builder.with_row_selection(selection(rows, self.row_count()));
        }
        let mut reader = builder.build()?;
        let batch = reader.next().transpose()?;
        let batch = batch.filter(|batch| batch.num_rows() == count).ok_or_else(|| {
            let text = format!("`{}` has fewer rows than its footer says", self.file.path);
            DataFusionError::External(text.into())
        })?;
        Ok(batch.columns().to_vec())
    }
}

/// Row selection for `rows`, which must ascend.
pub(super) fn selection(rows: &[u32], total: usize) -> RowSelection {
    let mut selectors = Vec::new();
    let mut at = 0;
    for run in rows.chunk_by(|one, next| one + 1 == *next) {
        let start = run[0] as usize;
        selectors.push(RowSelector::skip(start - at));
        selectors.push(RowSelector::select(run.len()));
        at = start + run.len();
    }
    selectors.push(RowSelector::skip(total - at));
    selectors.into()
}

/// Byte range of a file, beginning at `start`.
struct ByteSpan {
    start: u64,
    bytes: Bytes,
}

impl Length for ByteSpan {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ByteSpan {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let from = usize::try_from(start.saturating_sub(self.start)).unwrap_or(usize::MAX);
        Ok(std::io::Cursor::new(self.bytes.slice(from.min(self.bytes.len())..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let from = start.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        match range.filter(|range| range.end <= self.bytes.len()) {
            Some(range) => Ok(self.bytes.slice(range)),
            None => Err(parquet::errors::ParquetError::EOF("a page lies beyond its column".into())),
        }
    }
}

/// A file whose reads are charged to the query.
struct CountedSource(FileSource);

impl Length for CountedSource {
    fn len(&self) -> u64 {
        self.0.length()
    }
}

impl ChunkReader for CountedSource {
    type T = <FileSource as ChunkReader>::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        count_read(length as u64)
            .map_err(|error| parquet::errors::ParquetError::External(Box::new(error)))?;
        self.0.get_bytes(start, length)
    }
}
