//! Arrays: comparisons with `any` and `all`, and aggregates of distinct values.

use sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, OrderByExpr, OrderByOptions,
};

use crate::fragments::{arguments, call, nested, text};
use crate::refusal::{Result, refuse};

/// Elements of a constant array that are compared one by one.
const MOST_ELEMENTS: usize = 64;
/// Bytes of what is compared with each element: copies of comparisons would double.
const COPIED_BYTES_MAX: usize = 256;

/// `x = any(array[…])` and its relatives; `None` for subqueries and operators that the engine has.
pub(crate) fn rewrite_any(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    if let Some(elements) = elements(right) {
        return if *op == BinaryOperator::Eq {
            let expr = Box::new(left.clone());
            Some(Expr::InList { expr, list: elements, negated: false })
        } else {
            chain(left, op, elements, &BinaryOperator::Or)
        };
    }
    let is_array = *op == BinaryOperator::Eq && !is_query(right);
    is_array.then(|| call("equals_any", vec![left.clone(), right.clone()]))
}

/// `x <> all(array[…])` and its relatives.
pub(crate) fn rewrite_all(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let elements = elements(right)?;
    if *op == BinaryOperator::NotEq {
        let expr = Box::new(left.clone());
        Some(Expr::InList { expr, list: elements, negated: true })
    } else {
        chain(left, op, elements, &BinaryOperator::And)
    }
}

/// `x like any (array[…])` and `x not like all (array[…])` as comparisons with each pattern.
pub(crate) fn rewrite_like(expr: &Expr) -> Option<Expr> {
    let (left, pattern, is_any) = match expr {
        Expr::Like { any, expr, pattern, escape_char: None, .. }
        | Expr::ILike { any, expr, pattern, escape_char: None, .. } => (expr, pattern, *any),
        _ => return None,
    };
    let patterns = match &**pattern {
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("all") => {
            elements(arguments(function).first()?)?
        }
        array if is_any => elements(array)?,
        _ => return None,
    };
    if left.to_string().len() > COPIED_BYTES_MAX {
        return None;
    }
    let by = if is_any { BinaryOperator::Or } else { BinaryOperator::And };
    let each = patterns.into_iter().map(|new| {
        let mut one = expr.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut one {
            *any = false;
            **pattern = new;
        }
        nested(one)
    });
    let all = each.reduce(|sum, next| Expr::BinaryOp {
        left: Box::new(sum),
        op: by.clone(),
        right: Box::new(next),
    });
    all.map(nested)
}

fn is_query(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) => true,
        Expr::Nested(inner) => is_query(inner),
        _ => false,
    }
}

fn elements(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Array(array) if (1..=MOST_ELEMENTS).contains(&array.elem.len()) => {
            let has_arrays = array.elem.iter().any(|item| matches!(item, Expr::Array(_)));
            (!has_arrays).then(|| array.elem.clone())
        }
        Expr::Nested(inner) => elements(inner),
        _ => None,
    }
}

/// Comparisons with each element; `None` if the left side is too long for that.
fn chain(
    left: &Expr,
    op: &BinaryOperator,
    elements: Vec<Expr>,
    by: &BinaryOperator,
) -> Option<Expr> {
    if left.to_string().len() > COPIED_BYTES_MAX {
        return None;
    }
    let mut all = elements.into_iter().map(|element| {
        let (left, right) = (Box::new(left.clone()), Box::new(element));
        nested(Expr::BinaryOp { left, op: op.clone(), right })
    });
    let first = all.next().unwrap_or_else(|| Expr::Value(sqlparser::ast::Value::Null.into()));
    Some(nested(all.fold(first, |sum, next| Expr::BinaryOp {
        left: Box::new(sum),
        op: by.clone(),
        right: Box::new(next),
    })))
}

/// `array_agg(distinct x order by x)` and `string_agg(distinct x, ',' order by x)`: the engine forgets
/// the order of distinct values, so their array is sorted. PostgreSQL sorts them without an order too.
pub(crate) fn distinct_in_order(function: &Function) -> Result<Option<Expr>> {
    let name = function.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let keys = match list.clauses.as_slice() {
        [FunctionArgumentClause::OrderBy(keys)] => keys.clone(),
        [] => Vec::new(),
        _ => return Ok(None),
    };
    let separator = match (name.as_str(), list.args.as_slice()) {
        ("array_agg", [_]) => None,
        ("string_agg", [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(separator))]) => {
            Some(separator.clone())
        }
        _ => return Ok(None),
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), ..] = list.args.as_slice() else {
        return Ok(None);
    };
    if !is_distinct || function.over.is_some() {
        return Ok(None);
    }
    let by_value = OrderByExpr {
        expr: value.clone(),
        options: OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    let key = match keys.as_slice() {
        [] => &by_value,
        [key] if key.expr == *value => key,
        _ => return refuse!("an aggregate of distinct values is ordered by its argument"),
    };
    let mut plain = function.clone();
    plain.name = sqlparser::ast::ObjectName::from(vec![sqlparser::ast::Ident::new("array_agg")]);
    if separator.is_some() {
        let is_value = Expr::IsNotNull(Box::new(value.clone()));
        plain.filter = Some(Box::new(match plain.filter.take() {
            Some(filter) => Expr::BinaryOp {
                left: Box::new(nested(*filter)),
                op: BinaryOperator::And,
                right: Box::new(is_value),
            },
            None => is_value,
        }));
    }
    if let FunctionArguments::List(list) = &mut plain.args {
        list.clauses.clear();
        list.args.truncate(1);
    }
    let sorted = sorted(Expr::Function(plain), key);
    Ok(Some(match separator {
        Some(separator) => call("array_to_string", vec![sorted, separator]),
        None => sorted,
    }))
}

fn sorted(array: Expr, key: &OrderByExpr) -> Expr {
    let is_ascending = key.options.asc.unwrap_or(true);
    let is_null_first = key.options.nulls_first.unwrap_or(!is_ascending);
    let direction = text(if is_ascending { "ASC" } else { "DESC" });
    let nulls = text(if is_null_first { "NULLS FIRST" } else { "NULLS LAST" });
    call("array_sort", vec![array, direction, nulls])
}
