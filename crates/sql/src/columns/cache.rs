//! Cache of file columns in memory, bounded by bytes.
//!
//! An entry is one column of one row group. A column of which a scan needs few rows is read page by
//! page the first time and as a whole the second time: a rare lookup that is not repeated costs
//! only its pages.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use object_store::ObjectStore;
use parking_lot::Mutex;
use weir_datafile::{DataFile, Tier, dictionaries};
use weir_tables::TableSpec;

use super::chunk::{ChunkKey, ColumnChunk, FileFooter};
use super::column::{Column, SharedDictionary};
use crate::file_reader::read_footer;

/// Columns recently read page by page; the record is cleared above this number.
const GLANCES_MAX: usize = 100_000;
/// A column is read as a whole when at least one row in this many is wanted.
const MANY: usize = 8;

/// Number of rows that a caller needs of a column.
#[derive(Clone, Copy)]
pub(crate) struct WantedRows(pub(crate) usize);

impl WantedRows {
    /// Whether reading the whole column is cheaper than reading these rows.
    fn are_many_of(self, chunk: &ColumnChunk<'_>) -> bool {
        self.0 * MANY > chunk.row_count()
    }
}

/// Columns in memory, evicted by least recent use.
#[derive(Debug)]
pub(crate) struct ColumnCache {
    /// Capacity in bytes.
    limit: usize,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    columns: HashMap<ChunkKey, CacheEntry>,
    bytes: usize,
    /// Logical clock: increases by one at each use.
    clock: u64,
    /// Columns of which some rows were read, with the first scan that read them.
    glances: HashMap<ChunkKey, usize>,
    footers: HashMap<i64, (Arc<FileFooter>, u64)>,
    /// Shared dictionaries by table and column index.
    lexicons: HashMap<(&'static str, usize), Arc<SharedDictionary>>,
}

#[derive(Debug)]
struct CacheEntry {
    column: Arc<Column>,
    bytes: usize,
    used: u64,
}

impl ColumnCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Capacity in bytes; 0 disables the cache.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, CacheState> {
        self.state.lock()
    }

    /// Shared dictionary of a text column. All of them are dropped when together they exceed an
    /// eighth of the limit.
    pub(crate) fn lexicon(&self, table: &TableSpec, column: usize) -> Arc<SharedDictionary> {
        let mut state = self.state();
        let bytes: usize = state.lexicons.values().map(|lexicon| lexicon.byte_count()).sum();
        if bytes > self.limit / 8 {
            state.lexicons.clear();
        }
        state.clock += 1;
        let now = state.clock;
        let of_column = state.lexicons.entry((table.name, column));
        Arc::clone(of_column.or_insert_with(|| Arc::new(SharedDictionary::new(now))))
    }

