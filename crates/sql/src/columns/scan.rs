//! Scan over columns in memory or loaded on demand: conditions first, other columns for the
//! selected rows only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::physical_plan::parquet::RowGroupAccess;
use datafusion::datasource::source::DataSource;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use parquet::file::metadata::ParquetMetaData;
use weir_datafile::{DataFile, SORT};
use weir_tables::TableSpec;
use weir_tier::FileLocations;

use super::cache::{ColumnCache, MissingColumns, WantedRows};
use super::chunk::selection;
use super::column::Column;
use super::filter::{Filter, SelectedRows};
use super::morsel::{Morsel, MorselReader, MorselSource};
use crate::index_probe::BlockCounts;

/// Rows of an output batch.
const BATCH_ROWS: usize = 8192;

/// Column scan operator.
#[derive(Clone, Debug)]
pub(crate) struct ColumnScan {
    pub(crate) table: &'static TableSpec,
    /// Schema of the table.
    pub(crate) schema: SchemaRef,
    pub(crate) places: FileLocations,
    pub(crate) cache: Arc<ColumnCache>,
    pub(crate) units: Arc<Vec<Morsel>>,
    /// Number of partitions; morsel `n` belongs to partition `n` modulo this.
    pub(crate) partitions: usize,
    pub(crate) filters: Vec<Filter>,
    /// Indexes of the output columns in the table.
    pub(crate) projection: Vec<usize>,
    pub(crate) fetch: Option<usize>,
    /// Top-N limit: this many newest rows are wanted, with ties in `ts`.
    pub(crate) newest: Option<usize>,
    /// Whether each partition's rows are in the table's order.
    pub(crate) is_ordered: bool,
    /// Whether columns without a filter are cached, too.
    pub(crate) keeps_all: bool,
    pub(crate) blocks: Vec<BlockCounts>,
    pub(crate) metrics: ExecutionPlanMetricsSet,
}

/// Columns of a row group that are not in memory.
pub(crate) struct UnreadMorsels<'a> {
    pub(crate) file: &'a Arc<DataFile>,
    pub(crate) footer: &'a ParquetMetaData,
    pub(crate) group: usize,
    pub(crate) columns: Vec<(String, RowGroupAccess)>,
}

impl ColumnScan {
    pub(crate) fn projected(&self) -> SchemaRef {
        Arc::new(self.schema.project(&self.projection).expect("places in the table"))
    }

    /// A reader for filter and key columns.
    pub(crate) fn reader<'a>(&'a self, unit: &'a Morsel) -> MorselReader<'a> {
        MorselReader { unit, places: &self.places, cache: &self.cache, is_kept: true }
    }

    fn late_reader<'a>(&'a self, unit: &'a Morsel) -> MorselReader<'a> {
        MorselReader { is_kept: self.keeps_all, ..self.reader(unit) }
    }

