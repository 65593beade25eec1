//! Checks data files: measures each file's size by part, and compares it with its manifest entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use weir_tables::TableSpec;

use crate::data_file::{DataFile, Tier};
use crate::file_maker::SORT;
use crate::file_source::{FileOpener, FileSource};
use crate::memtable::timestamps;
use crate::page_check::PageCheck;
use crate::text_index::{BLOCK_ROWS, IndexBuilder, METADATA_KEY, TextIndex};

/// Contents of a data directory.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Tables that have files, by name.
    pub tables: BTreeMap<&'static str, TableCost>,
    /// Problems: path below the directory, and reason.
    pub problems: Vec<(String, String)>,
    /// Table files missing from the manifest: written by a flush or move in progress, or left by a
    /// crash; the next start deletes them.
    pub unknown_files: Vec<String>,
    /// Files of an older weir, whose checksum the manifest does not have: another file in their place
    /// would not be noticed.
    pub unsealed_files: u64,
}

/// Disk usage of a table's files.
#[derive(Clone, Debug, Default)]
pub struct TableCost {
    /// Files visible to queries.
    pub file_count: u64,
    /// Row count.
    pub row_count: u64,
    /// Total bytes, including everything listed below.
    pub byte_count: u64,
    /// Bytes in the cold tier.
    pub slow_bytes: u64,
    /// Bytes of the text index.
    pub index_bytes: u64,
    /// Compressed bytes of each column.
    pub column_bytes: BTreeMap<String, u64>,
}

