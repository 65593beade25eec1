//! Leaf of a distributed plan: a table's files, with projection, filters and limit.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, exec_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::provider_as_source;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use weir_datafile::{DataFile, TableSnapshot, VisibilityCutoff};
use weir_tables::TableSpec;

use super::WorkerFiles;
use crate::limits::{QueryUsage, USAGE};
use crate::peers::UnqualifiedColumns;
use crate::table_provider::StoreTable;

/// Projection, filters and limit of a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanSpec {
    pub(crate) table: &'static TableSpec,
    pub(crate) horizon: VisibilityCutoff,
    /// Column indexes in output order; `None` selects all columns.
    pub(crate) projection: Option<Vec<usize>>,
    /// Filters on those columns: inexact here, evaluated again above the scan.
    pub(crate) filters: Vec<Expr>,
    /// This many rows of each partition are enough.
    pub(crate) limit: Option<usize>,
}

/// Scan over files of a table, in partitions.
#[derive(Clone, Debug)]
pub(crate) struct DistributedScan {
    pub(super) what: ScanSpec,
    pub(super) parts: Vec<Vec<Arc<DataFile>>>,
    files: Arc<WorkerFiles>,
    properties: Arc<PlanProperties>,
}

impl DistributedScan {
    pub(crate) fn new(
        what: ScanSpec,
        parts: Vec<Vec<Arc<DataFile>>>,
        files: Arc<WorkerFiles>,
    ) -> Result<Self> {
        let schema = what.schema()?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { what, parts, files, properties: Arc::new(properties) })
    }

    /// Splits the scan into `count` scans of about equal bytes, each with as many partitions as
    /// this one.
    pub(super) fn deal(&self, count: usize) -> Vec<Self> {
        let lanes = self.parts.len();
        let mut files: Vec<_> = self.parts.iter().flatten().cloned().collect();
        files.sort_by_key(|file| (std::cmp::Reverse(file.byte_count), file.id));
        let mut pieces = vec![(0, Vec::new()); count.max(1)];
        for file in files {
            let least = pieces.iter_mut().min_by_key(|(bytes, _)| *bytes);
            let (bytes, files) = least.expect("there is one");
            *bytes += file.byte_count;
            files.push(file);
        }
        pieces
            .into_iter()
            .map(|(_, files)| {
                let mut parts = vec![Vec::new(); lanes];
                for (at, file) in files.into_iter().enumerate() {
                    parts[at % lanes].push(file);
                }
                Self { parts, ..self.clone() }
            })
            .collect()
    }

    fn row_count(&self) -> u64 {
        // Another hub says so.
        self.parts.iter().flatten().fold(0, |sum, file| file.row_count.saturating_add(sum))
    }
}

impl ScanSpec {
    fn schema(&self) -> Result<SchemaRef> {
        let schema = self.table.schema();
        Ok(match &self.projection {
            Some(places) => Arc::new(schema.project(places)?),
            None => schema,
        })
    }

    /// Rows of partition `of`, planned as a query of this hub over its files alone.
    async fn rows(
        &self,
        of: Vec<Arc<DataFile>>,
        files: &WorkerFiles,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let view = TableSnapshot { files: Arc::new(of), ..TableSnapshot::default() };
        let access = Some(files.access.clone());
        let table = StoreTable::new(self.table, view, access, self.horizon);
        let source = provider_as_source(Arc::new(table));
        let mut plan = LogicalPlanBuilder::scan(self.table.name, source, self.projection.clone())?;
        let filters = self.filters.iter().map(|filter| filter.clone().transform_names());
        if let Some(filter) = conjunction(filters) {
            plan = plan.filter(filter)?;
        }
        let plan = plan.limit(0, self.limit)?.build()?;
        let plan = files.template.create_physical_plan(&plan).await?;
        plan.apply(|node| only_own_files(node, files))?;
        execute_stream(plan, context)
    }
}

/// Rejects plans that write, or that read anything but files of tables.
fn only_own_files(node: &Arc<dyn ExecutionPlan>, files: &WorkerFiles) -> Result<TreeNodeRecursion> {
    let source = node.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let scan = source.and_then(|source| source.downcast_ref::<FileScanConfig>());
    if node.is::<DataSinkExec>()
        || scan.is_some_and(|scan| scan.object_store_url != files.access.url)
    {
        return exec_err!("a piece of a query has `{}`, which is not run for others", node.name());
    }
    Ok(TreeNodeRecursion::Continue)
}

impl DisplayAs for DistributedScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.parts.iter().flatten().count();
        write!(f, "SpreadScan: table={}, files={files}", self.what.table.name)?;
        if let Some(filter) = conjunction(self.what.filters.iter().cloned()) {
            write!(f, ", filter={filter}")?;
        }
        match self.what.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for DistributedScan {
    fn name(&self) -> &'static str {
        "SpreadScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let of = self.parts.get(partition).cloned().unwrap_or_default();
        let (schema, what, files) = (self.schema(), self.what.clone(), Arc::clone(&self.files));
        if of.is_empty() {
            let none = stream::empty();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, none)));
        }
        let of_schema = Arc::clone(&schema);
        let usage = context.session_config().get_extension::<QueryUsage>();
        let rows = async move {
            let rows = what.rows(of, &files, context).await?;
            Ok::<_, datafusion::error::DataFusionError>(rows.map(move |rows| {
                let rows = rows?;
                let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                let (schema, columns) = (Arc::clone(&of_schema), rows.columns().to_vec());
                Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
            }))
        };
        let mut rows = Box::pin(stream::once(rows).try_flatten());
        let rows = stream::poll_fn(move |task| match &usage {
            Some(usage) => USAGE.sync_scope(Arc::clone(usage), || rows.as_mut().poll_next(task)),
            None => rows.as_mut().poll_next(task),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let statistics = Statistics::new_unknown(&self.schema());
        if partition.is_some() || !self.what.filters.is_empty() {
            return Ok(Arc::new(statistics));
        }
        let rows = usize::try_from(self.row_count()).unwrap_or(usize::MAX);
        Ok(Arc::new(statistics.with_num_rows(Precision::Inexact(rows))))
    }
}
