//! Decides whether a table is scanned by columns in memory, and splits the scan into morsels.
//!
//! The column scan is chosen if all files are on the local disk, the columns of the conditions
//! (without conditions: all wanted columns) fit into the cache, and no row group is so large that
//! its columns should be read in parts. Otherwise files are streamed from start to end, which
//! caches nothing.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use weir_datafile::{DataFile, MemBatch};
use weir_tables::TableSpec;

use super::chunk::FileFooter;
use super::filter::SelectedRows;
use super::morsel::{Morsel, MorselSource};
use super::scan::{ColumnScan, places};
use crate::file_access::{FileAccess, ScanPart};
use crate::table_provider::kept;

/// Above this number of files, the planner does not inspect each of them.
const FILES_MAX: usize = 1024;

/// Scan of a table as the query requests it.
pub(crate) struct ScanRequest<'a> {
    pub(crate) table: &'static TableSpec,
    pub(crate) hot: &'a [MemBatch],
    pub(crate) parts: &'a [ScanPart],
    pub(crate) projection: Option<&'a Vec<usize>>,
    pub(crate) filters: &'a [Expr],
    pub(crate) pruning: Option<&'a PruningPredicate>,
    pub(crate) limit: Option<usize>,
    pub(crate) threads: usize,
}

/// Plans the scan; `None` if another scan is better.
///
/// # Errors
/// When files cannot be read.
pub(crate) async fn plan(
    access: &FileAccess,
    wanted: ScanRequest<'_>,
) -> Result<Option<ColumnScan>> {
    let cache = &access.columns;
    if cache.limit() == 0 || wanted.parts.len() > FILES_MAX {
        return Ok(None);
    }
    let schema = wanted.table.schema();
    let projection =
        wanted.projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
    let named = wanted.filters.iter().flat_map(Expr::column_refs);
    let mut driving = places(&schema, named.map(|column| column.name.as_str()));
    let mut needed = [driving.clone(), projection.clone()].concat();
    needed.sort_unstable();
    needed.dedup();
    if driving.is_empty() {
        driving.clone_from(&needed);
    }
    let limit = cache.limit() as u64;
    let (mut units, mut driving_bytes, mut needed_bytes) = (Vec::new(), 0, 0);
    for part in wanted.parts {
        let footer = cache.footer(&part.file, &*access.store, &access.footers).await?;
        let Some(footer) = footer else { return Ok(None) };
        for unit in groups(part, &footer, wanted.pruning) {
            if let MorselSource::Group { group, .. } = &unit.source {
                let bytes = footer.estimate(*group, &needed);
                if bytes > limit / 4 {
                    return Ok(None);
                }
                driving_bytes += footer.estimate(*group, &driving);
                needed_bytes += bytes;
            }
            units.push(unit);
        }
    }
    if driving_bytes > limit / 4 * 3 {
        return Ok(None);
    }
    units.sort_by_key(|unit| unit.min_ts);
    let is_apart = units.is_sorted_by(|one, next| one.max_ts <= next.min_ts);
    let is_ordered = wanted.table.sort == ["ts"] && wanted.hot.is_empty() && is_apart;
    units.extend(wanted.hot.iter().map(of_memory));
    let partitions = units.len().clamp(1, wanted.threads.max(1));
    let blocks = wanted.parts.iter().filter_map(|part| Some(part.rows.as_ref()?.1.clone()));
    Ok(Some(ColumnScan {
        table: wanted.table,
        schema,
        places: access.places.clone(),
        cache: Arc::clone(cache),
        units: Arc::new(units),
        partitions,
        filters: Vec::new(),
        projection,
        fetch: wanted.limit,
        newest: None,
        is_ordered,
        keeps_all: needed_bytes <= limit / 4 * 3,
        blocks: blocks.collect(),
        metrics: ExecutionPlanMetricsSet::new(),
    }))
}

fn of_memory(batch: &MemBatch) -> Morsel {
    let picked = SelectedRows::All(batch.rows.num_rows());
    let source = MorselSource::Hot(batch.rows.clone(), batch.uniform.clone());
    Morsel { source, min_ts: batch.min_ts, max_ts: batch.max_ts, picked }
}

/// Row groups of a file that may match.
fn groups(
    part: &ScanPart,
    footer: &Arc<FileFooter>,
    pruning: Option<&PruningPredicate>,
) -> Vec<Morsel> {
    let groups = footer.row_groups();
    let ts = part.file.table.columns.iter().position(|column| column.name == "ts").unwrap_or(0);
    let ends = |group: &RowGroupMetaData| {
        // With nested columns before `ts`, this index would refer to another column; tests verify
        // that there are none.
        let known = group.columns().get(ts).and_then(|column| column.statistics());
        let known = match known {
            Some(Statistics::Int64(known)) => {
                known.min_opt().copied().zip(known.max_opt().copied())
            }
            _ => None,
        };
        known.unwrap_or((part.file.min_ts, part.file.max_ts))
    };
    let ranges = groups.iter().map(|group| (ends(group).0, ends(group).1, rows_of(group) as u64));
    let keep = kept(pruning, ranges);
    let mut start = 0;
    let mut units = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let picked = picked(part.rows.as_ref().map(|rows| &rows.0), start..start + rows_of(group));
        start += rows_of(group);
        if !keep[at] || picked.len() == 0 {
            continue;
        }
        let (min_ts, max_ts) = ends(group);
        let (file, footer) = (Arc::<DataFile>::clone(&part.file), Arc::clone(footer));
        units.push(Morsel {
            source: MorselSource::Group { file, footer, group: at },
            min_ts,
            max_ts,
            picked,
        });
    }
    units
}

fn rows_of(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(usize::MAX)
}

/// Rows of the range `of` of the file that the text index left, relative to its start.
fn picked(selection: Option<&RowSelection>, of: Range<usize>) -> SelectedRows {
    let Some(selection) = selection else { return SelectedRows::All(of.len()) };
    let (mut at, mut rows) = (0, Vec::new());
    for selector in selection.iter() {
        let end = at + selector.row_count;
        if !selector.skip {
            let from = at.max(of.start).saturating_sub(of.start);
            let to = end.min(of.end).saturating_sub(of.start);
            rows.extend((from..to).filter_map(|row| u32::try_from(row).ok()));
        }
        at = end;
    }
    if rows.len() == of.len() { SelectedRows::All(of.len()) } else { SelectedRows::Some(rows) }
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::RowSelector;

    use super::*;

    #[test]
    fn selections_of_files_are_cut_at_row_groups() {
        let (skip, select) = (RowSelector::skip, RowSelector::select);
        let selection = RowSelection::from(vec![skip(2), select(4), skip(1), select(3)]);
        let rows = |of| picked(Some(&selection), of);
        assert_eq!(rows(0..4), SelectedRows::Some(vec![2, 3]));
        assert_eq!(rows(4..6), SelectedRows::All(2));
        assert_eq!(rows(5..9), SelectedRows::Some(vec![0, 2, 3]));
        assert_eq!(rows(6..7), SelectedRows::Some(vec![]));
        assert_eq!(picked(None, 6..10), SelectedRows::All(4));
    }
}
