//! Differences of times beside intervals, as in `coalesce(b - a, interval '0')`, `case` and `union`: the engine
//! makes them intervals of hours alone, where PostgreSQL's have days.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite_parts::{TimeRole, call, is_interval, role};

/// The rule; it runs once the engine has added its casts.
#[derive(Debug)]
pub(crate) struct DifferenceCasts;

impl AnalyzerRule for DifferenceCasts {
    fn name(&self) -> &'static str {
        "difference_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let schema = Arc::new(merge_schema(&node.inputs()));
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let new = expr.transform_up(|part| {
                    Ok(match part {
                        Expr::Cast(cast)
                            if is_interval(cast.field.data_type())
                                && role(&cast.expr, &schema) == TimeRole::Difference =>
                        {
                            Transformed::yes(call("interval_of", vec![*cast.expr]))
                        }
                        other => Transformed::no(other),
                    })
                })?;
                Ok(new.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }
}
