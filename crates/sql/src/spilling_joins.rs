//! Joins larger than memory: when memory is refused, the query restarts with joins that spill to
//! disk.
//!
//! DataFusion's joins (55.2) when memory is refused:
//!
//! - Equi-joins keep one side in memory (`HashJoinExec`), which never spills. On disk, both sides
//!   are sorted, which can spill (`SortMergeJoinExec`).
//! - Joins by other conditions keep the left side in memory. On disk, they load the left side in
//!   parts and read the right side again for each (`NestedLoopJoinExec`).
//! - Joins without a condition, right and full joins by other conditions, and `not in` on a
//!   nullable column keep the left side in memory and cannot spill.
//!
//! The second kind spills automatically, but not safely. It reads its left side a second time
//! without resetting the operators below, which have returned their rows already and panic. And it
//! evaluates each partition of the right side separately, so a row whose match is in another
//! partition is returned as unmatched. Therefore it spills only in the second attempt, where
//! everything below restarts ([`RereadExec`]) and the right side is in one partition, the only one
//! that then uses memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_schema::{Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, internal_err, resources_err};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, reset_plan_states};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::TryStreamExt;

/// With one partition, DataFusion always plans hash joins; with more, each has less memory to sort
/// with.
const PARTITIONS: usize = 2;
/// Interval between checks whether memory is free again.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Whether a plan has joins that could spill.
pub(crate) fn has_any(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let by_hash = plan.downcast_ref::<HashJoinExec>().is_some_and(|join| !join.null_aware);
    by_hash || plan.is::<NestedLoopJoinExec>() || plan.children().into_iter().any(has_any)
}

/// Whether a plan has joins that read a side twice, which works only on this hub and not in
/// subplans on others.
pub(crate) fn reads_again(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RereadExec>() || plan.children().into_iter().any(reads_again)
}

/// Plans joins as spilling ones from now on.
pub(crate) fn prefer(state: &mut SessionState) {
    let options = state.config_mut().options_mut();
    options.optimizer.prefer_hash_join = false;
    options.optimizer.enable_round_robin_repartition = false;
    options.execution.target_partitions = PARTITIONS;
}

/// Limits the total that a plan's sorts reserve for merging to a quarter of the memory.
pub(crate) fn reserve_for_sorts(
    state: &mut SessionState,
    plan: &Arc<dyn ExecutionPlan>,
    memory: &Arc<dyn MemoryPool>,
) {
    let each = memory_bytes(memory) / (4 * sorts(plan).max(1));
    let reserved = &mut state.config_mut().options_mut().execution.sort_spill_reservation_bytes;
    *reserved = (*reserved).min(each);
}

fn sorts(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let is_sort = plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none());
    let own = if is_sort { plan.output_partitioning().partition_count() } else { 0 };
    own + plan.children().into_iter().map(sorts).sum::<usize>()
}

fn memory_bytes(memory: &Arc<dyn MemoryPool>) -> usize {
    match memory.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// Waits until the operators of a failed plan have stopped, which they do between two batches.
pub(crate) async fn all_given_back(memory: &Arc<dyn MemoryPool>) {
    while memory.reserved() > 0 {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Optimizer rule for non-equi joins: in memory first, safe spilling where that is preferred.
#[derive(Debug)]
pub(crate) struct NonEquiJoinRule;

impl PhysicalOptimizerRule for NonEquiJoinRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let on_disk = !options.optimizer.prefer_hash_join;
        plan.transform_up(|node| {
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let sides = sides(join, on_disk);
                let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                return Ok(Transformed::yes(node.replace_children(sides, anew)?));
            }
            let Some(join) = node.downcast_ref::<SortMergeJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(filter) = &join.filter else { return Ok(Transformed::no(node)) };
            Ok(Transformed::yes(Arc::new(with_filter(join, may_be_null(filter))?) as _))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "other_conditions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn sides(join: &NestedLoopJoinExec, on_disk: bool) -> Vec<Arc<dyn ExecutionPlan>> {
    let may = on_disk && !has_right_alone(join.join_type());
    let left = Arc::new(RereadExec::new(Arc::clone(join.left()), may));
    let right = Arc::clone(join.right());
    let is_whole = right.output_partitioning().partition_count() == 1;
    if !on_disk || is_whole {
        return vec![left, right];
    }
    vec![left, Arc::new(CoalescePartitionsExec::new(right))]
}

/// Whether a join returns unmatched rows of the right side, which a spilled left side does not
/// report completely (55.2).
fn has_right_alone(join_type: &JoinType) -> bool {
    use JoinType::{Full, Right, RightAnti, RightMark, RightSemi};
    matches!(join_type, Full | Right | RightAnti | RightMark | RightSemi)
}

/// An outer merge join evaluates its further conditions on unmatched rows too, whose columns are
/// NULL even if declared NOT NULL: it fails on those (55.2).
fn may_be_null(filter: &JoinFilter) -> JoinFilter {
    let fields = filter.schema().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let (expression, columns) = (filter.expression(), filter.column_indices());
    JoinFilter::new(Arc::clone(expression), columns.to_vec(), Arc::new(Schema::new(fields)))
}

/// The join with another condition.
pub(crate) fn with_filter(
    join: &SortMergeJoinExec,
    filter: JoinFilter,
) -> Result<SortMergeJoinExec> {
    SortMergeJoinExec::try_new(
        Arc::clone(&join.left),
        Arc::clone(&join.right),
        join.on.clone(),
        Some(filter),
        join.join_type,
        join.sort_options.clone(),
        join.null_equality,
    )
}

/// Left side of a non-equi join, which executes it a second time if it does not fit into memory:
/// then everything below restarts from the beginning, or the join fails with a memory error.
#[derive(Debug)]
struct RereadExec {
    input: Arc<dyn ExecutionPlan>,
    may: bool,
    is_read: AtomicBool,
    /// Memory was refused below, where it would be refused again.
    has_failed: Arc<AtomicBool>,
}

impl RereadExec {
    fn new(input: Arc<dyn ExecutionPlan>, may: bool) -> Self {
        Self { input, may, is_read: AtomicBool::new(false), has_failed: Arc::default() }
    }
}

impl DisplayAs for RereadExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadAgainExec: may={}", self.may)
    }
}

impl ExecutionPlan for RereadExec {
    fn name(&self) -> &'static str {
        "ReadAgainExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self::new(input, self.may)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self::new(input, self.may)))
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
        if self.is_read.swap(true, Ordering::Relaxed) {
            if !self.may || self.has_failed.load(Ordering::Relaxed) {
                return resources_err!("no memory for the left side of a join");
            }
            return reset_plan_states(Arc::clone(&self.input))?.execute(partition, context);
        }
        let rows = self.input.execute(partition, context)?;
        let (schema, has_failed) = (rows.schema(), Arc::clone(&self.has_failed));
        let rows = rows.inspect_err(move |_| has_failed.store(true, Ordering::Relaxed));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
