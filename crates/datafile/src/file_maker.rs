//! Writes a table's rows as Parquet: sorted, one file per day, synced. Layout:
//! `docs/formats/data-file.md`.
//!
//! Rows are sorted through an index of (batch, row) and written a few thousand at a time, so that
//! writing needs little memory beyond the rows themselves.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use arrow_select::concat::concat;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use weir_tables::{Column, DataKind, Micros, TableSpec};

use crate::data_file::{DataFile, file_path};
use crate::data_file_writer::DataFileWriter;
use crate::error::StoreError;
use crate::memtable::timestamps;
use crate::parquet_file::CREATED_BY;
use crate::text_index;

/// Sort order of files, their metadata and query plans: ascending, NULL first.
pub const SORT: SortOptions = SortOptions { descending: false, nulls_first: true };

/// Rows in a full row group.
pub const ROW_GROUP_ROWS: usize = 131_072;
/// Rows in a data page.
pub const PAGE_ROWS: usize = text_index::BLOCK_ROWS;
/// Bytes to read from the end of a file; most footers fit.
pub const FOOTER_BYTES_HINT: usize = 64 << 10;
/// Dictionary limit of message-size columns; beyond it the column falls back to plain encoding.
const SIZES_DICTIONARY_BYTES_MAX: usize = 32 << 10;
/// Maximum number of files per table and flush; the last file takes all later days. A sender with a
/// wrong clock could otherwise create thousands of one-day files.
const FILES_PER_TABLE_MAX: usize = 32;

/// Creates and names data files.
#[derive(Debug)]
pub struct FileMaker {
    root: PathBuf,
    next_id: AtomicI64,
}

impl FileMaker {
    /// Creates files below `root`, numbered from `next_id`.
    pub fn new(root: PathBuf, next_id: i64) -> Self {
        Self { root, next_id: AtomicI64::new(next_id) }
    }

    /// Sorts and writes rows of `table`, the last of which arrived at `arrival`. The returned files
    /// are durable but not yet in the manifest.
    ///
    /// # Errors
    /// `Full`, `Io`; files written so far are removed, at the latest on the next start.
    pub fn write(
        &self,
        table: &'static TableSpec,
        batches: &[RecordBatch],
        arrival: Micros,
    ) -> Result<Vec<Arc<DataFile>>, StoreError> {
        let mut files = Vec::new();
        for (day, order) in days(batches, &sorted_order(table, batches)) {
            let mut draft = self.draft(table, day, arrival)?;
            let outcome = draft.push_chosen(batches, &order).and_then(|()| draft.finish());
            files.push(outcome.inspect_err(|_| self.discard(&files))?);
        }
        Ok(files)
    }

    /// Starts an empty file of `table`; rows must be pushed in the table's sort order.
    pub fn draft(
        &self,
        table: &'static TableSpec,
        day: i64,
        arrival: Micros,
    ) -> Result<DataFileWriter, StoreError> {
        let (id, path) = self.next_path(table, day);
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
            day,
            min_ts: i64::MAX,
            max_ts: i64::MIN,
            arrival_ts: arrival.0,
            ..DataFile::new(id, table, path)
        };
        DataFileWriter::new(meta, file, &self.root, properties(table))
    }

    /// Full path of a file.
    pub fn place(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Allocates the number and path of `table`'s next file.
    pub fn next_path(&self, table: &TableSpec, day: i64) -> (i64, String) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let date = Micros(day.saturating_mul(86_400_000_000)).to_string();
        let date = date.split('T').next().unwrap_or_default();
        (id, file_path(table.name, date, id))
    }

    /// Removes files that will not be in the manifest; the next start removes leftovers.
    pub fn discard(&self, files: &[Arc<DataFile>]) {
        for file in files {
            drop(std::fs::remove_file(self.root.join(&file.path)));
        }
    }
}

