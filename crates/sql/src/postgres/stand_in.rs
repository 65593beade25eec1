//! Stand-ins for queries of relations that are always empty: the same columns, with their types,
//! and no rows. Tools use constructs in such queries that the engine lacks.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, GroupByExpr, JoinOperator, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins, Value,
};

use super::catalog::is_empty_relation;
use super::column_names::plain_name;
use super::fragments::name_parts;
use super::relation::null_of_column;
use super::type_names::{internal_name, null_of};

/// Condition of a query without rows.
pub(super) const NO_ROWS: &str = "WHERE false";
pub(super) const AGGREGATES: [&str; 12] = [
    "count",
    "max",
    "min",
    "sum",
    "bool_or",
    "bool_and",
    "array_agg",
    "string_agg",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
];

/// Names of common table expressions without rows, while a statement is rewritten.
#[derive(Default)]
pub(super) struct EmptyTables(Vec<String>);

impl EmptyTables {
    /// Notes the common table expressions of a query that cannot have rows.
    pub(super) fn note(&mut self, query: &Query) {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            if let SetExpr::Select(select) = &*cte.query.body
                && self.has_no_rows(select)
            {
                self.0.push(cte.alias.name.value.to_lowercase());
            }
        }
    }

    /// A query with the columns of `select` and no rows, or one row of an aggregate over none;
    /// `None` if it may have rows.
    pub(super) fn stand_in(&self, select: &Select) -> Option<String> {
        if !select.from.iter().any(|tables| self.joins_nothing(tables)) {
            return None;
        }
        let names: Option<Vec<String>> = select.projection.iter().map(name_of).collect();
        let names = names?;
        let is_one_row = is_aggregate(select);
        let items = select.projection.iter().zip(&names).enumerate().map(|(at, (item, name))| {
            let is_repeated = names[..at].contains(name);
            let name = if is_repeated { format!("{name}{at}") } else { name.clone() };
            format!("{} AS \"{}\"", value_of(item, is_one_row), name.replace('"', "\"\""))
        });
        // `exists (select from t)` selects no columns.
        let items =
            if names.is_empty() { "1".to_owned() } else { items.collect::<Vec<_>>().join(", ") };
        let end = if is_one_row { "" } else { NO_ROWS };
        Some(format!("SELECT {items} {end}").trim_end().to_owned())
    }

    /// Whether a `select` returns no rows.
    fn has_no_rows(&self, select: &Select) -> bool {
        !is_aggregate(select) && select.from.iter().any(|tables| self.joins_nothing(tables))
    }

    /// Whether an empty relation is joined in a way that leaves no rows.
    fn joins_nothing(&self, tables: &TableWithJoins) -> bool {
        let inner = tables.joins.iter().filter(|join| is_inner(&join.join_operator));
        let mut relations = inner.map(|join| &join.relation).chain([&tables.relation]);
        relations.any(|relation| self.is_empty(relation))
    }

    fn is_empty(&self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                let parts = name_parts(name);
                is_empty_relation(&parts) || parts.len() == 1 && self.0.contains(&parts[0])
            }
            TableFactor::Derived { subquery, .. } => match &*subquery.body {
                SetExpr::Select(select) => self.has_no_rows(select),
                _ => false,
            },
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.joins_nothing(table_with_joins)
            }
            _ => false,
        }
    }
}

fn is_inner(operator: &JoinOperator) -> bool {
    matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
}

/// Whether all columns are aggregates of all rows.
fn is_aggregate(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(expressions, _) => !expressions.is_empty(),
        GroupByExpr::All(_) => true,
    };
    !is_grouped
        && select.projection.iter().all(|item| match expression_of(item) {
            Some(Expr::Function(function)) => {
                function.over.is_none()
                    && name_parts(&function.name)
                        .last()
                        .is_some_and(|name| AGGREGATES.contains(&name.as_str()))
            }
            _ => false,
        })
}

fn expression_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Name of a column; `None` for `*`.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(plain_name(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    }
}

