//! Parses parts of statements that rewrites put in place of others.

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query};
use datafusion::sql::sqlparser::parser::Parser;
use weir_dialect::PostgresSyntax;

/// An expression from its text; `None` if it does not parse.
pub(super) fn expression(sql: &str) -> Option<Expr> {
    let mut parser = Parser::new(&PostgresSyntax).try_with_sql(sql).ok()?;
    parser.parse_expr().ok()
}

/// A query from its text; `None` if it does not parse.
pub(super) fn query(sql: &str) -> Option<Box<Query>> {
    Parser::new(&PostgresSyntax).try_with_sql(sql).ok()?.parse_query().ok()
}

/// Parts of a name in lower case.
pub(super) fn name_parts(name: &ObjectName) -> Vec<String> {
    let idents = name.0.iter().filter_map(|part| part.as_ident());
    idents.map(|ident| ident.value.to_lowercase()).collect()
}
