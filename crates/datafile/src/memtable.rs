//! What queries see: per table the hot rows in memory, the frozen rows that are on their way into files, the files.
//!
//! A [`Snapshot`] is a set of `Arc`s: cloning it is the snapshot that a query runs on. Writers copy a list only when a
//! snapshot still holds it (`Arc::make_mut`), so appending is cheap while nobody asks.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch};
use arrow_schema::Field;
use arrow_select::concat::concat;
use weir_tables::{Batch, TABLES, TableSpec, is_null_column, null_column};

use crate::data_file::DataFile;

/// Every table's rows at one moment; in the order of [`TABLES`].
#[derive(Clone)]
pub struct Snapshot {
    /// One entry per table.
    pub tables: Vec<TableSnapshot>,
    /// Of several hubs: the change of the manifest that the files are of.
    pub snapshot: i64,
    /// Rows that came into files a moment ago, for other hubs.
    pub flushed: Arc<Vec<FlushedRows>>,
    /// The newest change of those that are not kept any more.
    pub forgotten: i64,
}

/// Rows that came into files with a change.
#[derive(Clone)]
pub struct FlushedRows {
    /// Manifest change that added the files.
    pub snapshot: i64,
    /// When the change was made.
    pub at: Instant,
    /// By table.
    pub tables: Vec<Arc<Vec<MemBatch>>>,
}

/// One table's rows at one moment. Every row is in exactly one of the three.
#[derive(Clone, Default, Debug)]
pub struct TableSnapshot {
    /// Rows that no flush has taken yet.
    pub hot: Arc<Vec<MemBatch>>,
    /// Rows that a flush is writing to files.
    pub frozen: Arc<Vec<MemBatch>>,
    /// Files of the manifest.
    pub files: Arc<Vec<Arc<DataFile>>>,
}

/// Rows in memory with what is needed to skip them.
#[derive(Clone, Debug)]
pub struct MemBatch {
    /// The rows.
    pub rows: RecordBatch,
    /// Smallest `ts`, µs since 1970.
    pub min_ts: i64,
    /// Largest `ts`, µs since 1970.
    pub max_ts: i64,
    /// Memory that the rows take.
    pub bytes: usize,
    /// Columns known to hold a single value.
    pub uniform: UniformColumns,
}

/// Which columns of a batch have one value in all rows, as far as somebody asked: rules ask again and again, and to find out reads
/// every value.
#[derive(Clone, Debug)]
pub struct UniformColumns(Arc<[OnceLock<bool>]>);

impl UniformColumns {
    /// Nothing known yet about any of `columns` columns.
    pub fn of(columns: usize) -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(columns).collect())
    }

    /// Whether a column is such one; `look` is asked the first time.
    pub fn is(&self, column: usize, look: impl FnOnce() -> bool) -> bool {
        match self.0.get(column) {
            Some(known) => *known.get_or_init(look),
            None => look(),
        }
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new()
    }
}

impl Snapshot {
    /// No rows and no files.
    pub fn new() -> Self {
        Self {
            tables: vec![TableSnapshot::default(); TABLES.len()],
            snapshot: 0,
            flushed: Arc::default(),
            forgotten: 0,
        }
    }

    /// Adds rows; gives the bytes that hot rows grew by.
    pub fn push(&mut self, batch: &Batch) -> usize {
        let Some(hot) = MemBatch::new(batch.rows.clone()) else { return 0 };
        let bytes = hot.bytes;
        let list = Arc::make_mut(&mut self.tables[table_index(batch.table)].hot);
        list.push(hot);
        merge_tail(list);
        bytes
    }

    /// Moves all hot rows to frozen, where they stay until they are in files.
    pub fn freeze(&mut self) {
        for table in &mut self.tables {
            debug_assert!(table.frozen.is_empty(), "one flush at a time");
            table.frozen = std::mem::take(&mut table.hot);
        }
    }

