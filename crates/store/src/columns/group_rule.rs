//! Puts groups by numbers of keys before the plans of groups that they can stand for.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column as ColumnExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateOutputMode,
};
use datafusion::physical_plan::projection::ProjectionExec;

use super::filter::localized;
use super::groups::{CodedGroupsExec, Fold, What};
use super::keys::{Key, NEAR};
use super::scan::ColumnScan;

/// Has to come after conditions were handed to scans, and before anything is said of partitions.
#[derive(Debug)]
pub(crate) struct CodedGroups;

impl PhysicalOptimizerRule for CodedGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(groups) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(what) = what(groups)? else { return Ok(Transformed::no(node)) };
            let coded = CodedGroupsExec::new(Arc::new(what), Arc::clone(&node));
            let coded: Arc<dyn ExecutionPlan> = Arc::new(coded);
            Ok(Transformed::new(coded, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "coded_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `None` when this is a plan of another kind.
fn what(last: &AggregateExec) -> Result<Option<What>> {
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
    let Some(scan) = scan_below(first.input())? else { return Ok(None) };
    let mut ends = scan.units.iter().flat_map(|unit| [unit.min_ts, unit.max_ts]);
    let is_near = ends.all(|ts| NEAR.contains(&ts));
    let mut keys = Vec::new();
    for (expr, _) in by.expr() {
        match Key::new(&scan.on_table(expr)?, &scan.schema, is_near)? {
            Some(key) => keys.push(key),
            None => return Ok(None),
        }
    }
    let mut exprs = Vec::new();
    for (function, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
        let is_known = !function.is_distinct()
            && function.order_bys().is_empty()
            && function.groups_accumulator_supported();
        if !is_known {
            return Ok(None);
        }
        let on_table = |expr: &Arc<dyn PhysicalExpr>| scan.on_table(expr);
        let arguments = function.expressions();
        let arguments = arguments.iter().map(on_table).collect::<Result<Vec<_>>>()?;
        exprs.push((function, arguments, filter.as_ref().map(on_table).transpose()?));
    }
    let named = exprs.iter().flat_map(|(_, arguments, filter)| arguments.iter().chain(filter));
    let mut columns: Vec<usize> =
        named.flat_map(collect_columns).map(|column| column.index()).collect();
    columns.sort_unstable();
    columns.dedup();
    let local = Arc::new(scan.schema.project(&columns)?);
    let fold = |(function, arguments, filter): (&Arc<AggregateFunctionExpr>, Vec<_>, Option<_>)| {
        if filter.is_none() && counts_rows(function, &arguments) {
            return Ok(Fold::Count);
        }
        let to_local = |expr: &Arc<dyn PhysicalExpr>| {
            localized(expr, &columns, &scan.schema).map(|(expr, _)| expr)
        };
        Ok(Fold::Other {
            function: Arc::clone(function),
            arguments: arguments.iter().map(to_local).collect::<Result<_>>()?,
            filter: filter.as_ref().map(to_local).transpose()?,
        })
    };
    let folds = exprs.into_iter().map(fold).collect::<Result<_>>()?;
    Ok(Some(What { keys, folds, columns, local, schema: last.schema(), scan }))
}

/// Whether a function is `count(*)`, which is the count of a constant.
fn counts_rows(function: &AggregateFunctionExpr, arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
    let is_constant = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
    };
    function.fun().name() == "count" && arguments.iter().all(is_constant)
}

/// The scan of columns that gives these rows, if nothing is between but a choice of columns.
fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<ColumnScan>> {
    let swapped;
    let mut plan = plan;
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let is_choice = projection.expr().iter().all(|part| part.expr.is::<ColumnExpr>());
        match projection.input().try_swapping_with_projection(projection)? {
            Some(other) if is_choice => swapped = other,
            _ => return Ok(None),
        }
        plan = &swapped;
    }
    let scan = plan.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|scan| scan.data_source().downcast_ref::<ColumnScan>());
    Ok(scan.filter(|scan| scan.fetch.is_none() && scan.newest.is_none()).cloned())
}
