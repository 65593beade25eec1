//! Operators whose meaning shows in syntax: of JSON and arrays, of constants, of intervals.

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Value,
};

use crate::fragments::{call, literal, number_constant};
use crate::interval_syntax::is_interval;
use crate::{constant_syntax, json_syntax};

/// An operator as the engine has it; `None` if it stays.
pub(crate) fn rewrite_binary(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    json_syntax::rewrite_operator(left, op, right).or_else(|| match op {
        BinaryOperator::PGStartsWith => {
            Some(call("starts_with", vec![left.clone(), right.clone()]))
        }
        BinaryOperator::StringConcat => concat(left, right),
        BinaryOperator::PGBitwiseShiftLeft if constant_syntax::is_small_integer(left) => {
            Some(shift(left, op, right))
        }
        BinaryOperator::Multiply | BinaryOperator::Divide
            if is_interval(left) && constant_syntax::is_number(right) =>
        {
            Some(interval_times(left, op, right))
        }
        BinaryOperator::Multiply if is_interval(right) && constant_syntax::is_number(left) => {
            Some(interval_times(right, op, left))
        }
        BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
            constant_syntax::fold(left, op, right).or_else(|| beside_number(left, op, right))
        }
        BinaryOperator::Divide | BinaryOperator::Modulo => beside_number(left, op, right),
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => beside_typed(left, op, right),
        _ => None,
    })
}

fn binary(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
}

/// A value as one of another type.
pub(crate) fn cast(value: &Expr, data_type: DataType) -> Expr {
    let expr = Box::new(value.clone());
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// `null || array` is the array; a number with a point keeps its zeros.
fn concat(left: &Expr, right: &Expr) -> Option<Expr> {
    if is_null(left) && matches!(right, Expr::Array(_)) {
        return Some(right.clone());
    }
    if is_null(right) && matches!(left, Expr::Array(_)) {
        return Some(left.clone());
    }
    let texts = [left, right].map(constant_syntax::text_of_number);
    if texts.iter().all(Option::is_none) {
        return None;
    }
    let [new_left, new_right] = texts;
    let (left, right) =
        (new_left.unwrap_or_else(|| left.clone()), new_right.unwrap_or_else(|| right.clone()));
    Some(binary(left, &BinaryOperator::StringConcat, right))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

/// A constant has 32 bits.
fn shift(left: &Expr, op: &BinaryOperator, right: &Expr) -> Expr {
    let int = DataType::Int(None);
    binary(cast(left, int.clone()), op, cast(right, int))
}

/// The product with a number, or with the reciprocal of a divisor.
fn interval_times(interval: &Expr, op: &BinaryOperator, factor: &Expr) -> Expr {
    let factor = cast(factor, DataType::DoublePrecision);
    let factor = if *op == BinaryOperator::Divide {
        let one = cast(&number_constant("1".into()), DataType::DoublePrecision);
        binary(one, op, factor)
    } else {
        factor
    };
    call("interval_times", vec![interval.clone(), factor])
}

/// A text beside a number constant is a number.
fn beside_number(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    if constant_syntax::is_number(right) {
        return number_of(left).map(|left| binary(left, op, right.clone()));
    }
    if constant_syntax::is_number(left) {
        return number_of(right).map(|right| binary(left.clone(), op, right));
    }
    None
}

fn number_of(expr: &Expr) -> Option<Expr> {
    let number = literal(expr)?.trim();
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_plain && number.parse::<f64>().is_ok()).then(|| number_constant(number.to_owned()))
}

/// A text beside an interval or a truth value is one.
fn beside_typed(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    if let (Some(kind), Some(_)) = (own_type(left), literal(right)) {
        return Some(binary(left.clone(), op, typed(right, kind)));
    }
    if let (Some(_), Some(kind)) = (literal(left), own_type(right)) {
        return Some(binary(typed(left, kind), op, right.clone()));
    }
    None
}

fn own_type(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(DataType::Boolean),
        expr if is_interval(expr) => Some(DataType::Interval { fields: None, precision: None }),
        _ => None,
    }
}

fn typed(constant: &Expr, kind: DataType) -> Expr {
    let mut new = cast(constant, kind);
    // An interval is written in the words of the engine.
    let _ = crate::cast_syntax::rewrite(&mut new);
    new
}

/// Writes number constants with a point as texts: their zeros stay.
pub(crate) fn rewrite_texts(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && let Some(new) = constant_syntax::text_of_number(expr)
        {
            *expr = new;
        }
    }
}