    /// Rows and bytes in memory, hot and frozen.
    pub fn hot_totals(&self) -> (u64, u64) {
        let batches = self.tables.iter().flat_map(|table| table.hot.iter().chain(&*table.frozen));
        batches.fold((0, 0), |(rows, bytes), batch| {
            (rows + batch.rows.num_rows() as u64, bytes + batch.bytes as u64)
        })
    }
}

impl TableSnapshot {
    /// The time of the oldest row, in memory or in a file.
    pub fn oldest(&self) -> Option<i64> {
        let memory = self.hot.iter().chain(&*self.frozen).map(|batch| batch.min_ts);
        memory.chain(self.files.iter().map(|file| file.min_ts)).min()
    }

    /// Rows in memory and in files.
    pub fn row_count(&self) -> u64 {
        let memory = self.hot.iter().chain(&*self.frozen).map(|batch| batch.rows.num_rows() as u64);
        memory.chain(self.files.iter().map(|file| file.row_count)).sum()
    }
}

impl MemBatch {
    /// `None` for no rows.
    pub fn new(rows: RecordBatch) -> Option<Self> {
        let ts = timestamps(&rows);
        let min_ts = ts.iter().copied().min()?;
        let max_ts = ts.iter().copied().max()?;
        let bytes = row_bytes(&rows);
        let uniform = UniformColumns::of(rows.num_columns());
        Some(Self { rows, min_ts, max_ts, bytes, uniform })
    }
}

/// The column `ts`, which every table has and which is never NULL.
pub fn timestamps(rows: &RecordBatch) -> &[i64] {
    let column = rows.column_by_name("ts").expect("every table has `ts`");
    column.as_primitive::<TimestampMicrosecondType>().values()
}

/// Bytes that the rows take; buffers shared with other batches are counted by the slice used, NULL columns not at all.
pub fn row_bytes(rows: &RecordBatch) -> usize {
    rows.columns()
        .iter()
        .filter(|column| !is_null_column(column))
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_default())
        .sum()
}

/// Where `table` stands in [`TABLES`] and in a [`Snapshot`].
pub fn table_index(table: &TableSpec) -> usize {
    TABLES
        .iter()
        .position(|spec| spec.name == table.name)
        .expect("a spec that is handed around is one of `TABLES`")
}

/// How many small neighbours are merged into one.
const MERGE_COUNT: usize = 16;
/// Batches with this many rows are left alone.
const MERGE_ROWS_MAX: usize = 256;

/// Merges the last batches when enough small ones have gathered: samples come a few rows at a time, and a scan pays
/// per batch. A batch is merged only when its neighbours at least double it, so a row is copied a few times at most.
fn merge_tail(list: &mut Vec<MemBatch>) {
    while let Some(start) = list.len().checked_sub(MERGE_COUNT) {
        let tail = &list[start..];
        let largest = tail.iter().map(|batch| batch.rows.num_rows()).max().unwrap_or_default();
        let total: usize = tail.iter().map(|batch| batch.rows.num_rows()).sum();
        if largest >= MERGE_ROWS_MAX || total < 2 * largest {
            return;
        }
        let merged = MemBatch::new(concat_rows(tail));
        list.truncate(start);
        list.extend(merged);
    }
}

/// The rows of all batches as one; a column that is NULL in all of them stays free of cost.
fn concat_rows(batches: &[MemBatch]) -> RecordBatch {
    let schema = batches[0].rows.schema();
    let total = batches.iter().map(|batch| batch.rows.num_rows()).sum();
    let column = |(at, field): (usize, &Arc<Field>)| {
        let parts: Vec<&dyn Array> =
            batches.iter().map(|batch| batch.rows.column(at).as_ref()).collect();
        if parts.iter().all(|part| is_null_column(*part)) {
            return null_column(field.data_type(), total);
        }
        concat(&parts).expect("batches of one table have one schema")
    };
    let columns = schema.fields().iter().enumerate().map(column).collect();
    RecordBatch::try_new(schema, columns).expect("all columns have the rows of all batches")
}
