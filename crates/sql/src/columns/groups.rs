//! Group-by over dictionary codes of columns in memory: one pass over each morsel, no hashing per
//! row.
//!
//! The operator keeps DataFusion's own plan for the same groups as a fallback: when memory is
//! refused, partial groups are dropped and that plan, which can spill, starts from the beginning.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use super::filter::{SelectedRows, localized};
use super::keys::{GroupIds, GroupKey};
use super::morsel::MorselReader;
use super::scan::ColumnScan;

/// Rows of an output batch.
const BATCH_ROWS: usize = 8192;
/// Rows processed before the task yields to others.
const ROWS_AT_ONCE: usize = 32_768;

/// Operator that groups by dictionary codes.
#[derive(Debug)]
pub(crate) struct DictionaryGroupsExec {
    pub(super) made: Arc<SharedGroups>,
    /// Indexes of the group columns that this operator outputs.
    places: Vec<usize>,
    /// DataFusion's plan for the same rows, used when memory is refused.
    other: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Groups computed once and shared by several places of a plan.
#[derive(Debug)]
pub(super) struct SharedGroups {
    pub(super) what: GroupPlan,
    is_shared: bool,
    /// Result of shared groups; the inner `None` means that memory was refused.
    made: OnceCell<Option<GroupResult>>,
}

#[derive(Debug)]
struct GroupResult {
    rows: RecordBatch,
    /// Reservation held as long as another consumer may still read the groups.
    _memory: MemoryReservation,
}

impl SharedGroups {
    pub(super) fn new(what: GroupPlan, is_shared: bool) -> Arc<Self> {
        Arc::new(Self { what, is_shared, made: OnceCell::new() })
    }
}

/// Specification: the input, the keys and the aggregates of each group.
#[derive(Clone, Debug)]
pub(crate) struct GroupPlan {
    pub(crate) scan: ColumnScan,
    pub(crate) keys: Vec<GroupKey>,
    pub(crate) folds: Vec<FoldKind>,
    /// Shared subexpressions of the aggregates, computed once.
    pub(crate) computed: Vec<Arc<dyn PhysicalExpr>>,
    /// Output schema: the keys, then the aggregates.
    pub(crate) schema: SchemaRef,
}

/// One aggregate; its expressions are over the table.
#[derive(Clone, Debug)]
pub(crate) enum FoldKind {
    /// `count(*)`.
    Count,
    Other {
        function: Arc<AggregateFunctionExpr>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<Arc<dyn PhysicalExpr>>,
    },
}

impl FoldKind {
    fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let (arguments, filter) = match self {
            Self::Count => (&[][..], &None),
            Self::Other { arguments, filter, .. } => (&arguments[..], filter),
        };
        arguments.iter().chain(filter)
    }

    fn columns(&self) -> impl Iterator<Item = usize> {
        self.exprs().flat_map(collect_columns).map(|column| column.index())
    }

    /// Applies `map` to each expression of the aggregate.
    fn map(
        &self,
        local: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        Ok(match self {
            Self::Count => Self::Count,
            Self::Other { function, arguments, filter } => Self::Other {
                function: Arc::clone(function),
                arguments: arguments.iter().map(&local).collect::<Result<_>>()?,
                filter: filter.as_ref().map(local).transpose()?,
            },
        })
    }
}

impl DictionaryGroupsExec {
    pub(crate) fn new(what: GroupPlan, other: Arc<dyn ExecutionPlan>) -> Self {
        let places = (0..what.schema.fields().len()).collect();
        Self::of(SharedGroups::new(what, false), places, other)
    }

    fn of(made: Arc<SharedGroups>, places: Vec<usize>, other: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(other.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { made, places, other, properties: Arc::new(properties), metrics }
    }

    /// A copy that takes its rows from shared groups.
    pub(super) fn out_of(&self, made: Arc<SharedGroups>, places: Vec<usize>) -> Self {
        Self::of(made, places, Arc::clone(&self.other))
    }
}

impl DisplayAs for DictionaryGroupsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.made.what;
        let keys = what.keys.len();
        let (folds, units) = (self.places.len() - keys, what.scan.units.len());
        write!(f, "CodedGroupsExec: keys={keys}, aggregates={folds}, units={units}")?;
        if self.made.is_shared {
            write!(f, ", made once for all that are alike")?;
        }
        write!(f, "; if memory is refused:")
    }
}

