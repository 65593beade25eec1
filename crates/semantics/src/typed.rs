//! Rewrites expressions whose types are known: comparisons of intervals, sums of dates, casts.
//!
//! Each rewrite is one that may run twice: the result is no input of any of them.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{AggregateFunction, Case, InList, Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, WindowFunctionDefinition};
use datafusion::scalar::ScalarValue;

use crate::interval_aggregate::{in_place_for_differences, in_place_of};
use crate::interval_functions::WALL_TIME;
use crate::rewrite_parts::{TimeRole, call, cast, is_decimal, length, role, type_of};
use crate::{
    checked_arithmetic, decimal_arithmetic, guards, numeric_sum, typed_objects, typed_texts,
    typed_times,
};

/// Most values of a list that a `case` computes.
const COMPUTED_MAX: usize = 64;

/// The rewrites.
#[derive(Debug)]
pub(crate) struct TypedRewrite;

impl FunctionRewrite for TypedRewrite {
    fn name(&self) -> &'static str {
        "postgres_types"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        options: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(binary) => rewrite_binary(binary, schema, options),
            Expr::Negative(value) => Ok(rewrite_negative(value, schema)),
            Expr::Like(like) => typed_texts::check_like(like, schema),
            Expr::Between(between) => Ok(rewrite_between(between, schema)),
            Expr::InList(list) => rewrite_list(list, schema).transform_data(compare_computed),
            Expr::Case(case) => Ok(rewrite_case(case, schema)),
            Expr::Cast(cast) => typed_times::rewrite_cast(cast, schema, options),
            Expr::ScalarFunction(call) => typed_times::rewrite_call(call, schema, options),
            Expr::AggregateFunction(call) => Ok(rewrite_aggregate(call, schema)),
            Expr::WindowFunction(call) => Ok(rewrite_window(call, schema)),
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether any of the expressions is an interval: differences alone are compared rightly.
fn has_interval<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    exprs.into_iter().any(|expr| role(expr, schema) == TimeRole::Interval)
}

fn is_difference(value: Option<&Expr>, schema: &DFSchema) -> bool {
    value.is_some_and(|value| role(value, schema) == TimeRole::Difference)
}

fn rewrite_binary(
    binary: BinaryExpr,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let binary = match rewrite_times(binary, schema) {
        Transformed { data: Expr::BinaryExpr(binary), transformed: false, .. } => binary,
        done => return Ok(done),
    };
    typed_texts::check_pattern(&binary, schema)?;
    typed_texts::check_concat(&binary, schema)?;
    if let Some(new) = typed_objects::rewrite_comparison(&binary, schema)? {
        return Ok(Transformed::yes(new));
    }
    if let Some(new) = with_full_time(&binary, schema) {
        return Ok(Transformed::yes(new));
    }
    if let Some(new) = with_exact_constant(&binary, schema) {
        return Ok(Transformed::yes(new));
    }
    if let Some(new) = shift_of_type(&binary, schema) {
        return Ok(Transformed::yes(new));
    }
    let new = checked_arithmetic::rewrite_operator(&binary, schema, options)?
        .or_else(|| typed_texts::rewrite_concat(&binary, schema))
        .or_else(|| guards::rewrite_junction(&binary, schema));
    Ok(new.map_or_else(|| Transformed::no(Expr::BinaryExpr(binary)), Transformed::yes))
}

/// A comparison of a decimal with a constant, which as a float has other digits.
fn with_exact_constant(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let exact = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => {
            decimal_arithmetic::constant(*number).map(|constant| Expr::Literal(constant, None))
        }
        _ => None,
    };
    let has_decimals = |expr: &Expr| type_of(expr, schema).is_some_and(|kind| is_decimal(&kind));
    let (left, right) = (&*binary.left, &*binary.right);
    if !binary.op.supports_propagation() && binary.op != Operator::NotEq {
        return None;
    }
    match (exact(left), exact(right)) {
        (None, Some(constant)) if has_decimals(left) => {
            Some(binary_expr(left.clone(), binary.op, constant))
        }
        (Some(constant), None) if has_decimals(right) => {
            Some(binary_expr(constant, binary.op, right.clone()))
        }
        _ => None,
    }
}

