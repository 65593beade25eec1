//! A condition over the columns of one table, compiled once and evaluated on many batches without a
//! query.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::DFParserBuilder;
use weir_datafile::{ErrorKind, StoreError};
use weir_dialect::{PostgresSyntax, rewrite_condition};
use weir_tables::TableSpec;

use crate::explain::explain;
use crate::statement_size::check_condition;

/// Compiled condition; evaluates to true, false or NULL for each row.
#[derive(Debug)]
pub struct Condition(Arc<dyn PhysicalExpr>);

impl Condition {
    /// Compiles `sql`, which may reference the columns of `table` and functions.
    ///
    /// # Errors
    /// `BadQuery`: the mistake, and the nearest valid name.
    pub fn new(
        table: &'static TableSpec,
        sql: &str,
        context: &SessionContext,
    ) -> Result<Self, StoreError> {
        let schema = table.schema();
        let compile = || {
            check_condition(sql)?;
            let named = DFSchema::try_from_qualified_schema(table.name, &schema)?;
            let parser = DFParserBuilder::new(sql).with_dialect(&PostgresSyntax);
            let mut parsed = parser.build()?.parse_into_expr()?;
            rewrite_condition(&mut parsed.expr)
                .map_err(|refusal| DataFusionError::Plan(refusal.to_string()))?;
            let state = context.state_ref();
            let expr = state.read().create_logical_expr_from_sql_expr(parsed, &named)?;
            let unfit = unfit(&expr)?;
            Ok((context.create_physical_expr(expr, &named), unfit))
        };
        let (compiled, unfit) =
            compile().map_err(|error: DataFusionError| explain(&error, sql, context))?;
        if let Some(what) = unfit {
            let text = format!("a condition on single rows cannot have {what}");
            return Err(StoreError::new(ErrorKind::BadQuery, text)
                .with_hint("compare columns of the row with constants: severity = 'error'"));
        }
        let compiled = compiled.map_err(|error| explain(&error, sql, context))?;
        match compiled.data_type(&schema) {
            Ok(DataType::Boolean) => Ok(Self(compiled)),
            _ => Err(StoreError::new(ErrorKind::BadQuery, format!("`{sql}` is not a condition"))
                .with_hint("a condition is true or false: severity = 'error'")),
        }
    }

    /// Evaluates the condition for each row.
    ///
    /// # Errors
    /// `BadQuery` when it cannot be computed for these rows, such as a division by zero.
    pub fn choose(&self, rows: &RecordBatch) -> Result<BooleanArray, StoreError> {
        let chosen = self.0.evaluate(rows).and_then(|value| value.into_array(rows.num_rows()));
        let chosen = chosen.map_err(|error| {
            let text = format!("cannot compute the condition: {}", error.strip_backtrace());
            StoreError::new(ErrorKind::BadQuery, text)
        })?;
        Ok(chosen.as_boolean().clone())
    }
}

/// Finds a part that does not depend on the row alone: a subquery, an aggregate, the current time.
fn unfit(expr: &Expr) -> Result<Option<String>, DataFusionError> {
    let mut found = None;
    expr.apply(|part| {
        let what = match part {
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) => "subqueries",
            Expr::AggregateFunction(_) => "aggregate functions",
            Expr::WindowFunction(_) => "window functions",
            Expr::ScalarFunction(call)
                if call.func.signature().volatility != Volatility::Immutable =>
            {
                found = Some(format!("`{}`, which changes by itself", call.name()));
                return Ok(TreeNodeRecursion::Stop);
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        found = Some(what.to_owned());
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}
