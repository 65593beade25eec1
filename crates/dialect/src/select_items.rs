//! Items of a select list and the keys that repeat them.
//!
//! - Items may have equal names in PostgreSQL; the engine refuses two, and calls `x` and `x::int` alike.
//! - `select distinct f(x) … order by f(x)` becomes `order by 1`.
//! - `order by 1` of grouping sets is about the grouped rows, as `select * from (…) order by 1`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value,
    VisitMut, VisitorMut,
};

use crate::fragments::number;
use crate::refusal::{Result, refuse};
use crate::table_syntax::parse_query;

/// Refuses `select 'a' 'b'`, whose second text would be the name of the first.
pub(crate) fn check_aliases(select: &Select) -> Result<()> {
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && alias.quote_style == Some('\'')
        {
            return refuse!("a name is in double quotes, not in `'`: {alias}");
        }
    }
    Ok(())
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
        if let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = expr {
            let inner = std::mem::replace(&mut **inner, Expr::Value(Value::Null.into()));
            *expr = inner;
        }
        ControlFlow::Continue(())
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

/// Orders grouping sets by place in a query around them.
pub(crate) fn order_grouped_rows(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return Ok(()) };
    let has_sets = groups
        .iter()
        .any(|key| matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)));
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind)
    else {
        return Ok(());
    };
    let has_calls = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => !is_column(expr),
        _ => false,
    });
    let is_placed = keys.iter().all(|key| matches!(key.expr, Expr::Value(_)));
    if !has_sets || !has_calls || !is_placed || select.distinct.is_some() {
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
