//! `array(select x … order by k)` as an aggregate in a scalar subquery.
//!
//! The rows are numbered in their order, and the aggregate is ordered by the number.

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, Value,
};

use crate::column_substitution::normal;
use crate::copy_budget::CopyBudget;
use crate::fragments::call;
use crate::refusal::{Result, refuse};
use crate::table_syntax::parse_query;

/// Longest key, or value that is its own key.
const COPIED_BYTES_MAX: usize = 1_000;

/// The array of a query's only column.
pub(crate) fn array_of_query(query: &Query, budget: &CopyBudget) -> Result<Expr> {
    let keys = order_keys(query)?;
    if keys.iter().map(|key| key.expr.to_string().len()).sum::<usize>() > COPIED_BYTES_MAX {
        return refuse!("the order of `array(select …)` is too long: name its keys in a subquery");
    }
    if let SetExpr::Select(select) = &*query.body
        && is_plain(select)
        && (keys.is_empty() || is_short(select))
        && query.limit_clause.is_none()
        && query.fetch.is_none()
    {
        return plain_array(query, select, keys, budget);
    }
    numbered_array(query, keys)
}

fn order_keys(query: &Query) -> Result<Vec<OrderByExpr>> {
    match query.order_by.as_ref().map(|order| &order.kind) {
        None => Ok(Vec::new()),
        Some(OrderByKind::Expressions(keys)) => Ok(keys.clone()),
        Some(_) => refuse!("`array(select … order by all)` is not supported"),
    }
}

fn only_item(select: &Select) -> Result<(Expr, Option<Ident>)> {
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(value)] => Ok((value.clone(), None)),
        [SelectItem::ExprWithAlias { expr, alias }] => Ok((expr.clone(), Some(alias.clone()))),
        _ => refuse!("`array(select …)` takes one column"),
    }
}

/// Whether the value may be copied: copies of arrays in arrays would double.
fn is_short(select: &Select) -> bool {
    select.projection.iter().all(|item| item.to_string().len() <= COPIED_BYTES_MAX)
}

/// Whether a select has a row for each row that it reads.
fn is_plain(select: &Select) -> bool {
    let is_ungrouped =
        matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let text = select.projection.iter().map(ToString::to_string).collect::<String>();
    let changes_rows = ["unnest(", "over (", "count(", "sum(", "avg(", "min(", "max(", "_agg("]
        .iter()
        .any(|call| text.to_lowercase().contains(call));
    is_ungrouped && !changes_rows && select.distinct.is_none() && select.having.is_none()
}

/// `select coalesce(array_agg(x order by k), make_array()) from …`.
fn plain_array(
    query: &Query,
    select: &Select,
    mut keys: Vec<OrderByExpr>,
    budget: &CopyBudget,
) -> Result<Expr> {
    let (value, alias) = only_item(select)?;
    for key in &mut keys {
        let is_item = match &key.expr {
            Expr::Value(place) => {
                if place.value != Value::Number("1".into(), false) {
                    return refuse!("`array(select …)` has one column to be ordered by");
                }
                true
            }
            Expr::Identifier(name) => {
                alias.as_ref().is_some_and(|alias| normal(alias) == normal(name))
            }
            _ => false,
        };
        if is_item {
            budget.copy(&value, 1)?;
            key.expr = value.clone();
        }
    }
    let mut outer = parse_query("select 1 as elements")?;
    let mut inner = select.clone();
    inner.projection = vec![SelectItem::UnnamedExpr(elements(value, keys))];
    *outer.body = SetExpr::Select(Box::new(inner));
    outer.with.clone_from(&query.with);
    Ok(Expr::Subquery(outer))
}

/// The array of a value, which is empty without rows.
fn elements(value: Expr, keys: Vec<OrderByExpr>) -> Expr {
    let mut aggregate = call("array_agg", vec![value]);
    if let Expr::Function(function) = &mut aggregate
        && let sqlparser::ast::FunctionArguments::List(list) = &mut function.args
        && !keys.is_empty()
    {
        list.clauses.push(sqlparser::ast::FunctionArgumentClause::OrderBy(keys));
    }
    call("coalesce", vec![aggregate, call("make_array", Vec::new())])
}

/// The array of a query with `distinct`, groups, a limit or set operations, as rows of a subquery.
fn numbered_array(query: &Query, keys: Vec<OrderByExpr>) -> Result<Expr> {
    let mut inner = query.clone();
    let by_value = match &mut *inner.body {
        SetExpr::Select(select) => {
            let (value, alias) = only_item(select)?;
            let by_value = is_by_value(&keys, &value, alias.as_ref());
            if !by_value && !keys.is_empty() {
                add_number(select, &keys, &value)?;
            }
            by_value
        }
        _ => keys.iter().all(|key| matches!(key.expr, Expr::Value(_))),
    };
    if !by_value && !keys.is_empty() && !matches!(&*inner.body, SetExpr::Select(_)) {
        return refuse!("`array(select …)` of a set operation is ordered by `1`");
    }
    let names = if by_value || keys.is_empty() { "element" } else { "element, place" };
    let sql = format!("select 1 from (select 1) as array_rows({names})");
    let mut outer = parse_query(&sql)?;
    let SetExpr::Select(select) = &mut *outer.body else {
        return refuse!("`array(…)` takes a `select`");
    };
    if let Some(TableFactor::Derived { subquery, .. }) =
        select.from.first_mut().map(|from| &mut from.relation)
    {
        **subquery = inner;
    }
    let order = match keys.as_slice() {
        [] => Vec::new(),
        [key, ..] if by_value => vec![OrderByExpr { expr: column("element"), ..key.clone() }],
        _ => vec![OrderByExpr::from(Ident::new("place"))],
    };
    select.projection = vec![SelectItem::UnnamedExpr(elements(column("element"), order))];
    Ok(Expr::Subquery(outer))
}

fn column(name: &str) -> Expr {
    Expr::Identifier(Ident::new(name))
}

/// Whether the first key is the value itself.
fn is_by_value(keys: &[OrderByExpr], value: &Expr, alias: Option<&Ident>) -> bool {
    keys.first().is_some_and(|key| match &key.expr {
        Expr::Value(place) => place.value == Value::Number("1".into(), false),
        Expr::Identifier(name) => {
            key.expr == *value || alias.is_some_and(|alias| normal(alias) == normal(name))
        }
        other => other == value,
    })
}

/// Adds the place of each row in the order.
fn add_number(select: &mut Select, keys: &[OrderByExpr], value: &Expr) -> Result<()> {
    if matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_))) {
        return refuse!("`array(select distinct …)` is ordered by its column");
    }
    let mut query = parse_query("select row_number() over (order by 1) as place")?;
    let SetExpr::Select(numbered) = &mut *query.body else { return Ok(()) };
    let mut item = numbered.projection.remove(0);
    if let SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } = &mut item
        && let Some(sqlparser::ast::WindowType::WindowSpec(spec)) = &mut function.over
    {
        spec.order_by = keys.to_vec();
    }
    let named = SelectItem::ExprWithAlias { expr: value.clone(), alias: Ident::new("element") };
    select.projection = vec![named, item];
    Ok(())
}
