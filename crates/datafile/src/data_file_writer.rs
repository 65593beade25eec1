//! Writes a data file: row groups, the text index between them, and the footer.
//!
//! Parquet's own writer encodes numeric and nested columns. [`crate::text_column`] encodes text
//! columns and passes its dictionary codes to the text index, so each text is looked up only once.

use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::interleave::interleave;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;
use weir_tables::{TableSpec, is_null_column, null_column};

use crate::checksums::{self, ChecksumWriter};
use crate::data_file::DataFile;
use crate::disk::sync_dir;
use crate::error::{ErrorKind, StoreError};
use crate::file_maker::{PAGE_ROWS, ROW_GROUP_ROWS, is_id_column, is_text_column, level};
use crate::memtable::timestamps;
use crate::row_group_source::{ColumnChunk, RowGroupSource};
use crate::text_column::{PagePacker, TextColumn, TextPart, TextValues, parts};
use crate::text_index::{self, IndexBuilder};

/// An unfinished data file; deleted on drop unless [`finish`](Self::finish) was called.
pub struct DataFileWriter {
    meta: DataFile,
    writer: Option<FileWriter>,
    full_path: PathBuf,
    root: PathBuf,
}

struct FileWriter {
    table: &'static TableSpec,
    file: SerializedFileWriter<ChecksumWriter>,
    factory: ArrowRowGroupWriterFactory,
    packer: PagePacker,
    index: Option<IndexBuilder>,
    /// Writers of the current row group; empty between row groups.
    columns: Vec<ColumnWriter>,
    /// For each column, whether its texts repeated in the previous row group.
    repeats: Vec<bool>,
    /// Rows in the current row group.
    rows: usize,
}

enum ColumnWriter {
    Text(Box<TextColumn>),
    /// One writer per leaf column.
    Other(Vec<ArrowColumnWriter>),
}

/// Rows to write, in order; at most up to the end of the current block.
enum PendingRows<'a> {
    /// All rows of a batch.
    All(&'a RecordBatch),
    /// Selected rows of consecutive batches; batch numbers are relative to the first one.
    Chosen(&'a ChosenRows<'a>, Range<usize>, &'a [(usize, usize)]),
}

/// Columns of the source batches of a selection; `None` for a column that is all NULL.
struct ChosenRows<'a> {
    texts: Vec<Option<Vec<TextPart<'a>>>>,
    others: Vec<Option<Vec<&'a dyn Array>>>,
}

impl DataFileWriter {
    /// Starts writing `meta`'s file.
    pub(crate) fn new(
        meta: DataFile,
        file: File,
        root: &Path,
        properties: WriterProperties,
    ) -> Result<Self, StoreError> {
        let full_path = root.join(&meta.path);
        let writer = FileWriter::new(meta.table, file, properties)
            .map_err(|error| parquet_error(&full_path, &error))?;
        Ok(Self { meta, writer: Some(writer), full_path, root: root.to_owned() })
    }

