//! Rewrites casts and calls of functions over times and numbers.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr};
use datafusion::scalar::ScalarValue;

use weir_dialect::{NAMED_VALUE, full_timestamp};

use crate::clock_functions::is_instant;
use crate::interval_functions::{WALL_TIME, instant_type};
use crate::json_functions::ObjectType;
use crate::rewrite_parts::{TimeRole, as_interval, call, cast, length, role, type_of};
use crate::value_text::has_own_text;
use crate::{checked_arithmetic, typed_texts};

/// Casts that round in PostgreSQL and cut here, and texts of intervals.
pub(crate) fn rewrite_cast(
    cast_expr: Cast,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let Cast { expr, field } = cast_expr;
    let (from, to) = (type_of(&expr, schema), field.data_type());
    let new = match (&from, to) {
        // A text of a `uuid` or `jsonb` is a text.
        (Some(kind), to)
            if is_text(to) && is_text(kind) && ObjectType::of(&expr, schema).is_some() =>
        {
            return Ok(Transformed::yes(call("plain_text", vec![*expr])));
        }
        (Some(DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale)), to)
            if to.is_integer() && *scale > 0 =>
        {
            to_scale(*expr, 0)
        }
        (Some(DataType::Decimal128(_, scale)), DataType::Decimal128(_, places))
            if places < scale =>
        {
            to_scale(*expr, *places)
        }
        (Some(kind), to)
            if has_floats(kind) && has_integers(to) && !is_call(&expr, "round_elements") =>
        {
            call("round_elements", vec![*expr])
        }
        (Some(kind), to) if is_text(to) && has_own_text(kind) => call("value_text", vec![*expr]),
        (Some(DataType::Float16 | DataType::Float32 | DataType::Float64), to)
            if to.is_integer() && !is_whole(&expr) =>
        {
            rounded(*expr)
        }
        (Some(DataType::Float64 | DataType::Float32), DataType::Decimal128(_, scale))
            if !is_call(&expr, "round_to_places") =>
        {
            let places = Expr::Literal(ScalarValue::Int64(Some(i64::from(*scale))), None);
            call("round_to_places", vec![*expr, places])
        }
        (Some(kind), to) if is_text(kind) && is_time(to) => match full_time(&expr) {
            Some(time) => time,
            None => return Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
        },
        (Some(kind), to) if is_instant(kind) && is_local(to) && !is_utc(options) => {
            call("local_time", vec![*expr])
        }
        _ => return Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
    };
    Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(new), field })))
}

/// A decimal rounded to fewer places. The engine would move a cast from one side of a comparison to the other, although
/// several decimals become one: `1.25::int = 1` would be false.
fn to_scale(decimal: Expr, places: i8) -> Expr {
    let places = Expr::Literal(ScalarValue::Int32(Some(places.into())), None);
    datafusion::functions::math::round().call(vec![decimal, places])
}

/// Whether a type is an array of floats that are not rounded yet.
fn has_floats(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) | DataType::FixedSizeList(item, _) => item.data_type().is_floating(),
        _ => false,
    }
}

fn has_integers(kind: &DataType) -> bool {
    matches!(kind, DataType::List(item) if item.data_type().is_integer())
}

fn is_call(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == name)
}

pub(crate) fn is_time(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(..))
}

/// A constant time without seconds as one with them.
pub(crate) fn full_time(expr: &Expr) -> Option<Expr> {
    let full = full_timestamp(constant_text(expr)?)?;
    Some(Expr::Literal(ScalarValue::Utf8(Some(full)), None))
}

pub(crate) fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Dates and wall times depend on the zone.
fn is_local(kind: &DataType) -> bool {
    matches!(kind, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
}

/// Whether the session's zone is UTC.
fn is_utc(options: &ConfigOptions) -> bool {
    let zone = options.execution.time_zone.as_deref().unwrap_or("UTC");
    ["+00:00", "utc", "etc/utc", "gmt", "+00"].iter().any(|name| zone.eq_ignore_ascii_case(name))
}

/// Functions with whole numbers as results.
const WHOLE: [&str; 6] = ["round", "floor", "ceil", "trunc", "round_half_even", "date_part"];

fn is_whole(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            WHOLE.contains(&call.name()) && (call.args.len() == 1 || call.name() == "date_part")
        }
        _ => false,
    }
}

