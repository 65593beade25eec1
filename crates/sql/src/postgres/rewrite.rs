//! Rewrites statements of PostgreSQL's tools to SQL that the engine supports.
//!
//! Tools query the catalog with names, operators and types that the engine lacks. Most of these
//! queries involve relations that are always empty here (`pg_policy`, `pg_inherits`, …): a `select`
//! that joins one of them is replaced by one without rows before anything else in it is examined.
//! Statements about rows pass unchanged.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
    visit_expressions,
};
use datafusion::sql::sqlparser::parser::Parser;
use weir_dialect::PostgresSyntax;

use super::catalog::is_catalog;
use super::fragments::query;
use super::functions::{NAME_OF_CLASS, OID_OF_CLASS};
use super::stand_in::{AGGREGATES, EmptyTables, NO_ROWS};

/// Rewrites a statement in place.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut Rewriter::default());
}

#[derive(Default)]
struct Rewriter {
    empty: EmptyTables,
}

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.empty.note(query);
        if empty_out(&self.empty, &mut query.body) {
            (query.order_by, query.limit_clause) = (None, None);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        drop_doubled(&mut select.projection);
        tell_apart(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        qualify_wildcards(select);
        ControlFlow::Continue(())
    }

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let parts = parts(relation);
        match parts.as_slice() {
            [name] if is_catalog(name) => {
                relation.0.insert(0, ObjectNamePart::Identifier(Ident::new("pg_catalog")));
            }
            [schema, name] if schema == "pg_catalog" && !is_catalog(name) => {
                relation.0.remove(0);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            // Grafana queries the schemas of the search path this way.
            Expr::InSubquery { subquery, expr: inner, negated } if is_search_path(subquery) => {
                let not = if *negated { "NOT " } else { "" };
                let sql = format!("{inner} {not}IN ('public')");
                replace(expr, sql);
            }
            Expr::Function(function) if is_array_of(function) => {
                if let FunctionArguments::Subquery(subquery) = &function.args
                    && is_of_catalog(subquery)
                {
                    let sql = array_of(&self.empty, subquery);
                    replace(expr, sql);
                }
            }
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => keep_rows(right),
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                if let Expr::Subquery(subquery) = &**right
                    && let Some(name) = namespace_name(subquery)
                {
                    let sql = format!(
                        "(SELECT nspname FROM pg_catalog.pg_namespace WHERE oid = {left}) = {name}"
                    );
                    replace(expr, sql);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                let parts = parts(&function.name);
                if parts.len() == 2 && parts[0] == "pg_catalog" {
                    function.name.0.remove(0);
                }
                if matches!(function.args, FunctionArguments::None) && is_user(&parts) {
                    replace(expr, "'weir'");
                }
            }
            Expr::Collate { expr: inner, .. } => *expr = (**inner).clone(),
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(names) = op
                    && let Some(known) = names.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
            }
            Expr::Cast { expr: inner, data_type, .. } => {
                if let Some(sql) = cast(inner, &data_type.to_string()) {
                    replace(expr, sql);
                }
            }
            Expr::Exists { subquery, negated } if is_without_rows(subquery) => {
                *expr = Expr::Value(Value::Boolean(*negated).into());
            }
            Expr::Subquery(subquery) if is_without_rows(subquery) => {
                *expr = Expr::Value(Value::Null.into());
            }
            Expr::Subquery(subquery) => match value_of(subquery) {
                Some(value) => *expr = Expr::Nested(Box::new(value)),
                None => at_most_one_row(subquery),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn parts(name: &ObjectName) -> Vec<String> {
    name.0
        .iter()
        .filter_map(|part| part.as_ident().map(|ident| ident.value.to_lowercase()))
        .collect()
}

fn is_user(parts: &[String]) -> bool {
    let names = ["current_user", "session_user", "user", "current_role", "current_catalog"];
    parts.len() == 1 && names.contains(&parts[0].as_str())
}

/// Replaces an expression with the parsed `sql`; keeps it if that does not parse.
fn replace(expr: &mut Expr, sql: impl AsRef<str>) {
    let parser = Parser::new(&PostgresSyntax).try_with_sql(sql.as_ref());
    if let Ok(new) = parser.and_then(|mut parser| parser.parse_expr()) {
        *expr = new;
    }
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "=" => BinaryOperator::Eq,
        "@>" => BinaryOperator::AtArrow,
        "<@" => BinaryOperator::ArrowAt,
        "&&" => BinaryOperator::PGOverlap,
        "<>" | "!=" => BinaryOperator::NotEq,
        _ => return None,
    })
}

/// Function that a constant `::regnamespace` becomes.
const OID_OF_NAMESPACE: &str = "to_regnamespace";

/// Rewrites a cast to a type that the engine lacks.
fn cast(inner: &Expr, data_type: &str) -> Option<String> {
    let name = data_type.to_lowercase().replace('"', "");
    let plain = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    // The type of one byte; `char` without quotes is another.
    if data_type.contains("\"char\"") {
        let is_array = plain.ends_with("[]");
        let cast = format!("CAST({inner} AS TEXT{})", if is_array { "[]" } else { "" });
        return Some(if is_array { cast } else { format!("left({cast}, 1)") });
    }
    Some(match plain {
        "regclass" if is_name(inner) => format!("{OID_OF_CLASS}({inner})"),
        "regclass" => format!("{NAME_OF_CLASS}({inner})"),
        // TypeORM joins the quoted names of schema and type.
        "regtype" if is_joined(inner) => format!("format_type(to_regtype({inner}), NULL)"),
        "regtype" if !is_name(inner) => format!("format_type({inner}, NULL)"),
        "oid" if let Some(named) = argument_of(NAME_OF_CLASS, inner) => {
            format!("{OID_OF_CLASS}({named})")
        }
        // As an OID it is compared; as a text it is the name again.
        "regnamespace" if is_name(inner) => format!("{OID_OF_NAMESPACE}({inner})"),
        "text" | "varchar" | "name" if let Some(named) = argument_of(OID_OF_NAMESPACE, inner) => {
            format!("CAST({named} AS TEXT)")
        }
        "oid" | "xid" | "cid" => format!("CAST({inner} AS BIGINT)"),
        "regtype" | "regproc" | "regprocedure" | "regnamespace" | "regrole" | "name"
        | "cstring" => {
            format!("CAST({inner} AS TEXT)")
        }
        plain if plain.len() < name.len() => format!("CAST({inner} AS {plain})"),
        _ => return None,
    })
}

/// The only argument of a call of this function, such as of one that a cast became.
fn argument_of<'a>(function_name: &str, expr: &'a Expr) -> Option<&'a Expr> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(named))]
            if parts(&function.name) == [function_name] =>
        {
            Some(named)
        }
        _ => None,
    }
}

