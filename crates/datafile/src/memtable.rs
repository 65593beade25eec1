//! Data visible to queries: per table the memtable (hot rows), the immutable memtable (frozen rows
//! being flushed), and the files.
//!
//! A [`Snapshot`] is a set of `Arc`s; a query runs on a clone. Writers copy a list only while a
//! snapshot shares it (`Arc::make_mut`), so appends are cheap when no query runs.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat;
use weir_tables::{Batch, TABLES, TableSpec, is_null_column, null_column};

use crate::data_file::DataFile;

/// A consistent view of all tables, in the order of [`TABLES`].
#[derive(Clone)]
pub struct Snapshot {
    /// One entry per table.
    pub tables: Vec<TableSnapshot>,
    /// In a cluster: manifest snapshot that the file lists belong to.
    pub snapshot: i64,
    /// Recently flushed rows, kept for other hubs.
    pub flushed: Arc<Vec<FlushedRows>>,
    /// Newest manifest snapshot whose flushed rows were discarded.
    pub forgotten: i64,
}

/// Rows that one manifest change moved to files.
#[derive(Clone)]
pub struct FlushedRows {
    /// Manifest snapshot that added the files.
    pub snapshot: i64,
    /// Time of the change.
    pub at: Instant,
    /// Batches per table.
    pub tables: Vec<Arc<Vec<MemBatch>>>,
}

/// A consistent view of one table. Every row is in exactly one of the three lists.
#[derive(Clone, Default, Debug)]
pub struct TableSnapshot {
    /// Memtable: rows that no flush has taken.
    pub hot: Arc<Vec<MemBatch>>,
    /// Immutable memtable: rows being flushed.
    pub frozen: Arc<Vec<MemBatch>>,
    /// Files in the manifest.
    pub files: Arc<Vec<Arc<DataFile>>>,
}

/// A batch in memory with its statistics for pruning.
#[derive(Clone, Debug)]
pub struct MemBatch {
    /// The rows.
    pub rows: RecordBatch,
    /// Smallest `ts`, µs since 1970.
    pub min_ts: i64,
    /// Largest `ts`, µs since 1970.
    pub max_ts: i64,
    /// Memory used by the rows.
    pub bytes: usize,
    /// Columns known to hold a single value.
    pub uniform: UniformColumns,
}

/// Lazily computed flags: which columns of a batch hold a single value. Rules query often, and
/// computing a flag reads every value.
#[derive(Clone, Debug)]
pub struct UniformColumns(Arc<[OnceLock<bool>]>);

impl UniformColumns {
    /// No flag computed yet, for `columns` columns.
    pub fn of(columns: usize) -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(columns).collect())
    }

    /// Whether the column holds a single value; the first call computes it with `look`.
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
    /// An empty snapshot.
    pub fn new() -> Self {
        Self {
            tables: vec![TableSnapshot::default(); TABLES.len()],
            snapshot: 0,
            flushed: Arc::default(),
            forgotten: 0,
        }
    }

    /// Appends rows and returns the growth of the memtable in bytes.
    pub fn push(&mut self, batch: &Batch) -> usize {
        let Some(hot) = MemBatch::new(batch.rows.clone()) else { return 0 };
        let bytes = hot.bytes;
        let list = Arc::make_mut(&mut self.tables[table_index(batch.table)].hot);
        list.push(hot);
        merge_tail(list);
        bytes
    }

    /// Freezes the memtable: hot rows become frozen until they are in files.
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
    /// Smallest `ts` in memory or in files.
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
    /// Wraps rows with their statistics; `None` if there are no rows.
    pub fn new(rows: RecordBatch) -> Option<Self> {
        let ts = timestamps(&rows);
        let min_ts = ts.iter().copied().min()?;
        let max_ts = ts.iter().copied().max()?;
        let bytes = row_bytes(&rows);
        let uniform = UniformColumns::of(rows.num_columns());
        Some(Self { rows, min_ts, max_ts, bytes, uniform })
    }
}

/// Values of the column `ts`, which every table has and which is never NULL.
pub fn timestamps(rows: &RecordBatch) -> &[i64] {
    let column = rows.column_by_name("ts").expect("every table has `ts`");
    column.as_primitive::<TimestampMicrosecondType>().values()
}

/// Memory used by the rows. Shared buffers count by the slice used; NULL columns count nothing.
pub fn row_bytes(rows: &RecordBatch) -> usize {
    rows.columns()
        .iter()
        .filter(|column| !is_null_column(column))
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_default())
        .sum()
}

/// Index of `table` in [`TABLES`] and in a [`Snapshot`].
pub fn table_index(table: &TableSpec) -> usize {
    TABLES
        .iter()
        .position(|spec| spec.name == table.name)
        .expect("a spec that is handed around is one of `TABLES`")
}

/// Number of small neighbours merged into one batch.
const MERGE_COUNT: usize = 16;
/// Batches of this many rows are not merged.
const MERGE_ROWS_MAX: usize = 256;

/// Merges small batches at the tail: samples arrive a few rows at a time, and a scan pays per
/// batch. A batch merges only with neighbours that at least double it, so each row is copied only a
/// few times.
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

/// Concatenates batches; a column that is NULL in all of them stays a null column without buffers.
fn concat_rows(batches: &[MemBatch]) -> RecordBatch {
    let schema = batches[0].rows.schema();
    let total = batches.iter().map(|batch| batch.rows.num_rows()).sum();
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| {
            let parts: Vec<&dyn Array> =
                batches.iter().map(|batch| batch.rows.column(at).as_ref()).collect();
            if parts.iter().all(|part| is_null_column(*part)) {
                return null_column(field.data_type(), total);
            }
            concat(&parts).expect("batches of one table have one schema")
        })
        .collect();
    RecordBatch::try_new(schema, columns).expect("all columns have the rows of all batches")
}
