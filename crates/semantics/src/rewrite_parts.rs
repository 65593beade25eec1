//! Parts of rewrites: calls of this crate's functions, casts, and what an expression is among times.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, ScalarUDF};

use crate::interval_functions::INTERVAL;
use crate::{
    array_functions, checked_arithmetic, clock_functions, interval_functions, json_building,
    json_functions, text_functions, value_text,
};

/// Functions by name.
static FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = [
        clock_functions::all(),
        interval_functions::all(),
        text_functions::all(),
        checked_arithmetic::all(),
        value_text::all(),
        array_functions::all(),
        json_building::all(),
        json_functions::all(),
    ];
    all.into_iter()
        .flatten()
        .map(|function| (function.name().to_owned(), Arc::new(function)))
        .collect()
});

/// A call of one of this module's functions.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let func = Arc::clone(FUNCTIONS.get(name).expect("rewrites call functions of this table"));
    Expr::ScalarFunction(ScalarFunction { func, args })
}

/// Type of an expression; `None` if it has none yet.
pub(crate) fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

pub(crate) fn cast(expr: Expr, kind: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), kind))
}

/// What an expression is in sums and comparisons of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeRole {
    Interval,
    /// Difference of two times.
    Difference,
    Date,
    Integer,
    Number,
    Text,
    Other,
}

pub(crate) fn role(expr: &Expr, schema: &DFSchema) -> TimeRole {
    match type_of(expr, schema) {
        Some(DataType::Interval(_)) => TimeRole::Interval,
        Some(DataType::Duration(_)) => TimeRole::Difference,
        Some(DataType::Date32) => TimeRole::Date,
        Some(kind) if kind.is_integer() => TimeRole::Integer,
        Some(kind) if kind.is_numeric() => TimeRole::Number,
        Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => TimeRole::Text,
        _ => TimeRole::Other,
    }
}

/// Length of an interval, a difference or a text that says one.
pub(crate) fn length(expr: Expr) -> Expr {
    if matches!(&expr, Expr::Literal(value, _) if value.is_null()) {
        return expr;
    }
    call("interval_length", vec![expr])
}

/// Whether values of a type have decimal places that are counted.
pub(crate) fn is_decimal(kind: &DataType) -> bool {
    matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Length of the values of an interval's column, for a key of a group or a join.
pub(crate) fn is_interval(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_))
}

/// An interval, also from a difference.
pub(crate) fn as_interval(expr: Expr, schema: &DFSchema) -> Expr {
    match type_of(&expr, schema) {
        Some(kind) if kind == INTERVAL => expr,
        _ => call("interval_of", vec![expr]),
    }
}
