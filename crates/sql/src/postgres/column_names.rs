//! Names of result columns as PostgreSQL gives them: `count` for `count(*)`, `?column?` for `1 + 1`.
//!
//! Source: `FigureColname` in PostgreSQL's `parse_target.c`. The names are put on the result, since the
//! engine refuses two columns of one name within a plan; only subqueries in `from` get aliases.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TrimWhereField, Value,
};
use weir_tables::{TABLES, VIEWS};

use super::fragments::name_parts;
use super::type_names::internal_name;

/// Name of an expression without one.
const UNNAMED: &str = "?column?";

/// Name of a result column, or the columns of `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputName {
    Column(String),
    Wildcard,
}

/// Names of a query's columns; `None` for other statements.
pub(super) fn output_names(statement: &Statement) -> Option<Vec<OutputName>> {
    match statement {
        Statement::Query(query) => Some(names_of(&query.body)?),
        _ => None,
    }
}

fn names_of(body: &SetExpr) -> Option<Vec<OutputName>> {
    match body {
        SetExpr::Select(select) => Some(select.projection.iter().map(name_of_item).collect()),
        SetExpr::Query(query) => names_of(&query.body),
        SetExpr::SetOperation { left, .. } => names_of(left),
        _ => None,
    }
}

fn name_of_item(item: &SelectItem) -> OutputName {
    match item {
        SelectItem::UnnamedExpr(expr) => OutputName::Column(figured(expr).name),
        SelectItem::ExprWithAlias { alias, .. } => OutputName::Column(folded(alias)),
        _ => OutputName::Wildcard,
    }
}

