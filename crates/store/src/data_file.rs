//! Writes a table's rows as Parquet: sorted, one file per day, synced. Layout: `docs/formats/data-file.md`.
//!
//! Rows are put in order by an index of (batch, row) and copied a few thousand at a time, so writing needs little
//! memory beside the rows themselves.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use weir_tables::{DataKind, Micros, TableSpec};

use crate::directory::sync_dir;
use crate::error::{ErrorKind, StoreError};
use crate::hot::timestamps;
use crate::manifest::DataFile;

/// Ascending, NULL first: in files, in their metadata and in query plans alike.
pub(crate) const SORT: SortOptions = SortOptions { descending: false, nulls_first: true };

/// Rows handed to the Parquet writer at once.
const CHUNK_ROWS: usize = 8192;
const ROW_GROUP_ROWS: usize = 131_072;
const PAGE_ROWS: usize = 8192;
/// A table's rows of one flush go to at most this many files; the last takes all later days. Clocks can be wrong, and
/// a file per wrong day would be thousands.
const FILES_PER_TABLE_MAX: usize = 32;

/// Where files go and how they are named.
#[derive(Debug)]
pub(crate) struct FileMaker {
    root: PathBuf,
    next_id: AtomicI64,
}

impl FileMaker {
    pub(crate) fn new(root: PathBuf, next_id: i64) -> Self {
        Self { root, next_id: AtomicI64::new(next_id) }
    }

    /// Sorts and writes rows of `table`; gives the files, durable, not yet in the manifest.
    ///
    /// # Errors
    /// `Full`, `Io`; files written so far are removed, or by the next start.
    pub(crate) fn write(
        &self,
        table: &'static TableSpec,
        batches: &[RecordBatch],
    ) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let mut files = Vec::new();
        for (day, order) in days(batches, &sorted_order(table, batches)) {
            let mut draft = self.draft(table, day)?;
            let outcome = write_rows(&mut draft, batches, &order).and_then(|()| draft.finish());
            files.push(outcome.inspect_err(|_| self.discard(&files))?);
        }
        Ok(files)
    }

    /// An empty file of `table` for rows in the table's order.
    pub(crate) fn draft(&self, table: &'static TableSpec, day: i64) -> Result<Draft, StoreError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let date = Micros(day * 86_400_000_000).to_string();
        let date = date.split('T').next().unwrap_or_default();
        let path = format!("data/{}/{date}/{id:012}.parquet", table.name);
        let full_path = self.root.join(&path);
        let fail = |error: &std::io::Error| StoreError::io("write", &full_path, error);
        let parent = full_path.parent().expect("the path has directories");
        std::fs::create_dir_all(parent).map_err(|error| fail(&error))?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&full_path)
            .map_err(|error| fail(&error))?;
        let meta = DataFile {
            id,
            table,
            path,
            day,
            row_count: 0,
            byte_count: 0,
            min_ts: i64::MAX,
            max_ts: i64::MIN,
        };
        let buffered = BufWriter::with_capacity(256 << 10, file);
        let writer = ArrowWriter::try_new(buffered, table.schema(), Some(properties(table)))
            .map_err(|error| parquet_error(&full_path, &error))?;
        Ok(Draft { meta, writer: Some(writer), full_path, root: self.root.clone() })
    }

    /// Removes files that will not be in the manifest; what stays is removed at the next start.
    pub(crate) fn discard(&self, files: &[Arc<DataFile>]) {
        for file in files {
            drop(std::fs::remove_file(self.root.join(&file.path)));
        }
    }
}

/// A file being written; removed again unless it is finished.
pub(crate) struct Draft {
    meta: DataFile,
    writer: Option<ArrowWriter<BufWriter<File>>>,
    full_path: PathBuf,
    root: PathBuf,
}

impl Draft {
    /// Adds rows, which have to follow those before in the table's order.
    pub(crate) fn push(&mut self, rows: &RecordBatch) -> Result<(), StoreError> {
        let writer = self.writer.as_mut().expect("taken by finish only");
        writer.write(rows).map_err(|error| parquet_error(&self.full_path, &error))?;
        let ts = timestamps(rows);
        self.meta.row_count += ts.len() as u64;
        self.meta.min_ts = ts.iter().copied().fold(self.meta.min_ts, i64::min);
        self.meta.max_ts = ts.iter().copied().fold(self.meta.max_ts, i64::max);
        Ok(())
    }

    /// Ends the file and makes it and its name durable.
    pub(crate) fn finish(mut self) -> Result<Arc<DataFile>, StoreError> {
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
        let writer = self.writer.take().expect("finish takes self");
        let buffered =
            writer.into_inner().map_err(|error| parquet_error(&self.full_path, &error))?;
        let sync = || {
            let file = buffered.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        self.meta.byte_count =
            sync().map_err(|error| StoreError::io("write", &self.full_path, &error))?;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            drop(std::fs::remove_file(&self.full_path));
        }
    }
}

