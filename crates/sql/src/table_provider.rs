//! Table provider for DataFusion: memtable rows, immutable memtable rows and the manifest's files,
//! as one union.
//!
//! Files and memory batches whose range of `ts` cannot match are pruned here, before any file is
//! opened; within a file, Parquet's statistics prune row groups and pages.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, TimestampMicrosecondArray, UInt64Array};
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ColumnStatistics, DFSchema, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use futures::{StreamExt, TryStreamExt, stream};
use weir_datafile::{
    DataFile, FOOTER_BYTES_HINT, MemBatch, SORT, TableSnapshot, Tier, VisibilityCutoff,
    dictionaries, schema_with,
};
use weir_tables::TableSpec;

use crate::columns::{self, ScanRequest};
use crate::dictionary_filter::{self, DictionaryFilterAdapters};
use crate::distributed::{DistributedScan, ScanSpec, WorkerFiles, is_accepted};
use crate::file_access::{FileAccess, ScanPart};
use crate::file_reader::read_footer;
use crate::index_probe::{self, BlockSelection, IndexProbe};
use crate::limits::QueryUsage;
use crate::peers::PeerRowSource;
use crate::remote_scans;

/// One table in one query.
#[derive(Debug)]
pub(crate) struct StoreTable {
    spec: &'static TableSpec,
    schema: SchemaRef,
    view: TableSnapshot,
    files: Option<FileAccess>,
    horizon: VisibilityCutoff,
    peers: Option<PeerRowSource>,
    spread: Option<Arc<WorkerFiles>>,
}

impl StoreTable {
    pub(crate) fn new(
        spec: &'static TableSpec,
        view: TableSnapshot,
        files: Option<FileAccess>,
        horizon: VisibilityCutoff,
    ) -> Self {
        Self { spec, schema: spec.schema(), view, files, horizon, peers: None, spread: None }
    }

    /// Enables distributed scans.
    pub(crate) fn with_spread(self, spread: Option<Arc<WorkerFiles>>) -> Self {
        Self { spread, ..self }
    }

    /// Adds the rows that other hubs have in memory.
    pub(crate) fn with_peers(self, peers: Option<PeerRowSource>) -> Self {
        Self { peers, ..self }
    }

    /// Predicate that decides from the range of `ts` whether a container can contain a match.
    fn pruning(&self, session: &dyn Session, filters: &[Expr]) -> Option<PruningPredicate> {
        let filter = conjunction(filters.to_vec())?;
        let schema = DFSchema::try_from(Arc::clone(&self.schema)).ok()?;
        let filter = session.create_physical_expr(filter, &schema).ok()?;
        PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&self.schema))
            .try_build(filter)
            .ok()
    }

    fn hot_batches(&self, pruning: Option<&PruningPredicate>) -> Vec<MemBatch> {
        let batches: Vec<_> = self.view.frozen.iter().chain(&*self.view.hot).collect();
        let ranges =
            batches.iter().map(|batch| (batch.min_ts, batch.max_ts, batch.rows.num_rows() as u64));
        let keep = kept(pruning, ranges);
        batches
            .iter()
            .zip(keep)
            .filter(|(_, keep)| *keep)
            .filter_map(|(batch, _)| self.horizon.rows_of(batch))
            .collect()
    }
}

impl StoreTable {
    fn in_memory(
        &self,
        hot: Vec<MemBatch>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        threads: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let parts = spread(hot.into_iter().map(|batch| batch.rows).collect(), threads);
        let schema = Arc::clone(&self.schema);
        let memory = MemorySourceConfig::try_new(&parts, schema, projection.cloned())?
            .with_show_sizes(false)
            .with_limit(limit);
        Ok(DataSourceExec::from_data_source(memory))
    }

    /// Union of rows in memory and rows of files.
    fn beside(
        &self,
        hot: Vec<MemBatch>,
        files: Arc<dyn ExecutionPlan>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        threads: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if hot.is_empty() {
            return Ok(files);
        }
        UnionExec::try_new(vec![self.in_memory(hot, projection, limit, threads)?, files])
    }

    fn kept_files(&self, pruning: Option<&PruningPredicate>) -> Vec<Arc<DataFile>> {
        let files = &self.view.files;
        let keep =
            kept(pruning, files.iter().map(|file| (file.min_ts, file.max_ts, file.row_count)));
        let kept =
            files.iter().zip(keep).filter(|(file, keep)| *keep && self.horizon.shows_file(file));
        kept.map(|(file, _)| Arc::clone(file)).collect()
    }
}