/// A float rounded as PostgreSQL does; a literal is a decimal there, whose half is rounded up.
fn rounded(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) => {
            Expr::Literal(ScalarValue::Float64(Some(value.round())), metadata)
        }
        Expr::Literal(..) => expr,
        other => call("round_half_even", vec![cast(other, DataType::Float64)]),
    }
}

/// Calls that mean something else in PostgreSQL for these types.
pub(crate) fn rewrite_call(
    function: ScalarFunction,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let new = match function.name() {
        "date_part" => date_part(&function.args, schema, options),
        "date_trunc" => date_trunc(&function, schema, options),
        "to_char" => to_char(&function.args, schema),
        "to_timestamp" => to_timestamp(&function, schema),
        "to_date" => by_pattern("read_date", &function.args, schema),
        "round" => round(&function, schema),
        "trunc" => truncate(&function, schema),
        "floor" | "ceil" => whole_decimal(&function, schema),
        "concat" | "concat_ws" | "format" => typed_texts::texts(&function, schema),
        "to_hex" => typed_texts::to_hex(&function),
        "array_element" => typed_texts::element(&function),
        "nullif" => nullif(&function.args, schema),
        "greatest" | "least" => extreme(&function, schema),
        NAMED_VALUE => function.args.first().cloned(),
        _ => checked_arithmetic::rewrite_function(&function, options),
    };
    Ok(new.map_or_else(|| Transformed::no(Expr::ScalarFunction(function)), Transformed::yes))
}

/// Has no places, as in PostgreSQL.
fn whole_decimal(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let value = function.args.first()?;
    let Some(DataType::Decimal128(digits, 1..)) = type_of(value, schema) else { return None };
    Some(cast(Expr::ScalarFunction(function.clone()), DataType::Decimal128(digits, 0)))
}

fn constant_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Fields that the engine cuts, counts differently or lacks.
const OWN_FIELDS: [&str; 27] = [
    "second",
    "seconds",
    "sec",
    "s",
    "millisecond",
    "milliseconds",
    "ms",
    "msec",
    "microsecond",
    "microseconds",
    "us",
    "usec",
    "century",
    "centuries",
    "decade",
    "decades",
    "millennium",
    "millenniums",
    "millennia",
    "julian",
    "isodow",
    "dow",
    "timezone",
    "timezone_hour",
    "timezone_minute",
    "isoyear",
    "doy",
];

/// Fields with fractions of a second.
const BELOW_MINUTE: [&str; 8] =
    ["second", "seconds", "millisecond", "milliseconds", "ms", "microsecond", "microseconds", "us"];

fn date_part(args: &[Expr], schema: &DFSchema, options: &ConfigOptions) -> Option<Expr> {
    let [field, value] = args else { return None };
    let name = constant_text(field)?.to_ascii_lowercase();
    let kind = type_of(value, schema)?;
    match kind {
        DataType::Interval(_) | DataType::Duration(_) => {
            Some(call("interval_field", vec![field.clone(), value.clone()]))
        }
        DataType::Time32(_) | DataType::Time64(_) => BELOW_MINUTE
            .contains(&name.as_str())
            .then(|| call("clock_field", vec![field.clone(), value.clone()])),
        DataType::Timestamp(..) | DataType::Date32 => {
            let is_own = OWN_FIELDS.contains(&name.as_str());
            let is_shifted = is_instant(&kind) && !is_utc(options) && name != "epoch";
            (is_own || is_shifted).then(|| call("clock_field", vec![field.clone(), value.clone()]))
        }
        _ => None,
    }
}