/// All rows as (batch, row), stably sorted by `table.sort`.
fn sorted_order(table: &TableSpec, batches: &[RecordBatch]) -> Vec<(usize, usize)> {
    let places = batches
        .iter()
        .enumerate()
        .flat_map(|(batch, rows)| (0..rows.num_rows()).map(move |row| (batch, row)));
    if table.sort == ["ts"] {
        // The largest tables, already nearly sorted: a stable merge of runs is fastest.
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

/// Splits the order by day of `ts`.
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

/// Parquet writer properties of `table`.
fn properties(table: &TableSpec) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by(CREATED_BY.to_owned())
        .set_sorting_columns(Some(sorting_columns(table)));
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        if matches!(column.kind, DataKind::Time | DataKind::Int) {
            builder = builder.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        if !matches!(column.kind, DataKind::Text | DataKind::Attrs) {
            let level = ZstdLevel::try_new(1).expect("1 is a level");
            builder = builder.set_column_compression(path.clone(), Compression::ZSTD(level));
        }
        if is_size(column.name) {
            // With few repeats, zstd over plain values beats dictionary and delta encoding.
            builder = builder
                .set_column_encoding(path.clone(), Encoding::PLAIN)
                .set_column_dictionary_page_size_limit(path.clone(), SIZES_DICTIONARY_BYTES_MAX);
        }
        if is_mostly_distinct(column.name, column.kind) {
            builder = builder.set_column_dictionary_enabled(path.clone(), false);
        }
        if column.kind == DataKind::Text && !table.sort.contains(&column.name) {
            // Unsorted text pages span the whole value range, so page statistics cannot prune.
            builder = builder.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
    }
    builder.build()
}

/// Default compression level of columns.
pub(crate) fn level() -> ZstdLevel {
    ZstdLevel::try_new(3).expect("3 is a level")
}

/// Whether [`crate::text_column`] encodes the column. Parquet's writer keeps nearly unique texts
/// that are not ids, and sort columns, which need its page statistics.
pub(crate) fn is_text_column(table: &TableSpec, column: &Column) -> bool {
    let hardly_repeats = is_mostly_distinct(column.name, column.kind);
    column.kind == DataKind::Text
        && (!hardly_repeats || is_id_column(table, column))
        && !table.sort.contains(&column.name)
}

/// Whether the column holds nearly unique ids that queries look up by exact value.
pub(crate) fn is_id_column(table: &TableSpec, column: &Column) -> bool {
    column.kind == DataKind::Text
        && is_mostly_distinct(column.name, column.kind)
        && table.ids.contains(&column.name)
        && !table.sort.contains(&column.name)
}

/// Whether the column's values rarely repeat: a dictionary would cost time and save nothing.
fn is_mostly_distinct(name: &str, kind: DataKind) -> bool {
    kind == DataKind::Time
        || matches!(
            name,
            "request_id" | "trace_id" | "span_id" | "source_offset" | "finding_id" | "raw"
        )
}

/// Whether the column holds message sizes: either few distinct values or nearly as many as rows.
fn is_size(name: &str) -> bool {
    matches!(name, "request_bytes" | "response_bytes" | "response_body_bytes")
}

fn sorting_columns(table: &TableSpec) -> Vec<SortingColumn> {
    // No table has a nested column before a sort column, so leaf and column numbers match.
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use weir_tables::{Log, LogRows, Micros, Rows, Sysctl, SysctlRows, TABLES};

    use super::*;

    #[test]
    fn keys_and_values_of_maps_have_ids_in_the_file_and_not_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut rows = LogRows::default();
        rows.push(&Log { host: "web1", attrs: &[("level", "low")], ..Default::default() });
        let rows = rows.finish();
        let maker = FileMaker::new(dir.path().to_owned(), 7);
        let files = maker.write(&Log::SPEC, std::slice::from_ref(&rows), Micros(5)).unwrap();
        let file = File::open(dir.path().join(&files[0].path)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let attrs = Log::SPEC.column("attrs").unwrap();
        let described = reader.parquet_schema().root_schema().get_fields();
        let map = described.iter().find(|field| field.name() == attrs.name).unwrap();
        let pair = map.get_fields()[0].get_fields();
        let ids = (pair[0].get_basic_info().id(), pair[1].get_basic_info().id());
        assert_eq!((map.get_basic_info().id(), Some(ids)), (attrs.id, attrs.map_ids()));
        assert_eq!(reader.schema().fields(), Log::SPEC.schema().fields());
        let read = reader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(read.column_by_name("attrs"), rows.column_by_name("attrs"));
    }

    #[test]
    fn files_say_their_order_field_ids_and_page_indexes() {
        let dir = tempfile::tempdir().unwrap();
        let mut rows = SysctlRows::default();
        for (name, ts) in [("b", 1), ("a", 3), ("a", 2)] {
            rows.push(&Sysctl { ts: Micros(ts), host: "web1", name, ..Default::default() });
        }
        let maker = FileMaker::new(dir.path().to_owned(), 7);
        let files = maker.write(&Sysctl::SPEC, &[rows.finish()], Micros(5)).unwrap();
        assert_eq!(files[0].path, "data/sysctl/1970-01-01/000000000007.parquet");
        assert_eq!((files[0].min_ts, files[0].max_ts, files[0].row_count), (1, 3, 3));

        let file = File::open(dir.path().join(&files[0].path)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        for (column, field) in Sysctl::SPEC.columns.iter().zip(schema.root_schema().get_fields()) {
            assert_eq!((column.name, column.id), (field.name(), field.get_basic_info().id()));
        }
        let group = reader.metadata().row_group(0);
        assert!(group.columns().iter().all(|column| column.offset_index_offset().is_some()));
        let has_page_statistics = |name: &str| {
            let place = Sysctl::SPEC.columns.iter().position(|column| column.name == name).unwrap();
            group.column(place).column_index_offset().is_some()
        };
        assert!(has_page_statistics("ts") && has_page_statistics("name"));
        assert!(!has_page_statistics("value"), "a text that rows are not sorted by");
        let sorting = group.sorting_columns().unwrap();
        let names: Vec<&str> = sorting
            .iter()
            .map(|column| Sysctl::SPEC.columns[usize::try_from(column.column_idx).unwrap()].name)
            .collect();
        assert_eq!(names, Sysctl::SPEC.sort);
        let ts = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_timestamp_micros(0).unwrap());
        assert_eq!(ts.collect::<Vec<_>>(), [2, 3, 1], "by name, then by time");
    }

    #[test]
    fn no_table_has_a_nested_column_before_a_sort_column() {
        for table in TABLES {
            let nested = table.columns.iter().position(|column| column.kind == DataKind::Attrs);
            for name in table.sort {
                let place = table.columns.iter().position(|column| column.name == *name);
                assert!(place < nested.or(Some(usize::MAX)), "{}.{name}", table.name);
            }
        }
    }
}