fn write_rows(
    draft: &mut Draft,
    batches: &[RecordBatch],
    order: &[(usize, usize)],
) -> Result<(), StoreError> {
    let parts: Vec<&RecordBatch> = batches.iter().collect();
    for chunk in order.chunks(CHUNK_ROWS) {
        let rows = interleave_record_batch(&parts, chunk).map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot sort rows: {error}"))
        })?;
        draft.push(&rows)?;
    }
    Ok(())
}

/// Every row as (batch, row), in the order of `table.sort`; equal ones in order of arrival.
fn sorted_order(table: &TableSpec, batches: &[RecordBatch]) -> Vec<(usize, usize)> {
    let places = batches
        .iter()
        .enumerate()
        .flat_map(|(batch, rows)| (0..rows.num_rows()).map(move |row| (batch, row)));
    if table.sort == ["ts"] {
        // By far the largest tables, nearly in order already: a stable merge of runs is the fastest there.
        let ts: Vec<&[i64]> = batches.iter().map(timestamps).collect();
        let mut order: Vec<_> = places.collect();
        order.sort_by_key(|(batch, row)| ts[*batch][*row]);
        return order;
    }
    let places: Vec<_> = places.collect();
    let columns: Vec<SortColumn> =
        table.sort.iter().map(|name| sort_column(name, batches)).collect();
    let indices = lexsort_to_indices(&columns, None).expect("sort columns have sortable types");
    indices.values().iter().map(|at| places[*at as usize]).collect()
}

fn sort_column(name: &str, batches: &[RecordBatch]) -> SortColumn {
    let parts: Vec<&ArrayRef> = batches
        .iter()
        .map(|batch| batch.column_by_name(name).expect("specs sort by own columns"))
        .collect();
    let parts: Vec<_> = parts.into_iter().map(AsRef::as_ref).collect();
    SortColumn { values: concat(&parts).expect("one type, and not empty"), options: Some(SORT) }
}

/// The order cut into days of `ts`, each in order.
fn days(batches: &[RecordBatch], order: &[(usize, usize)]) -> BTreeMap<i64, Vec<(usize, usize)>> {
    let ts: Vec<&[i64]> = batches.iter().map(timestamps).collect();
    let day = |place: &(usize, usize)| Micros(ts[place.0][place.1]).day();
    let mut distinct: Vec<i64> = order.iter().map(day).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let last = distinct.get(FILES_PER_TABLE_MAX - 1).copied().unwrap_or(i64::MAX);
    let mut days: BTreeMap<i64, Vec<(usize, usize)>> = BTreeMap::new();
    for place in order {
        days.entry(day(place).min(last)).or_default().push(*place);
    }
    days
}

/// How the columns of `table` are written.
fn properties(table: &TableSpec) -> WriterProperties {
    let level = ZstdLevel::try_new(3).expect("3 is a level");
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_sorting_columns(Some(sorting_columns(table)));
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        if matches!(column.kind, DataKind::Time | DataKind::Int) {
            builder = builder.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        if is_mostly_distinct(column.name, column.kind) {
            builder = builder.set_column_dictionary_enabled(path, false);
        }
    }
    builder.build()
}

/// Columns whose values hardly repeat: a dictionary of them costs time and saves nothing.
fn is_mostly_distinct(name: &str, kind: DataKind) -> bool {
    kind == DataKind::Time || matches!(name, "request_id" | "source_offset" | "finding_id" | "raw")
}

fn sorting_columns(table: &TableSpec) -> Vec<SortingColumn> {
    // No table has a nested column before a sort column, so leaf and column numbers agree there.
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    table
        .sort
        .iter()
        .map_while(|name| i32::try_from(place(name)?).ok())
        .map(|column_idx| SortingColumn {
            column_idx,
            descending: SORT.descending,
            nulls_first: SORT.nulls_first,
        })
        .collect()
}

/// Parquet wraps I/O errors; the one inside says whether the disk is full.
fn parquet_error(path: &Path, error: &parquet::errors::ParquetError) -> StoreError {
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = inner {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return StoreError::io("write", path, io);
        }
        inner = match cause.downcast_ref::<parquet::errors::ParquetError>() {
            Some(parquet::errors::ParquetError::External(boxed)) => Some(boxed.as_ref()),
            _ => cause.source(),
        };
    }
    StoreError::new(ErrorKind::Io, format!("cannot write `{}`: {error}", path.display()))
}