    /// Appends rows, which must follow all earlier rows in the table's sort order. Columns that
    /// satisfy `is_text_column` may be dictionaries.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), StoreError> {
        let ts = timestamps(rows);
        self.note(ts.iter().copied());
        let mut done = 0;
        while done < rows.num_rows() {
            let count = self.writer().room().min(rows.num_rows() - done);
            self.write(&PendingRows::All(&rows.slice(done, count)), count)?;
            done += count;
        }
        Ok(())
    }

    /// Appends rows selected from `batches` as (batch, row); the same order is required.
    pub(crate) fn push_chosen(
        &mut self,
        batches: &[RecordBatch],
        order: &[(usize, usize)],
    ) -> Result<(), StoreError> {
        let ts: Vec<&[i64]> = batches.iter().map(timestamps).collect();
        self.note(order.iter().map(|(batch, row)| ts[*batch][*row]));
        let choice = ChosenRows::new(self.meta.table, batches);
        let mut rest = order;
        while !rest.is_empty() {
            let (rows, later) = rest.split_at(self.writer().room().min(rest.len()));
            // Input is nearly sorted, so a block draws from few batches.
            let of = || rows.iter().map(|(batch, _)| *batch);
            let (first, last) = (of().min().unwrap_or_default(), of().max().unwrap_or_default());
            let near: Vec<_> = rows.iter().map(|(batch, row)| (batch - first, *row)).collect();
            self.write(&PendingRows::Chosen(&choice, first..last + 1, &near), rows.len())?;
            rest = later;
        }
        Ok(())
    }

    /// Whether row groups of `donor` can be copied into this file.
    pub(crate) fn takes(&self, donor: &RowGroupSource) -> bool {
        let writer = self.writer.as_ref().expect("taken by finish only");
        donor.fits(writer.file.schema_descr(), writer.index.as_ref())
    }

    /// Copies a row group from a file that satisfies [`takes`](Self::takes). Its rows span `ts` and
    /// must follow all earlier rows.
    pub(crate) fn copy_group(
        &mut self,
        donor: &RowGroupSource,
        group: usize,
        chunks: &[Arc<ColumnChunk>],
        ts: (i64, i64),
    ) -> Result<(), StoreError> {
        let copied = self.writer().copy_group(donor, group, chunks);
        self.meta.row_count += copied.map_err(|error| parquet_error(&self.full_path, &error))?;
        self.meta.min_ts = self.meta.min_ts.min(ts.0);
        self.meta.max_ts = self.meta.max_ts.max(ts.1);
        Ok(())
    }

    fn note(&mut self, ts: impl ExactSizeIterator<Item = i64> + Clone) {
        self.meta.row_count += ts.len() as u64;
        self.meta.min_ts = ts.clone().fold(self.meta.min_ts, i64::min);
        self.meta.max_ts = ts.fold(self.meta.max_ts, i64::max);
    }

    fn writer(&mut self) -> &mut FileWriter {
        self.writer.as_mut().expect("taken by finish only")
    }

    fn write(&mut self, rows: &PendingRows<'_>, count: usize) -> Result<(), StoreError> {
        let written = self.writer().write(rows, count);
        written.map_err(|error| parquet_error(&self.full_path, &error))
    }

    /// Finishes the file; syncs it and its directories.
    pub fn finish(mut self) -> Result<Arc<DataFile>, StoreError> {
        let outcome = self.finish_file();
        if outcome.is_err() {
            drop(std::fs::remove_file(&self.full_path));
        }
        outcome?;
        let mut dir = self.full_path.parent();
        while let Some(path) = dir.filter(|path| path.starts_with(&self.root)) {
            sync_dir(path)?;
            dir = path.parent();
        }
        Ok(Arc::new(self.meta.clone()))
    }

    fn finish_file(&mut self) -> Result<(), StoreError> {
        let mut writer = self.writer.take().expect("finish takes self");
        let fail = |error: &ParquetError| parquet_error(&self.full_path, error);
        writer.end_row_group().map_err(|error| fail(&error))?;
        if let Some(index) = writer.index.take() {
            let index = index
                .finish(|bytes| write_between(&mut writer.file, bytes))
                .map_err(|error| fail(&error))?;
            let (key, value) = (text_index::METADATA_KEY.to_owned(), index.to_text());
            writer.file.append_key_value_metadata(KeyValue { key, value: Some(value) });
            drop(self.meta.index.set(Some(index)));
        }
        writer.add_checksums().map_err(|error| fail(&error))?;
        let written = writer.file.into_inner().map_err(|error| fail(&error))?;
        let sync = || {
            let (file, seal) = written.finish()?;
            file.sync_all()?;
            Ok((file.metadata()?.len(), seal))
        };
        (self.meta.byte_count, self.meta.seal) =
            sync().map_err(|error| StoreError::io("write", &self.full_path, &error))?;
        Ok(())
    }
}