/// A schema with these names.
pub(crate) fn renamed(schema: &SchemaRef, names: &[OutputName]) -> SchemaRef {
    let width = schema.fields().len();
    let wildcards = names.iter().filter(|name| **name == OutputName::Wildcard).count();
    let named = names.len() - wildcards;
    if wildcards == 0 && named != width || named > width {
        return Arc::clone(schema);
    }
    let mut new: Vec<Option<&String>> = vec![None; width];
    // Names before the first `*` count from the left, those after the last from the right.
    for (place, name) in new.iter_mut().zip(names) {
        let OutputName::Column(name) = name else { break };
        *place = Some(name);
    }
    if wildcards > 0 {
        for (place, name) in new.iter_mut().rev().zip(names.iter().rev()) {
            let OutputName::Column(name) = name else { break };
            *place = Some(name);
        }
    }
    let fields = schema.fields().iter().zip(new).map(|(field, name)| match name {
        Some(name) => Arc::new(Field::clone(field).with_name(name)),
        None => Arc::clone(field),
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A name and how sure it is: PostgreSQL prefers that of a function to that of a cast around it.
struct FiguredName {
    name: String,
    is_sure: bool,
}

fn sure(name: impl Into<String>) -> FiguredName {
    FiguredName { name: name.into(), is_sure: true }
}

fn unsure(name: impl Into<String>) -> FiguredName {
    FiguredName { name: name.into(), is_sure: false }
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn figured(expr: &Expr) -> FiguredName {
    match expr {
        Expr::Identifier(ident) => sure(folded(ident)),
        Expr::CompoundIdentifier(idents) => {
            idents.last().map_or(unsure(UNNAMED), |last| sure(folded(last)))
        }
        Expr::CompoundFieldAccess { root, access_chain } => figured_access(root, access_chain),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map_or(unsure(UNNAMED), |name| sure(folded(name)))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figured(inner),
        Expr::Cast { expr: inner, data_type, .. } => or_type(figured(inner), data_type),
        Expr::TypedString(typed) => unsure(internal_name(&typed.data_type)),
        Expr::Interval(_) => unsure("interval"),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(figured) {
            Some(name) if name.is_sure => name,
            _ => unsure("case"),
        },
        Expr::Subquery(query) => match names_of(&query.body).as_deref() {
            Some([OutputName::Column(name)]) if name != UNNAMED => sure(name.clone()),
            _ => unsure(UNNAMED),
        },
        Expr::Exists { .. } => sure("exists"),
        Expr::Array(_) => sure("array"),
        Expr::Tuple(_) => sure("row"),
        Expr::Extract { .. } => sure("extract"),
        Expr::Ceil { .. } => sure("ceil"),
        Expr::Floor { .. } => sure("floor"),
        Expr::Position { .. } => sure("position"),
        Expr::Substring { .. } => sure("substring"),
        Expr::Overlay { .. } => sure("overlay"),
        Expr::AtTimeZone { .. } => sure("timezone"),
        Expr::Trim { trim_where, .. } => sure(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => unsure(UNNAMED),
    }
}

fn or_type(
    inner: FiguredName,
    data_type: &datafusion::sql::sqlparser::ast::DataType,
) -> FiguredName {
    if inner.is_sure { inner } else { unsure(internal_name(data_type)) }
}

/// Name of `x[1]` or `(x).y`.
fn figured_access(root: &Expr, chain: &[AccessExpr]) -> FiguredName {
    let dots = chain.iter().rev().find_map(|access| match access {
        AccessExpr::Dot(Expr::Identifier(ident)) => Some(folded(ident)),
        _ => None,
    });
    dots.map_or_else(|| figured(root), sure)
}

/// Makes names of unnamed columns usable within the statement: in `order by` and `group by`, and
/// outside of a subquery.
pub(super) fn resolve(statement: &mut Statement) {
    if let Statement::Query(query) = statement {
        resolve_query(query, QueryPlace::Outermost);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueryPlace {
    Outermost,
    /// In `from` or `with`: others refer to its columns.
    Inner,
}

fn resolve_query(query: &mut Query, place: QueryPlace) {
    for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        resolve_query(&mut cte.query, QueryPlace::Inner);
    }
    let has_order = query.order_by.is_some();
    if let (Some(names), Some(order)) = (functions_of(&query.body), &mut query.order_by)
        && let OrderByKind::Expressions(expressions) = &mut order.kind
    {
        expressions.iter_mut().for_each(|one| by_number(&mut one.expr, &names));
    }
    resolve_body(&mut query.body, place, has_order);
}

fn resolve_body(body: &mut SetExpr, place: QueryPlace, has_order: bool) {
    match body {
        SetExpr::Select(select) => resolve_select(select, place, has_order),
        SetExpr::Query(query) => resolve_query(query, place),
        SetExpr::SetOperation { left, right, .. } => {
            resolve_body(left, place, has_order);
            resolve_body(right, place, has_order);
        }
        _ => {}
    }
}

fn resolve_select(select: &mut Select, place: QueryPlace, has_order: bool) {
    for tables in &mut select.from {
        resolve_factor(&mut tables.relation);
        tables.joins.iter_mut().for_each(|join| resolve_factor(&mut join.relation));
    }
    if let (Some(names), GroupByExpr::Expressions(expressions, _)) =
        (function_names(select), &mut select.group_by)
    {
        expressions.iter_mut().for_each(|expr| by_number(expr, &names));
    }
    match place {
        QueryPlace::Inner => alias_all(select, has_order),
        QueryPlace::Outermost => tell_repeated_apart(&mut select.projection),
    }
}

fn resolve_factor(factor: &mut TableFactor) {
    match factor {
        TableFactor::Derived { subquery, .. } => resolve_query(subquery, QueryPlace::Inner),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            resolve_factor(&mut table_with_joins.relation);
            let joins = table_with_joins.joins.iter_mut();
            joins.for_each(|join| resolve_factor(&mut join.relation));
        }
        _ => {}
    }
}

/// Names of unnamed columns that are calls of functions, by place; `None` with a `*`, which has an
/// unknown number of columns.
fn function_names(select: &Select) -> Option<Vec<Option<String>>> {
    let names = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => Some(None),
        SelectItem::UnnamedExpr(expr) => {
            Some(Some(figured(expr).name).filter(|name| name != UNNAMED && !is_column(name)))
        }
        SelectItem::ExprWithAlias { .. } => Some(None),
        _ => None,
    });
    names.collect()
}

fn functions_of(body: &SetExpr) -> Option<Vec<Option<String>>> {
    match body {
        SetExpr::Select(select) => function_names(select),
        SetExpr::Query(query) => functions_of(&query.body),
        SetExpr::SetOperation { left, .. } => functions_of(left),
        _ => None,
    }
}

/// Whether a table of weir has a column of this name.
fn is_column(name: &str) -> bool {
    let views = VIEWS.iter().map(|view| &view.table);
    let mut specs = TABLES.iter().copied().chain(views);
    specs.any(|spec| spec.columns.iter().any(|column| column.name == name))
}

/// Replaces a name of an unnamed column by the column's number.
fn by_number(expr: &mut Expr, names: &[Option<String>]) {
    let Expr::Identifier(ident) = expr else { return };
    let name = folded(ident);
    let mut places = names.iter().enumerate().filter(|(_, own)| own.as_ref() == Some(&name));
    if let (Some((at, _)), None) = (places.next(), places.next()) {
        let number = Value::Number((at + 1).to_string(), false);
        *expr = Expr::Value(number.into());
    }
}

/// Gives the columns of a subquery their names, where they are unique.
fn alias_all(select: &mut Select, has_order: bool) {
    let names: Vec<OutputName> = select.projection.iter().map(name_of_item).collect();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let OutputName::Column(name) = &names[at] else { continue };
        let is_plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_repeated = names.iter().filter(|other| **other == names[at]).count() > 1;
        let has_wildcard = names.contains(&OutputName::Wildcard);
        // The engine cannot order by a column whose name is that of another expression.
        let is_hidden = is_column(name) && has_order;
        if is_plain || is_repeated || has_wildcard || is_hidden || name == UNNAMED {
            continue;
        }
        let alias = Ident::with_quote('"', name.clone());
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// Gives columns that are selected twice names of their own, which the result does not show.
fn tell_repeated_apart(projection: &mut [SelectItem]) {
    let has_wildcard = projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let wild = qualified_wildcards(projection);
    let mut seen: Vec<String> = Vec::new();
    for (at, item) in projection.iter_mut().enumerate() {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) => expr,
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = folded(alias);
                if seen.contains(&name) {
                    let alias = hidden(&name, at);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                } else {
                    seen.push(name);
                }
                continue;
            }
            _ => continue,
        };
        let text = expr.to_string();
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let table = text.rsplit_once('.').map_or("", |(table, _)| table);
        let is_in_wildcard = is_column && (has_wildcard || wild.iter().any(|own| own == table));
        if seen.contains(&text) || is_in_wildcard {
            let alias = hidden(&text, at);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        } else {
            seen.push(text);
        }
    }
}

/// Tables of `table.*`.
fn qualified_wildcards(projection: &[SelectItem]) -> Vec<String> {
    let tables = projection.iter().filter_map(|item| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Some(name.to_string())
        }
        _ => None,
    });
    tables.collect()
}

