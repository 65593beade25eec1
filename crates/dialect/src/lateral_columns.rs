//! `cross join lateral (select x * 2 as y)`: a subquery without `from` only names expressions, which
//! replace its columns.

use crate::refusal::Result;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Value,
};

use crate::column_substitution::{ColumnSubstitution, normal};
use crate::fragments::nested;

/// Names and expressions of a lateral subquery.
struct NamedExpressions {
    table: Ident,
    columns: Vec<(Ident, Expr)>,
}

/// Replaces the columns of lateral subqueries without `from`.
pub(crate) fn inline(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let mut substitution = ColumnSubstitution::default();
    let mut added = Vec::new();
    for from in &mut select.from {
        from.joins.retain(|join| {
            let named = is_unconditional(&join.join_operator)
                .then(|| named_expressions(&join.relation))
                .flatten();
            take(named, &mut substitution, &mut added)
        });
    }
    if select.from.len() > 1 {
        let mut is_first = true;
        select.from.retain(|from| {
            let may_go = !std::mem::take(&mut is_first) && from.joins.is_empty();
            let named = may_go.then(|| named_expressions(&from.relation)).flatten();
            take(named, &mut substitution, &mut added)
        });
    }
    if substitution.is_empty() {
        return Ok(());
    }
    expand_wildcards(&mut select.projection, &added);
    substitution.apply_to_select(select);
    if let Some(order) = &mut query.order_by {
        substitution.apply_to_order(order, select);
    }
    Ok(())
}

/// Adds the columns to the substitution; returns whether the source of rows stays.
fn take(
    named: Option<NamedExpressions>,
    substitution: &mut ColumnSubstitution,
    added: &mut Vec<NamedExpressions>,
) -> bool {
    let Some(mut named) = named else { return true };
    for (name, expr) in &mut named.columns {
        substitution.apply(expr);
        let column = nested(expr.clone());
        substitution.add(Some(normal(&named.table)), &normal(name), column.clone());
        substitution.add(None, &normal(name), column);
    }
    added.push(named);
    false
}

fn is_unconditional(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => match constraint {
            JoinConstraint::On(Expr::Value(value)) => value.value == Value::Boolean(true),
            _ => false,
        },
        _ => false,
    }
}

fn named_expressions(relation: &TableFactor) -> Option<NamedExpressions> {
    let TableFactor::Derived { lateral: true, subquery, alias: Some(alias), .. } = relation else {
        return None;
    };
    let is_simple =
        subquery.with.is_none() && subquery.order_by.is_none() && subquery.limit_clause.is_none();
    let SetExpr::Select(select) = &*subquery.body else { return None };
    if !is_simple || !only_names(select) {
        return None;
    }
    let mut columns = Vec::new();
    for (at, item) in select.projection.iter().enumerate() {
        let (expr, own) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            SelectItem::UnnamedExpr(expr) => match expr {
                Expr::Identifier(name) => (expr, Some(name.clone())),
                Expr::CompoundIdentifier(parts) => (expr, parts.last().cloned()),
                _ => (expr, None),
            },
            _ => return None,
        };
        let name = alias.columns.get(at).map(|column| column.name.clone()).or(own)?;
        columns.push((name, expr.clone()));
    }
    Some(NamedExpressions { table: alias.name.clone(), columns })
}

/// Whether a select has one row, made of expressions without aggregates.
fn only_names(select: &Select) -> bool {
    let is_ungrouped =
        matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let has_call = select.projection.iter().any(|item| match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => {
            may_aggregate(expr)
        }
        _ => true,
    });
    select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && is_ungrouped
        && !has_call
}

/// Functions that make one row of many or many rows of one.
const ROW_CHANGING: [&str; 14] = [
    "count(",
    "sum(",
    "avg(",
    "min(",
    "max(",
    "unnest(",
    "generate_series(",
    "_agg(",
    "bool_",
    "random(",
    "over (",
    "percentile",
    "exists",
    "select ",
];

/// Whether an expression may make one row of many, judged by its text.
pub(crate) fn may_aggregate(expr: &Expr) -> bool {
    let text = expr.to_string().to_lowercase();
    ROW_CHANGING.iter().any(|call| text.contains(call))
}

/// `*` has the columns too, and so has `l.*`.
fn expand_wildcards(projection: &mut Vec<SelectItem>, added: &[NamedExpressions]) {
    let mut new = Vec::with_capacity(projection.len());
    for item in projection.drain(..) {
        let of_table = match &item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = name.to_string().to_lowercase();
                added.iter().find(|named| normal(&named.table) == name)
            }
            _ => None,
        };
        let is_all = matches!(item, SelectItem::Wildcard(_));
        match of_table {
            Some(named) => push_columns(&mut new, named),
            None => new.push(item),
        }
        if is_all {
            added.iter().for_each(|named| push_columns(&mut new, named));
        }
    }
    *projection = new;
}

fn push_columns(projection: &mut Vec<SelectItem>, named: &NamedExpressions) {
    projection.extend(named.columns.iter().map(|(alias, expr)| SelectItem::ExprWithAlias {
        expr: nested(expr.clone()),
        alias: alias.clone(),
    }));
}
