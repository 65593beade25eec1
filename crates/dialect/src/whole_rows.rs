//! Whole rows as values of JSON: `row_to_json(t)` and `json_agg(t)` of a subquery `t` whose columns have names.
//!
//! The engine has no value that is a row, so the columns are spelled out: `json_row_of('a', t.a, 'b', t.b)`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator, Query,
    Select, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut,
};

use crate::column_substitution::normal;
use crate::fragments::{call, text};

const FUNCTIONS: [&str; 5] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"];

/// A relation with the names of its columns.
type KnownRelation = (Ident, Vec<Ident>);

/// Spells out whole rows in the select list of a query whose relations all have known columns.
pub(crate) fn spell_out(query: &mut Query) {
    let with: Vec<KnownRelation> = query
        .with
        .iter()
        .flat_map(|with| &with.cte_tables)
        .filter_map(|cte| {
            let named: Vec<Ident> =
                cte.alias.columns.iter().map(|column| column.name.clone()).collect();
            let columns = if named.is_empty() { columns_of(&cte.query)? } else { named };
            Some((cte.alias.name.clone(), columns))
        })
        .collect();
    spell_out_in(&mut query.body, &with);
}

fn spell_out_in(body: &mut SetExpr, with: &[KnownRelation]) {
    match body {
        SetExpr::Select(select) => {
            let relations = relations_of(select, with).unwrap_or_default();
            let mut spelling = RowSpelling { relations, depth: 0 };
            for item in &mut select.projection {
                let _ = item.visit(&mut spelling);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            spell_out_in(left, with);
            spell_out_in(right, with);
        }
        _ => {}
    }
}

/// All relations of a `from`; `None` if columns of one are unknown, or if its rows can be NULL as a whole.
fn relations_of(select: &Select, with: &[KnownRelation]) -> Option<Vec<KnownRelation>> {
    let mut relations = Vec::new();
    for tables in &select.from {
        relations.push(relation_of(&tables.relation, with)?);
        for join in &tables.joins {
            let (JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)) =
                join.join_operator
            else {
                return None;
            };
            relations.push(relation_of(&join.relation, with)?);
        }
    }
    Some(relations)
}

fn relation_of(factor: &TableFactor, with: &[KnownRelation]) -> Option<KnownRelation> {
    match factor {
        TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.columns.is_empty() => {
            Some((alias.name.clone(), columns_of(subquery)?))
        }
        TableFactor::Table { name, alias, args: None, .. } => {
            let [part] = name.0.as_slice() else { return None };
            let named = normal(part.as_ident()?);
            let (_, columns) = with.iter().find(|(known, _)| normal(known) == named)?;
            match alias {
                Some(alias) if !alias.columns.is_empty() => None,
                Some(alias) => Some((alias.name.clone(), columns.clone())),
                None => Some((part.as_ident()?.clone(), columns.clone())),
            }
        }
        _ => None,
    }
}

/// Names of a query's columns; `None` if one has no plain name.
fn columns_of(query: &Query) -> Option<Vec<Ident>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let names = select.projection.iter().map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        _ => None,
    });
    names.collect()
}

struct RowSpelling {
    relations: Vec<KnownRelation>,
    /// Queries around an expression; their relations have names of their own.
    depth: usize,
}

impl VisitorMut for RowSpelling {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(value) = only_argument(function)
            && let Some(row) = self.row(value)
        {
            *value = row;
        }
        ControlFlow::Continue(())
    }
}

impl RowSpelling {
    fn row(&self, value: &Expr) -> Option<Expr> {
        match value {
            Expr::Identifier(name) if self.depth == 0 => {
                let is_column = self
                    .relations
                    .iter()
                    .flat_map(|(_, columns)| columns)
                    .any(|column| normal(column) == normal(name));
                let mut relations = self.relations.iter();
                let (relation, columns) =
                    relations.find(|(known, _)| !is_column && normal(known) == normal(name))?;
                Some(row_of(columns.iter().map(|column| {
                    let value = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
                    (column, value)
                })))
            }
            Expr::Subquery(query) => row_of_subquery(query),
            Expr::Nested(inner) => self.row(inner),
            _ => None,
        }
    }
}

fn row_of<'a>(columns: impl Iterator<Item = (&'a Ident, Expr)>) -> Expr {
    let parts = columns.flat_map(|(name, value)| [text(&normal(name)), value]);
    call("json_row_of", parts.collect())
}

/// The row of `(select e from (select x as a, y as b) as e)`, which has no relation of its own.
fn row_of_subquery(query: &Query) -> Option<Expr> {
    let select = bare_select(query)?;
    let ([SelectItem::UnnamedExpr(Expr::Identifier(name))], [tables]) =
        (select.projection.as_slice(), select.from.as_slice())
    else {
        return None;
    };
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &tables.relation else {
        return None;
    };
    let inner = bare_select(subquery)?;
    if normal(&alias.name) != normal(name) || !tables.joins.is_empty() || !inner.from.is_empty() {
        return None;
    }
    let columns: Option<Vec<_>> = inner
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => Some((alias, expr.clone())),
            _ => None,
        })
        .collect();
    Some(row_of(columns?.into_iter()))
}

/// A query that has a select list and a `from` only.
fn bare_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let is_bare = query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none();
    is_bare.then_some(select)
}

/// The only argument of a function that takes whole rows.
fn only_argument(function: &mut Function) -> Option<&mut Expr> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = normal(name.as_ident()?);
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))]
            if FUNCTIONS.contains(&name.as_str()) =>
        {
            Some(value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::rewrite_statement;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn rewritten(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        rewrite_statement(&mut statements[0]).unwrap();
        statements[0].to_string()
    }

    #[test]
    fn columns_of_a_subquery_are_spelled_out() {
        let sql = "select row_to_json(t) from (select a, x.b, c + 1 as d from x) as t";
        assert!(
            rewritten(sql)
                .starts_with("SELECT json_of(json_row_of('a', t.a, 'b', t.b, 'd', t.d)) FROM")
        );
        let sql = "with t as (select a from x) select json_agg(u) from t as u union all select 1";
        assert!(rewritten(sql).contains("json_item(json_row_of('a', u.a))"));
    }

    #[test]
    fn subquery_without_a_relation_is_its_columns() {
        let sql =
            "select row_to_json((select \"_e\" from (select r.id as \"id\") as \"_e\")) from r";
        assert!(rewritten(sql).starts_with("SELECT json_of(json_row_of('id', r.id)) FROM"));
    }

    #[test]
    fn columns_win_over_relations_and_unknown_columns_stay() {
        for sql in [
            "SELECT json_of(t) FROM (SELECT t FROM x) AS t",
            "SELECT json_of(t) FROM (SELECT * FROM x) AS t",
            "SELECT json_of(t) FROM (SELECT a FROM x) AS t JOIN y ON true",
            "SELECT json_of(t) FROM y LEFT JOIN (SELECT a FROM x) AS t ON true",
        ] {
            assert_eq!(rewritten(&sql.replace("json_of", "to_json")), sql);
        }
    }
}
