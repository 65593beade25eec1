//! Sums of `bigint` within quotients, which are `numeric` in PostgreSQL: they are renamed, and the step that
//! knows types makes fractions of them. Sums that a query names, and another may divide, are marked.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    UnaryOperator, Value, Visit, Visitor,
};

use crate::fragments::{call, number};

/// Name of the aggregate that stands for a sum within a quotient.
pub const NUMERIC_SUM: &str = "numeric_sum";

/// Name of the aggregate that stands for a sum that a query names.
pub const NAMED_SUM: &str = "named_sum";

/// Names of the aggregates that stand for extremes of such sums within a quotient.
pub const NAMED_EXTREMES: [&str; 2] = ["named_max", "named_min"];

/// Name of the function that gives its first argument, whose type is made of those of the others, or
/// is that of a constant without any.
pub const NAMED_VALUE: &str = "named_value";

/// Aggregates that make an integer, by all their names.
const AGGREGATES: [&str; 7] = {
    let [max, min] = NAMED_EXTREMES;
    ["count", "sum", "max", "min", NAMED_SUM, max, min]
};

/// Most columns and aggregates that make the type of an item.
const PARTS_MAX: usize = 16;

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

/// Breaks at a query.
struct Queries;

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Breaks at rows of numbers that are no table's.
struct OwnRows;

impl Visitor for OwnRows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match &*query.body {
            SetExpr::Values(rows)
                if rows.rows.iter().any(|row| row.content.iter().any(is_of_numbers)) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Table { args: Some(args), .. } if is_series_of_times(&args.args) => {
                ControlFlow::Continue(())
            }
            TableFactor::UNNEST { .. }
            | TableFactor::Function { .. }
            | TableFactor::Table { args: Some(_), .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let is_of_times = matches!(&function.args, FunctionArguments::List(list)
            if is_series_of_times(&list.args));
        if has_name(&function.name, &["generate_series", "unnest"]) && !is_of_times {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Whether the step of a series is an interval.
fn is_series_of_times(args: &[FunctionArg]) -> bool {
    args.iter().any(|arg| {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else { return false };
        match arg {
            Expr::Interval(_) => true,
            Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
            _ => false,
        }
    })
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
        for_each_aggregate(side, &mut |aggregate| {
            let [max, min] = NAMED_EXTREMES;
            rename_to(aggregate, [("sum", NUMERIC_SUM), ("max", max), ("min", min)]);
        });
    }
}

/// Marks items that have a name, by which a query around this one may divide them: sums and extremes
/// of columns are renamed, and what is made of them carries them along.
pub(crate) fn mark_named(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { expr, .. } = item else { continue };
        for_each_aggregate(expr, &mut |aggregate| {
            if arguments(aggregate).any(has_column) {
                let [max, min] = NAMED_EXTREMES;
                rename_to(aggregate, [("sum", NAMED_SUM), ("max", max), ("min", min)]);
            }
        });
        // Keys of `distinct`, `group by` and `order by` are compared with the items.
        if select.distinct.is_some() || keys.contains(expr) {
            continue;
        }
        let mut parts = Vec::new();
        for_each_part(expr, &mut |part| parts.push(part.clone()));
        let is_constant = parts.is_empty() && is_of_numbers(expr);
        let is_part = matches!(parts.as_slice(), [part] if part == expr);
        if !keys.is_empty() {
            parts.retain(|part| matches!(part, Expr::Function(_)));
        }
        // A copied query would double with each level around it.
        if parts.iter().any(|part| Visit::visit(part, &mut Queries).is_break()) {
            continue;
        }
        if is_constant || !is_part && (1..=PARTS_MAX).contains(&parts.len()) {
            let value = std::mem::replace(expr, number(0));
            *expr = call(NAMED_VALUE, [vec![value], parts].concat());
        }
    }
}

fn rename_to(call: &mut Function, names: [(&str, &str); 3]) {
    if let Some((_, new)) = names.iter().find(|(own, _)| has_name(&call.name, &[own])) {
        call.name = name(new);
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
fn for_each_aggregate(expr: &mut Expr, visit: &mut dyn FnMut(&mut Function)) {
    for_each_part(expr, &mut |part| match part {
        Expr::Function(function) => visit(function),
        Expr::Subquery(query) => {
            if let Some(item) = only_item(query) {
                for_each_aggregate(item, visit);
            }
        }
        _ => {}
    });
}

/// Visits columns, subqueries and aggregates whose type is that of the whole.
fn for_each_part(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match expr {
        Expr::Nested(inner) => for_each_part(inner, visit),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            for_each_part(expr, visit);
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply,
            right,
        } => {
            for_each_part(left, visit);
            for_each_part(right, visit);
        }
        Expr::Case { conditions, else_result, .. } => {
            for when in conditions {
                for_each_part(&mut when.result, visit);
            }
            if let Some(expr) = else_result {
                for_each_part(expr, visit);
            }
        }
        Expr::Function(function) if has_name(&function.name, &CHOICES) => {
            for value in arguments(function) {
                for_each_part(value, visit);
            }
        }
        Expr::Function(function) if has_name(&function.name, &AGGREGATES) => visit(expr),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => visit(expr),
        _ => {}
    }
}

/// Whether an expression is made of numbers that are written out.
fn is_of_numbers(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..) | Value::Null),
        Expr::Nested(inner)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_of_numbers(inner)
        }
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter().all(|when| is_of_numbers(&when.result))
                && else_result.as_deref().is_none_or(is_of_numbers)
        }
        _ => false,
    }
}

