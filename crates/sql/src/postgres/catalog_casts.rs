//! Types that only PostgreSQL has: `inet` and `xml` are text here, and a function in the catalog is an
//! OID that is shown as its name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CaseWhen, DataType, Expr, Ident, Query, SelectItem, SetExpr,
    Statement, TableAlias, TableFactor, TimezoneInfo, Value, VisitMut, VisitorMut,
};

use super::catalog::type_name;
use super::connect_functions::{NAME_OF_FUNCTION, type_oid};
use super::fragments::{expression, name_parts, query};
use super::relation::{DataTypeKind, function_oid, is_function_column, kind_of_catalog_column};
use super::settings::ClientSettings;
use super::type_names::internal_name;

/// Rewrites the types of a statement.
pub(super) fn rewrite(statement: &mut Statement, settings: &ClientSettings) {
    if let Statement::Query(whole) = statement {
        show_functions(whole);
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
                if shown_type(expr).is_some() =>
            {
                shown_type(expr).into_iter().for_each(|shown| *expr = shown);
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
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [.., last] = name_parts(name).as_slice()
            && last == "pg_settings"
            && let Some(subquery) = query(&self.settings.relation())
        {
            let alias = alias.clone().unwrap_or_else(|| TableAlias {
                explicit: true,
                name: Ident::new(last.as_str()),
                columns: Vec::new(),
                at: None,
            });
            *factor =
                TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
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
            Expr::Case { operand: Some(operand), conditions, .. } => {
                flags_as_texts(operand, conditions);
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right } => {
                as_type_oid(left, right);
                as_type_oid(right, left);
                unpadded(left, right);
                unpadded(right, left);
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
        "regtype" if matches!(data_type, DataType::Array(_)) => array_of_types(&literal(inner)?),
        "regtype" => number(type_oid(&literal(inner)?)?),
        "text" | "varchar" | "name" if is_function(inner) => {
            expression(&format!("{NAME_OF_FUNCTION}({inner})"))
        }
        _ => None,
    }
}

/// `'{int,text}'::regtype[]` as an array of OIDs.
fn array_of_types(text: &str) -> Option<Expr> {
    let names = text.strip_prefix('{')?.strip_suffix('}')?.split(',');
    let oids: Option<Vec<String>> =
        names.map(|name| type_oid(name.trim()).map(|oid| oid.to_string())).collect();
    expression(&format!("make_array({})", oids?.join(", ")))
}

/// A type's name as a result: `select 'int4'::regtype` is `integer`.
fn shown_type(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return None };
    let is_type = internal_name(data_type) == "regtype" && !matches!(data_type, DataType::Array(_));
    let oid = is_type.then(|| literal(inner)).flatten().and_then(|name| type_oid(&name))?;
    type_name(i64::from(oid)).map(|name| text(&name))
}

/// Compares flags with flags: `case attnotnull when 't' then …`, and `attidentity <> ''::char` as texts.
fn flags_as_texts(operand: &Expr, conditions: &mut [CaseWhen]) {
    if column_kind(operand) != Some(DataTypeKind::Boolean) {
        return;
    }
    for when in conditions {
        let flag = match literal(&when.condition).as_deref() {
            Some("t" | "true") => true,
            Some("f" | "false") => false,
            _ => continue,
        };
        when.condition = Expr::Value(Value::Boolean(flag).into());
    }
}

/// An OID that is compared with a type: `prorettype::regtype <> 'trigger'::regtype`.
fn as_type_oid(expr: &mut Expr, other: &Expr) {
    let is_number = matches!(other, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    if let Expr::Cast { expr: inner, data_type, .. } = expr
        && is_number
        && internal_name(data_type) == "regtype"
    {
        let inner = std::mem::replace(&mut **inner, Expr::Value(Value::Null.into()));
        *expr = inner;
    }
}

/// A cast to `char` beside a column of the catalog, whose texts of one letter are not padded.
fn unpadded(column: &Expr, other: &mut Expr) {
    if let Expr::Cast { data_type, .. } = other
        && matches!(data_type, DataType::Char(None) | DataType::Character(None))
        && column_kind(column) == Some(DataTypeKind::Text)
    {
        *data_type = DataType::Text;
    }
}

/// Kind of a column of the catalog; `None` for other expressions.
fn column_kind(expr: &Expr) -> Option<DataTypeKind> {
    let last = match expr {
        Expr::Identifier(ident) => ident,
        Expr::CompoundIdentifier(idents) => idents.last()?,
        Expr::Nested(inner) => return column_kind(inner),
        _ => return None,
    };
    kind_of_catalog_column(&last.value.to_lowercase())
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
        let texts = ["uuid", "json", "jsonb", "regtype", "regclass", "regproc", "regprocedure"];
        if texts.contains(&internal_name(item).as_str()) {
            **item = DataType::Text;
        }
        return plain_type(item);
    }
    match data_type.to_string().to_lowercase().strip_prefix("information_schema.") {
        Some("cardinal_number") => *data_type = DataType::Integer(None),
        Some("time_stamp") => *data_type = DataType::Timestamp(None, TimezoneInfo::Tz),
        Some(_) => *data_type = DataType::Text,
        None => {}
    }
    let texts = ["citext", "unknown", "inet", "cidr", "macaddr", "xml"];
    if texts.contains(&internal_name(data_type).as_str()) {
        *data_type = DataType::Text;
    }
}
