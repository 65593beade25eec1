//! Rewrites comparisons with subqueries and rows.
//!
//! - `x > all (select x …)`: the engine confuses both `x`, so the subquery's column gets another
//!   name; `= any` is `in`, `<> all` is `not in`.
//! - `exists (…)` and `x in (select …)` in a select list compare counts.
//! - Rows are compared column by column.

use crate::refusal::{Result, refuse};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem,
    SetExpr, TableFactor, UnaryOperator, Value, VisitMut, VisitorMut, visit_expressions,
};

use crate::copy_budget::CopyBudget;
use crate::fragments::{arguments, call, nested};
use crate::membership;
use crate::table_syntax::parse_query;

/// Columns of rows that are compared with `<`, each within the comparison of the one before.
const ORDERED_COLUMNS_MAX: usize = 64;

/// Name of the compared column of a subquery.
const COMPARED: &str = "compared_value";

/// Aggregate that takes the value of the only row.
pub const ONLY_VALUE: &str = "only_value";

/// Makes sure that a subquery that is a value has one row: the engine needs to see that.
fn take_only_value(query: &mut Query) {
    let is_cut = query.limit_clause.is_some() || query.fetch.is_some() || query.order_by.is_some();
    let SetExpr::Select(select) = &mut *query.body else { return };
    if is_cut || !is_plain(select) {
        return;
    }
    let value = match select.projection.as_mut_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] if alias.value == COMPARED => return,
        [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] => value,
        _ => return,
    };
    // The other side of `any` and `all` has many rows.
    if let Expr::Identifier(name) = &*value
        && name.value == COMPARED
    {
        return;
    }
    *value = call(ONLY_VALUE, vec![value.clone()]);
}

/// Rewrites one expression.
pub(crate) fn rewrite(expr: &mut Expr, budget: &CopyBudget) -> Result<()> {
    match expr {
        Expr::Subquery(query) => take_only_value(query),
        Expr::AnyOp { left, compare_op, right, .. } => {
            if let Some(subquery) = subquery(right) {
                *expr = compared(left, compare_op, subquery, true)?;
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            if let Some(subquery) = subquery(right) {
                *expr = compared(left, compare_op, subquery, false)?;
            }
        }
        Expr::BinaryOp { left, op, right } => {
            if let (Some(left), Some(right)) = (row(left), row(right)) {
                *expr = compare_rows(&left, op, &right)?;
            }
        }
        // A row is NULL if all its columns are, and not NULL if none of them is.
        Expr::IsNull(value) => {
            if let Some(columns) = row(value) {
                *expr = each(columns, Expr::IsNull);
            }
        }
        Expr::IsNotNull(value) => {
            if let Some(columns) = row(value) {
                *expr = each(columns, Expr::IsNotNull);
            }
        }
        Expr::IsDistinctFrom(left, right) => {
            if let (Some(left), Some(right)) = (row(left), row(right)) {
                *expr = not(same_rows(&left, &right)?);
            }
        }
        Expr::IsNotDistinctFrom(left, right) => {
            if let (Some(left), Some(right)) = (row(left), row(right)) {
                *expr = same_rows(&left, &right)?;
            }
        }
        Expr::Between { expr: value, negated, low, high } => {
            if let (Some(columns), Some(low), Some(high)) = (row(value), row(low), row(high)) {
                let above = compare_rows(&columns, &BinaryOperator::GtEq, &low)?;
                let below = compare_rows(&columns, &BinaryOperator::LtEq, &high)?;
                let both = binary(above, BinaryOperator::And, below);
                *expr = if *negated { not(both) } else { both };
            }
        }
        Expr::InList { expr: left, list, negated } => {
            if let Some(left) = row(left) {
                left.iter().try_for_each(|column| budget.copy(column, list.len()))?;
                *expr = row_in_list(&left, list, *negated)?;
            }
        }
        Expr::InSubquery { expr: left, subquery, negated } => {
            if let Some(left) = row(left) {
                *expr = row_in_subquery(&left, subquery, *negated)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a test holds for each column.
fn each(columns: Vec<Expr>, test: fn(Box<Expr>) -> Expr) -> Expr {
    let tests = columns.into_iter().map(|column| nested(test(Box::new(column))));
    nested(all_of(tests.collect()))
}

/// Whether each pair of columns is the same, or NULL on both sides.
fn same_rows(left: &[Expr], right: &[Expr]) -> Result<Expr> {
    if left.len() != right.len() {
        return refuse!("rows of {} and of {} columns cannot be compared", left.len(), right.len());
    }
    let pairs = left.iter().zip(right).map(|(left, right)| {
        nested(Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right.clone())))
    });
    Ok(all_of(pairs.collect()))
}

fn all_of(tests: Vec<Expr>) -> Expr {
    let all = combined(tests, &BinaryOperator::And);
    all.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into()))
}

/// The tests joined by an operator, as a tree that is as flat as possible: thousands in a chain would
/// overflow the stack.
fn combined(mut tests: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    while tests.len() > 1 {
        let mut pairs = Vec::with_capacity(tests.len().div_ceil(2));
        let mut rest = tests.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary(left, op.clone(), right),
                None => left,
            });
        }
        tests = pairs;
    }
    tests.pop()
}

fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        // The rows of `array(select …)` are compared one by one.
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("array") => {
            match &function.args {
                FunctionArguments::Subquery(query) => Some(query),
                _ => None,
            }
        }
        _ => None,
    }
}

fn compared(left: &Expr, op: &BinaryOperator, subquery: &Query, is_any: bool) -> Result<Expr> {
    let (left, subquery) = (Box::new(left.clone()), Box::new(subquery.clone()));
    Ok(match (op, is_any) {
        (BinaryOperator::Eq, true) => Expr::InSubquery { expr: left, subquery, negated: false },
        (BinaryOperator::NotEq, false) => Expr::InSubquery { expr: left, subquery, negated: true },
        (op, is_any) => {
            let right = Box::new(Expr::Subquery(renamed(subquery)?));
            let compare_op = op.clone();
            if is_any {
                Expr::AnyOp { left, compare_op, right, is_some: false }
            } else {
                Expr::AllOp { left, compare_op, right }
            }
        }
    })
}

/// The query with another name for its only column.
fn renamed(mut query: Box<Query>) -> Result<Box<Query>> {
    if query.order_by.is_none()
        && let SetExpr::Select(select) = &mut *query.body
        && let [item] = select.projection.as_mut_slice()
        && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
    {
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(COMPARED) };
        return Ok(query);
    }
    let mut outer =
        parse_query(&format!("select {COMPARED} from (select 1) as compared({COMPARED})"))?;
    replace_source(&mut outer, query);
    Ok(outer)
}

/// Replaces the query that `outer` reads from.
fn replace_source(outer: &mut Query, query: Box<Query>) {
    if let SetExpr::Select(select) = &mut *outer.body
        && let Some(TableFactor::Derived { subquery, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
    {
        *subquery = query;
    }
}

/// Columns of a row of at least two.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(columns) if columns.len() > 1 => Some(columns.clone()),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            Some(arguments(function)).filter(|columns| columns.len() > 1)
        }
        _ => None,
    }
}

fn compare_rows(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Expr> {
    if left.len() != right.len() {
        return refuse!("rows of {} and of {} columns cannot be compared", left.len(), right.len());
    }
    let pairs: Vec<_> = left.iter().zip(right).collect();
    let is_ordered = !matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
    if is_ordered && left.len() > ORDERED_COLUMNS_MAX {
        return refuse!(
            "rows of {} columns are compared with `{op}`, the limit is {ORDERED_COLUMNS_MAX}: compare \
             the columns that decide",
            left.len()
        );
    }
    if is_ordered && left.iter().chain(right).any(holds_row) {
        return refuse!("rows within rows cannot be compared with `{op}`");
    }
    match op {
        BinaryOperator::Eq => Ok(joined(&pairs, BinaryOperator::Eq, BinaryOperator::And)),
        BinaryOperator::NotEq => Ok(joined(&pairs, BinaryOperator::NotEq, BinaryOperator::Or)),
        BinaryOperator::Lt | BinaryOperator::LtEq => Ok(ordered(&pairs, op, BinaryOperator::Lt)),
        BinaryOperator::Gt | BinaryOperator::GtEq => Ok(ordered(&pairs, op, BinaryOperator::Gt)),
        other => refuse!("rows cannot be compared with `{other}`"),
    }
}

/// Whether a column has a row in it: columns are copied, and copies in copies would double.
fn holds_row(column: &Expr) -> bool {
    let found = visit_expressions(column, |part| match row(part) {
        Some(_) => std::ops::ControlFlow::Break(()),
        None => std::ops::ControlFlow::Continue(()),
    });
    found.is_break()
}

fn joined(pairs: &[(&Expr, &Expr)], op: BinaryOperator, by: BinaryOperator) -> Expr {
    let all =
        pairs.iter().map(|(left, right)| binary((*left).clone(), op.clone(), (*right).clone()));
    let all = combined(all.collect(), &by);
    nested(all.unwrap_or_else(|| Expr::Value(Value::Null.into())))
}

/// First difference decides: `a < c or (a = c and b < d)`.
fn ordered(pairs: &[(&Expr, &Expr)], last: &BinaryOperator, strict: BinaryOperator) -> Expr {
    let Some(((left, right), rest)) = pairs.split_first() else {
        return Expr::Value(Value::Null.into());
    };
    if rest.is_empty() {
        return binary((*left).clone(), last.clone(), (*right).clone());
    }
    let differs = binary((*left).clone(), strict.clone(), (*right).clone());
    let equals = binary((*left).clone(), BinaryOperator::Eq, (*right).clone());
    let further = binary(equals, BinaryOperator::And, ordered(rest, last, strict));
    nested(binary(differs, BinaryOperator::Or, further))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    nested(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}

fn not(expr: Expr) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) })
}

