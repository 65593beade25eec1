//! Rewrites sources of rows: numbered and generated rows, and `fetch first`.

use crate::refusal::{Result, refuse};
use sqlparser::ast::{
    Expr, Ident, LimitClause, Query, TableAlias, TableAliasColumnDef, TableFactor,
};
use sqlparser::parser::Parser;

use crate::copy_budget::CopyBudget;
use crate::fragments::{call, literal, number, plain_arguments, text};
use crate::json_syntax;
use crate::postgres_syntax::PostgresSyntax;

/// Parses a query that is built here.
pub(crate) fn parse_query(sql: &str) -> Result<Box<Query>> {
    match Parser::new(&PostgresSyntax).try_with_sql(sql).and_then(|mut parser| parser.parse_query())
    {
        Ok(query) => Ok(query),
        Err(error) => refuse!("cannot rewrite this query: {error}"),
    }
}

/// Rewrites one source of rows.
///
/// # Errors
/// Its arguments are copied too often.
pub(crate) fn rewrite(table: &mut TableFactor, budget: &CopyBudget) -> Result<()> {
    json_syntax::rewrite_source(table, budget)?;
    unnest_rows(table);
    match table {
        TableFactor::UNNEST { alias, array_exprs, with_ordinality: true, .. } => {
            let [array] = array_exprs.as_slice() else { return Ok(()) };
            budget.copy(array, 1)?;
            let alias = alias.clone().unwrap_or_else(|| TableAlias {
                explicit: true,
                name: Ident::new("unnest"),
                columns: Vec::new(),
                at: None,
            });
            if let Some(new) = numbered(array.clone(), &alias) {
                *table = new;
            }
        }
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. }
            if array_exprs.len() == 1 && alias.columns.is_empty() =>
        {
            alias.columns.push(column(alias.name.clone()));
        }
        TableFactor::Table {
            name, alias: Some(alias), args: Some(args), with_ordinality, ..
        } => {
            let name = name.to_string().to_lowercase();
            if *with_ordinality {
                let array = call(&name, plain_arguments(&args.args));
                budget.copy(&array, 1)?;
                if let Some(new) = numbered(array, alias).filter(|_| name == "generate_series") {
                    *table = new;
                }
            } else {
                name_column(&name, alias);
            }
        }
        TableFactor::Function { name, alias: Some(alias), .. } => {
            name_column(&name.to_string().to_lowercase(), alias);
        }
        _ => {}
    }
    Ok(())
}

/// Function of the array whose items are the rows of this one; `None` for one that gives no rows.
pub(crate) fn array_of_rows(function: &str) -> Option<&'static str> {
    Some(match function {
        "regexp_matches" => "regexp_all_matches",
        "regexp_split_to_table" => "regexp_split_to_array",
        "string_to_table" => "string_to_array",
        _ => return None,
    })
}

/// A function of rows as an array whose items are rows.
fn unnest_rows(table: &mut TableFactor) {
    let (name, arguments, alias, with_ordinality) = match table {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, plain_arguments(&args.args), alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, .. } => {
            (name, plain_arguments(args), alias, false)
        }
        _ => return,
    };
    let name = name.to_string().to_lowercase();
    let Some(array) = array_of_rows(&name) else { return };
    let alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name),
        columns: Vec::new(),
        at: None,
    });
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call(array, arguments)],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
}

/// Names the column of a series like the series, so that `from generate_series(1, 3) g` has `g`.
fn name_column(function: &str, alias: &mut TableAlias) {
    if function == "generate_series" && alias.columns.is_empty() {
        alias.columns.push(column(alias.name.clone()));
    }
}

fn column(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name, data_type: None }
}

/// Items of an array beside their numbers; two unnested lists of one length are joined by place.
fn numbered(array: Expr, alias: &TableAlias) -> Option<TableFactor> {
    let mut query = parse_query("select 1 as value, 2 as ordinality").ok()?;
    let select = match &mut *query.body {
        sqlparser::ast::SetExpr::Select(select) => select,
        _ => return None,
    };
    let length = call("coalesce", vec![call("cardinality", vec![array.clone()]), number(0)]);
    let length = call("arrow_cast", vec![length, text("Int64")]);
    let numbers = call("generate_series", vec![number(1), length]);
    for (item, list) in select.projection.iter_mut().zip([array, numbers]) {
        if let sqlparser::ast::SelectItem::ExprWithAlias { expr, .. } = item {
            *expr = call("unnest", vec![list]);
        }
    }
    let mut alias = alias.clone();
    if alias.columns.is_empty() {
        alias.columns.push(column(alias.name.clone()));
    }
    if alias.columns.len() == 1 {
        alias.columns.push(column(Ident::new("ordinality")));
    }
    Some(TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None })
}

/// Reads the counts of `limit '10' offset '20'`, as pgx sends parameters in its simple protocol.
pub(crate) fn read_quoted_counts(query: &mut Query) {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else {
        return;
    };
    for count in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
        let quoted = literal(count).and_then(|text| text.trim().parse().ok());
        if let Some(quoted) = quoted.filter(|quoted: &i64| *quoted >= 0) {
            *count = number(quoted);
        }
    }
}

/// `fetch first n rows only` as a limit.
pub(crate) fn fetch_to_limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        return refuse!(
            "`fetch … with ties` and `percent` are not supported: use rank() in a subquery"
        );
    }
    let quantity = fetch.quantity.unwrap_or_else(|| number(1));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(quantity),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        Some(_) => return refuse!("a query has either a limit or `fetch first`"),
    }
    Ok(())
}
