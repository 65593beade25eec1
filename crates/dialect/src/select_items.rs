//! Items of a select list and the keys that repeat them.
//!
//! - Items may have equal names in PostgreSQL; the engine refuses two, and calls `x` and `x::int` alike.
//! - `select distinct f(x) … order by f(x)` becomes `order by 1`.
//! - `select count(*) * 2 … order by 1` becomes `order by count(*) * 2`.
//! - `order by 1` of grouping sets, and of `select distinct` with aggregates, is about the grouped rows, as
//!   `select * from (…) order by 1`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Distinct, Expr, Function, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, Value, VisitMut, VisitorMut, With,
};

use crate::column_substitution::normal;
use crate::copy_budget::CopyBudget;
use crate::fragments::{call, number};
use crate::join_columns::columns_of_source;
use crate::lateral_columns::may_aggregate;
use crate::refusal::{Result, refuse};
use crate::table_syntax::parse_query;

/// Columns of a result, as in PostgreSQL; the engine plans hundreds of thousands for minutes.
pub(crate) const COLUMNS_MAX: usize = 1664;

/// Refuses `select 'a' 'b'`, whose second text would be the name of the first, and rows as values.
pub(crate) fn check_items(select: &Select) -> Result<()> {
    if select.projection.len() > COLUMNS_MAX {
        return refuse!(
            "a select list has {} columns, the limit is {COLUMNS_MAX}: join several queries by a key",
            select.projection.len()
        );
    }
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr: Expr::Tuple(_), .. }
        | SelectItem::UnnamedExpr(Expr::Tuple(_)) = item
        {
            return refuse!("a row is no value here: select its columns");
        }
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && alias.quote_style == Some('\'')
        {
            return refuse!("a name is in double quotes, not in `'`: {alias}");
        }
    }
    Ok(())
}

/// Makes rows of series in a select list, which are arrays to the engine.
pub(crate) fn unnest_series(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.visit(&mut SeriesUnnester::default());
        }
    }
}

#[derive(Default)]
struct SeriesUnnester {
    /// Number of nested queries and calls of `unnest` around the expression.
    depth: usize,
}

impl SeriesUnnester {
    fn is_unnest(expr: &Expr) -> bool {
        matches!(expr, Expr::Function(function) if has_name(function, "unnest"))
    }
}

fn has_name(function: &Function, name: &str) -> bool {
    function.name.to_string().eq_ignore_ascii_case(name)
}

impl VisitorMut for SeriesUnnester {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(Self::is_unnest(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if Self::is_unnest(expr) {
            self.depth -= 1;
        } else if self.depth == 0
            && let Expr::Function(function) = expr
            && has_name(function, "generate_series")
        {
            *expr = call("unnest", vec![expr.clone()]);
        }
        ControlFlow::Continue(())
    }
}

/// Renames the second of two items for which the engine would choose the same name.
pub(crate) fn rename_equal_items(select: &mut Select) {
    let mut names = HashSet::new();
    for item in &mut select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                names.insert(alias.value.clone());
            }
            SelectItem::UnnamedExpr(expr) => {
                let name = engine_name(expr);
                if names.insert(name.clone()) || is_column(expr) {
                    continue;
                }
                let mut number = 2;
                while !names.insert(format!("{name} {number}")) {
                    number += 1;
                }
                let alias = Ident::with_quote('"', format!("{name} {number}").replace('"', "'"));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            _ => {}
        }
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// What the engine calls an item, as far as it tells items apart: without casts and brackets.
fn engine_name(expr: &Expr) -> String {
    if matches!(expr, Expr::Subquery(_)) {
        return "(<subquery>)".into();
    }
    let mut expr = expr.clone();
    let _ = expr.visit(&mut BracketRemover);
    expr.to_string().to_lowercase().replace(".0", "").replace("- -", "--")
}

struct BracketRemover;

impl VisitorMut for BracketRemover {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let named = match expr {
            Expr::TypedString(constant) => Some(Expr::Value(constant.value.clone())),
            Expr::Substring { expr: value, substring_from, substring_for, .. } => {
                let from = substring_from.as_deref().cloned().unwrap_or_else(|| number(1));
                let rest = substring_for.as_deref().cloned();
                let args = [(**value).clone(), from].into_iter().chain(rest);
                Some(call("substr", args.collect()))
            }
            Expr::BinaryOp { left, op, right } if op.to_string() == "^" => {
                Some(call("power", vec![(**left).clone(), (**right).clone()]))
            }
            Expr::Array(array) => Some(call("make_array", array.elem.clone())),
            _ => None,
        };
        named.into_iter().for_each(|named| *expr = named);
        if let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = expr {
            let inner = std::mem::replace(&mut **inner, Expr::Value(Value::Null.into()));
            *expr = inner;
        }
        ControlFlow::Continue(())
    }
}

