//! Physical optimizer rule: replaces group-by plans with [`DictionaryGroupsExec`] where it applies.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column as ColumnExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateOutputMode,
};
use datafusion::physical_plan::projection::ProjectionExec;

use super::common_subplans::alike_once;
use super::groups::{DictionaryGroupsExec, FoldKind, GroupPlan};
use super::keys::{GroupKey, NEAR};
use super::scan::ColumnScan;

/// Optimizer rule; must run after filter pushdown and before partitioning is decided.
#[derive(Debug)]
pub(crate) struct DictionaryGroups;

impl PhysicalOptimizerRule for DictionaryGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_down(|node| {
            let Some(groups) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(what) = what(groups)? else { return Ok(Transformed::no(node)) };
            let coded = DictionaryGroupsExec::new(what, Arc::clone(&node));
            let coded: Arc<dyn ExecutionPlan> = Arc::new(coded);
            Ok(Transformed::new(coded, true, TreeNodeRecursion::Jump))
        });
        alike_once(plan.data()?)
    }

    fn name(&self) -> &'static str {
        "coded_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan of the groups; `None` if this aggregate is not supported.
fn what(last: &AggregateExec) -> Result<Option<GroupPlan>> {
    if last.mode().output_mode() != AggregateOutputMode::Final {
        return Ok(None);
    }
    let first = match last.mode().input_mode() {
        AggregateInputMode::Raw => last,
        AggregateInputMode::Partial => match last.input().downcast_ref::<AggregateExec>() {
            Some(first) => first,
            None => return Ok(None),
        },
    };
    let by = first.group_expr();
    let is_raw = first.mode().input_mode() == AggregateInputMode::Raw;
    if !is_raw || by.is_empty() || by.has_grouping_set() {
        return Ok(None);
    }
    let Some(below) = GroupInput::new(first.input())? else { return Ok(None) };
    let mut ends = below.scan.units.iter().flat_map(|unit| [unit.min_ts, unit.max_ts]);
    let is_near = ends.all(|ts| NEAR.contains(&ts));
    let mut keys = Vec::new();
    for (expr, _) in by.expr() {
        match GroupKey::new(&below.on_table(expr)?, &below.scan.schema, is_near)? {
            Some(key) => keys.push(key),
            None => return Ok(None),
        }
    }
    let mut folds = Vec::new();
    for (function, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
        let is_known = !function.is_distinct()
            && function.order_bys().is_empty()
            && function.groups_accumulator_supported();
        if !is_known {
            return Ok(None);
        }
        folds.push((function, function.expressions(), filter.as_ref()));
    }
    let named = folds.iter().flat_map(|(_, arguments, filter)| arguments.iter().chain(*filter));
    let computed = below.computed(named)?;
    let fold = |(function, arguments, filter): (&Arc<AggregateFunctionExpr>, Vec<_>, Option<_>)| {
        if filter.is_none() && counts_rows(function, &arguments) {
            return Ok(FoldKind::Count);
        }
        Ok(FoldKind::Other {
            function: Arc::clone(function),
            arguments: arguments.iter().map(|expr| below.on_table(expr)).collect::<Result<_>>()?,
            filter: filter.map(|expr| below.on_table(expr)).transpose()?,
        })
    };
    let folds = folds.into_iter().map(fold).collect::<Result<_>>()?;
    Ok(Some(GroupPlan { keys, folds, computed, schema: last.schema(), scan: below.scan }))
}

/// Whether a function is `count(*)`, which is planned as the count of a constant.
fn counts_rows(function: &AggregateFunctionExpr, arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
    function.fun().name() == "count"
        && arguments.iter().all(|expr| {
            expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
        })
}

/// The column scan that supplies the rows, and the projection between it and the grouping.
struct GroupInput {
    scan: ColumnScan,
    /// Projection over the scan's output; `None` if there is none.
    computed: Option<Vec<Arc<dyn PhysicalExpr>>>,
}

impl GroupInput {
    fn new(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let mut plan = plan;
        let mut computed: Option<Vec<Arc<dyn PhysicalExpr>>> = None;
        while let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let exprs: Vec<_> =
                projection.expr().iter().map(|part| Arc::clone(&part.expr)).collect();
            if exprs.iter().any(is_volatile) {
                return Ok(None);
            }
            computed = Some(match computed {
                None => exprs,
                Some(above) => {
                    above.iter().map(|expr| put_in(expr, &exprs)).collect::<Result<_>>()?
                }
            });
            plan = projection.input();
        }
        let scan = plan.downcast_ref::<DataSourceExec>();
        let scan = scan.and_then(|scan| scan.data_source().downcast_ref::<ColumnScan>());
        let scan = scan.filter(|scan| scan.fetch.is_none() && scan.newest.is_none()).cloned();
        Ok(scan.map(|scan| Self { scan, computed }))
    }

    /// Rewrites an expression over the input rows to one over the table.
    fn on_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        match &self.computed {
            Some(computed) => self.scan.on_table(&put_in(expr, computed)?),
            None => self.scan.on_table(expr),
        }
    }

    /// Subexpressions over the table that these expressions share and that are computed once.
    fn computed<'a>(
        &self,
        exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
    ) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let Some(computed) = &self.computed else { return Ok(Vec::new()) };
        let places: BTreeSet<usize> =
            exprs.flat_map(collect_columns).map(|column| column.index()).collect();
        let exprs = places.into_iter().map(|at| &computed[at]);
        // A column or a constant is not worth computing ahead.
        let exprs = exprs.filter(|expr| !expr.children().is_empty());
        exprs.map(|expr| self.scan.on_table(expr)).collect()
    }
}

/// Replaces the columns of an expression with other expressions.
fn put_in(
    expr: &Arc<dyn PhysicalExpr>,
    others: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>> {
    // Transform from the leaves up, so that inserted expressions are not visited again.
    let expr = Arc::clone(expr).transform_up(|node| {
        Ok(match node.downcast_ref::<ColumnExpr>() {
            Some(column) => Transformed::yes(Arc::clone(&others[column.index()])),
            None => Transformed::no(node),
        })
    });
    expr.data()
}