/// Scans files; each group is one partition of the plan.
pub(crate) fn scan_files(
    access: &FileAccess,
    table: &'static TableSpec,
    groups: &[Vec<ScanPart>],
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = table.schema();
    let source = ParquetSource::new(Arc::clone(&schema))
        .with_metadata_size_hint(FOOTER_BYTES_HINT)
        .with_parquet_file_reader_factory(Arc::clone(&access.reader))
        .with_pushdown_filters(true);
    let groups =
        groups.iter().map(|files| files.iter().map(|part| part.partitioned(&schema)).collect());
    let config = FileScanConfigBuilder::new(access.url.clone(), Arc::new(source))
        .with_file_groups(groups.map(FileGroup::new).collect())
        .with_output_ordering(sort_order(table).into_iter().collect())
        .with_projection_indices(projection)?
        .with_limit(limit)
        .with_expr_adapter(Some(Arc::new(DictionaryFilterAdapters)))
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// Sort order of rows within every file of `table`.
pub(crate) fn sort_order(table: &TableSpec) -> Option<LexOrdering> {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    let exprs = table.sort.iter().filter_map(|name| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(name, place(name)?));
        Some(PhysicalSortExpr::new(column, SORT))
    });
    LexOrdering::new(exprs)
}

impl ScanPart {
    fn partitioned(&self, schema: &Schema) -> PartitionedFile {
        let mut file = partitioned(&self.file, schema);
        file.arrow_schema.clone_from(&self.schema);
        match &self.rows {
            None => file,
            Some((rows, counts)) => file
                .with_extension(ParquetRowSelection::new(rows.clone()))
                .with_extension(counts.clone()),
        }
    }
}

impl FileAccess {
    /// Prunes the files, and the blocks of files, that cannot match according to the text index.
    async fn narrow(
        &self,
        table: &TableSpec,
        files: Vec<Arc<DataFile>>,
        filters: &[Expr],
    ) -> Result<Vec<ScanPart>> {
        let Some(probe) = index_probe::probe_of(table, filters) else {
            return Ok(files.iter().map(ScanPart::whole).collect());
        };
        let is_far = files.iter().any(|file| file.tier == Tier::Slow);
        let narrowed = stream::iter(files).map(|file| self.narrow_file(file, &probe));
        narrowed
            .buffered(if is_far { FAR_FILES_ASKED_AT_ONCE } else { FILES_ASKED_AT_ONCE })
            .try_filter_map(async |part| Ok(part))
            .try_collect()
            .await
    }

    async fn narrow_file(
        &self,
        file: Arc<DataFile>,
        probe: &IndexProbe,
    ) -> Result<Option<ScanPart>> {
        QueryUsage::note_opened(&file);
        let selected = index_probe::select(&file, probe, &*self.store, &self.footers).await?;
        Ok(match selected {
            BlockSelection::Everything => Some(ScanPart::whole(&file)),
            BlockSelection::Nothing => None,
            BlockSelection::Rows(rows, counts) => {
                Some(ScanPart { rows: Some((rows, counts)), ..ScanPart::whole(&file) })
            }
        })
    }
}

impl FileAccess {
    /// Reads text columns that are used only in conditions as dictionaries, where the files store
    /// them so.
    async fn read_per_value(
        &self,
        table: &'static TableSpec,
        parts: &mut [ScanPart],
        filters: &[Expr],
    ) -> Result<()> {
        let texts = dictionary_filter::columns(table, filters);
        if texts.is_empty() {
            return Ok(());
        }
        let mut schemas: Vec<(Vec<usize>, SchemaRef)> = Vec::new();
        for part in parts {
            QueryUsage::note_opened(&part.file);
            let stored = self.dictionaries(&part.file).await?;
            let texts: Vec<usize> = texts
                .iter()
                .copied()
                .filter(|place| stored.get(*place).copied().unwrap_or_default())
                .collect();
            if texts.is_empty() {
                continue;
            }
            let place = schemas.iter().position(|(of, _)| *of == texts).unwrap_or_else(|| {
                let schema = schema_with(table, &texts);
                schemas.push((texts, schema));
                schemas.len() - 1
            });
            part.schema = Some(Arc::clone(&schemas[place].1));
        }
        Ok(())
    }

    /// Per column, whether a file stores it as a dictionary; read with its footer on first use.
    async fn dictionaries<'a>(&self, file: &'a DataFile) -> Result<&'a [bool]> {
        if let Some(known) = file.dictionaries.get() {
            return Ok(known);
        }
        let meta = PartitionedFile::new(file.location(), file.byte_count).object_meta;
        let footer = read_footer(&meta, &*self.store, &self.footers).await?;
        Ok(file.dictionaries.get_or_init(|| dictionaries(file.table, &footer)))
    }
}

/// Indexes read concurrently.
const FILES_ASKED_AT_ONCE: usize = 8;
/// Indexes read concurrently if some are in the cold tier, where each may take a tenth of a second;
/// its requests are limited separately.
const FAR_FILES_ASKED_AT_ONCE: usize = 64;

