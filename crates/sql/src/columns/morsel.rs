//! Morsel: the unit of scanning, a batch of rows in memory or a row group of a file.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_select::take::take;
use datafusion::common::Result;
use weir_datafile::{DataFile, UniformColumns};
use weir_tier::FileLocations;

use super::cache::{ColumnCache, WantedRows};
use super::chunk::{ColumnChunk, FileFooter};
use super::column::{Column, SharedDictionary};
use super::filter::{Filter, SelectedRows};

/// Rows of a table that are scanned together.
#[derive(Debug)]
pub(crate) struct Morsel {
    pub(crate) source: MorselSource,
    /// Smallest `ts`.
    pub(crate) min_ts: i64,
    pub(crate) max_ts: i64,
    /// Rows that may match.
    pub(crate) picked: SelectedRows,
}

/// Source of a morsel's rows.
#[derive(Debug)]
pub(crate) enum MorselSource {
    /// Batch in memory, unsorted.
    Hot(RecordBatch, UniformColumns),
    /// Row group of a file, in the table's order.
    Group { file: Arc<DataFile>, footer: Arc<FileFooter>, group: usize },
}

/// Reads the columns of one morsel.
#[derive(Clone, Copy)]
pub(crate) struct MorselReader<'a> {
    pub(crate) unit: &'a Morsel,
    pub(crate) places: &'a FileLocations,
    pub(crate) cache: &'a ColumnCache,
    /// Whether columns that are read stay cached.
    pub(crate) is_kept: bool,
}

impl MorselReader<'_> {
    /// Selects the rows that meet all filters.
    ///
    /// # Errors
    /// When a filter cannot be computed, or files cannot be read.
    pub(crate) fn pick(&self, filters: &[Filter]) -> Result<SelectedRows> {
        let mut picked = self.unit.picked.clone();
        for filter in filters {
            if picked.len() == 0 {
                break;
            }
            picked = match filter.answer_of_all(self.unit) {
                Some(true) => picked,
                Some(false) => SelectedRows::Some(Vec::new()),
                None => filter.narrow(self, picked)?,
            };
        }
        Ok(picked)
    }

    /// A whole column, if reading it costs no more than reading `wanted` rows.
    ///
    /// # Errors
    /// When files cannot be read.
    pub(crate) fn whole(&self, column: usize, wanted: WantedRows) -> Result<Option<Arc<Column>>> {
        match &self.unit.source {
            MorselSource::Hot(rows, _) => {
                Ok(Some(Arc::new(Column::Plain(Arc::clone(rows.column(column))))))
            }
            MorselSource::Group { .. } => {
                self.cache.whole(&self.chunk(), column, wanted, self.is_kept)
            }
        }
    }

    /// A column for callers that evaluate each distinct value once: for rows in memory, only
    /// columns of one value qualify.
    ///
    /// # Errors
    /// As [`MorselReader::whole`].
    pub(crate) fn values(&self, column: usize, wanted: WantedRows) -> Result<Option<Arc<Column>>> {
        if let MorselSource::Hot(rows, uniform) = &self.unit.source {
            let rows = rows.column(column);
            if uniform.is(column, || Column::is_of_one_value(rows)) {
                return Ok(Some(Arc::new(Column::of_one_value(rows))));
            }
        }
        self.whole(column, wanted)
    }

    /// Shared dictionary of a text column, valid across morsels; `None` for rows in memory.
    pub(crate) fn lexicon(&self, column: usize) -> Option<Arc<SharedDictionary>> {
        match &self.unit.source {
            MorselSource::Hot(..) => None,
            MorselSource::Group { file, .. } => Some(self.cache.lexicon(file.table, column)),
        }
    }

    /// Selected rows of columns.
    ///
    /// # Errors
    /// As [`MorselReader::whole`].
    pub(crate) fn rows(&self, columns: &[usize], picked: &SelectedRows) -> Result<Vec<ArrayRef>> {
        match (&self.unit.source, picked) {
            (MorselSource::Hot(rows, _), SelectedRows::All(_)) => {
                Ok(columns.iter().map(|column| Arc::clone(rows.column(*column))).collect())
            }
            (MorselSource::Hot(batch, _), SelectedRows::Some(rows)) => {
                let rows = UInt32Array::from(rows.clone());
                columns.iter().map(|column| Ok(take(batch.column(*column), &rows, None)?)).collect()
            }
            (MorselSource::Group { .. }, SelectedRows::All(_)) => {
                let chunk = self.chunk();
                columns
                    .iter()
                    .map(|column| self.cache.column(&chunk, *column, self.is_kept)?.all())
                    .collect()
            }
            (MorselSource::Group { .. }, SelectedRows::Some(rows)) => {
                self.cache.rows(&self.chunk(), columns, rows, self.is_kept)
            }
        }
    }

    pub(super) fn chunk(&self) -> ColumnChunk<'_> {
        match &self.unit.source {
            MorselSource::Group { file, footer, group } => {
                // A morsel belongs to one scan, so its address identifies the scan.
                let scan = std::ptr::from_ref(self.unit).addr();
                ColumnChunk { places: self.places, file, footer, group: *group, scan }
            }
            MorselSource::Hot(..) => unreachable!("rows in memory are no part of a file"),
        }
    }
}
