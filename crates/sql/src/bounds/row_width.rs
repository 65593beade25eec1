//! Wide rows below joins: one row of 10 MB that meets 8,192 others makes a batch of 80 GB.
//!
//! Each input of a join or `unnest` is measured on its way in. A row that is so wide that a batch
//! of its copies exceeds the bound ends the query. One with joins then runs again with batches of
//! [`SMALL_BATCH_ROWS`], since a log line may have 1 MiB.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::EvaluationLimit;
use super::argument_size::{bytes, is_variable};
use crate::limits::size;

/// Rows of a batch in a query that has met a wide row.
pub(crate) const SMALL_BATCH_ROWS: usize = 64;
/// Batches of a join may exceed the limit of a function's result by this factor: bodies of logs may
/// have 64 KiB.
const BATCH_FACTOR: u64 = 8;
/// Rows of this width always pass.
const NARROW_BYTES: u64 = 64 << 10;

/// Measures the inputs of joins.
pub(crate) fn limit_row_width(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if !copies_rows(&node) {
            return Ok(Transformed::no(node));
        }
        let mut inputs: Vec<_> = node.children().into_iter().map(measured).collect();
        if let (true, Some(streamed)) = (node.is::<CrossJoinExec>(), inputs.last_mut()) {
            let input = Arc::clone(streamed);
            *streamed = Arc::new(RowWidthExec { input, splits: true });
        }
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Ok(Transformed::yes(node.replace_children(inputs, keep)?))
    })
    .data()
}

/// Whether a plan has a join, which may have to run again with small batches.
pub(crate) fn has_joins(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_join = copies_rows(plan) && !plan.is::<UnnestExec>();
    is_join || plan.children().into_iter().any(has_joins)
}

/// Whether an operator makes any number of rows of one.
pub(crate) fn copies_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<UnnestExec>()
}

fn measured(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let is_wide = input.schema().fields().iter().any(|field| is_variable(field.data_type()));
    let input = Arc::clone(input);
    if is_wide { Arc::new(RowWidthExec { input, splits: false }) } else { input }
}

/// Passes rows on unless they are too wide.
#[derive(Debug)]
struct RowWidthExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether batches are split: a cross join makes one of each that it reads.
    splits: bool,
}

fn check(rows: &RecordBatch, limit: u64, evaluation: &EvaluationLimit) -> Result<()> {
    // Most batches are smaller than the widest row that may pass.
    if rows.get_array_memory_size() as u64 <= limit {
        return Ok(());
    }
    let mut widths = vec![0_u64; rows.num_rows()];
    for column in rows.columns().iter().filter(|column| is_variable(column.data_type())) {
        widths.iter_mut().zip(bytes(column)).for_each(|(sum, bytes)| *sum += bytes);
    }
    let widest = widths.into_iter().max().unwrap_or(0);
    if widest > limit {
        evaluation.meet_wide_row();
        return exec_err!(
            "a row of {} meets a join, the limit is {}: join fewer columns, or shorten them with \
             `left(…, 1000)`",
            size(widest),
            size(limit)
        );
    }
    Ok(())
}

fn split(rows: &RecordBatch, batch_rows: usize) -> impl Stream<Item = Result<RecordBatch>> + use<> {
    let (rows, count) = (rows.clone(), rows.num_rows());
    let starts = (0..count).step_by(batch_rows.max(1));
    stream::iter(starts.map(move |at| Ok(rows.slice(at, batch_rows.min(count - at)))))
}

impl DisplayAs for RowWidthExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowWidthExec")
    }
}

impl ExecutionPlan for RowWidthExec {
    fn name(&self) -> &'static str {
        "RowWidthExec"
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
        Ok(Arc::new(Self { input, splits: self.splits }))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self { input, splits: self.splits }))
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
        let batch_rows = context.session_config().batch_size();
        let rows = self.input.execute(partition, context)?;
        let evaluation = EvaluationLimit::current();
        let copies = batch_rows.max(1) as u64;
        let limit = (evaluation.bytes.saturating_mul(BATCH_FACTOR) / copies).max(NARROW_BYTES);
        let schema = rows.schema();
        let rows = rows
            .map(move |rows| rows.and_then(|rows| check(&rows, limit, &evaluation).map(|()| rows)));
        if self.splits {
            let rows = rows.map_ok(move |rows| split(&rows, batch_rows)).try_flatten();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