/// A file with the manifest's statistics; its row count alone answers `count(*)`.
fn partitioned(file: &Arc<DataFile>, schema: &Schema) -> PartitionedFile {
    let rows = usize::try_from(file.row_count).unwrap_or(usize::MAX);
    let mut statistics = Statistics::new_unknown(schema).with_num_rows(Precision::Exact(rows));
    let instant =
        |ts| Precision::Exact(ScalarValue::TimestampMicrosecond(Some(ts), Some("+00:00".into())));
    let ts = schema.index_of("ts").expect("every table has `ts`");
    statistics.column_statistics[ts] = ColumnStatistics::new_unknown()
        .with_null_count(Precision::Exact(0))
        .with_min_value(instant(file.min_ts))
        .with_max_value(instant(file.max_ts));
    // The extension keeps the file from being deleted while the plan exists.
    PartitionedFile::new(file.location(), file.byte_count)
        .with_statistics(Arc::new(statistics))
        .with_extension(Arc::clone(file))
}

#[async_trait]
impl TableProvider for StoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pruning = self.pruning(session, filters);
        let threads = session.config().target_partitions();
        let mut hot = self.hot_batches(pruning.as_ref());
        if let Some(peers) = &self.peers {
            let others = peers.rows(self.spec, projection, filters, limit).await?;
            hot.extend(others.iter().filter_map(|batch| self.horizon.rows_of(batch)));
        }
        let files = self.kept_files(pruning.as_ref());
        if let Some(spread_files) = self.spread.as_ref().filter(|_| !files.is_empty()) {
            let what = ScanSpec {
                table: self.spec,
                horizon: self.horizon,
                projection: projection.cloned(),
                filters: filters.iter().filter(|one| is_accepted(one)).cloned().collect(),
                limit,
            };
            let scan =
                DistributedScan::new(what, spread(files, threads), Arc::clone(spread_files))?;
            return self.beside(hot, Arc::new(scan), projection, limit, threads);
        }
        let mut files = match &self.files {
            Some(access) => access.narrow(self.spec, files, filters).await?,
            None => Vec::new(),
        };
        if let Some(access) = self.files.as_ref().filter(|_| !files.is_empty()) {
            let wanted = ScanRequest {
                table: self.spec,
                hot: &hot,
                parts: &files,
                projection,
                filters,
                pruning: pruning.as_ref(),
                limit,
                threads,
            };
            if let Some(scan) = columns::plan(access, wanted).await? {
                return Ok(DataSourceExec::from_data_source(scan));
            }
        }
        let Some(access) = self.files.as_ref().filter(|_| !files.is_empty()) else {
            return self.in_memory(hot, projection, limit, threads);
        };
        access.read_per_value(self.spec, &mut files, filters).await?;
        let (files, lanes) = remote_scans::deal(&access.places, files, threads);
        let groups = spread(files, lanes);
        let cold = scan_files(access, self.spec, &groups, projection.cloned(), limit)?;
        self.beside(hot, cold, projection, limit, threads)
    }

    /// `Inexact`: filters only prune here and are evaluated again above the scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}

/// Distributes batches or files over at most `count` partitions; returns at least one, which may be
/// empty.
fn spread<T: Clone>(batches: Vec<T>, count: usize) -> Vec<Vec<T>> {
    let count = batches.len().clamp(1, count.max(1));
    let mut parts = vec![Vec::new(); count];
    for (at, batch) in batches.into_iter().enumerate() {
        parts[at % count].push(batch);
    }
    parts
}

/// Whether each container can contain a match, given its (min ts, max ts, rows).
pub(crate) fn kept(
    pruning: Option<&PruningPredicate>,
    ranges: impl Iterator<Item = (i64, i64, u64)>,
) -> Vec<bool> {
    let ranges: Vec<_> = ranges.collect();
    let all = vec![true; ranges.len()];
    let Some(pruning) = pruning else { return all };
    pruning.prune(&TimeRanges(ranges)).unwrap_or(all)
}

/// Statistics of containers: only the range of `ts`.
struct TimeRanges(Vec<(i64, i64, u64)>);

impl TimeRanges {
    fn column(&self, column: &Column, pick: impl Fn(&(i64, i64, u64)) -> i64) -> Option<ArrayRef> {
        (column.name == "ts").then(|| {
            let values: TimestampMicrosecondArray =
                self.0.iter().map(|range| Some(pick(range))).collect();
            Arc::new(values.with_timezone("+00:00")) as ArrayRef
        })
    }
}

impl PruningStatistics for TimeRanges {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |range| range.0)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |range| range.1)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == "ts")
            .then(|| Arc::new(UInt64Array::from(vec![0; self.0.len()])) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts: Vec<u64> = self.0.iter().map(|range| range.2).collect();
        Some(Arc::new(UInt64Array::from(counts)))
    }

    fn contained(
        &self,
        _: &Column,
        _: &std::collections::HashSet<ScalarValue>,
    ) -> Option<BooleanArray> {
        None
    }
}
