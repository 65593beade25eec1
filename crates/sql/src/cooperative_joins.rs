//! Joins end when their query does.
//!
//! A join makes any number of batches of one batch that it holds, and an operator above that needs all of
//! them, such as `count(*)`, asks for the next at once. The task never waits, so it cannot be cancelled: a
//! cross join of two series computed on for hours after its client had left (DataFusion 55.2, which lets
//! leaves alone give way).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};

use crate::bounds::copies_rows;
use crate::ending_condition::ending;
use crate::spilling_joins::with_filter;

/// Optimizer rule; others look for joins, so it is the last.
#[derive(Debug)]
pub(crate) struct CooperativeJoins;

impl PhysicalOptimizerRule for CooperativeJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if !copies_rows(&node) {
                return Ok(Transformed::no(node));
            }
            let node = with_ending_condition(&node)?.unwrap_or(node);
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as _))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "cooperative_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join with its condition checked; `None` without one.
fn with_ending_condition(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    Ok(if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        Some(Arc::new(join.builder().with_filter(Some(ending(filter))).build()?))
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        let builder = NestedLoopJoinExecBuilder::from(join);
        Some(Arc::new(builder.with_filter(Some(ending(filter))).build()?))
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let Some(filter) = &join.filter else { return Ok(None) };
        Some(Arc::new(with_filter(join, ending(filter))?))
    } else {
        None
    })
}
