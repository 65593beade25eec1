//! Whole rows as values of JSON: `row_to_json(t)`, `row_to_json(t.*)` and `json_agg(t)` of a table, or of a subquery
//! `t` whose columns have names.
//!
//! The engine has no value that is a row, so the columns are spelled out: `json_row_of('a', t.a, 'b', t.b)`.

use std::collections::HashSet;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint,
    JoinOperator, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, WildcardAdditionalOptions,
};
use weir_tables::{TABLES, VIEWS};

use crate::column_substitution::normal;
use crate::copy_budget::CopyBudget;
use crate::fragments::{call, text, visit_with_depth};
use crate::refusal::Result;
use crate::select_items::COLUMNS_MAX;

const FUNCTIONS: [&str; 5] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"];

/// Schemas of weir's tables.
const SCHEMAS: [&str; 2] = ["public", "future"];

/// Columns of relations that are no tables of weir, by name and schema, such as `pg_catalog.pg_class`.
pub type CatalogColumns<'a> = &'a dyn Fn(&str) -> Option<Vec<&'static str>>;

/// A relation with the names of its columns.
type KnownRelation = (Ident, Vec<Ident>);

/// The relations that a query can name.
pub(crate) struct KnownRelations<'a> {
    catalog: CatalogColumns<'a>,
    /// Named subqueries of the queries around, outer ones first.
    named: Vec<KnownRelation>,
}

impl<'a> KnownRelations<'a> {
    pub(crate) fn new(catalog: CatalogColumns<'a>) -> Self {
        Self { catalog, named: Vec::new() }
    }

    /// Spells out whole rows in the select list of a query whose relations all have known columns. Each call ends with
    /// [`Self::leave`].
    ///
    /// # Errors
    /// The rows have too many columns.
    pub(crate) fn enter(&mut self, query: &mut Query, budget: &CopyBudget) -> Result<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let mut columns: Vec<Ident> =
                cte.alias.columns.iter().map(|column| column.name.clone()).collect();
            if columns.is_empty() {
                // Without known columns it still hides a table of its name.
                columns = self.columns_of(&cte.query).unwrap_or_default();
            }
            self.named.push((cte.alias.name.clone(), columns));
        }
        self.spell_out(&mut query.body, budget)
    }

    /// Forgets the named subqueries of a query.
    pub(crate) fn leave(&mut self, query: &Query) {
        let count = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        self.named.truncate(self.named.len().saturating_sub(count));
    }

    fn spell_out(&self, body: &mut SetExpr, budget: &CopyBudget) -> Result<()> {
        match body {
            SetExpr::Select(select) => {
                // The rows of an outer join can be NULL as a whole.
                let relations = self.relations_of(select).unwrap_or_default();
                let relations = if has_outer_join(select) { Vec::new() } else { relations };
                let mut done = Ok(());
                visit_with_depth(&mut select.projection, |expr, depth| {
                    if done.is_ok()
                        && let Expr::Function(function) = expr
                        && let Some(argument) = only_argument(function)
                        && let Some(row) = row(argument, depth, &relations)
                    {
                        done = budget.copy(&row, 1);
                        *argument = FunctionArgExpr::Expr(row);
                    }
                });
                done
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.spell_out(left, budget)?;
                self.spell_out(right, budget)
            }
            _ => Ok(()),
        }
    }

    /// All relations of a `from`; `None` if columns of one are unknown.
    fn relations_of(&self, select: &Select) -> Option<Vec<KnownRelation>> {
        let mut relations = Vec::new();
        for tables in &select.from {
            relations.push(self.relation_of(&tables.relation)?);
            for join in &tables.joins {
                relations.push(self.relation_of(&join.relation)?);
            }
        }
        Some(relations)
    }

    fn relation_of(&self, factor: &TableFactor) -> Option<KnownRelation> {
        match factor {
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                if alias.columns.is_empty() {
                    return Some((alias.name.clone(), self.columns_of(subquery)?));
                }
                let columns = alias.columns.iter().map(|column| column.name.clone());
                Some((alias.name.clone(), columns.collect()))
            }
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = self.columns_of_table(name)?;
                match alias {
                    Some(alias) if !alias.columns.is_empty() => None,
                    Some(alias) => Some((alias.name.clone(), columns)),
                    None => Some((name.0.last()?.as_ident()?.clone(), columns)),
                }
            }
            _ => None,
        }
    }

    fn columns_of_table(&self, name: &ObjectName) -> Option<Vec<Ident>> {
        let parts: Option<Vec<String>> =
            name.0.iter().map(|part| part.as_ident().map(normal)).collect();
        let parts = parts?;
        let named = |(known, _): &&KnownRelation| parts.len() == 1 && normal(known) == parts[0];
        if let Some((_, columns)) = self.named.iter().rev().find(named) {
            return (!columns.is_empty()).then(|| columns.clone());
        }
        let (table, schema) = parts.split_last()?;
        let names: Vec<&str> = match schema.last() {
            Some(schema) if !SCHEMAS.contains(&schema.as_str()) => {
                (self.catalog)(&format!("{schema}.{table}"))?
            }
            _ => {
                let mut specs = TABLES.iter().copied().chain(VIEWS.iter().map(|view| &view.table));
                let spec = specs.find(|spec| spec.name == table)?;
                spec.columns.iter().map(|column| column.name).collect()
            }
        };
        Some(names.into_iter().map(Ident::new).collect())
    }

    /// Names of a query's columns; `None` if one has no plain name or two have the same.
    fn columns_of(&self, query: &Query) -> Option<Vec<Ident>> {
        let mut body = &*query.body;
        while let SetExpr::SetOperation { left, .. } = body {
            body = left;
        }
        let select = match body {
            SetExpr::Select(select) => select,
            SetExpr::Query(query) => return self.columns_of(query),
            _ => return None,
        };
        let is_without_with = query.with.is_none();
        let mut names = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => names.push(alias.clone()),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => names.push(name.clone()),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    names.push(parts.last()?.clone());
                }
                SelectItem::Wildcard(options)
                    if is_plain(options) && is_without_with && !merges_columns(select) =>
                {
                    let relations = self.relations_of(select)?;
                    names.extend(relations.into_iter().flat_map(|(_, columns)| columns));
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) if is_plain(options) && is_without_with => {
                    let name = normal(name.0.last()?.as_ident()?);
                    let mut relations = self.relations_of(select)?.into_iter();
                    names.extend(relations.find(|(known, _)| normal(known) == name)?.1);
                }
                _ => return None,
            }
        }
        let different: HashSet<String> = names.iter().map(normal).collect();
        (different.len() == names.len() && names.len() <= COLUMNS_MAX).then_some(names)
    }
}

