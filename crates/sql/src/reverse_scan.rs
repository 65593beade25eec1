//! Reverse scan for `order by ts desc limit …`: files are read from their end, first the last page,
//! then one row group at a time.
//!
//! DataFusion scans such files newest first, but at least a whole row group, and as many of them as
//! there are threads. When the last hundred rows are in the last page, that is sixteen times too
//! much. The rows found so far set the top-N bound when the next slice is opened, so later slices
//! are pruned by their statistics. Slices smaller than row groups cost more than they save: each
//! reads the dictionaries of all columns again.
//!
//! # Example
//! A file of two row groups becomes three slices, in this order: the last page of the second row
//! group, the rest of that row group, and the first row group.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use weir_datafile::text_index::group_rows;
use weir_datafile::{DataFile, PAGE_ROWS, ROW_GROUP_ROWS};

/// Optimizer rule: cuts the files below a top-N sort into slices, the newest first.
#[derive(Debug)]
pub(crate) struct ReverseScan;

impl PhysicalOptimizerRule for ReverseScan {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| match node.downcast_ref::<SortExec>() {
            Some(sort) if asks_for_newest(sort) => cut_below(node),
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "newest_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn asks_for_newest(sort: &SortExec) -> bool {
    let first = sort.expr().first();
    sort.fetch().is_some_and(|rows| rows <= PAGE_ROWS)
        && first.options.descending
        && first.expr.downcast_ref::<Column>().is_some_and(is_ts)
}

fn is_ts(column: &Column) -> bool {
    column.name() == "ts"
}

fn cut_below(sort: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    sort.transform_down(|node| {
        let Some(scan) = node.downcast_ref::<DataSourceExec>() else {
            return Ok(Transformed::no(node));
        };
        let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>() else {
            return Ok(Transformed::no(node));
        };
        // Files with a required order or a row limit stay whole.
        if !config.output_ordering.is_empty() || config.limit.is_some() {
            return Ok(Transformed::no(node));
        }
        let groups = slices(&config.file_groups);
        let cut = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups);
        // The sort above restores the order, so threads may take slices in any order.
        let cut = cut.with_preserve_order(false).build();
        Ok(Transformed::yes(DataSourceExec::from_data_source(cut) as Arc<dyn ExecutionPlan>))
    })
}

/// Slices of all files in the same number of groups; threads take them from one queue in this
/// order.
fn slices(groups: &[FileGroup]) -> Vec<FileGroup> {
    let mut files: Vec<&PartitionedFile> = groups.iter().flat_map(FileGroup::iter).collect();
    files.sort_by_key(|file| file.extension::<Arc<DataFile>>().map(|file| Reverse(file.max_ts)));
    let mut sizes = sizes();
    let slices: Vec<_> = files.into_iter().flat_map(|file| cut(file, &mut sizes)).collect();
    let count = slices.len().div_ceil(groups.len().max(1)).max(1);
    slices.chunks(count).map(|slices| FileGroup::new(slices.to_vec())).collect()
}

/// Cuts a file into slices that end at row groups; a file with a row selection stays whole.
fn cut(file: &PartitionedFile, sizes: &mut impl Iterator<Item = usize>) -> Vec<PartitionedFile> {
    let data = file.extension::<Arc<DataFile>>();
    let Some(data) = data.filter(|_| file.extension::<ParquetRowSelection>().is_none()) else {
        return vec![file.clone()];
    };
    let mut slices = Vec::new();
    let mut groups = group_rows(data).to_vec();
    let total = groups.iter().sum();
    let (mut end, mut group_start) = (total, total);
    while end > 0
        && let Some(rows) = sizes.next()
    {
        while end <= group_start {
            group_start -= groups.pop().unwrap_or(group_start);
        }
        // Pages begin at multiples of their size within the row group.
        let last_page = group_start + (end - 1 - group_start) / PAGE_ROWS * PAGE_ROWS;
        let start = last_page.saturating_sub(rows - PAGE_ROWS).max(group_start);
        slices.push(slice(file, start..end, total));
        end = start;
    }
    match (end, slices.is_empty()) {
        (0, _) => {}
        (_, true) => slices.push(file.clone()),
        (_, false) => slices.push(slice(file, 0..end, total)),
    }
    slices
}

/// Rows of each slice, until more slices no longer pay off.
fn sizes() -> impl Iterator<Item = usize> {
    std::iter::once(PAGE_ROWS).chain(std::iter::repeat_n(ROW_GROUP_ROWS, SLICES_MAX))
}

/// Row groups that become slices; older data is scanned by file.
const SLICES_MAX: usize = 64;

fn slice(file: &PartitionedFile, rows: Range<usize>, total: usize) -> PartitionedFile {
    let skip = RowSelector::skip;
    let selectors = vec![skip(rows.start), RowSelector::select(rows.len()), skip(total - rows.end)];
    file.clone().with_extension(ParquetRowSelection::new(RowSelection::from(selectors)))
}

#[cfg(test)]
mod tests {
    use weir_datafile::text_index::TextIndex;
    use weir_tables::TABLES;

    use super::*;

    fn file(rows: usize) -> DataFile {
        DataFile {
            row_count: rows as u64,
            byte_count: 1,
            max_ts: 1,
            ..DataFile::new(1, TABLES[0], "x.parquet".to_owned())
        }
    }

    fn ranges(data: DataFile) -> Vec<(usize, usize)> {
        let all = usize::try_from(data.row_count).unwrap();
        let file = PartitionedFile::new("x.parquet", 1).with_extension(Arc::new(data));
        let slices = cut(&file, &mut sizes());
        let range = |file: &PartitionedFile| {
            let Some(rows) = file.extension::<ParquetRowSelection>() else { return (0, all) };
            let mut at = 0;
            let mut found = (0, 0);
            for selector in rows.selection().iter() {
                if !selector.skip {
                    found = (at, at + selector.row_count);
                }
                at += selector.row_count;
            }
            found
        };
        slices.iter().map(range).collect()
    }

    #[test]
    fn slices_grow_end_at_pages_and_row_groups_and_miss_no_row() {
        let (page, group) = (PAGE_ROWS, ROW_GROUP_ROWS);
        assert_eq!(ranges(file(100)), [(0, 100)]);
        assert_eq!(ranges(file(page + 1)), [(page, page + 1), (0, page)]);
        for rows in [1, page, 3 * page + 7, group, group + 5, 3 * group + 100, 10 * group] {
            let ranges = ranges(file(rows));
            let mut end = rows;
            for (start, to) in &ranges {
                assert_eq!(*to, end, "{rows} rows: {ranges:?}");
                assert!(start < to && start % page == 0, "{rows} rows: {ranges:?}");
                end = *start;
            }
            assert_eq!(end, 0, "{rows} rows: {ranges:?}");
            assert!(
                ranges[0].1 - ranges[0].0 <= page && ranges.len() <= 4 + rows / (3 * page),
                "{rows} rows: {ranges:?}"
            );
        }
    }
    #[test]
    fn slices_end_where_row_groups_of_fewer_rows_do() {
        let (page, group) = (PAGE_ROWS, ROW_GROUP_ROWS);
        let merged = file(2 * page + 10 + group + page + 5);
        let group_rows = vec![2 * page + 10, group, page + 5];
        let index = TextIndex { group_rows, ..TextIndex::default() };
        merged.index.set(Some(index)).unwrap();
        let [first, second] = [2 * page + 10, 2 * page + 10 + group];
        let last = second + page;
        assert_eq!(ranges(merged), [(last, last + 5), (second, last), (first, second), (0, first)]);
    }
}