impl Drop for DataFileWriter {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            drop(std::fs::remove_file(&self.full_path));
        }
    }
}

impl FileWriter {
    fn new(
        table: &'static TableSpec,
        file: File,
        properties: WriterProperties,
    ) -> Result<Self, ParquetError> {
        let out = ChecksumWriter::new(BufWriter::with_capacity(256 << 10, file));
        let writer = crate::parquet_file::writer(out, table, properties)?;
        let (file, factory) = writer.into_serialized_writer()?;
        let packer = PagePacker::new(level())?;
        let (index, repeats) = (IndexBuilder::new(table), vec![true; table.columns.len()]);
        Ok(Self { table, file, factory, packer, index, columns: Vec::new(), repeats, rows: 0 })
    }

    /// Rows left in the current block.
    fn room(&self) -> usize {
        PAGE_ROWS - self.rows % PAGE_ROWS
    }

    fn write(&mut self, rows: &PendingRows<'_>, count: usize) -> Result<(), ParquetError> {
        if self.columns.is_empty() {
            self.columns = self.new_columns()?;
        }
        let schema = self.table.schema();
        for (place, column) in self.columns.iter_mut().enumerate() {
            match column {
                ColumnWriter::Text(column) => {
                    let texts = rows.texts(place);
                    let numbered = column.push(&texts, &mut self.packer)?;
                    match (&mut self.index, numbered) {
                        (None, _) => {}
                        (Some(index), Some((distinct, numbers))) => {
                            index.push_numbers(place, distinct, numbers);
                        }
                        (Some(index), None) => index.push_texts(place, &texts),
                    }
                }
                ColumnWriter::Other(leaves) => {
                    let field = schema.field(place);
                    let values = rows.values(place, field.data_type())?;
                    if let (Some(index), Some(texts)) = (&mut self.index, values.as_string_opt()) {
                        index.push_texts(place, &TextValues::All(TextPart::Plain(texts)));
                    }
                    for (writer, leaf) in leaves.iter_mut().zip(compute_leaves(field, &values)?) {
                        writer.write(&leaf)?;
                    }
                }
            }
        }
        self.rows += count;
        if self.rows == ROW_GROUP_ROWS {
            self.end_row_group()?;
        }
        match &mut self.index {
            Some(index) => index.end_rows(count, |bytes| write_between(&mut self.file, bytes)),
            None => Ok(()),
        }
    }

    /// Copies a row group and returns its row count.
    fn copy_group(
        &mut self,
        donor: &RowGroupSource,
        group: usize,
        chunks: &[Arc<ColumnChunk>],
    ) -> Result<u64, ParquetError> {
        self.end_row_group()?;
        if let Some(index) = &mut self.index {
            index.end_group(|bytes| write_between(&mut self.file, bytes))?;
        }
        donor.copy(group, chunks, &mut self.file, self.index.as_mut())
    }

    fn new_columns(&self) -> Result<Vec<ColumnWriter>, ParquetError> {
        let mut leaves = self.factory.create_column_writers(0)?.into_iter();
        let described = self.file.schema_descr().columns();
        let of_table = |leaf: &ColumnDescPtr, name: &str| leaf.path().parts()[0] == name;
        let columns = self.table.columns.iter().zip(&self.repeats).map(|(column, repeats)| {
            let described: Vec<_> =
                described.iter().filter(|leaf| of_table(leaf, column.name)).collect();
            let own = leaves.by_ref().take(described.len()).collect();
            let leaf = || Arc::clone(described[0]);
            if is_id_column(self.table, column) {
                return ColumnWriter::Text(Box::new(TextColumn::of_ids(leaf())));
            }
            if is_text_column(self.table, column) {
                return ColumnWriter::Text(Box::new(TextColumn::new(leaf(), *repeats)));
            }
            ColumnWriter::Other(own)
        });
        Ok(columns.collect())
    }