    /// Rewrites an expression over the output to one over the table.
    pub(crate) fn on_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        Arc::clone(expr)
            .transform_down(|node: Arc<dyn PhysicalExpr>| {
                let Some(column) = node.downcast_ref::<ColumnExpr>() else {
                    return Ok(Transformed::no(node));
                };
                let column = ColumnExpr::new(column.name(), self.projection[column.index()]);
                Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
            })
            .data()
    }

    /// A copy limited to the newest rows.
    pub(crate) fn for_newest(&self, rows: usize) -> Self {
        Self { newest: Some(rows), partitions: 1, is_ordered: false, ..self.clone() }
    }

    /// Pending reads of each row group: file, footer, row group number, and rows and columns by
    /// name.
    pub(crate) fn unread(&self) -> impl Iterator<Item = UnreadMorsels<'_>> {
        self.units.iter().filter_map(|unit| {
            let MorselSource::Group { file, footer, group } = &unit.source else { return None };
            let reader = self.reader(unit);
            let chunk = reader.chunk();
            let wanted = WantedRows(unit.picked.len());
            let filtered = self.filters.iter().flat_map(|filter| &filter.columns);
            let mut places: Vec<usize> = filtered.chain(&self.projection).copied().collect();
            places.sort_unstable();
            // Pages are read for a condition and again for the output rows; whole columns are
            // cached.
            places.dedup_by(|one, other| {
                let missing = self.cache.forecast(&chunk, *one, wanted);
                one == other && missing != MissingColumns::Pages
            });
            let rows = match &unit.picked {
                SelectedRows::All(_) => RowGroupAccess::Scan,
                SelectedRows::Some(rows) => {
                    RowGroupAccess::Selection(selection(rows, chunk.row_count()))
                }
            };
            let columns = places.into_iter().filter_map(|place| {
                let name = self.schema.field(place).name().clone();
                match self.cache.forecast(&chunk, place, wanted) {
                    MissingColumns::Nothing => None,
                    MissingColumns::Pages => Some((name, rows.clone())),
                    MissingColumns::All => Some((name, RowGroupAccess::Scan)),
                }
            });
            Some(UnreadMorsels {
                file,
                footer: footer.metadata(),
                group: *group,
                columns: columns.collect(),
            })
        })
    }

    fn file_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for unit in &*self.units {
            if let MorselSource::Group { file, .. } = &unit.source
                && names.last() != Some(&file.path.as_str())
            {
                names.push(&file.path);
            }
        }
        names
    }
}

