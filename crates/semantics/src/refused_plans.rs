//! Plans that the engine answers wrongly, and that are refused for it.
//!
//! Syntax alone does not show them: a subquery is correlated by its names. When the engine is
//! upgraded, try each shape again.

use std::collections::HashSet;

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::utils::{split_binary_owned, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Subquery};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use weir_dialect::KnownWrongShape;

use crate::json_functions::ObjectType;

const CORRELATED_AGGREGATE: KnownWrongShape = KnownWrongShape {
    shape: "an aggregate without `group by` in a correlated subquery of `exists` or `in`",
    reason: "a row without matches would be lost: compare a scalar subquery instead",
    upstream: "apache/datafusion#24960",
};

const CORRELATED_GROUPING_SETS: KnownWrongShape = KnownWrongShape {
    shape: "`rollup`, `cube` or grouping sets in a correlated subquery",
    reason: "the grand total would be lost: join with the grouped rows instead",
    upstream: "apache/datafusion#25519",
};

const CORRELATED_OFFSET: KnownWrongShape = KnownWrongShape {
    shape: "`offset` in a correlated subquery of `exists` or `in`",
    reason: "it would be ignored: compare a scalar subquery with a count instead",
    upstream: "",
};

const MERGED_LISTS: KnownWrongShape = KnownWrongShape {
    shape: "`x in (…) and x in (…)`, or `x not in (…) or x not in (…)`, as a value",
    reason: "NULL would become false or true: write one list",
    upstream: "apache/datafusion#24246",
};

const CANCELLED_XOR: KnownWrongShape = KnownWrongShape {
    shape: "`x # x`",
    reason: "it would be 0 also for NULL: write 0",
    upstream: "apache/datafusion#24246",
};

const DISTANT_NEIGHBOUR: KnownWrongShape = KnownWrongShape {
    shape: "`lead` or `lag` with `ignore nulls` over more than one row",
    reason: "rows behind a gap would be missed: filter the NULLs out in a subquery",
    upstream: "apache/datafusion#25471",
};

const NESTED_UNNEST: KnownWrongShape = KnownWrongShape {
    shape: "`unnest` of an array of arrays",
    reason: "inner arrays would stay: write `unnest(flatten(x))`",
    upstream: "",
};

const PLACE_BELOW_ONE: KnownWrongShape = KnownWrongShape {
    shape: "`nth_value` of a place below 1",
    reason: "it would be NULL: places count from 1",
    upstream: "",
};

const ORDERED_JSON: KnownWrongShape = KnownWrongShape {
    shape: "an order of `jsonb`",
    reason: "it would be that of texts: order by a text of the values (`->>`)",
    upstream: "",
};

/// Refuses these shapes.
#[derive(Debug)]
pub(crate) struct RefuseKnownWrong;

impl AnalyzerRule for RefuseKnownWrong {
    fn name(&self) -> &'static str {
        "refuse_known_wrong"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let Some(shape) = wrong_node(node) {
                return Err(DataFusionError::Plan(shape.refusal_text()));
            }
            node.apply_expressions(|expr| {
                // In a condition, NULL is the same as false.
                let is_condition = matches!(node, LogicalPlan::Filter(_));
                let parts = if is_condition { split_conjunction(expr) } else { vec![expr] };
                parts.into_iter().try_fold(TreeNodeRecursion::Continue, |_, part| {
                    part.apply(|part| match wrong_shape(part) {
                        Some(shape) => Err(DataFusionError::Plan(shape.refusal_text())),
                        None => Ok(TreeNodeRecursion::Continue),
                    })
                })
            })
        })?;
        Ok(plan)
    }
}

