//! `pg_typeof` of constants, whose types are PostgreSQL's only by name.
//!
//! The engine's numbers are `bigint` or floats where PostgreSQL's are `integer` or `numeric`; the type
//! of an expression with such constants is refused.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Value, visit_expressions};

use crate::constant_syntax::is_number;
use crate::fragments::text;
use crate::refusal::{Result, refuse};

/// Functions with a result of another type in PostgreSQL.
const OTHER_RESULTS: [&str; 16] = [
    "sum",
    "avg",
    "round",
    "floor",
    "ceil",
    "trunc",
    "abs",
    "date_part",
    "power",
    "sqrt",
    "var_samp",
    "stddev",
    "json_get",
    "json_path",
    "array_agg",
    "make_array",
];

/// Name of the type of a constant; `None` where the engine has the type.
pub(crate) fn type_of(value: &Expr) -> Result<Option<Expr>> {
    let name = match value {
        Expr::Value(constant) => match &constant.value {
            Value::Number(number, _) if number.parse::<i32>().is_ok() => "integer",
            Value::Number(number, _) if number.parse::<i64>().is_ok() => "bigint",
            Value::Number(..) => "numeric",
            Value::Boolean(_) => "boolean",
            _ => "unknown",
        },
        Expr::Function(function) => match function.name.to_string().as_str() {
            "uuid_in" => "uuid",
            "jsonb_in" => "jsonb",
            "json_in" => "json",
            _ => return other(value),
        },
        _ => return other(value),
    };
    Ok(Some(text(name)))
}

fn other(value: &Expr) -> Result<Option<Expr>> {
    let found = visit_expressions(value, |part| {
        let is_other = match part {
            Expr::Function(function) => {
                OTHER_RESULTS.contains(&function.name.to_string().to_lowercase().as_str())
            }
            Expr::Extract { .. } | Expr::Floor { .. } | Expr::Ceil { .. } | Expr::Array(_) => true,
            Expr::BinaryOp { left, right, .. } => {
                // A whole number of days stays a date.
                [left, right].into_iter().any(|side| is_number(side) && has_point(side))
                    || (is_number(left) && is_number(right))
            }
            _ => false,
        };
        if is_other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if found.is_break() {
        return refuse!("types of numbers differ here: use `arrow_typeof` instead of `pg_typeof`");
    }
    Ok(None)
}

fn has_point(expr: &Expr) -> bool {
    expr.to_string().contains('.')
}
