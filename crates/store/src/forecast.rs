//! What a query will read, said before it runs: files, bytes and requests of each tier.
//!
//! The query is planned as if it were run: files are left out by their times, blocks by the text index, row groups and pages
//! by their statistics. What is then still to be read, and is not in memory, is counted from the footers. It is the most that is read: a limit, or a condition
//! that no row of a block fits, may end the reading earlier.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::{
    PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, ParquetRowSelection,
    RowGroupAccess, RowGroupAccessPlanFilter,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::columns::ColumnScan;
use crate::file_reader::read_footer;
use crate::manifest::{DataFile, Tier};
use crate::table_provider::FileAccess;

/// What a query will read at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// From the data directory.
    pub fast: Reading,
    /// From the slow tier.
    pub slow: Reading,
    /// Where the slow tier is; `None` without one.
    pub slow_place: Option<String>,
    /// Whether a read of the slow tier is a request to a service, which may cost money.
    pub is_slow_far: bool,
}

/// What is read in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Files that are opened.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Reads, in a bucket requests: neighbours are read together.
    pub reads: u64,
}

/// Adds up what the scans of a plan will read.
///
/// # Errors
/// When a footer cannot be read.
pub(crate) async fn forecast(
    plan: &Arc<dyn ExecutionPlan>,
    access: &FileAccess,
) -> Result<Forecast> {
    let (mut scans, mut in_memory) = (Vec::new(), Vec::new());
    plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<DataSourceExec>() {
            scans.extend(scan.data_source().downcast_ref::<FileScanConfig>().cloned());
            in_memory.extend(scan.data_source().downcast_ref::<ColumnScan>().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let slow = access.places.slow.as_ref();
    let mut forecast = Forecast {
        slow_place: slow.map(|slow| slow.name()),
        is_slow_far: slow.is_some_and(|slow| slow.is_far()),
        ..Forecast::default()
    };
    let mut opened = HashSet::new();
    for unread in in_memory.iter().flat_map(ColumnScan::unread) {
        let (footer, number) = (unread.footer, unread.group);
        let ranges = unread.columns.iter().flat_map(|(name, rows)| {
            let names = std::slice::from_ref(name);
            of_columns(names, rows, footer.row_group(number), number, footer)
        });
        let lengths: Vec<u64> = ranges.map(|range| range.end - range.start).collect();
        if lengths.is_empty() {
            continue;
        }
        let reading = &mut forecast.fast;
        reading.files += u64::from(opened.insert(unread.file.id));
        reading.reads += lengths.len() as u64;
        reading.bytes += lengths.iter().sum::<u64>();
    }
    for config in &scans {
        let scan = Scan::new(config);
        for file in config.file_groups.iter().flat_map(|group| group.iter()) {
            let Some(data) = file.extension::<Arc<DataFile>>() else { continue };
            let ranges = scan.ranges(file, access).await?;
            // What statistics answer opens nothing.
            if ranges.is_empty() {
                continue;
            }
            let reading = match data.tier {
                Tier::Local => &mut forecast.fast,
                Tier::Slow => &mut forecast.slow,
            };
            reading.files += u64::from(opened.insert(data.id));
            for ranges in ranges {
                let reads = match (data.tier, slow) {
                    (Tier::Slow, Some(slow)) => slow.reads(&data.path, ranges),
                    _ => ranges,
                };
                reading.reads += reads.len() as u64;
                reading.bytes += reads.iter().map(|read| read.end - read.start).sum::<u64>();
            }
        }
    }
    Ok(forecast)
}

/// What one scan asks of each of its files.
struct Scan<'a> {
    config: &'a FileScanConfig,
    /// Names of the columns that conditions need, and of the others.
    conditions: Vec<String>,
    rest: Vec<String>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
}

impl<'a> Scan<'a> {
    fn new(config: &'a FileScanConfig) -> Self {
        let predicate = config.file_source().filter();
        let names = |expr: &Arc<dyn PhysicalExpr>| {
            collect_columns(expr).into_iter().map(|column| column.name().to_owned())
        };
        let conditions: Vec<String> = predicate.iter().flat_map(names).collect();
        let projected = config.file_source().projection();
        let projected = projected.into_iter().flat_map(|columns| columns.iter());
        let rest = projected.flat_map(|column| names(&column.expr));
        let rest = rest.filter(|name| !conditions.contains(name)).collect::<HashSet<_>>();
        let rest = rest.into_iter().collect();
        Self { config, conditions, rest, predicate }
    }

    /// Ranges of bytes, those that are asked for at the same time together.
    async fn ranges(
        &self,
        file: &PartitionedFile,
        access: &FileAccess,
    ) -> Result<Vec<Vec<Range<u64>>>> {
        let footer = read_footer(&file.object_meta, &*access.store, &access.footers).await?;
        let groups = self.pruned(file, &footer)?;
        let kept = groups.inner().iter().zip(footer.row_groups()).enumerate();
        let kept = kept.filter(|(_, (rows, _))| rows.should_scan());
        let ranges = kept.flat_map(|(number, (rows, group))| {
            // Conditions are read first, one column after the other, and the rest where they hold.
            let ranges = |columns: &[String]| of_columns(columns, rows, group, number, &footer);
            let first = self.conditions.iter().map(std::slice::from_ref).map(ranges);
            first.chain([ranges(&self.rest)]).collect::<Vec<_>>()
        });
        Ok(ranges.filter(|ranges| !ranges.is_empty()).collect())
    }

    /// The row groups and pages that statistics do not rule out.
    fn pruned(
        &self,
        file: &PartitionedFile,
        footer: &ParquetMetaData,
    ) -> Result<ParquetAccessPlan> {
        let groups = footer.row_groups();
        let plan = match file.extension::<ParquetRowSelection>() {
            Some(rows) => ParquetAccessPlan::try_new_from_overall_row_selection(
                rows.selection().clone(),
                groups,
            )?,
            None => ParquetAccessPlan::new_all(groups.len()),
        };
        let mut filter = RowGroupAccessPlanFilter::new(plan);
        if let Some(range) = &file.range {
            filter.prune_by_range(groups, range);
        }
        let Some(predicate) = &self.predicate else { return Ok(filter.build()) };
        let (schema, stored) = (self.config.file_schema(), footer.file_metadata().schema_descr());
        let metrics = ParquetFileMetrics::new(0, "forecast", &ExecutionPlanMetricsSet::new());
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(schema))
            .try_build(Arc::clone(predicate));
        if let Ok(pruning) = pruning {
            filter.prune_by_statistics(schema, stored, groups, &pruning, &metrics);
        }
        let pages = PagePruningAccessPlanFilter::new(predicate, Arc::clone(schema));
        Ok(pages.prune_plan_with_page_index(filter.build(), schema, stored, footer, &metrics))
    }
}

/// Where the pages of some columns of a row group are.
fn of_columns(
    columns: &[String],
    rows: &RowGroupAccess,
    group: &RowGroupMetaData,
    number: usize,
    footer: &ParquetMetaData,
) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    for (place, column) in group.columns().iter().enumerate() {
        let is_asked =
            column.column_path().parts().first().is_some_and(|name| columns.contains(name));
        if !is_asked {
            continue;
        }
        let (start, length) = column.byte_range();
        let index = footer.offset_index().and_then(|index| index.get(number)?.get(place));
        match (rows, index.map(|index| index.page_locations())) {
            (RowGroupAccess::Selection(rows), Some(pages)) if !pages.is_empty() => {
                let first = u64::try_from(pages[0].offset).unwrap_or(start);
                if first > start {
                    // The dictionary.
                    ranges.push(start..first);
                }
                ranges.extend(rows.scan_ranges(pages));
            }
            _ => ranges.push(start..start + length),
        }
    }
    ranges
}