/// Shape of a part of a plan.
fn wrong_node(node: &LogicalPlan) -> Option<&'static KnownWrongShape> {
    match node {
        LogicalPlan::Unnest(unnest) => {
            let fields = unnest.input.schema().fields();
            let is_nested = unnest.list_type_columns.iter().any(|(at, _)| {
                fields.get(*at).is_some_and(|field| {
                    is_array_of_arrays(field.data_type()) && !has_groups(field.name())
                })
            });
            is_nested.then_some(&NESTED_UNNEST)
        }
        LogicalPlan::Sort(sort) => {
            let mut kinds =
                sort.expr.iter().map(|key| ObjectType::of(&key.expr, sort.input.schema()));
            kinds.any(|kind| kind == Some(ObjectType::Jsonb)).then_some(&ORDERED_JSON)
        }
        _ => None,
    }
}

/// Whether the items are groups of matches, of which each row of `regexp_matches` has an array.
fn has_groups(column: &str) -> bool {
    column.starts_with("__unnest_placeholder(regexp_all_matches(")
}

fn is_array_of_arrays(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_nested()
        }
        _ => false,
    }
}

/// Two lists of one value, which the optimizer merges without regard to NULL.
fn merges_lists(expr: &Expr) -> bool {
    let (op, is_negated) = match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => (Operator::And, false),
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => (Operator::Or, true),
        _ => return false,
    };
    let mut seen = HashSet::new();
    split_binary_owned(expr.clone(), op).into_iter().any(|part| match part {
        Expr::InList(list) if list.negated == is_negated => !seen.insert(*list.expr),
        _ => false,
    })
}

/// `x # x`, which the optimizer makes 0 also for NULL.
fn cancels(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { left, op: Operator::BitwiseXor, right }) if left == right)
}

fn wrong_shape(expr: &Expr) -> Option<&'static KnownWrongShape> {
    match expr {
        Expr::Exists(exists) => correlated(&exists.subquery, true),
        Expr::InSubquery(list) => correlated(&list.subquery, true),
        Expr::SetComparison(comparison) => correlated(&comparison.subquery, true),
        Expr::ScalarSubquery(subquery) => correlated(subquery, false),
        _ if merges_lists(expr) => Some(&MERGED_LISTS),
        _ if cancels(expr) => Some(&CANCELLED_XOR),
        Expr::WindowFunction(call) if is_distant(call) => Some(&DISTANT_NEIGHBOUR),
        Expr::WindowFunction(call) if is_below_one(call) => Some(&PLACE_BELOW_ONE),
        _ => None,
    }
}

/// Shape of a correlated subquery.
fn correlated(subquery: &Subquery, is_set: bool) -> Option<&'static KnownWrongShape> {
    if subquery.outer_ref_columns.is_empty() {
        return None;
    }
    let mut found = None;
    let walk = subquery.subquery.apply(|node| {
        if let LogicalPlan::Limit(limit) = node
            && limit.skip.is_some()
            && is_set
        {
            found = Some(&CORRELATED_OFFSET);
        }
        if let LogicalPlan::Aggregate(aggregate) = node {
            match aggregate.group_expr.as_slice() {
                [] if is_set => found = Some(&CORRELATED_AGGREGATE),
                [Expr::GroupingSet(_)] => found = Some(&CORRELATED_GROUPING_SETS),
                _ => {}
            }
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walk.ok().and(found)
}

/// Whether a value is taken from a place that no frame has.
fn is_below_one(call: &WindowFunction) -> bool {
    call.fun.name() == "nth_value"
        && matches!(call.params.args.get(1), Some(Expr::Literal(ScalarValue::Int64(Some(..1)), _)))
}

/// Whether a neighbour beyond the next row is taken, without NULLs.
fn is_distant(call: &WindowFunction) -> bool {
    let is_neighbour = ["lead", "lag"].contains(&call.fun.name());
    let ignores_nulls = call.params.null_treatment == Some(NullTreatment::IgnoreNulls);
    let is_next = match call.params.args.get(1) {
        None => true,
        Some(Expr::Literal(offset, _)) => *offset == ScalarValue::Int64(Some(1)),
        Some(_) => false,
    };
    is_neighbour && ignores_nulls && !is_next
}
