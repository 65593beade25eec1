//! Sums of `bigint` within quotients, which are `numeric` in PostgreSQL: they are renamed, and the step that
//! knows types makes fractions of them.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Query, SetExpr, Statement, TableFactor, UnaryOperator, Visit, Visitor,
};

/// Name of the aggregate that stands for a sum within a quotient.
pub const NUMERIC_SUM: &str = "numeric_sum";

/// Functions that give one of their arguments.
const CHOICES: [&str; 5] = ["abs", "coalesce", "greatest", "least", "nullif"];

/// Whether all rows of a statement come from tables. Constants are `integer` in PostgreSQL, whose sum is
/// whole, and `bigint` here.
pub(crate) fn reads_tables_only(statement: &Statement) -> bool {
    Visit::visit(statement, &mut OwnRows).is_continue()
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

/// Renames sums that a quotient divides, or divides by.
pub(crate) fn rename(left: &mut Expr, right: &mut Expr) {
    rename_sums(left);
    rename_sums(right);
}

fn rename_sums(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => rename_sums(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => rename_sums(expr),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply,
            right,
        } => rename(left, right),
        Expr::Function(function) if has_name(&function.name, &["sum"]) => {
            function.name = ObjectName::from(vec![Ident::new(NUMERIC_SUM)]);
        }
        Expr::Function(function) if has_name(&function.name, &CHOICES) => {
            let FunctionArguments::List(list) = &mut function.args else { return };
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                    rename_sums(expr);
                }
            }
        }
        _ => {}
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
}
