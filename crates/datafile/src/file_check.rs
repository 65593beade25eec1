//! Reads data files as a check does: what each costs, and whether it is what the manifest says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_ord::ord::make_comparator;
use arrow_schema::Schema;
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

/// What a data directory holds.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Tables that have files, by name.
    pub tables: BTreeMap<&'static str, TableCost>,
    /// What is not as it should be: path below the directory, and why.
    pub problems: Vec<(String, String)>,
    /// Files of tables that the manifest does not name: of a flush or a move under way, or left by a kill; the next start
    /// deletes them.
    pub unknown_files: Vec<String>,
}

/// What the files of a table cost.
#[derive(Clone, Debug, Default)]
pub struct TableCost {
    /// Files that queries read.
    pub file_count: u64,
    /// Their rows.
    pub row_count: u64,
    /// Their bytes, with all that follows.
    pub byte_count: u64,
    /// Bytes of those that are in the slow tier.
    pub slow_bytes: u64,
    /// Bytes of the text index.
    pub index_bytes: u64,
    /// Compressed bytes of each column.
    pub column_bytes: BTreeMap<String, u64>,
}

/// Data files on the disk whose names end so, as the manifest would name them.
pub fn data_files(dir: &Path, end: &str) -> Vec<String> {
    let entries = |dir: PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let files = entries(dir.join("data")).flat_map(entries).flat_map(entries);
    let files = files.filter(|path| path.extension().is_some_and(|found| found == end));
    let mut names: Vec<String> =
        files.filter_map(|path| Some(path.strip_prefix(dir).ok()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

/// One file being looked at.
pub struct FileCheck<'a> {
    /// Where files are.
    pub places: &'a dyn FileOpener,
    /// The file, as the manifest describes it.
    pub file: &'a DataFile,
    /// Whether every row is read.
    pub is_thorough: bool,
}

impl FileCheck<'_> {
    /// Adds what the file costs; an error says what is wrong with it.
    pub fn look(&self, inspection: &mut Inspection) -> Result<(), String> {
        let fail = |error: &dyn std::fmt::Display| format!("cannot be read: {error}");
        let file = self.places.open_file(self.file).map_err(|error| fail(&error))?;
        let length = file.length();
        if length != self.file.byte_count {
            return Err(format!("has {length} bytes, not {}", self.file.byte_count));
        }
        let policy =
            if self.is_thorough { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let options = ArrowReaderOptions::new().with_page_index_policy(policy);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options)
            .map_err(|error| fail(&error))?;
        let rows = reader.metadata().file_metadata().num_rows().cast_unsigned();
        if rows != self.file.row_count {
            return Err(format!("has {rows} rows, not {}", self.file.row_count));
        }
        let index = self.index(reader.metadata());
        let cost = inspection.tables.entry(self.file.table.name).or_default();
        cost.add(self.file, reader.metadata(), index.as_ref());
        if self.is_thorough {
            let is_of_today = has_columns(reader.schema(), self.file.table);
            let pages = PageCheck::new(reader.metadata())?;
            let rows = reader.with_batch_size(BLOCK_ROWS).build().map_err(|error| fail(&error))?;
            let index = index.filter(|index| is_of_today && index.is_current());
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

    /// Reads all rows: each can be decoded, they are in order, within the times that the manifest says, and the indexes
    /// are theirs. Of files that are older than a column only the first is looked at, and of an older index that it is there.
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

fn has_columns(schema: &Schema, table: &TableSpec) -> bool {
    let of_today = table.schema();
    let shape = |schema: &Schema| {
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    shape(schema) == shape(&of_today)
}

fn check_order(
    table: &TableSpec,
    before: Option<&RecordBatch>,
    rows: &RecordBatch,
) -> Result<(), String> {
    let fail = |error: &dyn std::fmt::Display| format!("cannot be compared: {error}");
    let parts = before.into_iter().chain([rows]);
    let rows = concat_batches(&rows.schema(), parts).map_err(|error| fail(&error))?;
    let columns = table.sort.iter().filter_map(|name| rows.column_by_name(name));
    let compare = columns.map(|column: &Arc<dyn Array>| {
        make_comparator(column, column, SORT).map_err(|error| fail(&error))
    });
    let compare = compare.collect::<Result<Vec<_>, _>>()?;
    let is_sorted = (1..rows.num_rows()).all(|at| {
        let orders = compare.iter().map(|compare| compare(at - 1, at));
        orders.reduce(std::cmp::Ordering::then).is_none_or(std::cmp::Ordering::is_le)
    });
    if is_sorted { Ok(()) } else { Err("has rows that are not in order".to_owned()) }
}

/// The index as it stands in a file, compared piece by piece with the one that its rows give.
struct IndexCheck<'a> {
    file: &'a FileSource,
    group_rows: Vec<usize>,
    /// Where pieces are, in the order in which they are written.
    offsets: std::vec::IntoIter<u64>,
}

impl<'a> IndexCheck<'a> {
    fn new(file: &'a FileSource, index: TextIndex) -> Self {
        let mut offsets: Vec<u64> = index.sheets().map(|sheet| sheet.offset).collect();
        offsets.sort_unstable();
        Self { file, group_rows: index.group_rows, offsets: offsets.into_iter() }
    }

    fn compare(&mut self, bytes: &[u8]) -> Result<u64, String> {
        let different = || "has a text index that is not of its rows".to_owned();
        let offset = self.offsets.next().ok_or_else(different)?;
        let mut stored = vec![0; bytes.len()];
        let read = self.file.read_exact_at(&mut stored, offset);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        if stored == bytes { Ok(offset) } else { Err(different()) }
    }
}
