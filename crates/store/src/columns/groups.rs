//! Groups of rows by the numbers of their keys, over columns in memory: one pass over each unit, nothing is hashed per row.
//!
//! It stands before DataFusion's own plan for the same groups and takes over when that has a chance: when memory is refused,
//! what was counted is thrown away and the other plan, which can spill, begins.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::keys::{Groups, Key};
use super::scan::ColumnScan;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// The groups.
#[derive(Debug)]
pub(crate) struct CodedGroupsExec {
    pub(crate) what: Arc<What>,
    /// Gives the same rows.
    other: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What is grouped, by what, and what is made of each group.
#[derive(Debug)]
pub(crate) struct What {
    pub(crate) scan: ColumnScan,
    pub(crate) keys: Vec<Key>,
    pub(crate) folds: Vec<Fold>,
    /// Places in the table of the columns that the folds need.
    pub(crate) columns: Vec<usize>,
    /// Of a batch of these columns.
    pub(crate) local: SchemaRef,
    /// Of what comes out.
    pub(crate) schema: SchemaRef,
}

/// One aggregate; its expressions are on a batch of [`What::columns`].
#[derive(Clone, Debug)]
pub(crate) enum Fold {
    /// `count(*)`.
    Count,
    Other {
        function: Arc<AggregateFunctionExpr>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<Arc<dyn PhysicalExpr>>,
    },
}

impl CodedGroupsExec {
    pub(crate) fn new(what: Arc<What>, other: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&what.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { what, other, properties: Arc::new(properties), metrics }
    }
}

impl DisplayAs for CodedGroupsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, folds) = (self.what.keys.len(), self.what.folds.len());
        write!(
            f,
            "CodedGroupsExec: keys={keys}, aggregates={folds}, units={}; if memory is refused:",
            self.what.scan.units.len()
        )
    }
}

impl ExecutionPlan for CodedGroupsExec {
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
        Ok(Arc::new(Self::new(Arc::clone(&self.what), other)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(other) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self::new(Arc::clone(&self.what), other)))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (what, other) = (Arc::clone(&self.what), Arc::clone(&self.other));
        let baseline = BaselineMetrics::new(&self.metrics, 0);
        let schema = Arc::clone(&what.schema);
        let batches = async move {
            match grouped(&what, &context, &baseline).await? {
                Some(batches) => Ok(stream::iter(batches).map(Ok).left_stream()),
                None => Ok::<_, DataFusionError>(other.execute(0, context)?.right_stream()),
            }
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// `None`: there is no memory for it.
async fn grouped(
    what: &What,
    context: &TaskContext,
    baseline: &BaselineMetrics,
) -> Result<Option<Vec<RecordBatch>>> {
    let reservation = MemoryConsumer::new("groups").register(context.memory_pool());
    let mut state = State::new(what)?;
    for unit in &*what.scan.units {
        let timer = baseline.elapsed_compute().timer();
        state.take(what, unit)?;
        timer.done();
        if reservation.try_resize(state.byte_count()).is_err() {
            return Ok(None);
        }
        // A query that is given up ends between units.
        tokio::task::yield_now().await;
    }
    let _timer = baseline.elapsed_compute().timer();
    let rows = state.finish(what)?;
    baseline.record_output(rows.num_rows());
    let starts = (0..rows.num_rows()).step_by(BATCH_ROWS);
    Ok(Some(starts.map(|at| rows.slice(at, BATCH_ROWS.min(rows.num_rows() - at))).collect()))
}

struct State {
    groups: Groups,
    folds: Vec<Folding>,
}

enum Folding {
    Count(Vec<i64>),
    Other(Box<dyn GroupsAccumulator>),
}

impl State {
    fn new(what: &What) -> Result<Self> {
        let folding = |fold: &Fold| {
            Ok(match fold {
                Fold::Count => Folding::Count(Vec::new()),
                Fold::Other { function, .. } => {
                    Folding::Other(function.create_groups_accumulator()?)
                }
            })
        };
        let folds = what.folds.iter().map(folding).collect::<Result<_>>()?;
        Ok(Self { groups: Groups::new(&what.keys), folds })
    }

    fn take(&mut self, what: &What, unit: &super::unit::Unit) -> Result<()> {
        let reader = what.scan.reader(unit);
        let picked = reader.pick(&what.scan.filters)?;
        if picked.len() == 0 {
            return Ok(());
        }
        let groups = self.groups.of_rows(&reader, &picked)?;
        let count = self.groups.len();
        let is_counted_only = what.folds.iter().all(|fold| matches!(fold, Fold::Count));
        let (batch, places) = if is_counted_only {
            (RecordBatch::new_empty(Arc::clone(&what.local)), Vec::new())
        } else {
            let arrays = reader.rows(&what.columns, &picked)?;
            let options = RecordBatchOptions::new().with_row_count(Some(picked.len()));
            let local = Arc::clone(&what.local);
            let batch = RecordBatch::try_new_with_options(local, arrays, &options)?;
            (batch, groups.iter().map(|group| *group as usize).collect())
        };
        for (fold, folding) in what.folds.iter().zip(&mut self.folds) {
            match (fold, folding) {
                (_, Folding::Count(counts)) => {
                    counts.resize(count, 0);
                    groups.iter().for_each(|group| counts[*group as usize] += 1);
                }
                (Fold::Other { arguments, filter, .. }, Folding::Other(accumulator)) => {
                    let array = |expr: &Arc<dyn PhysicalExpr>| {
                        expr.evaluate(&batch)?.into_array(batch.num_rows())
                    };
                    let arguments = arguments.iter().map(array).collect::<Result<Vec<_>>>()?;
                    let filter = filter.as_ref().map(array).transpose()?;
                    let filter = filter.as_ref().map(|filter| filter.as_boolean());
                    accumulator.update_batch(&arguments, &places, filter, count)?;
                }
                (Fold::Count, Folding::Other(_)) => unreachable!("made from one list"),
            }
        }
        Ok(())
    }

    fn byte_count(&self) -> usize {
        let folds = self.folds.iter().map(|folding| match folding {
            Folding::Count(counts) => counts.capacity() * size_of::<i64>(),
            Folding::Other(accumulator) => accumulator.size(),
        });
        self.groups.byte_count() + folds.sum::<usize>()
    }

    fn finish(mut self, what: &What) -> Result<RecordBatch> {
        let mut arrays = self.groups.arrays(0)?;
        for folding in &mut self.folds {
            arrays.push(match folding {
                Folding::Count(counts) => {
                    let counts = std::mem::take(counts);
                    Arc::new(Int64Array::from(counts)) as ArrayRef
                }
                Folding::Other(accumulator) => accumulator.evaluate(EmitTo::All)?,
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&what.schema), arrays)?)
    }
}