fn is_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if !is_number(&value.value))
}

/// Whether a text is joined of parts.
fn is_joined(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_joined(inner),
        Expr::BinaryOp { op, .. } => *op == BinaryOperator::StringConcat,
        _ => false,
    }
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Number(..))
}

/// Whether a subquery takes the search path apart, as Grafana does.
fn is_search_path(subquery: &Query) -> bool {
    subquery.to_string().to_lowercase().contains("generate_series(array_lower(string_to_array(")
}

/// Whether a query reads the catalog, whose arrays have no items here.
fn is_of_catalog(query: &Query) -> bool {
    let text = query.to_string().to_lowercase();
    ["pg_", "information_schema"].iter().any(|name| text.contains(name))
}

/// Whether a function is `array(select …)`.
fn is_array_of(function: &Function) -> bool {
    parts(&function.name) == ["array"]
}

/// An empty array for a subquery without rows, else the rows aggregated to an array. Arrays in the
/// catalog have no items.
fn array_of(empty: &EmptyTables, subquery: &Query) -> String {
    let mut subquery = subquery.clone();
    let is_of_array = subquery.to_string().to_lowercase().contains(" from pg_catalog.unnest(");
    if is_of_array || empty_out(empty, &mut subquery.body) {
        return "make_array()".into();
    }
    if let SetExpr::Select(select) = &mut *subquery.body
        && let [SelectItem::UnnamedExpr(item)] = select.projection.as_mut_slice()
    {
        let sql = format!("array_agg({item})");
        replace(item, sql);
        subquery.order_by = None;
    }
    format!("({subquery})")
}

/// Replaces a query that cannot return rows by an empty one; returns whether it did.
fn empty_out(empty: &EmptyTables, body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let Some(sql) = empty.stand_in(select) else { return false };
            let Some(new) = query(&sql) else { return false };
            *body = *new.body;
            true
        }
        SetExpr::SetOperation { left, right, .. } => {
            // Evaluate both sides: each may have to be rewritten.
            let (left, right) = (empty_out(empty, left), empty_out(empty, right));
            left && right
        }
        _ => false,
    }
}

fn name_of_expr(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(idents) => {
            idents.last().map_or_else(String::new, |ident| ident.value.clone())
        }
        Expr::Cast { expr, .. } => name_of_expr(expr),
        Expr::Function(function) => parts(&function.name).pop().unwrap_or_default(),
        _ => "?column?".to_owned(),
    }
}

