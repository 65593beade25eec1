//! Top-N scan: reads only the newest rows for `order by ts desc limit …`.
//!
//! Row groups are scanned from the newest on, conditions and `ts` before any other column, until
//! the next one ends before the oldest row found. The other columns are read for the remaining rows
//! only.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::scan::ColumnScan;

/// A larger limit uses the ordinary sort.
const ROWS_MAX: usize = 8192;

/// Optimizer rule; must run after filter pushdown and before partitioning is decided.
#[derive(Debug)]
pub(crate) struct NewestMorsels;

impl PhysicalOptimizerRule for NewestMorsels {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(input) = input_for_newest(sort)? else { return Ok(Transformed::no(node)) };
            let sort = SortExec::new(sort.expr().clone(), input).with_fetch(sort.fetch());
            Ok(Transformed::yes(Arc::new(sort) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "newest_units"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn input_for_newest(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let first = sort.expr().first();
    let Some(rows) = sort.fetch().filter(|rows| *rows <= ROWS_MAX) else { return Ok(None) };
    match first.expr.downcast_ref::<ColumnExpr>() {
        Some(column) if first.options.descending && !sort.preserve_partitioning() => {
            below(sort.input(), column, rows)
        }
        _ => Ok(None),
    }
}

/// The plan limited to the newest rows by the time in `column`; `None` if that is another column.
fn below(
    plan: &Arc<dyn ExecutionPlan>,
    column: &ColumnExpr,
    rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let at = column.index();
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let column = projection.expr()[at].expr.downcast_ref::<ColumnExpr>();
        let Some(column) = column else { return Ok(None) };
        let input = below(projection.input(), column, rows)?;
        return input
            .map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input]))
            .transpose();
    }
    let scan = plan.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|scan| scan.data_source().downcast_ref::<ColumnScan>());
    let scan = scan.filter(|scan| {
        let is_of_all = scan.fetch.is_none() && scan.newest.is_none();
        is_of_all && scan.schema.field(scan.projection[at]).name() == "ts"
    });
    Ok(scan.map(|scan| DataSourceExec::from_data_source(scan.for_newest(rows)) as _))
}