    /// Footer of a file; `None` if the file is not on the local disk or its columns differ from its
    /// table's current schema.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) async fn footer(
        &self,
        file: &DataFile,
        store: &dyn ObjectStore,
        footers: &Arc<FileMetadataCache>,
    ) -> Result<Option<Arc<FileFooter>>> {
        if file.tier != Tier::Local {
            return Ok(None);
        }
        if let Some(known) = self.state().footer(file.id) {
            return Ok(Some(known));
        }
        let meta = PartitionedFile::new(file.location(), file.byte_count).object_meta;
        let footer = read_footer(&meta, store, footers).await?;
        let stored = file.dictionaries.get_or_init(|| dictionaries(file.table, &footer));
        if stored.is_empty() {
            return Ok(None);
        }
        let footer = Arc::new(FileFooter::new(file.table, stored, footer)?);
        let mut state = self.state();
        state.bytes += footer.bytes;
        state.clock += 1;
        let used = state.clock;
        if let Some((old, _)) = state.footers.insert(file.id, (Arc::clone(&footer), used)) {
            state.bytes -= old.bytes;
        }
        state.make_room(self.limit);
        Ok(Some(footer))
    }

    /// A whole column, from memory or from the file; cached if it fits and `is_kept`.
    ///
    /// # Errors
    /// When the file cannot be read, or the query may not read that much.
    pub(crate) fn column(
        &self,
        chunk: &ColumnChunk<'_>,
        column: usize,
        is_kept: bool,
    ) -> Result<Arc<Column>> {
        let key = chunk.key(column);
        if let Some(known) = self.known(key) {
            return Ok(known);
        }
        let read = Arc::new(chunk.read_whole(column)?);
        if is_kept {
            self.keep(key, &read);
        }
        Ok(read)
    }

    /// A whole column if it is in memory, or if `wanted` rows are enough to justify reading it
    /// whole.
    ///
    /// # Errors
    /// As [`ColumnCache::column`].
    pub(crate) fn whole(
        &self,
        chunk: &ColumnChunk<'_>,
        column: usize,
        wanted: WantedRows,
        is_kept: bool,
    ) -> Result<Option<Arc<Column>>> {
        if wanted.are_many_of(chunk) {
            return self.column(chunk, column, is_kept).map(Some);
        }
        Ok(self.known(chunk.key(column)))
    }

    /// Estimates the read for `wanted` rows of a column: nothing, pages, or the whole column.
    pub(crate) fn forecast(
        &self,
        chunk: &ColumnChunk<'_>,
        column: usize,
        wanted: WantedRows,
    ) -> MissingColumns {
        let key = chunk.key(column);
        let state = self.state();
        if wanted.0 == 0 || state.columns.contains_key(&key) {
            MissingColumns::Nothing
        } else if wanted.are_many_of(chunk) || state.glances.contains_key(&key) {
            MissingColumns::All
        } else {
            MissingColumns::Pages
        }
    }

    /// Looks up a column in memory.
    fn known(&self, key: ChunkKey) -> Option<Arc<Column>> {
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        let entry = state.columns.get_mut(&key)?;
        entry.used = now;
        Some(Arc::clone(&entry.column))
    }

    fn keep(&self, key: ChunkKey, column: &Arc<Column>) {
        let bytes = column.byte_count();
        if bytes > self.limit / 4 {
            return;
        }
        let mut state = self.state();
        state.clock += 1;
        let entry = CacheEntry { column: Arc::clone(column), bytes, used: state.clock };
        state.bytes += bytes;
        if let Some(old) = state.columns.insert(key, entry) {
            state.bytes -= old.bytes;
        }
        state.make_room(self.limit);
    }

    /// Rows of some columns, in ascending order: from memory, or from the pages that contain them.
    ///
    /// # Errors
    /// As [`ColumnCache::column`].
    pub(crate) fn rows(
        &self,
        chunk: &ColumnChunk<'_>,
        columns: &[usize],
        rows: &[u32],
        is_kept: bool,
    ) -> Result<Vec<ArrayRef>> {
        let is_much = WantedRows(rows.len()).are_many_of(chunk);
        let mut found = vec![None; columns.len()];
        let mut missing = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let key = chunk.key(*column);
            if let Some(known) = self.known(key) {
                found[at] = Some(known.rows(rows)?);
            } else if is_much {
                found[at] = Some(self.column(chunk, *column, is_kept)?.rows(rows)?);
            } else if self.is_second_glance(key, chunk.scan) {
                found[at] = Some(self.column(chunk, *column, true)?.rows(rows)?);
            } else {
                missing.push(*column);
            }
        }
        missing.sort_unstable();
        missing.dedup();
        let read = if missing.is_empty() { Vec::new() } else { chunk.read_rows(&missing, rows)? };
        Ok(found
            .into_iter()
            .enumerate()
            .map(|(at, found)| {
                found.unwrap_or_else(|| {
                    let place = missing.iter().position(|column| *column == columns[at]);
                    Arc::clone(&read[place.expect("what is not in memory was read")])
                })
            })
            .collect())
    }

    /// Whether a different scan has read rows of the column before.
    fn is_second_glance(&self, key: ChunkKey, scan: usize) -> bool {
        let mut state = self.state();
        if state.glances.len() >= GLANCES_MAX {
            state.glances.clear();
        }
        *state.glances.entry(key).or_insert(scan) != scan
    }
}

/// The part of a column that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingColumns {
    Nothing,
    Pages,
    All,
}

impl CacheState {
    fn footer(&mut self, file: i64) -> Option<Arc<FileFooter>> {
        self.clock += 1;
        let now = self.clock;
        let (footer, used) = self.footers.get_mut(&file)?;
        *used = now;
        Some(Arc::clone(footer))
    }

    /// Evicts the least recently used columns once the cache exceeds `limit`.
    fn make_room(&mut self, limit: usize) {
        if self.bytes <= limit {
            return;
        }
        let columns = self.columns.iter().map(|(key, entry)| (entry.used, Some(*key), key.0));
        let footers = self.footers.iter().map(|(file, (_, used))| (*used, None, *file));
        let mut by_use: Vec<_> = columns.chain(footers).collect();
        by_use.sort_unstable();
        for (_, key, file) in by_use {
            // Evict an eighth more, so that eviction does not run for each column.
            if self.bytes <= limit / 8 * 7 {
                return;
            }
            let freed = match key {
                Some(key) => self.columns.remove(&key).map(|entry| entry.bytes),
                None => self.footers.remove(&file).map(|(footer, _)| footer.bytes),
            };
            self.bytes -= freed.unwrap_or_default();
        }
    }
}
