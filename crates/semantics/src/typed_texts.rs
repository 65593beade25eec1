//! Rewrites of expressions whose values become texts, or are parts of arrays.

use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};
use datafusion::scalar::ScalarValue;

use crate::json_functions::ObjectType;
use crate::rewrite_parts::{call, cast, type_of};
use crate::typed_times::is_text;
use crate::value_text::has_own_text;

/// `||` of a text and another value.
pub(crate) fn rewrite_concat(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    if binary.op != Operator::StringConcat {
        return None;
    }
    let kinds = [type_of(&binary.left, schema)?, type_of(&binary.right, schema)?];
    if kinds.iter().any(is_list) || !kinds.iter().any(has_own_text) {
        return None;
    }
    let [left, right] =
        [(&binary.left, &kinds[0]), (&binary.right, &kinds[1])].map(|(side, kind)| {
            if has_own_text(kind) {
                call("value_text", vec![(**side).clone()])
            } else {
                (**side).clone()
            }
        });
    Some(Expr::BinaryExpr(BinaryExpr {
        left: Box::new(left),
        op: Operator::StringConcat,
        right: Box::new(right),
    }))
}

pub(crate) fn is_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// `concat` and `concat_ws`, whose booleans are `t` and `f`.
pub(crate) fn texts(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let mut args = function.args.clone();
    let mut is_changed = false;
    for arg in &mut args {
        let kind = type_of(arg, schema)?;
        if has_own_text(&kind) || kind == DataType::Boolean {
            *arg = call("value_text", vec![std::mem::take(arg)]);
            is_changed = true;
        }
    }
    is_changed.then(|| Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args }))
}

/// A constant is an `integer`, whose negative values have eight digits.
pub(crate) fn to_hex(function: &ScalarFunction) -> Option<Expr> {
    let [value] = function.args.as_slice() else { return None };
    let constant = match value {
        Expr::Negative(inner) => inner,
        other => other,
    };
    let Expr::Literal(ScalarValue::Int64(Some(number)), _) = constant else { return None };
    i32::try_from(*number).ok()?;
    let args = vec![cast(value.clone(), DataType::Int32)];
    Some(Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args }))
}

/// An index below 1 has no element; the engine counts negative ones from the end.
pub(crate) fn element(function: &ScalarFunction) -> Option<Expr> {
    let [array, index] = function.args.as_slice() else { return None };
    let none = Expr::Literal(ScalarValue::Int64(None), None);
    let index = match index {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(index))) if index < 1 => none,
            _ => return None,
        },
        // Copies of an index would double with each array that is an index of another.
        other if has_case(other) => return None,
        Expr::Negative(inner) if matches!(**inner, Expr::Literal(..)) => none,
        other => Expr::Case(Case {
            expr: None,
            when_then_expr: vec![(
                Box::new(other.clone().gt(Expr::Literal(ScalarValue::Int64(Some(0)), None))),
                Box::new(other.clone()),
            )],
            else_expr: None,
        }),
    };
    let args = vec![array.clone(), index];
    Some(Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args }))
}

fn has_case(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::Case(_)))).unwrap_or(true)
}

/// Refuses `||` of two JSON values, which is no sum of texts.
pub(crate) fn check_concat(binary: &BinaryExpr, schema: &DFSchema) -> Result<()> {
    if binary.op != Operator::StringConcat {
        return Ok(());
    }
    let kinds = [&binary.left, &binary.right].map(|side| ObjectType::of(side, schema));
    if kinds.contains(&Some(ObjectType::Jsonb)) {
        return plan_err!("`||` of JSON is not supported: cast one side to `text`");
    }
    Ok(())
}

/// Refuses patterns for times: their text depends on the zone, and PostgreSQL has none for them.
pub(crate) fn check_like(like: Like, schema: &DFSchema) -> Result<Transformed<Expr>> {
    refuse_time(&like.expr, schema)?;
    Ok(Transformed::no(Expr::Like(like)))
}

/// The same for regular expressions.
pub(crate) fn check_pattern(binary: &BinaryExpr, schema: &DFSchema) -> Result<()> {
    let is_pattern = matches!(
        binary.op,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
    );
    if is_pattern { refuse_time(&binary.left, schema) } else { Ok(()) }
}

fn refuse_time(value: &Expr, schema: &DFSchema) -> Result<()> {
    match type_of(value, schema) {
        Some(kind) if kind.is_temporal() && !is_text(&kind) => {
            plan_err!("a time has no pattern: cast it to `text`, or compare it with a range")
        }
        _ => Ok(()),
    }
}