/// A shift has the type of its left side.
fn shift_of_type(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let is_shift = matches!(binary.op, Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight);
    let (left, right) = (type_of(&binary.left, schema)?, type_of(&binary.right, schema)?);
    let is_wider = left.is_signed_integer() && right.is_integer() && left != right;
    (is_shift && is_wider).then(|| {
        binary_expr((*binary.left).clone(), binary.op, cast((*binary.right).clone(), left))
    })
}

/// A comparison of a time with a constant that has no seconds.
fn with_full_time(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (&*binary.left, &*binary.right);
    let (new_left, new_right) = if is_time_of(left, schema) {
        (left.clone(), typed_times::full_time(right)?)
    } else if is_time_of(right, schema) {
        (typed_times::full_time(left)?, right.clone())
    } else {
        return None;
    };
    Some(binary_expr(new_left, binary.op, new_right))
}

fn is_time_of(expr: &Expr, schema: &DFSchema) -> bool {
    type_of(expr, schema).is_some_and(|kind| typed_times::is_time(&kind))
}

/// Whether any constant got its seconds.
fn complete_times<'a>(constants: impl IntoIterator<Item = &'a mut Expr>) -> bool {
    let mut is_changed = false;
    for constant in constants {
        if let Some(full) = typed_times::full_time(constant) {
            *constant = full;
            is_changed = true;
        }
    }
    is_changed
}

/// Negations of numbers are checked, those of intervals negate each part.
fn rewrite_negative(value: Box<Expr>, schema: &DFSchema) -> Transformed<Expr> {
    let is_interval = matches!(role(&value, schema), TimeRole::Interval | TimeRole::Difference);
    if is_interval {
        let minus_one = Expr::Literal(ScalarValue::Float64(Some(-1.0)), None);
        return Transformed::yes(call("interval_times", vec![*value, minus_one]));
    }
    match checked_arithmetic::rewrite_negation(&value, schema) {
        Some(new) => Transformed::yes(new),
        None => Transformed::no(Expr::Negative(value)),
    }
}

/// Operators of intervals, dates and times.
fn rewrite_times(binary: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let roles = (role(&binary.left, schema), role(&binary.right, schema));
    let BinaryExpr { left, op, right } = binary;
    let is_comparison = op.supports_propagation()
        || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom | Operator::NotEq);
    let new = match (op, roles) {
        (_, (TimeRole::Interval, _) | (_, TimeRole::Interval)) if is_comparison => {
            binary_expr(length(*left), op, length(*right))
        }
        (
            Operator::Plus | Operator::Minus,
            (TimeRole::Date, TimeRole::Interval | TimeRole::Difference),
        ) => binary_expr(cast(*left, WALL_TIME), op, *right),
        (Operator::Plus, (TimeRole::Interval | TimeRole::Difference, TimeRole::Date)) => {
            binary_expr(*left, op, cast(*right, WALL_TIME))
        }
        (Operator::Minus, (TimeRole::Date, TimeRole::Date)) => {
            binary_expr(days(*left), op, days(*right))
        }
        (Operator::Plus | Operator::Minus, (TimeRole::Date, TimeRole::Integer)) => {
            date_of(binary_expr(days(*left), op, cast(*right, DataType::Int32)))
        }
        (Operator::Plus, (TimeRole::Integer, TimeRole::Date)) => {
            date_of(binary_expr(cast(*left, DataType::Int32), op, days(*right)))
        }
        (Operator::Plus | Operator::Minus, (TimeRole::Interval, TimeRole::Difference)) => {
            binary_expr(*left, op, call("interval_of", vec![*right]))
        }
        (Operator::Plus | Operator::Minus, (TimeRole::Difference, TimeRole::Interval)) => {
            binary_expr(call("interval_of", vec![*left]), op, *right)
        }
        (
            Operator::Multiply,
            (TimeRole::Interval | TimeRole::Difference, TimeRole::Integer | TimeRole::Number),
        ) => call("interval_times", vec![*left, cast(*right, DataType::Float64)]),
        (
            Operator::Multiply,
            (TimeRole::Integer | TimeRole::Number, TimeRole::Interval | TimeRole::Difference),
        ) => call("interval_times", vec![*right, cast(*left, DataType::Float64)]),
        (
            Operator::Divide,
            (TimeRole::Interval | TimeRole::Difference, TimeRole::Integer | TimeRole::Number),
        ) => {
            let one = Expr::Literal(ScalarValue::Float64(Some(1.0)), None);
            let factor = binary_expr(one, Operator::Divide, cast(*right, DataType::Float64));
            call("interval_times", vec![*left, factor])
        }
        _ => return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    };
    Transformed::yes(new)
}

