//! Intervals as keys of sorts, groups, joins and `distinct`: by length, as PostgreSQL compares them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Subquery,
};
use datafusion::optimizer::AnalyzerRule;

use crate::interval_aggregate::in_place_of;
use crate::rewrite_parts::{is_interval, length, type_of};
use crate::typed::order_by_length;

/// The rule.
#[derive(Debug)]
pub(crate) struct IntervalKeys;

impl AnalyzerRule for IntervalKeys {
    fn name(&self) -> &'static str {
        "interval_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(by_length).data()
    }
}

fn by_length(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            let is_changed = order_by_length(&mut sort.expr, &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
        }
        LogicalPlan::Aggregate(aggregate)
            if has_interval(&aggregate.group_expr, aggregate.input.schema()) =>
        {
            group_by_length(aggregate).map(Transformed::yes)
        }
        LogicalPlan::Distinct(Distinct::All(input)) if schema_has_interval(input.schema()) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            let aggregate = Aggregate::try_new(input, columns, Vec::new())?;
            group_by_length(aggregate).map(Transformed::yes)
        }
        LogicalPlan::Join(mut join) => {
            let mut is_changed = false;
            for (left, right) in &mut join.on {
                if type_of(left, join.left.schema()).is_some_and(|kind| is_interval(&kind)) {
                    *left = length(std::mem::take(left));
                    *right = length(std::mem::take(right));
                    is_changed = true;
                }
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
        }
        other => {
            let schema = other.inputs().first().map(|input| Arc::clone(input.schema()));
            match schema {
                Some(schema) => other.map_expressions(|expr| in_subqueries(expr, &schema)),
                None => Ok(Transformed::no(other)),
            }
        }
    }
}

fn has_interval(exprs: &[Expr], schema: &DFSchema) -> bool {
    exprs.iter().any(|expr| type_of(expr, schema).is_some_and(|kind| is_interval(&kind)))
}

fn schema_has_interval(schema: &DFSchemaRef) -> bool {
    schema.fields().iter().any(|field| is_interval(field.data_type()))
}

/// Groups by lengths; the shortest interval of a group stands for its equals.
fn group_by_length(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, mut aggr_expr, schema, .. } = aggregate;
    if matches!(group_expr.as_slice(), [Expr::GroupingSet(_)]) {
        return plan_err!(
            "grouping sets of intervals are not supported: group by `extract(epoch from …)`"
        );
    }
    let count = group_expr.len();
    let mut groups = Vec::with_capacity(count);
    let mut columns = Vec::with_capacity(schema.fields().len());
    let aggregates = aggr_expr.len();
    for (at, expr) in group_expr.into_iter().enumerate() {
        if expr.get_type(input.schema())? != crate::interval_functions::INTERVAL {
            columns.push(column(&expr));
            groups.push(expr);
            continue;
        }
        let name = format!("interval of group {at}");
        aggr_expr.push(shortest(expr.clone()).alias(&name));
        groups.push(length(expr).alias(format!("length of group {at}")));
        columns.push(Expr::Column(Column::new_unqualified(name)));
    }
    columns.extend(aggr_expr[..aggregates].iter().map(column));
    let exprs = columns
        .into_iter()
        .zip(schema.iter())
        .map(|(expr, (table, field))| expr.alias_qualified(table.cloned(), field.name()));
    let exprs = exprs.collect();
    let plan =
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).aggregate(groups, aggr_expr)?;
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan.build()?))?))
}

/// The result column of an expression of a plan.
fn column(expr: &Expr) -> Expr {
    let (table, name) = expr.qualified_name();
    Expr::Column(Column::new(table, name))
}

fn shortest(expr: Expr) -> Expr {
    let function = in_place_of("min").expect("this table has min");
    Expr::AggregateFunction(AggregateFunction::new_udf(
        Arc::new(function),
        vec![expr],
        false,
        None,
        Vec::new(),
        None,
    ))
}

/// `in` with a subquery of intervals.
fn in_subqueries(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        let Expr::InSubquery(InSubquery { expr, subquery, negated }) = expr else {
            return Ok(Transformed::no(expr));
        };
        if !type_of(&expr, schema).is_some_and(|kind| is_interval(&kind)) {
            return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
        }
        let Subquery { subquery, outer_ref_columns, spans } = subquery;
        let lengths =
            subquery.schema().columns().into_iter().map(|item| length(Expr::Column(item)));
        let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery))
            .project(lengths.collect::<Vec<_>>())?
            .build()?;
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
        let expr = Box::new(length(*expr));
        Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
    })
}
