//! Constants: numbers with a point, which are exact in PostgreSQL, and texts beside numbers.
//!
//! The engine's `0.1` is a float: sums and products of such constants are made here, and their text
//! keeps its zeros.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use crate::fragments::{nested, number_constant, text};

/// Digits that a float keeps exactly.
const DIGITS_MAX: usize = 15;

/// A decimal number: digits, and how many of them are behind the point.
#[derive(Clone, Copy)]
struct DecimalConstant {
    digits: i128,
    scale: u32,
}

impl DecimalConstant {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => Self::parse(number),
                _ => None,
            },
            Expr::Nested(inner) => Self::of(inner),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                Self::of(expr).map(|value| Self { digits: -value.digits, ..value })
            }
            _ => None,
        }
    }

    fn parse(number: &str) -> Option<Self> {
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{decimals}");
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_short = digits.trim_start_matches('0').len() <= DIGITS_MAX;
        (is_plain && is_short).then_some(Self {
            digits: digits.parse().ok()?,
            scale: u32::try_from(decimals.len()).ok()?,
        })
    }

    /// The same number with more digits behind the point.
    fn at_scale(self, scale: u32) -> Option<i128> {
        self.digits.checked_mul(10_i128.checked_pow(scale.checked_sub(self.scale)?)?)
    }

    fn combine(self, op: &BinaryOperator, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (digits, scale) = match op {
            BinaryOperator::Plus => {
                (self.at_scale(scale)?.checked_add(other.at_scale(scale)?)?, scale)
            }
            BinaryOperator::Minus => {
                (self.at_scale(scale)?.checked_sub(other.at_scale(scale)?)?, scale)
            }
            BinaryOperator::Multiply => {
                (self.digits.checked_mul(other.digits)?, self.scale + other.scale)
            }
            _ => return None,
        };
        let is_short = digits.unsigned_abs().to_string().len() <= DIGITS_MAX;
        (is_short && scale > 0).then_some(Self { digits, scale })
    }

    fn expr(self) -> Expr {
        let scale = self.scale as usize;
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        let (whole, decimals) = digits.split_at(digits.len() - scale);
        let number = number_constant(format!("{whole}.{decimals}"));
        if self.digits < 0 {
            return nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) });
        }
        number
    }
}

/// Sum, difference or product of two constants of which one has a point.
pub(crate) fn fold(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let (left, right) = (DecimalConstant::of(left)?, DecimalConstant::of(right)?);
    left.combine(op, right).map(DecimalConstant::expr)
}

/// Text of a number constant with a point, whose zeros stay.
pub(crate) fn text_of_number(expr: &Expr) -> Option<Expr> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(number, _) = &value.value else { return None };
    let (whole, decimals) = number.split_once('.')?;
    let is_plain = decimals.bytes().chain(whole.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_plain || decimals.is_empty() {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    Some(text(&format!("{}.{decimals}", if whole.is_empty() { "0" } else { whole })))
}

/// Whether an expression is a number constant with a sign: a `numeric`, which has no negative zero.
pub(crate) fn is_negative(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_negative(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_number(expr),
        _ => false,
    }
}

/// Whether an expression is the constant 0 with a point.
pub(crate) fn is_zero(expr: &Expr) -> bool {
    DecimalConstant::of(expr).is_some_and(|constant| constant.digits == 0 && constant.scale > 0)
}

/// A result of the engine whose negative zero becomes 0.
pub(crate) fn without_negative_zero(result: Expr) -> Expr {
    let (left, right) = (Box::new(result), Box::new(number_constant("0.0".to_owned())));
    nested(Expr::BinaryOp { left, op: BinaryOperator::Plus, right })
}

/// Whether an expression is a number constant.
pub(crate) fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::Nested(inner) => is_number(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_number(expr),
        _ => false,
    }
}

/// An integer constant that is an `integer` in PostgreSQL.
pub(crate) fn is_small_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse::<i32>().is_ok(),
            _ => false,
        },
        Expr::Nested(inner) => is_small_integer(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_small_integer(expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_with_a_point_are_exact() {
        for (left, op, right, expected) in [
            ("0.1", BinaryOperator::Plus, "0.2", Some("0.3")),
            ("1.1", BinaryOperator::Multiply, "1.1", Some("1.21")),
            ("1", BinaryOperator::Minus, "1.5", Some("(-0.5)")),
            ("0.05", BinaryOperator::Minus, "0.05", Some("0.00")),
            ("1", BinaryOperator::Plus, "2", None),
            ("1.0", BinaryOperator::Divide, "3", None),
            ("123456789012345.6", BinaryOperator::Plus, "1.0", None),
        ] {
            let sides = [left, right].map(|side| number_constant(side.to_owned()));
            let found = fold(&sides[0], &op, &sides[1]).map(|expr| expr.to_string());
            assert_eq!(found.as_deref(), expected, "{left} {op} {right}");
        }
    }
}