/// The value of a column: a NULL of its type, or 0 for a count.
fn value_of(item: &SelectItem, is_one_row: bool) -> String {
    let Some(expr) = expression_of(item) else { return "NULL".to_owned() };
    let is_count = matches!(expr, Expr::Function(function)
        if name_parts(&function.name).last().is_some_and(|name| name == "count"));
    if is_one_row && is_count {
        return "CAST(0 AS BIGINT)".to_owned();
    }
    null(expr)
}

fn cast(kind: &str) -> String {
    format!("CAST(NULL AS {kind})")
}

/// A NULL of an expression's type; text where it is unknown.
fn null(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => of_column(&ident.value),
        Expr::CompoundIdentifier(idents) => {
            idents.last().map_or_else(|| cast("TEXT"), |ident| of_column(&ident.value))
        }
        Expr::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            // Of `_pg_expandarray`: the number of an item.
            Some(AccessExpr::Dot(Expr::Identifier(field))) if field.value == "n" => cast("INT"),
            Some(AccessExpr::Dot(Expr::Identifier(field))) if field.value == "x" => {
                cast("SMALLINT")
            }
            _ => cast("TEXT"),
        },
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => null(inner),
        Expr::Cast { data_type, .. } => {
            let kind = null_of(&internal_name(data_type)).unwrap_or("TEXT");
            let is_list = data_type.to_string().ends_with("[]");
            if is_list { cast(&format!("{kind}[]")) } else { cast(kind) }
        }
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) if text.contains('.') => cast("NUMERIC"),
            Value::Number(..) => cast("INT"),
            Value::Boolean(_) => cast("BOOLEAN"),
            // In a union, the other side has the type.
            Value::Null => "NULL".to_owned(),
            _ => cast("TEXT"),
        },
        Expr::Function(_) => of_function(expr),
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
            first_known(results)
        }
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => {
                let item = select.projection.first().and_then(expression_of);
                item.map_or_else(|| cast("TEXT"), null)
            }
            _ => cast("TEXT"),
        },
        Expr::BinaryOp { left, op, right } => of_operator(left, op, right),
        Expr::UnaryOp { expr: inner, .. } => null(inner),
        Expr::Array(_) => cast("TEXT[]"),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Exists { .. } => cast("BOOLEAN"),
        _ => cast("TEXT"),
    }
}

fn of_column(name: &str) -> String {
    null_of_column(&name.to_lowercase()).unwrap_or_else(|| cast("TEXT"))
}

/// The first NULL that is not of an untyped NULL.
fn first_known<'a>(mut results: impl Iterator<Item = &'a Expr>) -> String {
    let known = results
        .find(|expr| !matches!(expr, Expr::Value(value) if matches!(value.value, Value::Null)));
    known.map_or_else(|| cast("TEXT"), null)
}

fn of_operator(left: &Expr, op: &BinaryOperator, right: &Expr) -> String {
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::BitwiseAnd
        | BinaryOperator::BitwiseOr
        | BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight => first_known([left, right].into_iter()),
        BinaryOperator::StringConcat => cast("TEXT"),
        _ => cast("BOOLEAN"),
    }
}

fn of_function(expr: &Expr) -> String {
    let Expr::Function(function) = expr else { return cast("TEXT") };
    let name = name_parts(&function.name).pop().unwrap_or_default();
    let first = arguments(expr);
    match name.as_str() {
        "count" | "row_number" | "rank" | "dense_rank" => cast("BIGINT"),
        name if name.ends_with("_size") => cast("BIGINT"),
        "array_agg" | "array" | "string_to_array" | "array_remove" => cast("TEXT[]"),
        "bool_or" | "bool_and" | "every" => cast("BOOLEAN"),
        name if name.starts_with("has_") || name.ends_with("_is_visible") => cast("BOOLEAN"),
        "array_length"
        | "array_upper"
        | "array_lower"
        | "cardinality"
        | "length"
        | "position"
        | "generate_subscripts" => cast("INT"),
        "max" | "min" | "sum" | "coalesce" | "nullif" | "greatest" | "least" | "unnest" => {
            first_known(first.into_iter())
        }
        _ => cast("TEXT"),
    }
}

fn arguments(expr: &Expr) -> Vec<&Expr> {
    use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    let Expr::Function(function) = expr else { return Vec::new() };
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let arguments = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    arguments.collect()
}