fn hidden(name: &str, at: usize) -> Ident {
    Ident::with_quote('"', format!("{name} ({})", at + 1))
}

/// Name of an expression in the last part, for stand-ins.
pub(super) fn plain_name(expr: &Expr) -> String {
    match expr {
        Expr::Function(function) => name_parts(&function.name).pop().unwrap_or_default(),
        expr => figured(expr).name,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;
    use datafusion::sql::sqlparser::parser::Parser;
    use weir_dialect::PostgresSyntax;

    use super::*;

    fn names(sql: &str) -> Vec<String> {
        let mut statements = Parser::parse_sql(&PostgresSyntax, sql).expect(sql);
        let names = output_names(&statements.remove(0)).expect("a query");
        let names = names.into_iter().map(|name| match name {
            OutputName::Column(name) => name,
            OutputName::Wildcard => "*".to_owned(),
        });
        names.collect()
    }

    #[test]
    fn columns_are_named_as_postgresql_15_names_them() {
        for (sql, expected) in [
            ("select version()", &["version"][..]),
            ("select count(*), Count(1), pg_catalog.max(x) from t", &["count", "count", "max"]),
            ("select 1, 1 + 1, -x, 'a' || b, $1, null, true", &["?column?"; 7]),
            ("select t.host::text, HOST, \"Host\" from t", &["host", "host", "Host"]),
            ("select '1'::int, 1::bigint, '{1}'::int[]", &["int4", "int8", "int4"]),
            ("select 1::numeric(10, 2), 'a'::character varying(3)", &["numeric", "varchar"]),
            ("select now()::date, (max(ts))::timestamptz", &["now", "max"]),
            ("select date '2026-11-21', interval '1 day'", &["date", "interval"]),
            ("select timestamp with time zone '2026-11-21 00:00:00+00'", &["timestamptz"]),
            (
                "select coalesce(host, 'x'), nullif(a, b), greatest(1, 2)",
                &["coalesce", "nullif", "greatest"],
            ),
            ("select case when true then 1 end, case when a then b else c end", &["case", "c"]),
            ("select case when a then 1 else 2 end::text", &["text"]),
            ("select array[1], row(1, 2), exists (select 1)", &["array", "row", "exists"]),
            (
                "select (select 1), (select max(x) from t), (select a as b)",
                &["?column?", "max", "b"],
            ),
            ("select extract(epoch from ts), date_trunc('day', ts)", &["extract", "date_trunc"]),
            (
                "select trim(x), trim(leading 'a' from x), substring(x from 1)",
                &["btrim", "ltrim", "substring"],
            ),
            ("select sum(x) over (), count(*) filter (where a)", &["sum", "count"]),
            (
                "select current_user, current_date, current_schema",
                &["current_user", "current_date", "current_schema"],
            ),
            ("select attrs['a'], (x).y, a[1]", &["attrs", "y", "a"]),
            (
                "select ts at time zone 'UTC', a is null, a in (1), a like 'b'",
                &["timezone", "?column?", "?column?", "?column?"],
            ),
            ("select *, 1 from t", &["*", "?column?"]),
            ("(select a as x) union all select b", &["x"]),
            ("with t as (select 1) select count(*) as \"N\" from t", &["N"]),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
        }
    }

    #[test]
    fn names_are_put_on_the_columns_around_a_wildcard() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field("a"), field("b"), field("c"), field("d")]));
        let column = |name: &str| OutputName::Column(name.to_owned());
        for (names, expected) in [
            (vec![column("x"), OutputName::Wildcard, column("y")], "x b c y"),
            (vec![OutputName::Wildcard], "a b c d"),
            (vec![OutputName::Wildcard, column("y"), OutputName::Wildcard], "a b c d"),
            (vec![column("x"); 4], "x x x x"),
            (vec![column("x"); 3], "a b c d"),
        ] {
            let renamed = renamed(&schema, &names);
            let found: Vec<&str> =
                renamed.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(found.join(" "), expected, "{names:?}");
        }
    }
}