/// Refuses `select -x as x … order by x + 0`: PostgreSQL takes the column `x`, the engine the result.
pub(crate) fn check_order(query: &Query) -> Result<()> {
    let (SetExpr::Select(select), Some(order)) = (&*query.body, &query.order_by) else {
        return Ok(());
    };
    let OrderByKind::Expressions(keys) = &order.kind else { return Ok(()) };
    let renamed = renamed_results(select);
    if renamed.is_empty() || keys.iter().all(|key| is_column(&key.expr)) {
        return Ok(());
    }
    let mut read = HashSet::new();
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            read.extend(names_in(expr));
        }
    }
    for key in keys.iter().filter(|key| !is_column(&key.expr)) {
        let names = names_in(&key.expr);
        let wrong = names.iter().find(|name| {
            renamed.contains(*name)
                && (read.contains(*name) || has_column(select, query.with.as_ref(), name))
        });
        if let Some(name) = wrong.filter(|_| !projects(select, &key.expr)) {
            return refuse!(
                "`order by {}` is about the column `{name}` and not the result of that name: name the result differently",
                key.expr
            );
        }
    }
    Ok(())
}

/// Names of results that are no columns of that name.
fn renamed_results(select: &Select) -> HashSet<String> {
    let names = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if !is_column_of(expr, alias) => {
            Some(normal(alias))
        }
        _ => None,
    });
    names.collect()
}

/// Names of columns without a table in an expression.
fn names_in(expr: &Expr) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = sqlparser::ast::visit_expressions(expr, |part| {
        if let Expr::Identifier(name) = part {
            names.insert(normal(name));
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

/// Whether a source of rows is known to have a column of this name.
fn has_column(select: &Select, with: Option<&With>, name: &str) -> bool {
    let sources = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    sources.into_iter().any(|source| {
        columns_of_source(source, with)
            .is_some_and(|columns| columns.iter().any(|column| column == name))
    })
}

fn projects(select: &Select, key: &Expr) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr == key,
        _ => false,
    })
}

/// Whether an expression is the column of this name.
fn is_column_of(expr: &Expr, name: &Ident) -> bool {
    match expr {
        Expr::Identifier(own) => normal(own) == normal(name),
        Expr::CompoundIdentifier(parts) => {
            parts.last().is_some_and(|own| normal(own) == normal(name))
        }
        _ => false,
    }
}

/// Replaces keys of `order by` that repeat an item of a `select distinct` by its place.
pub(crate) fn order_by_place(query: &mut Query) {
    let SetExpr::Select(select) = &*query.body else { return };
    let Some(order) = query.order_by.as_mut().filter(|_| select.distinct.is_some()) else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    for key in keys {
        if is_column(&key.expr) || matches!(key.expr, Expr::Value(_)) {
            continue;
        }
        let place = select.projection.iter().position(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                *expr == key.expr
            }
            _ => false,
        });
        if let Some(place) = place.and_then(|place| i64::try_from(place + 1).ok()) {
            key.expr = number(place);
        }
    }
}

/// Replaces places in the order of an aggregated query by the items there: of an item without a name
/// that computes with aggregates or groups, the engine does not find the place.
pub(crate) fn order_by_item(query: &mut Query, budget: &CopyBudget) -> Result<()> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let Some(order) = query.order_by.as_mut().filter(|_| select.distinct.is_none()) else {
        return Ok(());
    };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return Ok(()) };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(groups, _) => {
            !groups.is_empty() && !groups.iter().any(is_grouping_set)
        }
        GroupByExpr::All(_) => true,
    };
    let aggregates = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            may_aggregate(expr)
        }
        _ => false,
    };
    if !is_grouped && !select.projection.iter().any(aggregates) {
        return Ok(());
    }
    for key in keys {
        let Some(place) = place_of(&key.expr) else { continue };
        match select.projection.get(place) {
            Some(SelectItem::UnnamedExpr(item)) if !is_kept_by_name(item) => {
                budget.copy(item, 1)?;
                key.expr = item.clone();
            }
            _ => {}
        }
    }
    Ok(())
}

/// The index of the item that a place in `order by` means.
fn place_of(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

/// Columns and constants have a name that the engine finds; a volatile item must be computed once, and
/// rows of a list are made once.
fn is_kept_by_name(item: &Expr) -> bool {
    let text = item.to_string().to_lowercase();
    let once = ["random", "uuid", "unnest", "generate_series"];
    is_column(item) || matches!(item, Expr::Value(_)) || once.iter().any(|call| text.contains(call))
}

/// Orders grouping sets, and distinct results of aggregates, by place in a query around them.
pub(crate) fn order_grouped_rows(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return Ok(()) };
    let has_sets = groups.iter().any(is_grouping_set) && select.distinct.is_none();
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind)
    else {
        return Ok(());
    };
    let has = |is_such: fn(&Expr) -> bool| {
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_such(expr),
            _ => false,
        })
    };
    let has_calls = has(|expr| !is_column(expr));
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
    let has_distinct_aggregates = is_distinct && (!groups.is_empty() || has(may_aggregate));
    let is_placed = keys.iter().all(|key| matches!(key.expr, Expr::Value(_)));
    if !(has_sets || has_distinct_aggregates) || !has_calls || !is_placed {
        return Ok(());
    }
    let mut outer = parse_query("select * from (select 1) as grouped_rows")?;
    if let SetExpr::Select(new) = &mut *outer.body
        && let Some(from) = new.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
        std::mem::swap(&mut outer.body, &mut query.body);
    }
    Ok(())
}

fn is_grouping_set(key: &Expr) -> bool {
    matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_))
}