impl DataSource for ColumnScan {
    fn open(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        for counts in &self.blocks {
            let add = |name, count| {
                MetricBuilder::new(&self.metrics).counter(name, partition).add(count);
            };
            counts.counted.call_once(|| {
                add("text_index_blocks_kept", counts.kept);
                add("text_index_blocks_left_out", counts.left_out);
            });
        }
        let units = (0..self.units.len()).filter(|unit| unit % self.partitions == partition);
        let work = ScanWork {
            schema: self.projected(),
            units: units.rev().collect(),
            newest: self.newest.map(NewestRows::new),
            left: self.fetch.unwrap_or(usize::MAX),
            found: Vec::new(),
            current: None,
            scan: self.clone(),
            baseline,
        };
        let schema = self.projected();
        let batches = futures::stream::try_unfold(work, async |mut work| {
            loop {
                if let Some(batch) = work.next_batch()? {
                    return Ok(Some((batch, work)));
                }
                if !work.next_unit()? {
                    return Ok(None);
                }
                // A cancelled query ends between morsels.
                tokio::task::yield_now().await;
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.into_stream())))
    }

    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> =
            self.projection.iter().map(|at| self.schema.field(*at).name()).collect();
        let columns: Vec<&str> = columns.iter().map(|name| name.as_str()).collect();
        write!(f, "columns={}, units={}", columns.join(","), self.units.len())?;
        let (names, shown) = (self.file_names(), 5);
        if !names.is_empty() {
            write!(f, ", files={}", names[..names.len().min(shown)].join(","))?;
        }
        if names.len() > shown {
            write!(f, " and {} more", names.len() - shown)?;
        }
        let filters: Vec<String> =
            self.filters.iter().map(|filter| filter.expr.to_string()).collect();
        if !filters.is_empty() {
            write!(f, ", conditions={}", filters.join(" AND "))?;
        }
        match self.newest {
            Some(rows) => write!(f, ", newest={rows}"),
            None => Ok(()),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let schema = self.projected();
        let place = |name: &&str| schema.index_of(name).ok();
        let places: Option<Vec<usize>> = self.table.sort.iter().map(place).collect();
        let exprs =
            places.filter(|_| self.is_ordered).unwrap_or_default().into_iter().map(|place| {
                let column = ColumnExpr::new(schema.field(place).name(), place);
                PhysicalSortExpr::new(Arc::new(column), SORT)
            });
        let orderings = LexOrdering::new(exprs.collect::<Vec<_>>());
        EquivalenceProperties::new_with_orderings(schema, orderings)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let units = self.units.iter().enumerate();
        let units: Vec<&Morsel> = units
            .filter(|(at, _)| partition.is_none_or(|partition| at % self.partitions == partition))
            .map(|(_, unit)| unit)
            .collect();
        let schema = self.projected();
        let mut statistics = Statistics::new_unknown(&schema);
        let rows = units.iter().map(|unit| unit.picked.len()).sum();
        let is_exact = self.filters.is_empty() && self.newest.is_none() && self.fetch.is_none();
        statistics.num_rows =
            if is_exact { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        // In a morsel that the text index narrowed, the first or last rows may be missing.
        let is_whole = units.iter().all(|unit| matches!(unit.picked, SelectedRows::All(_)));
        let ends = units.iter().map(|unit| (unit.min_ts, unit.max_ts));
        let ends = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        if let (Ok(ts), Some((min, max)), true) =
            (schema.index_of("ts"), ends, is_exact && is_whole)
        {
            statistics.column_statistics[ts] = ColumnStatistics::new_unknown()
                .with_null_count(Precision::Exact(0))
                .with_min_value(exact_time(min))
                .with_max_value(exact_time(max));
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let columns = projection.iter().map(|part| {
            let column = part.expr.downcast_ref::<ColumnExpr>();
            let column = column.filter(|column| column.name() == part.alias)?;
            Some(self.projection[column.index()])
        });
        let columns = columns.collect::<Option<Vec<usize>>>();
        Ok(columns.map(|projection| Arc::new(Self { projection, ..self.clone() }) as _))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let mut scan = self.clone();
        let mut answers = Vec::with_capacity(filters.len());
        for filter in filters {
            // A limit applies to the rows before the filter.
            if is_volatile(&filter) || self.fetch.is_some() || self.newest.is_some() {
                answers.push(PushedDown::No);
                continue;
            }
            scan.filters.push(Filter::new(self.on_table(&filter)?, &self.schema)?);
            answers.push(PushedDown::Yes);
        }
        scan.filters.sort_by_key(|filter| filter.cost(&self.schema));
        let updated: Arc<dyn DataSource> = Arc::new(scan);
        Ok(FilterPushdownPropagation { filters: answers, updated_node: Some(updated) })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if f(&filter.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

fn exact_time(ts: i64) -> Precision<ScalarValue> {
    let ts = ScalarValue::TimestampMicrosecond(Some(ts), Some("+00:00".into()));
    Precision::Exact(ts)
}

/// Scan state of a partition.
struct ScanWork {
    scan: ColumnScan,
    schema: SchemaRef,
    /// Pending morsels, the next one last.
    units: Vec<usize>,
    newest: Option<NewestRows>,
    /// Rows still wanted.
    left: usize,
    /// Matches known so far: morsel and rows, the next one last.
    found: Vec<(usize, SelectedRows)>,
    current: Option<CurrentMorsel>,
    baseline: BaselineMetrics,
}

/// Morsel being output.
struct CurrentMorsel {
    unit: usize,
    rows: Vec<u32>,
    done: usize,
    /// Columns that are in memory as a whole; `None` if not all are, and each batch is read
    /// separately.
    columns: Option<Vec<Arc<Column>>>,
}

impl ScanWork {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let timer = self.baseline.elapsed_compute().timer();
        let rest = current.rows.len() - current.done;
        let count = match &current.columns {
            Some(_) => rest.min(BATCH_ROWS),
            None => rest,
        };
        let count = count.min(self.left);
        if count == 0 {
            self.current = None;
            return Ok(None);
        }
        let rows = &current.rows[current.done..current.done + count];
        let arrays: Vec<ArrayRef> = match &current.columns {
            Some(columns) => {
                columns.iter().map(|column| column.rows(rows)).collect::<Result<_>>()?
            }
            None => {
                let unit = &self.scan.units[current.unit];
                let picked = SelectedRows::Some(rows.to_vec());
                self.scan.late_reader(unit).rows(&self.scan.projection, &picked)?
            }
        };
        current.done += count;
        self.left -= count;
        timer.done();
        self.baseline.record_output(count);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        Ok(Some(RecordBatch::try_new_with_options(schema, arrays, &options)?))
    }

    /// Advances to the next morsel with matches; `false` when there is none.
    fn next_unit(&mut self) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        if let Some((unit, picked)) = self.found.pop() {
            self.start(unit, picked)?;
            return Ok(true);
        }
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let Some(at) = self.units.pop() else { return Ok(false) };
        if let Some(mut newest) = self.newest.take() {
            self.units.push(at);
            self.found = newest.find(&self.scan, std::mem::take(&mut self.units))?;
            return Ok(true);
        }
        let picked = self.scan.reader(&self.scan.units[at]).pick(&self.scan.filters)?;
        if picked.len() > 0 {
            self.start(at, picked)?;
        }
        Ok(true)
    }

    fn start(&mut self, unit: usize, picked: SelectedRows) -> Result<()> {
        let reader = self.scan.late_reader(&self.scan.units[unit]);
        let wanted = WantedRows(picked.len());
        let columns = self.scan.projection.iter().map(|column| reader.whole(*column, wanted));
        let columns: Option<Vec<_>> = columns.collect::<Result<_>>()?;
        self.current = Some(CurrentMorsel { unit, rows: picked.rows(), done: 0, columns });
        Ok(())
    }
}

/// Times of the newest rows found so far.
struct NewestRows {
    wanted: usize,
    /// Min-heap: the oldest time on top.
    times: BinaryHeap<Reverse<i64>>,
}

impl NewestRows {
    fn new(wanted: usize) -> Self {
        Self { wanted, times: BinaryHeap::new() }
    }

    /// Lower bound: older rows are not among the newest.
    fn bound(&self) -> i64 {
        let oldest = self.times.peek().filter(|_| self.times.len() == self.wanted);
        oldest.map_or(i64::MIN, |ts| ts.0)
    }

    /// Rows that may be wanted, by morsel.
    fn find(
        &mut self,
        scan: &ColumnScan,
        mut units: Vec<usize>,
    ) -> Result<Vec<(usize, SelectedRows)>> {
        let ts = scan.schema.index_of("ts")?;
        units.sort_by_key(|unit| scan.units[*unit].max_ts);
        let mut found: Vec<(usize, Vec<(u32, i64)>)> = Vec::new();
        while let Some(at) = units.pop() {
            let unit = &scan.units[at];
            if self.wanted == 0 || unit.max_ts < self.bound() {
                break;
            }
            let reader = scan.reader(unit);
            let picked = reader.pick(&scan.filters)?;
            if picked.len() == 0 {
                continue;
            }
            let times = reader.rows(&[ts], &picked)?;
            let times = times[0].as_primitive::<TimestampMicrosecondType>().values().to_vec();
            for ts in &times {
                if *ts > self.bound() || self.times.len() < self.wanted {
                    self.times.push(Reverse(*ts));
                    if self.times.len() > self.wanted {
                        self.times.pop();
                    }
                }
            }
            let bound = self.bound();
            let rows = picked.rows().into_iter().zip(times).filter(|(_, ts)| *ts >= bound);
            found.push((at, rows.collect()));
        }
        let bound = self.bound();
        let kept = found.into_iter().map(|(unit, rows)| {
            let rows = rows.into_iter().filter(|(_, ts)| *ts >= bound);
            (unit, SelectedRows::Some(rows.map(|(row, _)| row).collect()))
        });
        Ok(kept.filter(|(_, picked)| picked.len() > 0).collect())
    }
}

/// Indexes of columns in a schema; unknown names are skipped.
pub(crate) fn places<'a>(schema: &Schema, names: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut places: Vec<usize> = names.filter_map(|name| schema.index_of(name).ok()).collect();
    places.sort_unstable();
    places.dedup();
    places
}