/// Whether `*` is all columns as they are.
fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    matches!(
        options,
        WildcardAdditionalOptions {
            opt_ilike: None,
            opt_exclude: None,
            opt_except: None,
            opt_replace: None,
            opt_rename: None,
            ..
        }
    )
}

fn has_outer_join(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|tables| &tables.joins);
    joins.any(|join| {
        !matches!(
            join.join_operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        )
    })
}

/// Whether `*` has one column for two that are joined.
fn merges_columns(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|tables| &tables.joins);
    joins.any(|join| {
        !matches!(
            &join.join_operator,
            JoinOperator::Join(JoinConstraint::On(_))
                | JoinOperator::Inner(JoinConstraint::On(_))
                | JoinOperator::Left(JoinConstraint::On(_))
                | JoinOperator::LeftOuter(JoinConstraint::On(_))
                | JoinOperator::Right(JoinConstraint::On(_))
                | JoinOperator::RightOuter(JoinConstraint::On(_))
                | JoinOperator::FullOuter(JoinConstraint::On(_))
                | JoinOperator::CrossJoin(_)
        )
    })
}

/// A whole row, spelled out; `None` for other values. `depth` is the number of nested queries around it.
fn row(argument: &FunctionArgExpr, depth: usize, relations: &[KnownRelation]) -> Option<Expr> {
    match argument {
        FunctionArgExpr::Expr(value) => row_of_value(value, depth, relations),
        FunctionArgExpr::QualifiedWildcard(name) if depth == 0 => {
            let [name] = name.0.as_slice() else { return None };
            row_of_relation(name.as_ident()?, relations)
        }
        _ => None,
    }
}

fn row_of_value(value: &Expr, depth: usize, relations: &[KnownRelation]) -> Option<Expr> {
    match value {
        Expr::Identifier(name) if depth == 0 => {
            let mut columns = relations.iter().flat_map(|(_, columns)| columns);
            let is_column = columns.any(|column| normal(column) == normal(name));
            if is_column { None } else { row_of_relation(name, relations) }
        }
        Expr::Subquery(query) => row_of_subquery(query),
        Expr::Nested(inner) => row_of_value(inner, depth, relations),
        _ => None,
    }
}

fn row_of_relation(name: &Ident, relations: &[KnownRelation]) -> Option<Expr> {
    let (relation, columns) = relations.iter().find(|(known, _)| normal(known) == normal(name))?;
    Some(row_of(columns.iter().map(|column| {
        let value = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
        (column, value)
    })))
}

fn row_of<'a>(columns: impl Iterator<Item = (&'a Ident, Expr)>) -> Expr {
    let parts = columns.flat_map(|(name, value)| [text(&normal(name)), value]);
    call("json_row_of", parts.collect())
}

/// The row of `(select e from (select x as a, y as b) as e)`, a subquery that reads no table.
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
fn only_argument(function: &mut Function) -> Option<&mut FunctionArgExpr> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = normal(name.as_ident()?);
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(argument)] if FUNCTIONS.contains(&name.as_str()) => Some(argument),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::tests::rewritten;

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
    fn columns_of_tables_are_known() {
        let spelled = rewritten("select row_to_json(r) from request r");
        assert!(spelled.starts_with("SELECT json_of(json_row_of('ts', r.ts, 'host', r.host"));
        for sql in [
            "select row_to_json(t.*) from (select * from public.request) as t",
            "select (select to_json(t)) from request as t",
            "with u as (select * from request), t as (select u.* from u) select json_agg(t) from t",
            "with u as (select * from request) select (select json_agg(t) from u as t)",
            "select json_agg(t) from (select * from request union all select * from request) as t",
        ] {
            let is_spelled = rewritten(sql).contains("json_row_of('ts', t.ts, 'host', t.host");
            assert_eq!(is_spelled, !sql.contains("(select to_json(t))"), "{sql}");
        }
        let sql = "select json_agg(t) from (select a, b from x) as t(c, d)";
        assert!(rewritten(sql).contains("json_row_of('c', t.c, 'd', t.d)"));
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
            "SELECT json_of(t) FROM (SELECT a, b AS a FROM x) AS t",
            "SELECT json_of(t) FROM (SELECT a FROM x) AS t JOIN y ON true",
            "SELECT json_of(t) FROM dns LEFT JOIN (SELECT a FROM x) AS t ON true",
            "WITH dns AS (SELECT x + 1 FROM y) SELECT json_of(dns) FROM dns",
        ] {
            assert_eq!(rewritten(&sql.replace("json_of", "to_json")), sql);
        }
    }
}
