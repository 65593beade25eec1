//! `cross join lateral (select x * 2 as y)`: a subquery without `from` only names expressions, which
//! replace its columns.

use crate::refusal::{Result, SyntaxRefusal};
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Value,
};

use crate::column_substitution::{ColumnSubstitution, normal};
use crate::copy_budget::CopyBudget;
use crate::fragments::nested;

/// Names and expressions of a lateral subquery.
struct NamedExpressions {
    table: Ident,
    columns: Vec<(Ident, Expr)>,
}

/// Replaces the columns of lateral subqueries without `from`.
pub(crate) fn inline(query: &mut Query, budget: &CopyBudget) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let mut names = LateralNames::default();
    for from in &mut select.from {
        from.joins.retain(|join| {
            let named = is_unconditional(&join.join_operator)
                .then(|| named_expressions(&join.relation))
                .flatten();
            names.keeps(named, budget)
        });
    }
    if select.from.len() > 1 {
        let mut is_first = true;
        select.from.retain(|from| {
            let may_go = !std::mem::take(&mut is_first) && from.joins.is_empty();
            let named = may_go.then(|| named_expressions(&from.relation)).flatten();
            names.keeps(named, budget)
        });
    }
    if let Some(refusal) = names.refusal {
        return Err(refusal);
    }
    if names.substitution.is_empty() {
        return Ok(());
    }
    expand_wildcards(&mut select.projection, &names.added, budget)?;
    names.substitution.apply_to_select(select, budget)?;
    match &mut query.order_by {
        Some(order) => names.substitution.apply_to_order(order, select, budget),
        None => Ok(()),
    }
}

/// Columns of the lateral subqueries so far.
#[derive(Default)]
struct LateralNames {
    substitution: ColumnSubstitution,
    added: Vec<NamedExpressions>,
    refusal: Option<SyntaxRefusal>,
}

impl LateralNames {
    /// Adds the columns of a subquery; returns whether the source of rows stays.
    fn keeps(&mut self, named: Option<NamedExpressions>, budget: &CopyBudget) -> bool {
        let Some(mut named) = named.filter(|_| self.refusal.is_none()) else { return true };
        for (name, expr) in &mut named.columns {
            if let Err(refusal) = self.substitution.apply(expr, budget) {
                self.refusal = Some(refusal);
                return true;
            }
            let column = nested(expr.clone());
            self.substitution.add(Some(normal(&named.table)), &normal(name), column.clone());
            self.substitution.add(None, &normal(name), column);
        }
        self.added.push(named);
        false
    }
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
fn expand_wildcards(
    projection: &mut Vec<SelectItem>,
    added: &[NamedExpressions],
    budget: &CopyBudget,
) -> Result<()> {
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
            Some(named) => push_columns(&mut new, named, budget)?,
            None => new.push(item),
        }
        if is_all {
            added.iter().try_for_each(|named| push_columns(&mut new, named, budget))?;
        }
    }
    *projection = new;
    Ok(())
}

fn push_columns(
    projection: &mut Vec<SelectItem>,
    named: &NamedExpressions,
    budget: &CopyBudget,
) -> Result<()> {
    for (alias, expr) in &named.columns {
        budget.copy(expr, 1)?;
        projection
            .push(SelectItem::ExprWithAlias { expr: nested(expr.clone()), alias: alias.clone() });
    }
    Ok(())
}