    fn end_row_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let columns = std::mem::take(&mut self.columns);
        for (column, repeats) in columns.into_iter().zip(&mut self.repeats) {
            match column {
                ColumnWriter::Text(column) => {
                    *repeats = column.repeats();
                    let (bytes, close) = column.finish(&mut self.packer)?;
                    group.append_column(&bytes, close)?;
                }
                ColumnWriter::Other(leaves) => {
                    for leaf in leaves {
                        leaf.close()?.append_to_row_group(&mut group)?;
                    }
                }
            }
        }
        self.rows = 0;
        group.close().map(drop)
    }

    /// Ends the data with the checksums of its blocks.
    fn add_checksums(&mut self) -> Result<(), ParquetError> {
        self.file.flush()?;
        let (blocks, entry) = self.file.inner_mut().end_data();
        write_between(&mut self.file, &blocks)?;
        let (key, value) = (checksums::METADATA_KEY.to_owned(), Some(entry));
        self.file.append_key_value_metadata(KeyValue { key, value });
        Ok(())
    }
}

/// Writes bytes outside any column chunk and returns their offset.
fn write_between(
    file: &mut SerializedFileWriter<ChecksumWriter>,
    bytes: &[u8],
) -> Result<u64, ParquetError> {
    let offset = file.bytes_written() as u64;
    file.write_all(bytes)?;
    Ok(offset)
}

impl<'a> ChosenRows<'a> {
    fn new(table: &TableSpec, batches: &'a [RecordBatch]) -> Self {
        let (mut texts, mut others) = (Vec::new(), Vec::new());
        for (place, column) in table.columns.iter().enumerate() {
            let is_text = is_text_column(table, column);
            texts.push(is_text.then(|| parts(batches, place)).flatten());
            let of = || batches.iter().map(|batch| batch.column(place).as_ref());
            let has_values = !is_text && !of().all(is_null_column);
            others.push(has_values.then(|| of().collect()));
        }
        Self { texts, others }
    }
}

impl PendingRows<'_> {
    fn texts(&self, place: usize) -> TextValues<'_> {
        match self {
            Self::All(batch) if is_null_column(batch.column(place)) => {
                TextValues::Nulls(batch.num_rows())
            }
            Self::All(batch) => TextValues::All(TextPart::of(batch.column(place))),
            Self::Chosen(choice, range, order) => match &choice.texts[place] {
                Some(parts) => TextValues::Chosen(&parts[range.clone()], order),
                None => TextValues::Nulls(order.len()),
            },
        }
    }

    fn values(
        &self,
        place: usize,
        data_type: &arrow_schema::DataType,
    ) -> Result<ArrayRef, ParquetError> {
        match self {
            Self::All(batch) => Ok(Arc::clone(batch.column(place))),
            Self::Chosen(choice, range, order) => match &choice.others[place] {
                Some(parts) => Ok(interleave(&parts[range.clone()], order)?),
                None => Ok(null_column(data_type, order.len())),
            },
        }
    }
}