/// What a subquery that gives one value selects.
fn only_item(query: &mut Query) -> Option<&mut Expr> {
    let SetExpr::Select(select) = &mut *query.body else { return None };
    match select.projection.as_mut_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr),
        _ => None,
    }
}

/// Whether the type of an expression is that of a column: numbers are `integer` in PostgreSQL.
fn has_column(expr: &mut Expr) -> bool {
    let mut is_found = false;
    for_each_part(expr, &mut |_| is_found = true);
    is_found
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
            ("select (select sum(a) from t) / 2", "(SELECT numeric_sum(a) FROM t) / 2"),
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
            (
                "select a / 2 from (select coalesce(sum(n.a + 1), 0) as a from n group by b) s",
                "named_value(coalesce(named_sum(n.a + 1), 0), named_sum(n.a + 1)) AS a",
            ),
            (
                "with s as (select a + 1 as b, c as d from t) select b / d from s",
                "SELECT named_value(a + 1, a) AS b, c AS d",
            ),
            ("select b / 2 from (select max(a) as b from t) s", "named_max(a) AS b"),
            (
                "with b as (select generate_series(min(a), max(a), interval '1 h') as h from t) \
                 select c / 2 from b join (select a, sum(c) as c from t group by a) s on a = h",
                "named_sum(c)",
            ),
            (
                "select a / 2 from (values ('x')) v(b) join (select b, sum(a) as a from t group by b) s using (b)",
                "named_sum(a)",
            ),
            (
                "select sum(b) / 2 from (select case when a then 1 else 0 end as b from t) s",
                "named_value(CASE WHEN a THEN 1 ELSE 0 END) AS b",
            ),
            ("select a / 2 from (select sum(case when b then a end) as a from t) s", "named_sum("),
            ("select a / 2 from (select sum(a) over () as a from t) s", "named_sum(a) OVER"),
        ] {
            let found = rewritten(sql);
            assert!(found.contains(expected), "{sql}: {found}");
        }
        for sql in [
            "select a + 2 from (select sum(a) as a from t) s",
            "select a / 2 from (select sum(1) as a from t) s",
            "select a / 2 from (select case b when 1 then 2 end as a from t group by case b when 1 then 2 end) s",
            "select a / 2 from (select sum(case when b then 1 else 0 end) as a from t) s",
            "select a / 2 from (select sum(a) as a from (values (1)) t(a)) s",
            "select b / 2 from (select a + 1 as b from t group by a) s",
            "select coalesce((select a from t), 0) as b, a / 2 from t",
        ] {
            assert!(!rewritten(sql).contains("named_"), "{sql}");
        }
    }
}
