//! Constants that are copied to each row: `select '(4 MB)' from request` makes 32 GB of one batch.
//!
//! After the other optimizer rules, constants and subqueries of one value are wrapped in a function
//! that knows the number of rows and refuses what would exceed the bound. Comparisons do not copy
//! their constants.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::argument_size::is_variable;
use super::bounded_function::bounded;
use crate::limits::size;

const NAME: &str = "wide_constant";
/// Constants of fewer bytes are copied without a check: 8,192 copies have at most 32 MiB.
const NARROW_BYTES: usize = 4096;

/// Functions that take a constant without copying it.
const WITHOUT_COPIES: &[&str] = &[
    "array_has",
    "contains",
    "ends_with",
    "has_phrase",
    "has_token",
    "ip_in",
    "regexp_like",
    "search",
    "starts_with",
    NAME,
];

/// Wraps wide constants; runs last.
#[derive(Debug)]
pub(crate) struct WideConstants;

impl OptimizerRule for WideConstants {
    fn name(&self) -> &str {
        "wide_constants"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_) => node.map_expressions(wrap_in),
            _ => Ok(Transformed::no(node)),
        })
    }
}

fn wrap_in(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_down(|part| {
        Ok(match part {
            Expr::BinaryExpr(_)
            | Expr::Like(_)
            | Expr::SimilarTo(_)
            | Expr::InList(_)
            | Expr::Between(_) => wrap_below(part)?,
            Expr::ScalarFunction(ref call) if WITHOUT_COPIES.contains(&call.name()) => {
                wrap_below(part)?
            }
            Expr::AggregateFunction(mut call) => {
                check_separators(&call.params.args)?;
                // Others than the first must be constants, such as separators.
                let Some(first) = call.params.args.first_mut() else {
                    return Ok(skip(Expr::AggregateFunction(call)));
                };
                let wrapped = wrap_in(std::mem::take(first))?;
                *first = wrapped.data;
                let part = Expr::AggregateFunction(call);
                Transformed::new(part, wrapped.transformed, TreeNodeRecursion::Jump)
            }
            Expr::Literal(ref value, _) if value.size() > NARROW_BYTES => wrap(part),
            Expr::ScalarSubquery(ref query) => {
                let field = query.subquery.schema().fields().first();
                let is_wide = field.is_some_and(|field| is_variable(field.data_type()));
                if is_wide { wrap(part) } else { skip(part) }
            }
            other => Transformed::no(other),
        })
    })
}

/// Refuses long constants that an aggregate adds for each row: `string_agg(x, '(1 MB)')`.
fn check_separators(args: &[Expr]) -> Result<()> {
    let widest = args.iter().skip(1).filter_map(|arg| match arg {
        Expr::Literal(value, _) => Some(value.size()),
        _ => None,
    });
    match widest.max() {
        Some(bytes) if bytes > NARROW_BYTES => exec_err!(
            "an aggregate would add a constant of {} for each row, the limit is {}",
            size(bytes as u64),
            size(NARROW_BYTES as u64)
        ),
        _ => Ok(()),
    }
}

/// Wraps constants below a node that does not copy its own.
fn wrap_below(expr: Expr) -> Result<Transformed<Expr>> {
    let mut wrapped = expr.map_children(|child| match child {
        Expr::Literal(..) | Expr::ScalarSubquery(_) => Ok(Transformed::no(child)),
        child => wrap_in(child),
    })?;
    wrapped.tnr = TreeNodeRecursion::Jump;
    Ok(wrapped)
}

fn skip(expr: Expr) -> Transformed<Expr> {
    Transformed::new(expr, false, TreeNodeRecursion::Jump)
}

/// Keeps the name of what it wraps.
fn wrap(expr: Expr) -> Transformed<Expr> {
    let call = ScalarFunction::new_udf(Arc::new(wide_constant()), vec![expr]);
    Transformed::new(Expr::ScalarFunction(call), true, TreeNodeRecursion::Jump)
}

/// The function: its argument, if that fits as often as there are rows.
pub(super) fn wide_constant() -> ScalarUDF {
    let function = ScalarUDF::new_from_impl(WideConstant::default());
    bounded(&function).unwrap_or(function)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WideConstant {
    signature: Signature,
}

/// Volatile, so that it is not evaluated before the number of rows is known.
impl Default for WideConstant {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for WideConstant {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    /// As the argument, also in whether it may be NULL.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(field) => Ok(Arc::clone(field)),
            None => exec_err!("`{NAME}` takes one argument"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(value) => Ok(value),
            None => exec_err!("`{NAME}` takes one argument"),
        }
    }
}