/// Parquet wraps I/O errors; unwrap them to detect a full disk.
fn parquet_error(path: &Path, error: &ParquetError) -> StoreError {
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = inner {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return StoreError::io("write", path, io);
        }
        inner = match cause.downcast_ref::<ParquetError>() {
            Some(ParquetError::External(boxed)) => Some(boxed.as_ref()),
            _ => cause.source(),
        };
    }
    StoreError::new(ErrorKind::Io, format!("cannot write `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use arrow_select::concat::concat_batches;
    use parquet::basic::{Encoding, EncodingMask};
    use parquet::file::metadata::ParquetMetaData;
    use weir_tables::{Log, LogRows, Micros, Request, RequestRows, Rows as _};

    use super::*;
    use crate::file_maker::FileMaker;
    use crate::read_back::{check_index, read};

    /// Encodings of the column's data pages.
    fn encodings(footer: &ParquetMetaData, group: usize, name: &str) -> EncodingMask {
        let columns = footer.row_group(group).columns();
        let column = columns.iter().find(|column| column.column_path().string() == name).unwrap();
        *column.page_encoding_stats_mask().unwrap()
    }

    #[test]
    fn rows_of_all_kinds_of_texts_come_back_with_their_index() {
        let count = 140_000_u32;
        let batches: Vec<RecordBatch> = (0..7)
            .map(|part| {
                let mut rows = LogRows::default();
                for number in (part..count).step_by(7) {
                    // Few distinct texts first, then unique ones that overflow the dictionary.
                    let body = if number < 40_000 {
                        format!("Order {} was sent", number % 100)
                    } else {
                        format!("Order {number} was sent to {}", "nobody, nowhere ".repeat(5))
                    };
                    let severity = ["info", "warn", ""][number as usize % 3];
                    rows.push(&Log {
                        ts: Micros(i64::from(number)),
                        host: "web1",
                        source: "/var/log/app.log",
                        body: &body,
                        severity: (number % 10_000 > 9000).then_some(severity),
                        ..Default::default()
                    });
                }
                rows.finish()
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let maker = FileMaker::new(dir.path().to_owned(), 1);
        let files = maker.write(&Log::SPEC, &batches, Micros(5)).unwrap();
        let (rows, footer, bytes) = read(dir.path(), &files[0]);
        let all = concat_batches(&Log::SPEC.schema(), &batches).unwrap();
        let mut order: Vec<usize> = (0..all.num_rows()).collect();
        order.sort_by_key(|row| timestamps(&all)[*row]);
        let chosen: Vec<_> = order.iter().map(|row| (0, *row)).collect();
        let sorted = arrow_select::interleave::interleave_record_batch(&[&all], &chosen).unwrap();
        assert_eq!(rows.columns(), sorted.columns());
        check_index(&rows, &footer, &bytes);

        assert_eq!(footer.num_row_groups(), 2);
        assert!(encodings(&footer, 0, "host").is_only(Encoding::RLE_DICTIONARY));
        let of_both = [Encoding::RLE_DICTIONARY, Encoding::PLAIN];
        let of_both = EncodingMask::new_from_encodings(of_both.iter());
        assert_eq!(encodings(&footer, 0, "body"), of_both, "the dictionary became too large");

        // Push rows as a merge does: in slices that ignore block boundaries.
        let mut draft = maker.draft(&Log::SPEC, 0, Micros(5)).unwrap();
        for start in (0..rows.num_rows()).step_by(3001) {
            draft.push(&rows.slice(start, 3001.min(rows.num_rows() - start))).unwrap();
        }
        let merged = draft.finish().unwrap();
        let (again, footer, bytes) = read(dir.path(), &merged);
        assert_eq!(again.columns(), rows.columns());
        check_index(&again, &footer, &bytes);
        assert_eq!((merged.min_ts, merged.max_ts, merged.row_count), (0, 139_999, 140_000));
    }

    #[test]
    fn ids_take_half_a_byte_for_each_digit_and_sizes_a_dictionary_while_they_are_few() {
        let (mut rows, mut digits) = (RequestRows::default(), 0);
        for number in 0..20_000_u32 {
            let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let mut id = format!("{id:032x}");
            id.truncate(if number % 500 == 1 { number as usize % 33 } else { 32 });
            let has_id = !number.is_multiple_of(7);
            digits += if has_id { id.len() } else { 0 };
            rows.push(&Request {
                ts: Micros(i64::from(number)),
                request_id: has_id.then_some(&id),
                request_bytes: Some(i64::from(number % 5)),
                response_bytes: Some(i64::from(number) * 7919 % 100_003),
                ..Default::default()
            });
        }
        let rows = rows.finish();
        let dir = tempfile::tempdir().unwrap();
        let maker = FileMaker::new(dir.path().to_owned(), 1);
        let files = maker.write(&Request::SPEC, std::slice::from_ref(&rows), Micros(5)).unwrap();
        let (back, footer, _) = read(dir.path(), &files[0]);
        assert_eq!(back.columns(), rows.columns());
        let of = |name: &str| encodings(&footer, 0, name);
        assert!(of("request_id").is_only(Encoding::DELTA_LENGTH_BYTE_ARRAY));
        assert!(of("request_bytes").is_only(Encoding::RLE_DICTIONARY));
        let of_both = [Encoding::RLE_DICTIONARY, Encoding::PLAIN];
        assert_eq!(of("response_bytes"), EncodingMask::new_from_encodings(of_both.iter()));
        let columns = footer.row_group(0).columns();
        let ids = columns.iter().find(|column| column.column_path().string() == "request_id");
        let bytes = usize::try_from(ids.unwrap().compressed_size()).unwrap();
        assert!(bytes < digits / 2 + digits / 50, "{bytes} bytes for {digits} digits");
    }

    #[test]
    fn rows_of_a_megabyte_do_not_wait_for_a_block() {
        let text =
            |number: usize| format!("{number} {}", ["abc ", "xyz "][number % 2].repeat(200_000));
        let mut rows = LogRows::default();
        for number in (0..40).chain(30..50) {
            let body = text(number);
            rows.push(&Log { ts: Micros(1), body: &body, ..Default::default() });
        }
        let rows = rows.finish();
        let dir = tempfile::tempdir().unwrap();
        let maker = FileMaker::new(dir.path().to_owned(), 1);
        let mut draft = maker.draft(&Log::SPEC, 0, Micros(5)).unwrap();
        for start in (0..60).step_by(5) {
            draft.push(&rows.slice(start, 5)).unwrap();
        }
        let file = draft.finish().unwrap();
        let (back, footer, bytes) = read(dir.path(), &file);
        assert_eq!(back.columns(), rows.columns());
        check_index(&back, &footer, &bytes);
        let of_both = [Encoding::RLE_DICTIONARY, Encoding::PLAIN];
        let of_both = EncodingMask::new_from_encodings(of_both.iter());
        assert_eq!(encodings(&footer, 0, "body"), of_both);
    }

    #[test]
    fn any_few_rows_come_back_and_statistics_hold_them() {
        let dir = tempfile::tempdir().unwrap();
        let maker = FileMaker::new(dir.path().to_owned(), 1);
        arbtest::arbtest(|u| {
            let mut rows = LogRows::default();
            let mut bodies = Vec::new();
            for number in 0..u.int_in_range(1..=40)? {
                let body = u.arbitrary::<&str>()?.repeat(u.int_in_range(0..=9)?);
                let severity: Option<&str> = u.arbitrary()?;
                let (ts, body) = (Micros(number), body.as_str());
                bodies.push(body.to_owned());
                rows.push(&Log { ts, host: "web1", body, severity, ..Default::default() });
            }
            let rows = rows.finish();
            let files = maker.write(&Log::SPEC, std::slice::from_ref(&rows), Micros(5)).unwrap();
            let (back, footer, bytes) = read(dir.path(), &files[0]);
            assert_eq!(back.columns(), rows.columns());
            check_index(&back, &footer, &bytes);
            let columns = footer.row_group(0).columns();
            let body = columns.iter().find(|column| column.column_path().string() == "body");
            let statistics = body.unwrap().statistics().unwrap();
            let least = bodies.iter().map(String::as_bytes).min().unwrap();
            let most = bodies.iter().map(String::as_bytes).max().unwrap();
            assert!(statistics.min_bytes_opt().unwrap() <= least);
            assert!(statistics.max_bytes_opt().is_none_or(|bound| bound >= most));
            Ok(())
        });
    }

    #[test]
    fn file_that_is_not_finished_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let maker = FileMaker::new(dir.path().to_owned(), 1);
        let draft = maker.draft(&Log::SPEC, 0, Micros(5)).unwrap();
        let path = draft.full_path.clone();
        assert!(path.exists());
        drop(draft);
        assert!(!path.exists());
    }
}
