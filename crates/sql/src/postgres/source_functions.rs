//! Functions as sources of rows: `select * from current_schema()` has one row with one column, which is
//! called like the function or its alias.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    FunctionArg, Ident, ObjectName, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use super::fragments::{name_parts, query};
use super::{connect_functions, functions};

/// Replaces calls of functions that return one value by queries of that value.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut SourceFunctions);
}

/// Names of the functions; others are left to the engine, which has sources of its own.
fn names() -> &'static HashSet<String> {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let all = functions::all().into_iter().chain(connect_functions::all());
        all.map(|function| function.name().to_owned()).chain(["now".to_owned()]).collect()
    });
    &NAMES
}

struct SourceFunctions;

impl VisitorMut for SourceFunctions {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let new = match factor {
            TableFactor::Table {
                name, alias, args: Some(args), with_ordinality: false, ..
            } => one_row(name, &args.args, alias.as_ref()),
            TableFactor::Function { name, alias, args, .. } => one_row(name, args, alias.as_ref()),
            _ => None,
        };
        new.into_iter().for_each(|new| *factor = new);
        ControlFlow::Continue(())
    }
}

/// A query of the function's value; `None` if it is not one of these functions.
fn one_row(
    name: &ObjectName,
    args: &[FunctionArg],
    alias: Option<&TableAlias>,
) -> Option<TableFactor> {
    let function = name_parts(name).pop().filter(|function| names().contains(function))?;
    let alias = alias.cloned().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    let args: Vec<String> = args.iter().map(FunctionArg::to_string).collect();
    let sql = format!("SELECT {name}({}) AS {}", args.join(", "), alias.name);
    let subquery = query(&sql)?;
    Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
}