impl ExecutionPlan for DictionaryGroupsExec {
    fn name(&self) -> &'static str {
        "CodedGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.other]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(other) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self::of(Arc::clone(&self.made), self.places.clone(), other)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(other) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self::of(Arc::clone(&self.made), self.places.clone(), other)))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (made, other) = (Arc::clone(&self.made), Arc::clone(&self.other));
        let (schema, places) = (self.schema(), self.places.clone());
        let baseline = BaselineMetrics::new(&self.metrics, 0);
        let of_schema = Arc::clone(&schema);
        let batches = async move {
            let Some(rows) = made.rows(&context, &baseline).await? else {
                return Ok::<_, DataFusionError>(other.execute(0, context)?.right_stream());
            };
            let rows = RecordBatch::try_new(of_schema, rows.project(&places)?.columns().to_vec())?;
            let count = rows.num_rows();
            let starts = (0..count).step_by(BATCH_ROWS);
            let batches = starts.map(move |at| Ok(rows.slice(at, BATCH_ROWS.min(count - at))));
            Ok(stream::iter(batches).left_stream())
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl SharedGroups {
    /// Computes the groups; `None` if memory was refused.
    async fn rows(
        &self,
        context: &TaskContext,
        baseline: &BaselineMetrics,
    ) -> Result<Option<RecordBatch>> {
        if !self.is_shared {
            let made = self.make(context, baseline).await?;
            return Ok(made.map(|made| made.rows));
        }
        let made = self.made.get_or_try_init(|| self.make(context, baseline)).await?;
        Ok(made.as_ref().map(|made| made.rows.clone()))
    }

    async fn make(
        &self,
        context: &TaskContext,
        baseline: &BaselineMetrics,
    ) -> Result<Option<GroupResult>> {
        let memory = MemoryConsumer::new("groups").register(context.memory_pool());
        let what = &self.what;
        let mut state = FoldState::new(what)?;
        let mut rows = 0;
        for unit in &*what.scan.units {
            let timer = baseline.elapsed_compute().timer();
            state.take(what, unit)?;
            timer.done();
            if memory.try_resize(state.byte_count()).is_err() {
                return Ok(None);
            }
            // A cancelled query ends between morsels; the check costs as much as some hundred rows.
            rows += unit.picked.len();
            if rows >= ROWS_AT_ONCE {
                rows = 0;
                tokio::task::yield_now().await;
            }
        }
        let _timer = baseline.elapsed_compute().timer();
        let rows = state.finish(what)?;
        baseline.record_output(rows.num_rows());
        Ok(Some(GroupResult { rows, _memory: memory }))
    }
}

struct FoldState {
    groups: GroupIds,
    folds: Vec<(FoldKind, GroupFolder)>,
    /// Inputs of the aggregates.
    needed: NeededRows,
}

/// Table columns and shared subexpressions; the aggregates' expressions are over a batch of both.
struct NeededRows {
    columns: Vec<usize>,
    /// Subexpressions over a batch of the columns.
    computed: Vec<Arc<dyn PhysicalExpr>>,
    local: SchemaRef,
    schema: SchemaRef,
}

impl NeededRows {
    /// The needed columns, and the aggregates rewritten over them.
    fn new(what: &GroupPlan) -> Result<(Self, Vec<FoldKind>)> {
        let table = &what.scan.schema;
        let mut columns: Vec<usize> = what.folds.iter().flat_map(FoldKind::columns).collect();
        columns.sort_unstable();
        columns.dedup();
        let local = table.project(&columns)?;
        let to_local =
            |expr: &Arc<dyn PhysicalExpr>| localized(expr, &columns, table).map(|(expr, _)| expr);
        let computed: Vec<_> = what.computed.iter().map(to_local).collect::<Result<_>>()?;
        let mut fields = local.fields().to_vec();
        for (at, expr) in computed.iter().enumerate() {
            let (kind, is_nullable) = (expr.data_type(&local)?, expr.nullable(&local)?);
            fields.push(Arc::new(Field::new(format!("computed{at}"), kind, is_nullable)));
        }
        let schema = Schema::new(fields);
        let folds = what
            .folds
            .iter()
            .map(|fold| {
                fold.map(|expr| {
                    to_local(expr)?
                        .transform_down(|node: Arc<dyn PhysicalExpr>| {
                            let Some(at) = computed.iter().position(|expr| expr == &node) else {
                                return Ok(Transformed::no(node));
                            };
                            let at = columns.len() + at;
                            let column =
                                Arc::new(ColumnExpr::new(schema.field(at).name(), at)) as _;
                            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
                        })
                        .data()
                })
            })
            .collect::<Result<_>>()?;
        let (local, schema) = (Arc::new(local), Arc::new(schema));
        Ok((Self { columns, computed, local, schema }, folds))
    }

    fn batch(&self, reader: &MorselReader<'_>, picked: &SelectedRows) -> Result<RecordBatch> {
        let arrays = reader.rows(&self.columns, picked)?;
        let options = RecordBatchOptions::new().with_row_count(Some(picked.len()));
        let with = |schema: &SchemaRef, arrays: Vec<ArrayRef>| {
            RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        };
        let rows = with(&self.local, arrays)?;
        let mut arrays = rows.columns().to_vec();
        for expr in &self.computed {
            arrays.push(expr.evaluate(&rows)?.into_array(picked.len())?);
        }
        Ok(with(&self.schema, arrays)?)
    }
}

enum GroupFolder {
    Count(Vec<i64>),
    Other(Box<dyn GroupsAccumulator>),
}

impl FoldState {
    fn new(what: &GroupPlan) -> Result<Self> {
        let (needed, folds) = NeededRows::new(what)?;
        let folding = |fold: FoldKind| {
            let folding = match &fold {
                FoldKind::Count => GroupFolder::Count(Vec::new()),
                FoldKind::Other { function, .. } => {
                    GroupFolder::Other(function.create_groups_accumulator()?)
                }
            };
            Ok((fold, folding))
        };
        let folds = folds.into_iter().map(folding).collect::<Result<_>>()?;
        Ok(Self { groups: GroupIds::new(&what.keys), folds, needed })
    }

    fn take(&mut self, what: &GroupPlan, unit: &super::morsel::Morsel) -> Result<()> {
        let reader = what.scan.reader(unit);
        let picked = reader.pick(&what.scan.filters)?;
        if picked.len() == 0 {
            return Ok(());
        }
        let groups = self.groups.of_rows(&reader, &picked)?;
        let count = self.groups.len();
        let is_counted_only = self.folds.iter().all(|(fold, _)| matches!(fold, FoldKind::Count));
        let (batch, places) = if is_counted_only {
            (RecordBatch::new_empty(Arc::clone(&self.needed.schema)), Vec::new())
        } else {
            let places = groups.iter().map(|group| *group as usize).collect();
            (self.needed.batch(&reader, &picked)?, places)
        };
        for (fold, folding) in &mut self.folds {
            match (&*fold, folding) {
                (_, GroupFolder::Count(counts)) => {
                    counts.resize(count, 0);
                    groups.iter().for_each(|group| counts[*group as usize] += 1);
                }
                (FoldKind::Other { arguments, filter, .. }, GroupFolder::Other(accumulator)) => {
                    let array = |expr: &Arc<dyn PhysicalExpr>| {
                        expr.evaluate(&batch)?.into_array(batch.num_rows())
                    };
                    let arguments = arguments.iter().map(array).collect::<Result<Vec<_>>>()?;
                    let filter = filter.as_ref().map(array).transpose()?;
                    let filter = filter.as_ref().map(|filter| filter.as_boolean());
                    accumulator.update_batch(&arguments, &places, filter, count)?;
                }
                (FoldKind::Count, GroupFolder::Other(_)) => unreachable!("made of one fold"),
            }
        }
        Ok(())
    }

    fn byte_count(&self) -> usize {
        let folds = self.folds.iter().map(|(_, folding)| match folding {
            GroupFolder::Count(counts) => counts.capacity() * size_of::<i64>(),
            GroupFolder::Other(accumulator) => accumulator.size(),
        });
        self.groups.byte_count() + folds.sum::<usize>()
    }

    fn finish(mut self, what: &GroupPlan) -> Result<RecordBatch> {
        let mut arrays = self.groups.arrays(0)?;
        for (_, folding) in &mut self.folds {
            arrays.push(match folding {
                GroupFolder::Count(counts) => {
                    let counts = std::mem::take(counts);
                    Arc::new(Int64Array::from(counts)) as ArrayRef
                }
                GroupFolder::Other(accumulator) => accumulator.evaluate(EmitTo::All)?,
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&what.schema), arrays)?)
    }
}
