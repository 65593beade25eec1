//! Estimates what a query will read before it runs: files, bytes and requests of each tier.
//!
//! The query is planned as for execution: files are pruned by time range, blocks by the text index,
//! row groups and pages by statistics. The remaining bytes that are not in memory are summed from
//! the footers. The result is an upper bound: a limit, or a condition that matches no row of a
//! block, may end the scan earlier.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use datafusion::common::Result;
use datafusion::common::format::ExplainFormat;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::{
    PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, ParquetRowSelection,
    RowGroupAccess, RowGroupAccessPlanFilter,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use weir_datafile::{DataFile, Tier};
use weir_tier::ReadPrices;

use crate::columns::ColumnScan;
use crate::file_access::FileAccess;
use crate::file_reader::read_footer;

/// Upper bound of what a query will read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Reads from the data directory.
    pub fast: ReadEstimate,
    /// Reads from the cold tier.
    pub slow: ReadEstimate,
    /// Location of the cold tier; `None` without one.
    pub slow_place: Option<String>,
    /// Cost in US dollars of reading from the cold tier; `None` where it is not a paid service.
    pub slow_usd: Option<f64>,
}

/// One line for each tier.
impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fast: {}", self.fast)?;
        if let Some(place) = &self.slow_place {
            write!(f, "\nslow `{place}`: {}", self.slow)?;
        }
        self.slow_usd.map_or(Ok(()), |usd| write!(f, ", {usd:.6} USD"))
    }
}

impl fmt::Display for ReadEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, bytes, reads } = *self;
        write!(
            f,
            "at most {files} file{}, {bytes} bytes, {reads} read{}",
            plural(files),
            plural(reads)
        )
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl ReadEstimate {
    fn usd(&self, prices: ReadPrices) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (reads, bytes) = (self.reads as f64, self.bytes as f64);
        reads / 1e6 * prices.per_million_requests + bytes / 1e9 * prices.per_gigabyte
    }
}

/// Forecast shown below the plan in the result of `explain`; `None` if the plan's format is for
/// programs, or it was run (`explain analyze`).
///
/// # Errors
/// As planning, and when a footer cannot be read.
pub(crate) async fn beside_plan(
    question: &LogicalPlan,
    state: &SessionState,
    access: &FileAccess,
    schema: &SchemaRef,
) -> Result<Option<RecordBatch>> {
    let LogicalPlan::Explain(explain) = question else { return Ok(None) };
    if !matches!(explain.explain_format, ExplainFormat::Indent | ExplainFormat::Tree) {
        return Ok(None);
    }
    let plan = state.create_physical_plan(&explain.plan).await?;
    let reads = forecast(&plan, access).await?.to_string();
    let cells =
        ["reads".to_owned(), reads].map(|cell| Arc::new(StringArray::from(vec![cell])) as _);
    Ok(Some(RecordBatch::try_new(Arc::clone(schema), cells.into())?))
}

/// Reads from one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadEstimate {
    /// Number of files opened.
    pub files: u64,
    /// Bytes read from them.
    pub bytes: u64,
    /// Number of reads (for a bucket, requests); adjacent ranges are read together.
    pub reads: u64,
}

/// Sums what the scans of a plan will read.
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
    let mut forecast = Forecast { slow_place: slow.map(|slow| slow.name()), ..Forecast::default() };
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
        let scan = ForecastScan::new(config);
        for file in config.file_groups.iter().flat_map(|group| group.iter()) {
            let Some(data) = file.extension::<Arc<DataFile>>() else { continue };
            let ranges = scan.ranges(file, access).await?;
            // A file that statistics alone answer is not opened.
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
                    (Tier::Slow, Some(slow)) => slow.reads(data, ranges),
                    _ => ranges,
                };
                reading.reads += reads.len() as u64;
                reading.bytes += reads.iter().map(|read| read.end - read.start).sum::<u64>();
            }
        }
    }
    let prices = slow.and_then(|slow| slow.prices());
    forecast.slow_usd = prices.map(|prices| forecast.slow.usd(prices));
    Ok(forecast)
}

/// Columns that one scan reads of each of its files.
struct ForecastScan<'a> {
    config: &'a FileScanConfig,
    /// Names of the columns of conditions, and of the others.
    conditions: Vec<String>,
    rest: Vec<String>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
}

impl<'a> ForecastScan<'a> {
    fn new(config: &'a FileScanConfig) -> Self {
        let predicate = config.file_source().filter();
        let conditions: Vec<String> = predicate.iter().flat_map(names_in).collect();
        let projected = config.file_source().projection();
        let projected = projected.into_iter().flat_map(|columns| columns.iter());
        let rest = projected.flat_map(|column| names_in(&column.expr));
        let rest = rest.filter(|name| !conditions.contains(name)).collect::<HashSet<_>>();
        let rest = rest.into_iter().collect();
        Self { config, conditions, rest, predicate }
    }

    /// Byte ranges, grouped by the reads that are issued together.
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
            // Condition columns are read first, one after the other, then the rest for the matching
            // rows.
            let ranges = |columns: &[String]| of_columns(columns, rows, group, number, &footer);
            let first = self.conditions.iter().map(std::slice::from_ref).map(ranges);
            first.chain([ranges(&self.rest)]).collect::<Vec<_>>()
        });
        Ok(ranges.filter(|ranges| !ranges.is_empty()).collect())
    }

    /// Row groups and pages that statistics do not rule out.
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

fn names_in(expr: &Arc<dyn PhysicalExpr>) -> impl Iterator<Item = String> + use<> {
    collect_columns(expr).into_iter().map(|column| column.name().to_owned())
}

/// Byte ranges of the pages of some columns of a row group.
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
                    // Dictionary page.
                    ranges.push(start..first);
                }
                ranges.extend(rows.scan_ranges(pages));
            }
            _ => ranges.push(start..start + length),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_tier_and_money_is_of_requests_and_bytes() {
        let slow = ReadEstimate { files: 2, bytes: 5_000_000_000, reads: 2000 };
        let usd = slow.usd(ReadPrices { per_million_requests: 0.4, per_gigabyte: 0.02 });
        let mut forecast = Forecast { slow, ..Forecast::default() };
        assert_eq!(forecast.to_string(), "fast: at most 0 files, 0 bytes, 0 reads");
        forecast.fast = ReadEstimate { files: 1, bytes: 300, reads: 1 };
        forecast.slow_place = Some("s3://rows/weir".to_owned());
        let lines = "fast: at most 1 file, 300 bytes, 1 read\nslow `s3://rows/weir`: at most 2 files, 5000000000 bytes, 2000 reads";
        assert_eq!(forecast.to_string(), lines);
        forecast.slow_usd = Some(usd);
        assert_eq!(forecast.to_string(), format!("{lines}, 0.100800 USD"));
    }
}