/// Gives `t.*` the schema of `from s.t`: the engine knows the table by its whole name only.
fn qualify_wildcards(select: &mut Select) {
    let relations = select.from.iter().flat_map(|tables| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    });
    let whole: Vec<ObjectName> = relations
        .filter_map(|relation| match relation {
            TableFactor::Table { name, alias: None, .. } if name.0.len() > 1 => Some(name.clone()),
            _ => None,
        })
        .collect();
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) =
            item
            && let [_] = name.0.as_slice()
            && let Some(whole) =
                whole.iter().find(|whole| parts(whole).last() == parts(name).last())
        {
            *name = whole.clone();
        }
    }
}

/// Drops duplicates: `n.oid, n.*` selects a column twice, which the engine refuses. `n.*` is
/// enough, since tools read columns by name.
fn drop_doubled(projection: &mut Vec<SelectItem>) {
    let wild: Vec<String> = projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                Some(name.to_string())
            }
            _ => None,
        })
        .collect();
    projection.retain(|item| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) if idents.len() == 2 => {
            !wild.contains(&idents[0].to_string())
        }
        _ => true,
    });
}

/// Adds aliases to columns of the same name, such as `1, 1::int`, which the engine refuses.
fn tell_apart(projection: &mut [SelectItem]) {
    let mut seen: Vec<String> = Vec::new();
    for (at, item) in projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let mut inner = &*expr;
        while let Expr::Cast { expr, .. } = inner {
            inner = expr;
        }
        let text = inner.to_string();
        if seen.contains(&text) {
            let name = format!("{}_{}", name_of_expr(expr), at + 1);
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        seen.push(text);
    }
}

fn is_without_rows(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Select(select) if select.from.is_empty())
        && query.to_string().ends_with(NO_ROWS)
}

/// The column `x` of `(select oid from pg_namespace where nspname = x)`: compared by name, a subquery refers to the query
/// around it and to no other, as gorm's does.
fn namespace_name(subquery: &Query) -> Option<String> {
    let SetExpr::Select(select) = &*subquery.body else { return None };
    let [SelectItem::UnnamedExpr(Expr::Identifier(item))] = select.projection.as_slice() else {
        return None;
    };
    let [tables] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, alias: None, args: None, .. } = &tables.relation else {
        return None;
    };
    let Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) = &select.selection else {
        return None;
    };
    let (Expr::Identifier(column), Expr::CompoundIdentifier(outer)) = (&**left, &**right) else {
        return None;
    };
    let is_plain = item.value == "oid"
        && column.value == "nspname"
        && parts(name).last().is_some_and(|name| name == "pg_namespace")
        && tables.joins.is_empty()
        && subquery.limit_clause.is_none();
    is_plain.then(|| Expr::CompoundIdentifier(outer.clone()).to_string())
}

/// Keeps a subquery whose rows are compared from becoming its value: `x = any (select 2)`.
fn keep_rows(compared: &mut Expr) {
    if let Expr::Subquery(subquery) = compared
        && let SetExpr::Select(select) = &mut *subquery.body
        && select.from.is_empty()
    {
        select.selection.get_or_insert(Expr::Value(Value::Boolean(true).into()));
    }
}

/// The value of a subquery without a source of rows: `(select f(x))` is `f(x)`.
fn value_of(subquery: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = &*subquery.body else { return None };
    let is_bare = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && subquery.with.is_none()
        && subquery.limit_clause.is_none();
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    (is_bare && !changes_rows(value)).then(|| value.clone())
}

/// Whether an expression has a call that makes one row of many, or many of one.
fn changes_rows(value: &Expr) -> bool {
    let many = ["unnest", "generate_series", "avg", "every", "regexp_split_to_table"];
    let found = visit_expressions(value, |part| match part {
        Expr::Function(function)
            if function.over.is_some()
                || parts(&function.name).last().is_some_and(|name| {
                    AGGREGATES.contains(&name.as_str()) || many.contains(&name.as_str())
                }) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Adds a limit of one row: the engine requires proof that a scalar subquery over the catalog
/// returns one value.
fn at_most_one_row(subquery: &mut Query) {
    let SetExpr::Select(select) = &mut *subquery.body else { return };
    let is_of_catalog = !select.from.is_empty() && select.from.iter().all(reads_catalog);
    let [SelectItem::UnnamedExpr(item)] = select.projection.as_mut_slice() else { return };
    let name = name_of_expr(item);
    if is_of_catalog && !AGGREGATES.contains(&name.as_str()) && subquery.limit_clause.is_none() {
        let sql = format!("max({item})");
        replace(item, sql);
    }
}

fn reads_catalog(tables: &TableWithJoins) -> bool {
    match &tables.relation {
        TableFactor::Table { name, .. } => parts(name).first().is_some_and(|s| s == "pg_catalog"),
        _ => false,
    }
}