fn binary_expr(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// Days of a date since 1970.
fn days(date: Expr) -> Expr {
    cast(date, DataType::Int32)
}

fn date_of(days: Expr) -> Expr {
    cast(days, DataType::Date32)
}

fn rewrite_between(mut between: Between, schema: &DFSchema) -> Transformed<Expr> {
    if is_time_of(&between.expr, schema) {
        let is_changed = complete_times([&mut *between.low, &mut *between.high]);
        return Transformed::new_transformed(Expr::Between(between), is_changed);
    }
    if !has_interval([&*between.expr, &*between.low, &*between.high], schema) {
        return Transformed::no(Expr::Between(between));
    }
    Transformed::yes(Expr::Between(Between {
        expr: Box::new(length(*between.expr)),
        low: Box::new(length(*between.low)),
        high: Box::new(length(*between.high)),
        negated: between.negated,
    }))
}

/// Compares values that a `case` computes one by one: the engine evaluates a list without rows first, and
/// takes what has a value there for constant, which such a `case` has. The answer was NULL or false.
fn compare_computed(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr, list, negated }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let is_computed = |item: &Expr| item.exists(|part| Ok(matches!(part, Expr::Case(_))));
    let (mut computed, mut plain) = (Vec::new(), Vec::new());
    for item in list {
        if is_computed(&item)? { computed.push(item) } else { plain.push(item) }
    }
    if computed.is_empty() || expr.is_volatile() {
        plain.append(&mut computed);
        return Ok(Transformed::no(Expr::InList(InList { expr, list: plain, negated })));
    }
    if computed.len() > COMPUTED_MAX {
        return plan_err!(
            "a list may have {COMPUTED_MAX} values that a `case` computes: put the others into a \
             subquery, `in (select …)`"
        );
    }
    let rest = (!plain.is_empty())
        .then(|| Expr::InList(InList { expr: expr.clone(), list: plain, negated: false }));
    let each = computed.into_iter().map(|item| binary_expr((*expr).clone(), Operator::Eq, item));
    let Some(found) = rest.into_iter().chain(each).reduce(Expr::or) else {
        return plan_err!("a list without values");
    };
    Ok(Transformed::yes(if negated { !found } else { found }))
}

fn rewrite_list(mut list: InList, schema: &DFSchema) -> Transformed<Expr> {
    if is_time_of(&list.expr, schema) {
        let is_changed = complete_times(&mut list.list);
        return Transformed::new_transformed(Expr::InList(list), is_changed);
    }
    if let Some(new) = typed_objects::rewrite_list(&list, schema) {
        return Transformed::yes(new);
    }
    if !has_interval(list.list.iter().chain([&*list.expr]), schema) {
        return Transformed::no(Expr::InList(list));
    }
    Transformed::yes(Expr::InList(InList {
        expr: Box::new(length(*list.expr)),
        list: list.list.into_iter().map(length).collect(),
        negated: list.negated,
    }))
}

