//! Types that only PostgreSQL has: `inet` and `xml` are text here, and a function in the catalog is an
//! OID that is shown as its name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, Query, SelectItem, SetExpr, Statement,
    TableFactor, Value, VisitMut, VisitorMut,
};

use super::connect_functions::NAME_OF_FUNCTION;
use super::fragments::{expression, name_parts};
use super::relation::{function_oid, is_function_column};
use super::settings::ClientSettings;
use super::type_names::internal_name;

/// Rewrites the types of a statement.
pub(super) fn rewrite(statement: &mut Statement, settings: &ClientSettings) {
    if let Statement::Query(query) = statement {
        show_functions(query);
    }
    let _ = statement.visit(&mut CatalogCasts { settings });
}

/// Shows columns of functions by name, and series as rows. Only in the result: elsewhere functions
/// are joined as OIDs.
fn show_functions(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                if is_function(expr) =>
            {
                show_function(expr);
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                if is_series(expr) =>
            {
                if let Some(rows) = expression(&format!("unnest({expr})")) {
                    *expr = rows;
                }
            }
            _ => {}
        }
    }
}

fn show_function(expr: &mut Expr) {
    if let Some(shown) = expression(&format!("{NAME_OF_FUNCTION}({expr})")) {
        *expr = shown;
    }
}

/// Whether an expression is a series, which gives a row for each value.
fn is_series(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    function.name.to_string().eq_ignore_ascii_case("generate_series")
}

/// Whether an expression is a column with OIDs of functions.
fn is_function(expr: &Expr) -> bool {
    let last = match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(idents) => idents.last(),
        _ => None,
    };
    last.is_some_and(|ident| is_function_column(&ident.value.to_lowercase()))
}

struct CatalogCasts<'a> {
    settings: &'a ClientSettings,
}

impl VisitorMut for CatalogCasts<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        // A function without arguments that is a relation here.
        if let TableFactor::Table { name, args, .. } = factor
            && name_parts(name).last().is_some_and(|name| name == "pg_get_keywords")
        {
            *args = None;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr: inner, data_type, .. } => {
                if let Some(new) = cast(inner, data_type) {
                    *expr = new;
                } else {
                    plain_type(data_type);
                }
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right } => {
                if is_function(left) {
                    as_oid(right);
                } else if is_function(right) {
                    as_oid(left);
                }
            }
            Expr::Identifier(ident)
                if ident.quote_style.is_none()
                    && ident.value.eq_ignore_ascii_case("current_schema") =>
            {
                *expr = text(self.settings.schema());
            }
            // OID of the relation that a row is in, which tools compare with that of `pg_class`.
            Expr::CompoundIdentifier(idents)
                if idents.last().is_some_and(|ident| ident.value == "tableoid") =>
            {
                *expr = Expr::Value(Value::Number("1259".to_owned(), false).into());
            }
            Expr::Function(function) => {
                if let Some(value) = self.settings.value_of_call(function) {
                    *expr = value;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

/// A cast that concerns functions of the catalog.
fn cast(inner: &Expr, data_type: &DataType) -> Option<Expr> {
    let name = internal_name(data_type);
    match name.as_str() {
        "regproc" | "regprocedure" => match literal(inner) {
            Some(function) => number(function_oid(&function)),
            None => expression(&format!("{NAME_OF_FUNCTION}({inner})")),
        },
        "text" | "varchar" | "name" if is_function(inner) => {
            expression(&format!("{NAME_OF_FUNCTION}({inner})"))
        }
        _ => None,
    }
}

fn number(oid: u32) -> Option<Expr> {
    Some(Expr::Value(Value::Number(oid.to_string(), false).into()))
}

fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    }
}

/// Replaces the name of a function by its OID.
fn as_oid(expr: &mut Expr) {
    if let Some(oid) = literal(expr).and_then(|name| number(function_oid(&name))) {
        *expr = oid;
    }
}

/// Replaces a type that is text here.
fn plain_type(data_type: &mut DataType) {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type {
        if ["oid", "xid", "cid"].contains(&internal_name(item).as_str()) {
            **item = DataType::BigInt(None);
        }
        if ["uuid", "json", "jsonb"].contains(&internal_name(item).as_str()) {
            **item = DataType::Text;
        }
        return plain_type(item);
    }
    let texts = ["citext", "unknown", "inet", "cidr", "macaddr", "xml"];
    if texts.contains(&internal_name(data_type).as_str()) {
        *data_type = DataType::Text;
    }
}
