//! `x not in (select …)` where the engine loses NULLs: with a subquery of the outer row, with a constant
//! `x`, with an `x` that is NULL though its columns never are, and beside `or` (apache/datafusion#25336,
//! #25347, #25473, #25474, #25480, #25340, #24854). Rows were kept or dropped wrongly, without a word.
//!
//! In a condition, NULL is the same as false. So the test is true if there is no row with the value, none
//! with NULL, and, for a value that is NULL, no row at all: three `exists`, which the engine answers
//! rightly, the first by a hash join. As a part of a value, where NULL counts, such a test is refused.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
};
use datafusion::optimizer::AnalyzerRule;
use weir_dialect::KnownWrongShape;

const MEMBERSHIP_AS_VALUE: KnownWrongShape = KnownWrongShape {
    shape: "`in (select …)` as a part of a value",
    reason: "NULL would become false: use it directly in `where`, or `exists`",
    upstream: "apache/datafusion#25347",
};

const LONG_MEMBERSHIP: KnownWrongShape = KnownWrongShape {
    shape: "`not in` with a long subquery, beside `or` or of the outer row",
    reason: "it would be copied at each level: use `not exists`",
    upstream: "apache/datafusion#25347",
};

/// Most nodes of a subquery: it is copied, and so are copies in it.
const NODES_MAX: usize = 300;

/// The rule; it runs once types are known.
#[derive(Debug)]
pub(crate) struct ExactNotIn;

impl AnalyzerRule for ExactNotIn {
    fn name(&self) -> &'static str {
        "exact_not_in"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) if has_membership(&filter.predicate)? => {
                let schema = Arc::clone(filter.input.schema());
                let place = Place { schema: &schema, is_negated: false, is_conjunct: true };
                let condition = place.exact(filter.predicate)?;
                let filter = Filter::try_new(condition, filter.input)?;
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => Ok(Transformed::no(node)),
            other => {
                other.apply_expressions(|expr| match has_membership(expr)? {
                    true => Err(DataFusionError::Plan(MEMBERSHIP_AS_VALUE.refusal_text())),
                    false => Ok(TreeNodeRecursion::Continue),
                })?;
                Ok(Transformed::no(other))
            }
        })
        .data()
    }
}

/// Whether the engine's join takes care of NULL: it looks at columns only, so `nullif(a, 0)` of a column
/// without NULLs would never be NULL to it.
fn is_column(value: &Expr) -> bool {
    match value {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

fn has_membership(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(matches!(part, Expr::InSubquery(_))))
}

/// Where a part of a condition stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    schema: &'a DFSchema,
    /// Below an odd number of `not`.
    is_negated: bool,
    /// Whether the condition is true only if the part is.
    is_conjunct: bool,
}

impl Place<'_> {
    /// The part, or what is true for the same rows.
    fn exact(self, part: Expr) -> Result<Expr> {
        match part {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::And | Operator::Or),
                right,
            }) => {
                let op = match (op, self.is_negated) {
                    (Operator::And, false) | (Operator::Or, true) => Operator::And,
                    _ => Operator::Or,
                };
                let inner = Self { is_conjunct: self.is_conjunct && op == Operator::And, ..self };
                let (left, right) = (inner.exact(*left)?, inner.exact(*right)?);
                Ok(Expr::BinaryExpr(BinaryExpr {
                    left: Box::new(left),
                    op,
                    right: Box::new(right),
                }))
            }
            // True for the same rows; `is false` and `is unknown` are not.
            Expr::IsTrue(part) if !self.is_negated => self.exact(*part),
            Expr::Not(part) => Self { is_negated: !self.is_negated, ..self }.exact(*part),
            Expr::InSubquery(list) if list.negated == self.is_negated => {
                Ok(Expr::InSubquery(InSubquery { negated: false, ..list }))
            }
            Expr::InSubquery(list) => {
                let is_correlated = !list.subquery.outer_ref_columns.is_empty();
                if self.is_conjunct && !is_correlated && is_column(&list.expr) {
                    return Ok(Expr::InSubquery(InSubquery { negated: true, ..list }));
                }
                self.not_exists(list)
            }
            other if has_membership(&other)? => {
                Err(DataFusionError::Plan(MEMBERSHIP_AS_VALUE.refusal_text()))
            }
            other if self.is_negated => Ok(Expr::Not(Box::new(other))),
            other => Ok(other),
        }
    }

    fn not_exists(self, list: InSubquery) -> Result<Expr> {
        let InSubquery { expr: value, subquery, .. } = list;
        let mut nodes = 0;
        subquery.subquery.apply_with_subqueries(|_| {
            nodes += 1;
            Ok(if nodes > NODES_MAX {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if nodes > NODES_MAX {
            return Err(DataFusionError::Plan(LONG_MEMBERSHIP.refusal_text()));
        }
        let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
        let found = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let same = found.clone().eq(self.of_outer_row((*value).clone())?);
        let none = |condition: Option<Expr>| -> Result<Expr> {
            let mut rows = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery));
            if let Some(condition) = condition {
                rows = rows.filter(condition)?;
            }
            let outer_ref_columns = rows.plan().all_out_ref_exprs();
            if outer_ref_columns.is_empty() {
                rows = rows.limit(0, Some(1))?;
            }
            let subquery = Arc::new(rows.build()?);
            let spans = Default::default();
            let subquery = Subquery { subquery, outer_ref_columns, spans };
            Ok(Expr::Exists(Exists { subquery, negated: true }))
        };
        let is_known = matches!(&*value, Expr::Literal(constant, _) if !constant.is_null());
        let test = none(Some(same))?.and(none(Some(found.is_null()))?);
        Ok(if is_known { test } else { test.and(value.is_not_null().or(none(None)?)) })
    }

    /// A value as a subquery sees it.
    fn of_outer_row(self, value: Expr) -> Result<Expr> {
        value
            .transform(|part| match part {
                Expr::Column(column) => {
                    let (_, field) = self.schema.qualified_field_from_column(&column)?;
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
                }
                // The row of a further query around this one.
                Expr::OuterReferenceColumn(..) => {
                    Err(DataFusionError::Plan(MEMBERSHIP_AS_VALUE.refusal_text()))
                }
                other => Ok(Transformed::no(other)),
            })
            .data()
    }
}