fn row_in_list(left: &[Expr], list: &[Expr], negated: bool) -> Result<Expr> {
    let rows = list.iter().map(|right| match row(right) {
        Some(right) => compare_rows(left, &BinaryOperator::Eq, &right),
        None => refuse!("a list that a row is searched in has to consist of rows"),
    });
    let any = combined(rows.collect::<Result<Vec<_>>>()?, &BinaryOperator::Or);
    let any = nested(any.unwrap_or_else(|| Expr::Value(Value::Boolean(false).into())));
    Ok(if negated { not(any) } else { any })
}

/// Only where NULL and false are the same; `not in` needs to tell them apart.
fn row_in_subquery(left: &[Expr], subquery: &Query, negated: bool) -> Result<Expr> {
    if negated {
        return refuse!("`not in` with rows and a subquery is not supported: use `not exists`");
    }
    let names: Vec<_> = (1..=left.len()).map(|at| format!("searched_{at}")).collect();
    let sql = format!("select 1 from (select 1) as searched({})", names.join(", "));
    let mut outer = parse_query(&sql)?;
    replace_source(&mut outer, Box::new(subquery.clone()));
    let columns: Vec<_> = names
        .iter()
        .map(|name| Expr::CompoundIdentifier(vec![Ident::new("searched"), Ident::new(name)]))
        .collect();
    if let SetExpr::Select(select) = &mut *outer.body {
        select.selection = Some(compare_rows(&columns, &BinaryOperator::Eq, left)?);
    }
    Ok(Expr::Exists { subquery: outer, negated: false })
}

/// Rewrites `exists` in a select list.
pub(crate) fn rewrite_projection(projection: &mut [SelectItem]) {
    for item in projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && has_exists(expr)
        {
            let alias = Ident::with_quote('"', "exists");
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.visit(&mut ExistsCounter { depth: 0, is_changed: false });
        }
    }
}

fn has_exists(expr: &Expr) -> bool {
    let mut counter = ExistsCounter { depth: 0, is_changed: false };
    let _ = expr.clone().visit(&mut counter);
    counter.is_changed
}

/// Replaces `exists` and `in` outside of nested queries.
struct ExistsCounter {
    depth: usize,
    is_changed: bool,
}

impl VisitorMut for ExistsCounter {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> std::ops::ControlFlow<()> {
        self.depth += 1;
        std::ops::ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> std::ops::ControlFlow<()> {
        self.depth -= 1;
        std::ops::ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if self.depth == 0
            && let Expr::Exists { subquery, negated } = expr
            && let Some(new) = counted(subquery, *negated)
        {
            *expr = new;
            self.is_changed = true;
        }
        if self.depth == 0
            && let Expr::InSubquery { expr: value, subquery, negated } = expr
            && row(value).is_none()
            && let Some(new) = membership::as_value(value, subquery, *negated)
        {
            *expr = new;
        }
        std::ops::ControlFlow::Continue(())
    }
}

/// Whether a query has rows, as a scalar subquery with an aggregate.
fn counted(subquery: &Query, negated: bool) -> Option<Expr> {
    let count = if negated { "count(*) = 0" } else { "count(*) > 0" };
    let mut outer =
        parse_query(&format!("select {count} as has_rows from (select 1) as found")).ok()?;
    let SetExpr::Select(new) = &mut *outer.body else { return None };
    match &*subquery.body {
        SetExpr::Select(select) if is_plain(select) && subquery.limit_clause.is_none() => {
            new.from.clone_from(&select.from);
            new.selection.clone_from(&select.selection);
            outer.with.clone_from(&subquery.with);
        }
        _ => replace_source(&mut outer, Box::new(named_columns(subquery))),
    }
    Some(Expr::Subquery(outer))
}

/// A derived table needs a name for each column; `exists` needs none of them.
fn named_columns(query: &Query) -> Query {
    let mut query = query.clone();
    if let SetExpr::Select(select) = &mut *query.body {
        for (at, item) in select.projection.iter_mut().enumerate() {
            if let SelectItem::UnnamedExpr(expr) = item {
                let alias = Ident::new(format!("column_{at}"));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
    }
    query
}

/// Whether a select has a row for each row that it reads.
fn is_plain(select: &Select) -> bool {
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, modifiers)
        if keys.is_empty() && modifiers.is_empty());
    let is_simple = select.projection.iter().all(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(expr, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        SelectItem::ExprWithAliases { .. } => false,
    });
    is_ungrouped
        && is_simple
        && !select.from.is_empty()
        && select.having.is_none()
        && select.distinct.is_none()
}
