//! Wide rows below joins: one row of 10 MB that meets 8,192 others makes a batch of 80 GB.
//!
//! Each input of a join or `unnest` is measured on its way in. A row that is so wide that a batch
//! of its copies exceeds the bound ends the query.

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
use futures::StreamExt;

use super::EvaluationLimit;
use super::argument_size::{bytes, is_variable};
use crate::limits::size;

/// Copies of a row that one batch of a join may have.
const COPIES: u64 = 8192;
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
        let inputs: Vec<_> = node.children().into_iter().map(measured).collect();
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Ok(Transformed::yes(node.replace_children(inputs, keep)?))
    })
    .data()
}

fn copies_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<UnnestExec>()
}

fn measured(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let is_wide = input.schema().fields().iter().any(|field| is_variable(field.data_type()));
    if is_wide { Arc::new(RowWidthExec { input: Arc::clone(input) }) } else { Arc::clone(input) }
}

/// Passes rows on unless they are too wide.
#[derive(Debug)]
struct RowWidthExec {
    input: Arc<dyn ExecutionPlan>,
}

fn check(rows: &RecordBatch, limit: u64) -> Result<()> {
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
        return exec_err!(
            "a row of {} meets a join, the limit is {}: join fewer columns, or shorten them with \
             `left(…, 1000)`",
            size(widest),
            size(limit)
        );
    }
    Ok(())
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
        Ok(Arc::new(Self { input }))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("one child is needed") };
        Ok(Arc::new(Self { input }))
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
        let rows = self.input.execute(partition, context)?;
        let batch = EvaluationLimit::current().bytes.saturating_mul(BATCH_FACTOR);
        let limit = (batch / COPIES).max(NARROW_BYTES);
        let schema = rows.schema();
        let rows = rows.map(move |rows| rows.and_then(|rows| check(&rows, limit).map(|()| rows)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
