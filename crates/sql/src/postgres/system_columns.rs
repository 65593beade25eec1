//! System columns of the catalog's rows, which `select *` does not have: `xmin`, `ctid`, `tableoid`.
//!
//! Source: PostgreSQL's manual, section "System Columns". Rows of the catalog never change here, so they
//! all are of the first transaction.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SetExpr,
    Statement, TableFactor, VisitMut, VisitorMut,
};

use super::catalog::is_catalog_relation;
use super::fragments::{expression, name_parts};

/// Names, and the value in each row.
const COLUMNS: [(&str, &str); 5] = [
    ("xmin", "CAST(1 AS BIGINT)"),
    ("xmax", "CAST(0 AS BIGINT)"),
    ("cmin", "0"),
    ("cmax", "0"),
    ("ctid", "'(0,1)'"),
];

/// Replaces the system columns of a statement by their values.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut Finder);
}

/// Finds queries of the catalog.
struct Finder;

impl VisitorMut for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = &*query.body else { return ControlFlow::Continue(()) };
        let sources = catalog_sources(select);
        if !sources.is_empty() {
            let _ = query.visit(&mut SystemColumns { sources });
        }
        ControlFlow::Continue(())
    }
}

/// Names by which a query calls relations of the catalog.
fn catalog_sources(select: &Select) -> Vec<String> {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let names = factors.filter_map(|factor| match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let parts = name_parts(name);
            let own = parts.last().filter(|_| is_catalog_relation(&parts))?.clone();
            Some(alias.as_ref().map_or(own, |alias| alias.name.value.to_lowercase()))
        }
        _ => None,
    });
    names.collect()
}

struct SystemColumns {
    sources: Vec<String>,
}

impl SystemColumns {
    /// The value of a column; `None` if it is none of the system's.
    fn value(&self, source: Option<&Ident>, column: &Ident) -> Option<Expr> {
        let is_known = source.is_none_or(|source| {
            self.sources.iter().any(|own| own.eq_ignore_ascii_case(&source.value))
        });
        let (_, value) = COLUMNS.iter().find(|(name, _)| *name == column.value.to_lowercase())?;
        expression(value).filter(|_| is_known)
    }
}

impl SystemColumns {
    /// Whether the argument of a function is the number of a transaction.
    fn is_transaction(&self, function: &Function) -> bool {
        let FunctionArguments::List(list) = &function.args else { return false };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else {
            return false;
        };
        match argument {
            Expr::Identifier(column) => self.value(None, column).is_some(),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., source, column] => self.value(Some(source), column).is_some(),
                _ => false,
            },
            Expr::Cast { data_type, .. } => data_type.to_string().to_lowercase().ends_with("xid"),
            _ => false,
        }
    }
}

impl VisitorMut for SystemColumns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && name_parts(&function.name).last().is_some_and(|name| name == "age")
            && self.is_transaction(function)
            && let Some(age) = expression("1")
        {
            *expr = age;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let new = match expr {
            Expr::Identifier(column) => self.value(None, column),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., source, column] => self.value(Some(source), column),
                _ => None,
            },
            _ => None,
        };
        new.into_iter().for_each(|new| *expr = new);
        ControlFlow::Continue(())
    }
}