fn rewrite_case(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let operand = case.expr.take_if(|expr| role(expr, schema) == TimeRole::Interval);
    let Some(operand) = operand else { return Transformed::no(Expr::Case(case)) };
    case.expr = Some(Box::new(length(*operand)));
    for (when, _) in &mut case.when_then_expr {
        **when = length(std::mem::take(when));
    }
    Transformed::yes(Expr::Case(case))
}

/// Orders by the length of intervals; returns whether any key is one.
pub(crate) fn order_by_length(keys: &mut [Sort], schema: &DFSchema) -> bool {
    let mut is_changed = false;
    for key in keys {
        if role(&key.expr, schema) == TimeRole::Interval {
            key.expr = length(std::mem::take(&mut key.expr));
            is_changed = true;
        }
    }
    is_changed
}

fn rewrite_aggregate(mut call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut is_changed = order_by_length(&mut call.params.order_by, schema);
    if let Some(sum) = numeric_sum::in_place(call.func.name(), &mut call.params.args, schema) {
        call.func = sum;
        is_changed = true;
    }
    is_changed |= order_once(&mut call.params.order_by);
    let params = &mut call.params;
    is_changed |= guards::guard_arguments(&mut params.args, params.filter.as_deref(), schema);
    is_changed |= average_as_float(&mut call, schema);
    if is_difference(call.params.args.first(), schema)
        && let Some(function) = in_place_for_differences(call.func.name())
    {
        call.func = Arc::new(function);
        is_changed = true;
    }
    if has_interval(call.params.args.first(), schema) {
        if let Some(function) = in_place_of(call.func.name()) {
            call.func = Arc::new(function);
            is_changed = true;
        } else if call.func.name() == "count" && call.params.distinct {
            call.params.args = call.params.args.into_iter().map(length).collect();
            is_changed = true;
        }
    }
    if is_changed {
        Transformed::yes(Expr::AggregateFunction(call))
    } else {
        Transformed::no(Expr::AggregateFunction(call))
    }
}

/// Drops keys that are there already: the engine fails at a second one. Returns whether there were any.
fn order_once(keys: &mut Vec<Sort>) -> bool {
    let count = keys.len();
    let mut kept: Vec<Sort> = Vec::with_capacity(count);
    for key in keys.drain(..) {
        if kept.iter().all(|known| known.expr != key.expr) {
            kept.push(key);
        }
    }
    *keys = kept;
    keys.len() < count
}

/// Averages decimals as floats: the engine cuts them to four more digits.
fn average_as_float(call: &mut AggregateFunction, schema: &DFSchema) -> bool {
    let [value] = call.params.args.as_mut_slice() else { return false };
    let is_decimal = matches!(type_of(value, schema), Some(kind) if is_decimal(&kind));
    let is_average = call.func.name() == "avg" && is_decimal && !call.params.distinct;
    if is_average {
        *value = cast(std::mem::take(value), DataType::Float64);
    }
    is_average
}

fn rewrite_window(mut call: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    let mut is_changed = order_by_length(&mut call.params.order_by, schema);
    if let Some(sum) = numeric_sum::in_place(call.fun.name(), &mut call.params.args, schema) {
        call.fun = WindowFunctionDefinition::AggregateUDF(sum);
        is_changed = true;
    }
    let params = &mut call.params;
    is_changed |= guards::guard_arguments(&mut params.args, params.filter.as_deref(), schema);
    for key in &mut call.params.partition_by {
        if role(key, schema) == TimeRole::Interval {
            *key = length(std::mem::take(key));
            is_changed = true;
        }
    }
    if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun {
        let value = call.params.args.first();
        let in_place = if is_difference(value, schema) {
            in_place_for_differences(function.name())
        } else if has_interval(value, schema) {
            in_place_of(function.name())
        } else {
            None
        };
        if let Some(function) = in_place {
            call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(function));
            is_changed = true;
        }
    }
    if is_changed {
        Transformed::yes(Expr::WindowFunction(call))
    } else {
        Transformed::no(Expr::WindowFunction(call))
    }
}