/// Data files on disk with the suffix `end`, as paths in the manifest's format.
pub fn data_files(dir: &Path, end: &str) -> Vec<String> {
    let files = list_dir(dir.join("data")).flat_map(list_dir).flat_map(list_dir);
    let files = files.filter(|path| path.extension().is_some_and(|found| found == end));
    let mut names: Vec<String> =
        files.filter_map(|path| Some(path.strip_prefix(dir).ok()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

fn list_dir(dir: PathBuf) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Check of one file.
pub struct FileCheck<'a> {
    /// Opens the file, in whichever tier it is.
    pub places: &'a dyn FileOpener,
    /// Manifest entry of the file.
    pub file: &'a DataFile,
    /// Whether to read every row.
    pub is_thorough: bool,
}

impl FileCheck<'_> {
    /// Adds the file's sizes to `inspection`; an error describes what is wrong with the file.
    pub fn look(&self, inspection: &mut Inspection) -> Result<(), String> {
        inspection.unsealed_files += u64::from(self.file.seal.is_none());
        let file = self.places.open_file(self.file).map_err(|error| unreadable(&error))?;
        let length = file.length();
        if length != self.file.byte_count {
            return Err(format!("has {length} bytes, not {}", self.file.byte_count));
        }
        let policy =
            if self.is_thorough { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let options = ArrowReaderOptions::new().with_page_index_policy(policy);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options)
            .map_err(|error| unreadable(&error))?;
        let rows = reader.metadata().file_metadata().num_rows().cast_unsigned();
        if rows != self.file.row_count {
            return Err(format!("has {rows} rows, not {}", self.file.row_count));
        }
        let index = self.index(reader.metadata());
        let cost = inspection.tables.entry(self.file.table.name).or_default();
        cost.add(self.file, reader.metadata(), index.as_ref());
        if self.is_thorough {
            let is_of_today = has_columns(reader.schema(), self.file.table);
            let index = index.filter(|index| is_of_today && index.is_current());
            // Rows and a current index are read below; far reads cost money.
            if self.file.tier == Tier::Local || index.is_none() {
                read_through(&file).map_err(|error| unreadable(&error))?;
            }
            let pages = PageCheck::new(reader.metadata())?;
            let rows =
                reader.with_batch_size(BLOCK_ROWS).build().map_err(|error| unreadable(&error))?;
            let index = index.map(|index| IndexCheck::new(&file, index));
            self.read(rows, is_of_today, pages, index)?;
        }
        Ok(())
    }

    fn index(&self, footer: &ParquetMetaData) -> Option<TextIndex> {
        let pairs = footer.file_metadata().key_value_metadata()?;
        let text = pairs.iter().find(|pair| pair.key == METADATA_KEY)?.value.as_deref()?;
        TextIndex::from_text(text, self.file.row_count)
    }

    /// Reads all rows: they must decode, be sorted, lie within the manifest's time range, and match
    /// both indexes. Files that lack a newer column are only decoded; an index of an older version
    /// only has to be present.
    fn read(
        &self,
        rows: ParquetRecordBatchReader,
        is_of_today: bool,
        mut pages: PageCheck,
        mut index: Option<IndexCheck<'_>>,
    ) -> Result<(), String> {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        let mut builder = index.as_ref().and_then(|_| IndexBuilder::new(self.file.table));
        let group_rows = index.as_ref().map(|index| index.group_rows.clone()).unwrap_or_default();
        let mut before: Option<RecordBatch> = None;
        for rows in rows {
            let rows = rows.map_err(|error| format!("cannot be read: {error}"))?;
            if !is_of_today || rows.num_rows() == 0 {
                continue;
            }
            least = timestamps(&rows).iter().copied().fold(least, i64::min);
            most = timestamps(&rows).iter().copied().fold(most, i64::max);
            check_order(self.file.table, before.as_ref(), &rows)?;
            pages.push(&rows);
            if let (Some(builder), Some(index)) = (&mut builder, &mut index) {
                builder.push(&rows, &group_rows, |bytes| index.compare(bytes))?;
            }
            before = Some(rows.slice(rows.num_rows() - 1, 1));
        }
        if let (Some(builder), Some(index)) = (builder, &mut index) {
            builder.finish(|bytes| index.compare(bytes))?;
        }
        if !is_of_today {
            return Ok(());
        }
        if (least, most) != (self.file.min_ts, self.file.max_ts) {
            return Err("has rows of other times than the manifest says".to_owned());
        }
        pages.finish()
    }
}

/// Reads a file from end to end, which checks its checksums.
fn read_through(file: &FileSource) -> std::io::Result<()> {
    std::io::copy(&mut file.reader_of(1 << 20), &mut std::io::sink()).map(drop)
}

fn unreadable(error: &dyn std::fmt::Display) -> String {
    format!("cannot be read: {error}")
}

impl TableCost {
    fn add(&mut self, file: &DataFile, footer: &ParquetMetaData, index: Option<&TextIndex>) {
        self.file_count += 1;
        self.row_count += file.row_count;
        self.byte_count += file.byte_count;
        self.slow_bytes += if file.tier == Tier::Slow { file.byte_count } else { 0 };
        self.index_bytes += index.map_or(0, TextIndex::byte_count);
        for column in footer.row_groups().iter().flat_map(|group| group.columns()) {
            let name = column.column_path().parts().first().cloned().unwrap_or_default();
            *self.column_bytes.entry(name).or_default() += column.compressed_size().cast_unsigned();
        }
    }
}

pub(crate) fn has_columns(schema: &Schema, table: &TableSpec) -> bool {
    let of_today = table.schema();
    shape_of(schema) == shape_of(&of_today)
}

fn shape_of(schema: &Schema) -> Vec<(String, DataType)> {
    let fields = schema.fields().iter();
    fields.map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
}

fn check_order(
    table: &TableSpec,
    before: Option<&RecordBatch>,
    rows: &RecordBatch,
) -> Result<(), String> {
    let parts = before.into_iter().chain([rows]);
    let rows = concat_batches(&rows.schema(), parts).map_err(|error| incomparable(&error))?;
    let columns = table.sort.iter().filter_map(|name| rows.column_by_name(name));
    let compare = columns.map(|column: &Arc<dyn Array>| {
        make_comparator(column, column, SORT).map_err(|error| incomparable(&error))
    });
    let compare = compare.collect::<Result<Vec<_>, _>>()?;
    let is_sorted = (1..rows.num_rows()).all(|at| {
        let orders = compare.iter().map(|compare| compare(at - 1, at));
        orders.reduce(std::cmp::Ordering::then).is_none_or(std::cmp::Ordering::is_le)
    });
    if is_sorted { Ok(()) } else { Err("has rows that are not in order".to_owned()) }
}

fn incomparable(error: &dyn std::fmt::Display) -> String {
    format!("cannot be compared: {error}")
}

/// Compares a stored text index, sheet by sheet, with one rebuilt from the rows.
struct IndexCheck<'a> {
    file: &'a FileSource,
    group_rows: Vec<usize>,
    /// Offsets of the stored sheets, in write order.
    offsets: std::vec::IntoIter<u64>,
}

impl<'a> IndexCheck<'a> {
    fn new(file: &'a FileSource, index: TextIndex) -> Self {
        let mut offsets: Vec<u64> = index.sheets().map(|sheet| sheet.offset).collect();
        offsets.sort_unstable();
        Self { file, group_rows: index.group_rows, offsets: offsets.into_iter() }
    }

    fn compare(&mut self, bytes: &[u8]) -> Result<u64, String> {
        let offset = self.offsets.next().ok_or_else(different_index)?;
        let mut stored = vec![0; bytes.len()];
        let read = self.file.read_exact_at(&mut stored, offset);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        if stored == bytes { Ok(offset) } else { Err(different_index()) }
    }
}

fn different_index() -> String {
    "has a text index that does not match its rows".to_owned()
}
