//! Sums of `bigint` within quotients, which are `numeric` in PostgreSQL: they are renamed, and the step that
//! knows types makes fractions of them. Sums that a query names, and another may divide, are marked.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor, UnaryOperator, Visit, Visitor,
};

/// Name of the aggregate that stands for a sum within a quotient.
pub const NUMERIC_SUM: &str = "numeric_sum";

/// Name of the aggregate that stands for a sum that a query names.
pub const NAMED_SUM: &str = "named_sum";

/// Names of the aggregates that stand for extremes of such sums within a quotient.
pub const NAMED_EXTREMES: [&str; 2] = ["named_max", "named_min"];

/// Functions that give one of their arguments.
const CHOICES: [&str; 5] = ["abs", "coalesce", "greatest", "least", "nullif"];

/// Whether a statement divides, and all its rows come from tables. Constants are `integer` in
/// PostgreSQL, whose sum is whole, and `bigint` here.
pub(crate) fn divides_rows_of_tables(statement: &Statement) -> bool {
    Visit::visit(statement, &mut Quotients).is_break()
        && Visit::visit(statement, &mut OwnRows).is_continue()
}

/// Breaks at a quotient.
struct Quotients;

impl Visitor for Quotients {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { op: BinaryOperator::Divide, .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Breaks at rows of constants.
struct OwnRows;

impl Visitor for OwnRows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match *query.body {
            SetExpr::Values(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::UNNEST { .. }
            | TableFactor::Function { .. }
            | TableFactor::Table { args: Some(_), .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function)
                if has_name(&function.name, &["generate_series", "unnest"]) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn has_name(name: &ObjectName, names: &[&str]) -> bool {
    match name.0.as_slice() {
        [part] => part
            .as_ident()
            .is_some_and(|ident| names.iter().any(|name| ident.value.eq_ignore_ascii_case(name))),
        _ => false,
    }
}

/// Renames sums, and extremes, that a quotient divides, or divides by.
pub(crate) fn rename(left: &mut Expr, right: &mut Expr) {
    for side in [left, right] {
        for_each_aggregate(side, &mut |call| {
            let [max, min] = NAMED_EXTREMES;
            for (own, new) in [("sum", NUMERIC_SUM), ("max", max), ("min", min)] {
                if has_name(&call.name, &[own]) {
                    call.name = name(new);
                }
            }
        });
    }
}

/// Renames sums of columns that have a name, by which a query around this one may divide them.
pub(crate) fn mark_named(items: &mut [SelectItem]) {
    for item in items {
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            for_each_aggregate(expr, &mut |call| {
                if has_name(&call.name, &["sum"]) && arguments(call).any(has_column) {
                    call.name = name(NAMED_SUM);
                }
            });
        }
    }
}

fn name(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

fn arguments(function: &mut Function) -> impl Iterator<Item = &mut Expr> {
    let arguments = match &mut function.args {
        FunctionArguments::List(list) => list.args.as_mut_slice(),
        _ => &mut [],
    };
    arguments.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// Visits aggregates whose type is that of the whole.
fn for_each_aggregate(expr: &mut Expr, visit: &mut impl FnMut(&mut Function)) {
    match expr {
        Expr::Nested(inner) => for_each_aggregate(inner, visit),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            for_each_aggregate(expr, visit);
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply,
            right,
        } => {
            for_each_aggregate(left, visit);
            for_each_aggregate(right, visit);
        }
        Expr::Function(function) if has_name(&function.name, &["sum", "max", "min"]) => {
            visit(function);
        }
        Expr::Function(function) if has_name(&function.name, &CHOICES) => {
            for value in arguments(function) {
                for_each_aggregate(value, visit);
            }
        }
        _ => {}
    }
}

/// Whether the type of an expression is that of a column: numbers are `integer` in PostgreSQL.
fn has_column(expr: &mut Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) => has_column(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => has_column(expr),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply,
            right,
        } => has_column(left) || has_column(right),
        Expr::Case { conditions, else_result, .. } => {
            let mut results = conditions.iter_mut().map(|when| &mut when.result);
            results.any(has_column) || else_result.as_deref_mut().is_some_and(has_column)
        }
        Expr::Function(function) if has_name(&function.name, &["count"]) => true,
        Expr::Function(function) if has_name(&function.name, &CHOICES) => {
            arguments(function).any(has_column)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::tests::rewritten;

    #[test]
    fn sums_within_quotients_of_rows_of_tables_are_renamed() {
        for (sql, expected) in [
            ("select sum(a) / sum(b) from t", "numeric_sum(a) / numeric_sum(b)"),
            ("select 100 * sum(a) / nullif(sum(b), 0) from t", "100 * numeric_sum(a) / nullif("),
            ("select (sum(a) - 1) / 2, sum(c) from t", "(numeric_sum(a) - 1) / 2, sum(c)"),
            ("select n / sum(n) over () from t", "n / numeric_sum(n) OVER ()"),
            ("select max(a) / (1 + min(b)) from t", "named_max(a) / (1 + named_min(b))"),
        ] {
            let found = rewritten(sql);
            assert!(found.contains(expected), "{sql}: {found}");
        }
        for sql in [
            "select sum(a) * 2 from t",
            "select sum(a) / 2 from (values (1)) t(a)",
            "select sum(a) / 2 from generate_series(1, 3) a",
            "with v as (select unnest(array[1]) as a) select sum(a) / 2 from v",
            "select length(sum(a)::text) / 2 from t",
        ] {
            assert!(!rewritten(sql).contains("numeric_sum"), "{sql}");
        }
    }

    #[test]
    fn sums_of_columns_are_marked_where_a_query_names_them() {
        for (sql, expected) in [
            ("select a / b from (select sum(a) as a, 1 as b from t) s", "named_sum(a) AS a"),
            ("select a / 2 from (select coalesce(sum(n.a + 1), 0) as a from n) s", "named_sum(n.a"),
            ("select a / 2 from (select sum(case when b then a end) as a from t) s", "named_sum("),
            ("select a / 2 from (select sum(a) over () as a from t) s", "named_sum(a) OVER"),
        ] {
            let found = rewritten(sql);
            assert!(found.contains(expected), "{sql}: {found}");
        }
        for sql in [
            "select a + 2 from (select sum(a) as a from t) s",
            "select a / 2 from (select sum(1) as a from t) s",
            "select a / 2 from (select sum(case when b then 1 else 0 end) as a from t) s",
            "select a / 2 from (select sum(a) as a from (values (1)) t(a)) s",
            "select a / 2 from (select max(a) as a from t) s",
        ] {
            assert!(!rewritten(sql).contains("named_sum"), "{sql}");
        }
    }
}
