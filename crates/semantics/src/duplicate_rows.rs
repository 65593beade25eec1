//! Numbers equal rows for `except all` and `intersect all`, whose syntax is rewritten to a set
//! operation over rows with such numbers.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Projection, ScalarUDF,
    Volatility, col, create_udf,
};
use datafusion::optimizer::AnalyzerRule;
use weir_dialect::DUPLICATE_NUMBER as NUMBER;

/// Placeholder of the number of a row among its equals; never evaluated.
pub(crate) fn duplicate_number() -> ScalarUDF {
    let run = |_: &[ColumnarValue]| internal_err!("a number of equal rows was not planned");
    create_udf(NUMBER, Vec::new(), DataType::UInt64, Volatility::Volatile, Arc::new(run))
}

/// Replaces the placeholder by a window function.
#[derive(Debug)]
pub(crate) struct NumberDuplicates;

impl AnalyzerRule for NumberDuplicates {
    fn name(&self) -> &'static str {
        "number_duplicates"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(number_duplicates).data()
    }
}

fn number_duplicates(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(Transformed::no(plan)) };
    if !projection.expr.iter().any(is_number) {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let keys = projection.input.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(keys).build()?.alias(NUMBER);
    let name = number.schema_name().to_string();
    let numbered =
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(projection.input)).window([number])?;
    let exprs = projection
        .expr
        .into_iter()
        .map(|expr| if is_number(&expr) { col(name.as_str()).alias(NUMBER) } else { expr });
    let plan = Projection::try_new(exprs.collect(), Arc::new(numbered.build()?))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.name() == NUMBER,
        Expr::Alias(Alias { expr, .. }) => is_number(expr),
        _ => false,
    }
}