fn date_trunc(
    function: &ScalarFunction,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Option<Expr> {
    let [unit, value] = function.args.as_slice() else { return None };
    let kind = type_of(value, schema)?;
    match kind {
        DataType::Interval(_) | DataType::Duration(_) => {
            Some(call("interval_trunc", vec![unit.clone(), value.clone()]))
        }
        _ if is_instant(&kind) && !is_utc(options) => {
            Some(call("trunc_in_session", vec![unit.clone(), value.clone()]))
        }
        _ => None,
    }
}

/// Patterns with `%` are the engine's own.
fn to_char(args: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let [value, pattern] = args else { return None };
    if constant_text(pattern).is_some_and(|pattern| pattern.contains('%')) {
        return None;
    }
    match type_of(value, schema)? {
        DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Interval(_)
        | DataType::Duration(_) => Some(call("time_to_char", vec![value.clone(), pattern.clone()])),
        _ => None,
    }
}

fn by_pattern(function: &str, args: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let [value, pattern] = args else { return None };
    let has_percent = constant_text(pattern).is_none_or(|pattern| pattern.contains('%'));
    let is_text_or_null =
        type_of(value, schema).is_some_and(|kind| is_text(&kind) || kind.is_null());
    (is_text_or_null && !has_percent).then(|| call(function, vec![value.clone(), pattern.clone()]))
}

/// Seconds since 1970 are an instant.
fn to_timestamp(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let [value] = function.args.as_slice() else {
        return by_pattern("read_timestamp", &function.args, schema);
    };
    let is_number = matches!(role(value, schema), TimeRole::Integer | TimeRole::Number);
    is_number.then(|| {
        let micros = Expr::BinaryExpr(datafusion::logical_expr::BinaryExpr {
            left: Box::new(cast(value.clone(), DataType::Float64)),
            op: datafusion::logical_expr::Operator::Multiply,
            right: Box::new(Expr::Literal(ScalarValue::Float64(Some(1e6)), None)),
        });
        let micros = cast(call("round_half_even", vec![micros]), DataType::Int64);
        cast(cast(micros, WALL_TIME), instant_type())
    })
}

/// A float that is no literal is rounded to the even neighbour.
fn round(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let value = match function.args.as_slice() {
        [value] => value,
        [value, Expr::Literal(ScalarValue::Int64(Some(places)), _)]
            if type_of(value, schema).is_some_and(|kind| kind.is_decimal()) =>
        {
            // The engine casts other integers, does not see the number of places then, and takes the wrong type.
            let places = ScalarValue::Int32(i32::try_from(*places).ok());
            let args = vec![value.clone(), Expr::Literal(places, None)];
            let func = Arc::clone(&function.func);
            return Some(Expr::ScalarFunction(ScalarFunction { func, args }));
        }
        [value, places] => return by_places("round_to_places", value, places, schema),
        _ => return None,
    };
    let is_float = matches!(type_of(value, schema)?, DataType::Float64 | DataType::Float32);
    let is_literal = matches!(value, Expr::Literal(..) | Expr::Negative(_));
    (is_float && !is_literal)
        .then(|| call("round_half_even", vec![cast(value.clone(), DataType::Float64)]))
}

fn truncate(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let [value, places] = function.args.as_slice() else { return None };
    // Has those places and no more, as in PostgreSQL.
    if let Some(DataType::Decimal128(digits, scale)) = type_of(value, schema)
        && let Expr::Literal(ScalarValue::Int64(Some(kept)), _) = places
        && let Ok(kept) = i8::try_from(*kept)
        && (0..scale).contains(&kept)
    {
        let whole = Expr::ScalarFunction(function.clone());
        return Some(cast(whole, DataType::Decimal128(digits, kept)));
    }
    by_places("cut_to_places", value, places, schema)
}

/// Decimal places of floats are those of their shortest text, as in a cast to `numeric`.
fn by_places(function: &str, value: &Expr, places: &Expr, schema: &DFSchema) -> Option<Expr> {
    let kind = type_of(value, schema)?;
    let is_number = matches!(kind, DataType::Float64 | DataType::Float32) || kind.is_integer();
    is_number.then(|| call(function, vec![value.clone(), places.clone()]))
}

fn nullif(args: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let [value, other] = args else { return None };
    if role(value, schema) != TimeRole::Interval && role(other, schema) != TimeRole::Interval {
        return None;
    }
    let is_equal = length(value.clone()).eq(length(other.clone()));
    let otherwise = Some(Box::new(as_interval(value.clone(), schema)));
    let null = Expr::Literal(ScalarValue::IntervalMonthDayNano(None), None);
    Some(Expr::Case(datafusion::logical_expr::expr::Case {
        expr: None,
        when_then_expr: vec![(Box::new(is_equal), Box::new(null))],
        else_expr: otherwise,
    }))
}

fn extreme(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let has_interval = function.args.iter().any(|arg| role(arg, schema) == TimeRole::Interval);
    let name = if function.name() == "least" { "interval_least" } else { "interval_greatest" };
    has_interval.then(|| call(name, function.args.clone()))
}
