//! Parses parts of statements that rewrites put in place of others.

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// An expression from its text; `None` if it does not parse.
pub(super) fn expression(sql: &str) -> Option<Expr> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?;
    parser.parse_expr().ok()
}

/// A query from its text; `None` if it does not parse.
pub(super) fn query(sql: &str) -> Option<Box<Query>> {
    Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?.parse_query().ok()
}

/// Parts of a name in lower case.
pub(super) fn name_parts(name: &ObjectName) -> Vec<String> {
    let idents = name.0.iter().filter_map(|part| part.as_ident());
    idents.map(|ident| ident.value.to_lowercase()).collect()
}
