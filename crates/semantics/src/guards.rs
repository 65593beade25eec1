//! Conditions that guard what follows them: `x <> 0 and 10 / x > 3` divides no 0.
//!
//! PostgreSQL evaluates `and`, `or` and `filter` from left to right in practice, and people rely on it;
//! the engine evaluates both sides for all rows of a batch. So the right side of one that may fail
//! gets NULL for the operand that fails, in the rows that the left side has decided. The left side stays
//! as it is, for indexes and statistics. A `case` around the whole right side would not do: the
//! optimizer makes `and` and `or` of it again.

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use datafusion::scalar::ScalarValue;

use crate::checked_arithmetic::is_partial;
use crate::rewrite_parts::type_of;

/// Most operands of a guard.
const OPERANDS_MAX: usize = 16;

/// `a and b` or `a or b` with a guarded right side; `None` if that needs none.
pub(crate) fn rewrite_junction(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    if !matches!(binary.op, Operator::And | Operator::Or) || !may_fail(&binary.right, schema) {
        return None;
    }
    let guard = guard_of(&binary.left, binary.op, schema)?;
    let is_open = match binary.op {
        Operator::And => guard.is_not_false(),
        _ => guard.is_not_true(),
    };
    let right = guarded((*binary.right).clone(), &is_open, schema)?;
    let left = binary.left.clone();
    Some(Expr::BinaryExpr(BinaryExpr { left, op: binary.op, right: Box::new(right) }))
}

/// The operands of a chain of `and` or `or` that cannot fail. Those that can have guards themselves:
/// copies of them would double with each further operand.
fn guard_of(left: &Expr, op: Operator, schema: &DFSchema) -> Option<Expr> {
    let (mut operands, mut rest) = (Vec::new(), vec![left]);
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == op => {
                rest.extend([&*binary.right, &*binary.left]);
            }
            operand if operands.len() < OPERANDS_MAX => {
                if !may_fail(operand, schema) && is_cheap(operand) {
                    operands.push(operand.clone());
                }
            }
            _ => break,
        }
    }
    operands.into_iter().reduce(|left, right| {
        Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
    })
}

/// Guards the arguments of an aggregate, or of one over a window, with its filter; returns whether any had to
/// be.
pub(crate) fn guard_arguments(args: &mut [Expr], filter: Option<&Expr>, schema: &DFSchema) -> bool {
    let Some(filter) = filter.filter(|filter| is_cheap(filter)) else { return false };
    let mut is_changed = false;
    for arg in args {
        if may_fail(arg, schema)
            && let Some(new) = guarded(arg.clone(), filter, schema)
        {
            *arg = new;
            is_changed = true;
        }
    }
    is_changed
}

/// The expression with NULL for operands that fail, except where `is_open`.
fn guarded(expr: Expr, is_open: &Expr, schema: &DFSchema) -> Option<Expr> {
    let done = expr.transform_up(|part| {
        if !fails(&part, schema) {
            return Ok(Transformed::no(part));
        }
        Ok(Transformed::yes(match part {
            Expr::BinaryExpr(mut binary) => {
                guard_operand(&mut binary.right, is_open);
                Expr::BinaryExpr(binary)
            }
            Expr::ScalarFunction(mut call) => {
                if let Some(operand) = call.args.last_mut() {
                    guard_operand(operand, is_open);
                }
                Expr::ScalarFunction(call)
            }
            Expr::Cast(mut cast) => {
                guard_operand(&mut cast.expr, is_open);
                Expr::Cast(cast)
            }
            other => other,
        }))
    });
    done.ok().map(|done| done.data)
}

fn guard_operand(operand: &mut Expr, is_open: &Expr) {
    let value = std::mem::take(operand);
    *operand = Expr::Case(Case {
        expr: None,
        when_then_expr: vec![(Box::new(is_open.clone()), Box::new(value))],
        else_expr: None,
    });
}

/// Whether an expression may be evaluated twice: it has the same value then, and reads no tables.
fn is_cheap(expr: &Expr) -> bool {
    let has_query = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    });
    !has_query.unwrap_or(true) && !expr.is_volatile()
}

fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    expr.exists(|part| Ok(fails(part, schema))).unwrap_or(false)
}

/// Whether this very operation may fail: a division, a function of some numbers, a text read as number.
fn fails(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            // Floats that are not checked become infinite.
            let is_float = type_of(expr, schema).is_some_and(|kind| kind.is_floating());
            !is_float && may_be_zero(right)
        }
        Expr::ScalarFunction(call) => match call.args.as_slice() {
            [_, divisor] if call.name() == "checked_divide" => may_be_zero(divisor),
            [_] => is_partial(call.name()),
            _ => false,
        },
        Expr::Cast(Cast { expr, field }) => {
            let to = field.data_type();
            let is_read = to.is_numeric() || to.is_temporal() || to == &DataType::Boolean;
            let is_text = matches!(
                type_of(expr, schema),
                Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            );
            is_read && is_text && !matches!(**expr, Expr::Literal(..))
        }
        _ => false,
    }
}

fn may_be_zero(divisor: &Expr) -> bool {
    match divisor {
        Expr::Literal(value, _) => {
            ScalarValue::new_zero(&value.data_type()).map_or(true, |zero| zero == *value)
        }
        Expr::Cast(cast) => may_be_zero(&cast.expr),
        _ => true,
    }
}
