//! Scalar subqueries of the outer row in the condition of a join, which the engine takes in projections and filters only.
//!
//! The input that a subquery refers to computes it in a projection below the join, and the join compares the column.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Projection, Subquery};

/// Name of such a column; a number follows.
const COLUMN: &str = "join_subquery_";

/// Moves these subqueries below their joins. Subqueries that refer to both inputs stay, and the engine refuses them.
///
/// # Errors
///
/// An input has no valid projection.
pub(crate) fn move_below(plan: LogicalPlan) -> Result<LogicalPlan> {
    let moved = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Join(join) if is_plain(&join) => rebuild(join),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(moved.data)
}

fn is_plain(join: &Join) -> bool {
    matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

/// An input of a join, with the subqueries that it computes.
struct JoinInput {
    plan: Arc<LogicalPlan>,
    subqueries: Vec<Expr>,
}

impl JoinInput {
    fn has_all(&self, subquery: &Subquery) -> bool {
        subquery.outer_ref_columns.iter().all(|outer| match outer {
            Expr::OuterReferenceColumn(_, column) => self.plan.schema().has_column(column),
            _ => false,
        })
    }

    fn computed(self) -> Result<Arc<LogicalPlan>> {
        if self.subqueries.is_empty() {
            return Ok(self.plan);
        }
        let columns = columns_of(self.plan.schema()).chain(self.subqueries).collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, self.plan)?)))
    }
}

fn columns_of(schema: &DFSchema) -> impl Iterator<Item = Expr> {
    schema.columns().into_iter().map(Expr::Column)
}

fn rebuild(join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.clone() else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let mut inputs = [&join.left, &join.right]
        .map(|plan| JoinInput { plan: Arc::clone(plan), subqueries: Vec::new() });
    let mut found = 0;
    let filter = filter.transform_down(|expr| {
        let Expr::ScalarSubquery(subquery) = &expr else { return Ok(Transformed::no(expr)) };
        let is_correlated = !subquery.outer_ref_columns.is_empty();
        let Some(input) = inputs.iter_mut().find(|input| is_correlated && input.has_all(subquery))
        else {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        };
        let name = format!("{COLUMN}{found}");
        found += 1;
        input.subqueries.push(expr.alias(&name));
        let column = Expr::Column(Column::new_unqualified(name));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    })?;
    if !filter.transformed {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns: Vec<Expr> = columns_of(&join.schema).collect();
    let [left, right] = inputs;
    let joined = Join::try_new(
        left.computed()?,
        right.computed()?,
        join.on,
        Some(filter.data),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = Arc::new(LogicalPlan::Join(joined));
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, joined)?)))
}
