//! Arrays: comparisons with `any` and `all`, `&&`, `array(select …)`, and aggregates of distinct values.

use sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, OrderByExpr, Query, SelectItem, SetExpr,
};

use crate::fragments::{call, nested, text};
use crate::refusal::{Result, refuse};
use crate::table_syntax::parse_query;

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

/// `array(select x …)` as an aggregate. The engine loses the order of one in a scalar subquery.
pub(crate) fn array_of_query(query: &Query) -> Result<Expr> {
    if query.order_by.is_some() {
        return refuse!(
            "`array(select … order by …)` loses its order: use `array_agg(x order by …)`"
        );
    }
    let SetExpr::Select(select) = &*query.body else {
        return refuse!("`array(…)` takes a simple `select` here");
    };
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return refuse!("`array(select …)` takes one column");
    };
    let is_grouped = select.distinct.is_some()
        || select.having.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || !matches!(&select.group_by, sqlparser::ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if is_grouped {
        return refuse!("`array(select …)` takes no `distinct`, `group by` or `limit`");
    }
    let mut outer = parse_query("select coalesce(array_agg(1), make_array()) as elements")?;
    let aggregate = call("array_agg", vec![value.clone()]);
    if let SetExpr::Select(new) = &mut *outer.body {
        let mut inner = select.clone();
        std::mem::swap(&mut inner.projection, &mut new.projection);
        *new = inner;
        let elements = call("coalesce", vec![aggregate, call("make_array", Vec::new())]);
        new.projection = vec![SelectItem::UnnamedExpr(elements)];
    }
    outer.with.clone_from(&query.with);
    Ok(Expr::Subquery(outer))
}

/// `array_agg(distinct x order by x)` and `string_agg(distinct x, ',' order by x)`: the engine forgets
/// the order of distinct values, so their array is sorted.
pub(crate) fn distinct_in_order(function: &Function) -> Result<Option<Expr>> {
    let name = function.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let [FunctionArgumentClause::OrderBy(keys)] = list.clauses.as_slice() else { return Ok(None) };
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
    let [key] = keys.as_slice() else {
        return refuse!("an aggregate of distinct values is ordered by its argument");
    };
    if key.expr != *value {
        return refuse!("an aggregate of distinct values is ordered by its argument");
    }
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
