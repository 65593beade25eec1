//! Plans operators that the engine refuses before their types can be coerced: products of intervals,
//! sums of dates and times, and comparisons with constants that are texts.

use arrow_schema::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use weir_dialect::full_interval;

use crate::rewrite_parts::{TimeRole, call, cast, role, type_of};

/// The planner of these operators.
#[derive(Debug)]
pub(crate) struct OperatorPlanner;

impl ExprPlanner for OperatorPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let planned = interval_product(&expr, schema)
            .or_else(|| date_and_clock(&expr, schema))
            .or_else(|| with_constant(&expr, schema));
        Ok(planned.map_or(PlannerResult::Original(expr), PlannerResult::Planned))
    }
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(role(expr, schema), TimeRole::Interval | TimeRole::Difference)
}

fn is_number(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(role(expr, schema), TimeRole::Integer | TimeRole::Number)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// An interval times a number, or divided by one.
fn interval_product(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (&expr.left, &expr.right);
    let is_left = is_interval(left, schema) && is_number(right, schema);
    match &expr.op {
        BinaryOperator::Multiply if is_left => Some(times(left, cast(right.clone(), FLOAT))),
        BinaryOperator::Multiply if is_interval(right, schema) && is_number(left, schema) => {
            Some(times(right, cast(left.clone(), FLOAT)))
        }
        BinaryOperator::Divide if is_left => {
            let one = Expr::Literal(ScalarValue::Float64(Some(1.0)), None);
            Some(times(left, binary(one, Operator::Divide, cast(right.clone(), FLOAT))))
        }
        _ => None,
    }
}

const FLOAT: DataType = DataType::Float64;

fn times(interval: &Expr, factor: Expr) -> Expr {
    call("interval_times", vec![interval.clone(), factor])
}

fn is_clock(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(type_of(expr, schema), Some(DataType::Time32(_) | DataType::Time64(_)))
}

fn is_time(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(type_of(expr, schema), Some(DataType::Timestamp(..) | DataType::Date32))
}

/// A date or time plus a time of day.
fn date_and_clock(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    if expr.op != BinaryOperator::Plus {
        return None;
    }
    let (time, clock) = if is_time(&expr.left, schema) && is_clock(&expr.right, schema) {
        (&expr.left, &expr.right)
    } else if is_clock(&expr.left, schema) && is_time(&expr.right, schema) {
        (&expr.right, &expr.left)
    } else {
        return None;
    };
    Some(binary(time.clone(), Operator::Plus, call("interval_of", vec![clock.clone()])))
}

/// A comparison of an interval or a truth value with a text.
fn with_constant(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let op = match &expr.op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    };
    let (left, right) = (&expr.left, &expr.right);
    if let Some(right) = typed(right, left, schema) {
        return Some(binary(left.clone(), op, right));
    }
    typed(left, right, schema).map(|left| binary(left, op, right.clone()))
}

/// A constant text as a value of the type of the other side.
fn typed(constant: &Expr, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Literal(value, _) = constant else { return None };
    let text = value.try_as_str().flatten()?;
    match type_of(other, schema)? {
        DataType::Boolean => Some(cast(constant.clone(), DataType::Boolean)),
        DataType::Interval(_) | DataType::Duration(_) => {
            let words = full_interval(text)?;
            let words = Expr::Literal(ScalarValue::Utf8(Some(words)), None);
            Some(call("interval_of", vec![words]))
        }
        _ => None,
    }
}
