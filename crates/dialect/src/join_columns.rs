//! Merged columns of right and full joins with `using` or `natural`, and of several joins.
//!
//! The engine takes the column of the left side, which is NULL where only the right side has a row.
//! So the join gets an `on` condition, and the merged column becomes `coalesce(left, right)`.
//! A name that is overlooked here has two columns then, which is an error and no wrong answer.

use crate::refusal::{Result, refuse};
use sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    TableWithJoins, Value, WildcardAdditionalOptions, With,
};
use weir_tables::{TABLES, VIEWS};

use crate::column_substitution::{ColumnSubstitution, normal};
use crate::copy_budget::CopyBudget;
use crate::fragments::{call, nested};

/// A side of a join.
struct JoinSide {
    table: Ident,
    /// Names of its columns, where they are known.
    columns: Option<Vec<String>>,
    /// Its columns that are merged.
    merged: Vec<String>,
}

/// A merged column with the columns that it is made of.
struct MergedColumn {
    name: String,
    parts: Vec<Expr>,
}

impl MergedColumn {
    fn value(&self, budget: &CopyBudget) -> Result<Expr> {
        self.parts.iter().try_for_each(|part| budget.copy(part, 1))?;
        Ok(match self.parts.as_slice() {
            [one] => one.clone(),
            parts => call("coalesce", parts.to_vec()),
        })
    }
}

/// Sources of rows of a `from` item so far.
#[derive(Default)]
struct JoinChain {
    sides: Vec<JoinSide>,
    /// In order of `select *`.
    merged: Vec<MergedColumn>,
}

/// Rewrites the joins of a query.
///
/// # Errors
/// `Plan`: the columns of a natural join are not known.
pub(crate) fn merge(query: &mut Query, budget: &CopyBudget) -> Result<()> {
    let with = query.with.clone();
    let known = KnownNames { with: with.as_ref(), budget };
    let Some(substitution) = merge_body(&mut query.body, &known)? else { return Ok(()) };
    match (&mut query.order_by, &*query.body) {
        (Some(order), SetExpr::Select(select)) => {
            substitution.apply_to_order(order, select, budget)
        }
        _ => Ok(()),
    }
}

/// Names of `with`, and what may be copied.
struct KnownNames<'a> {
    with: Option<&'a With>,
    budget: &'a CopyBudget,
}

/// The substitution of a plain select.
fn merge_body(body: &mut SetExpr, known: &KnownNames<'_>) -> Result<Option<ColumnSubstitution>> {
    match body {
        SetExpr::Select(select) => merge_select(select, known),
        SetExpr::SetOperation { left, right, .. } => {
            merge_body(left, known)?;
            merge_body(right, known)?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn merge_select(select: &mut Select, known: &KnownNames<'_>) -> Result<Option<ColumnSubstitution>> {
    if !select.from.iter().any(has_outer_merge) {
        return merge_repeated(select, known);
    }
    substitute(select, known).map(Some)
}

/// Merges a column of several inner or left joins, which is ambiguous to the engine.
fn merge_repeated(
    select: &mut Select,
    known: &KnownNames<'_>,
) -> Result<Option<ColumnSubstitution>> {
    if !select.from.iter().any(repeats_column) {
        return Ok(None);
    }
    // Tables whose columns are not known stay as they are.
    let mut merged = select.clone();
    match substitute(&mut merged, known) {
        Ok(substitution) => {
            *select = merged;
            Ok(Some(substitution))
        }
        Err(_) => Ok(None),
    }
}

/// Whether `using` of two joins has a column in common.
fn repeats_column(from: &TableWithJoins) -> bool {
    let mut seen = Vec::new();
    from.joins.iter().any(|join| match constraint_of(&join.join_operator) {
        Some(JoinConstraint::Using(names)) => names.iter().any(|name| {
            let name = name.to_string().to_lowercase();
            let is_repeated = seen.contains(&name);
            seen.push(name);
            is_repeated
        }),
        _ => false,
    })
}

fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn substitute(select: &mut Select, known: &KnownNames<'_>) -> Result<ColumnSubstitution> {
    let mut substitution = ColumnSubstitution::default();
    let mut chains = Vec::new();
    for from in &mut select.from {
        let chain = merge_chain(from, known)?;
        for column in &chain.merged {
            substitution.add(None, &column.name, column.value(known.budget)?);
        }
        chains.push(chain);
    }
    expand_wildcard(&mut select.projection, &chains, known.budget)?;
    substitution.apply_to_select(select, known.budget)?;
    Ok(substitution)
}

/// Whether a right or full join merges columns.
fn has_outer_merge(from: &TableWithJoins) -> bool {
    from.joins.iter().any(|join| match &join.join_operator {
        JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => {
            matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        _ => false,
    })
}

fn merge_chain(from: &mut TableWithJoins, known: &KnownNames<'_>) -> Result<JoinChain> {
    let mut chain = JoinChain::default();
    chain.sides.push(join_side(&from.relation, known.with)?);
    for join in &mut from.joins {
        let side = join_side(&join.relation, known.with)?;
        // The left side of an inner or left join has each value of a merged column.
        let is_left = constraint_of(&join.join_operator).is_some();
        let constraint = match &mut join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => constraint,
            JoinOperator::CrossJoin(_) => {
                chain.sides.push(side);
                continue;
            }
            _ => {
                return refuse!(
                    "this join beside an outer join with `using` is not supported: use `on`"
                );
            }
        };
        let names = match constraint {
            JoinConstraint::Using(names) => names.iter().map(column_name).collect::<Result<_>>()?,
            JoinConstraint::Natural => chain.common_columns(&side)?,
            _ => {
                chain.sides.push(side);
                continue;
            }
        };
        *constraint = JoinConstraint::On(chain.merge(side, names, is_left, known.budget)?);
    }
    Ok(chain)
}

fn column_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => match part.as_ident() {
            Some(ident) => Ok(normal(ident)),
            None => refuse!("{name} is no name of a column"),
        },
        _ => refuse!("{name} is no name of a column"),
    }
}

impl JoinChain {
    /// Columns that both sides of a natural join have.
    fn common_columns(&self, side: &JoinSide) -> Result<Vec<String>> {
        let unknown = self.sides.iter().chain([side]).find(|side| side.columns.is_none());
        if let Some(side) = unknown {
            return refuse!(
                "the columns of `{}` in a natural outer join are not known here: use `using (…)`",
                side.table.value
            );
        }
        let right = side.columns.iter().flatten();
        let mut common: Vec<String> = Vec::new();
        for name in self.sides.iter().flat_map(|side| side.columns.iter().flatten()) {
            if right.clone().any(|other| other == name) && !common.contains(name) {
                common.push(name.clone());
            }
        }
        Ok(common)
    }

    /// Merges these columns of all sides with those of a further side; returns the condition.
    fn merge(
        &mut self,
        mut side: JoinSide,
        names: Vec<String>,
        is_left: bool,
        budget: &CopyBudget,
    ) -> Result<Expr> {
        let mut condition = None;
        let mut merged = Vec::new();
        for name in names {
            let mut column = match self.merged.iter().position(|column| column.name == name) {
                Some(at) => self.merged.remove(at),
                None => self.start_column(name)?,
            };
            let right = Expr::CompoundIdentifier(vec![
                side.table.clone(),
                Ident::with_quote('"', &column.name),
            ]);
            let left = column.value(budget)?;
            let equals = binary(left, BinaryOperator::Eq, right.clone());
            condition = Some(match condition {
                Some(before) => binary(before, BinaryOperator::And, equals),
                None => equals,
            });
            column.parts.extend((!is_left).then_some(right));
            side.merged.push(column.name.clone());
            merged.push(column);
        }
        merged.append(&mut self.merged);
        self.merged = merged;
        self.sides.push(side);
        Ok(condition.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into())))
    }

    /// Column of the only side that may have it.
    fn start_column(&mut self, name: String) -> Result<MergedColumn> {
        let may_have = |side: &&mut JoinSide| {
            side.columns.as_ref().is_none_or(|columns| columns.contains(&name))
        };
        let mut sides: Vec<_> = self.sides.iter_mut().filter(may_have).collect();
        let [side] = sides.as_mut_slice() else {
            return refuse!(
                "`{name}` of an outer join with `using` is not in exactly one table: use `on`"
            );
        };
        side.merged.push(name.clone());
        let column =
            Expr::CompoundIdentifier(vec![side.table.clone(), Ident::with_quote('"', &name)]);
        Ok(MergedColumn { name, parts: vec![column] })
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    nested(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}

/// Names of the columns of a source of rows, where they are known.
pub(crate) fn columns_of_source(
    relation: &TableFactor,
    with: Option<&With>,
) -> Option<Vec<String>> {
    join_side(relation, with).ok()?.columns
}

fn join_side(relation: &TableFactor, with: Option<&With>) -> Result<JoinSide> {
    let (alias, own) = match relation {
        TableFactor::Table { name, alias, .. } => {
            let last = name.0.last().and_then(|part| part.as_ident());
            (alias.as_ref(), last.map(|name| (name.clone(), columns_of_table(&normal(name), with))))
        }
        TableFactor::Derived { subquery, alias, .. } => {
            let columns = columns_of(&subquery.body);
            (alias.as_ref(), alias.as_ref().map(|alias| (alias.name.clone(), columns)))
        }
        TableFactor::UNNEST { alias, .. } => {
            (alias.as_ref(), alias.as_ref().map(|alias| (alias.name.clone(), None)))
        }
        _ => (None, None),
    };
    let Some((name, columns)) = own else {
        return refuse!("a table of an outer join with `using` needs a name: add an alias");
    };
    let table = alias.map_or(name, |alias| alias.name.clone());
    let named = alias.map(|alias| alias.columns.iter().map(|column| normal(&column.name)));
    let named: Vec<String> = named.into_iter().flatten().collect();
    let columns = if named.is_empty() { columns } else { Some(named) };
    Ok(JoinSide { table, columns, merged: Vec::new() })
}

fn columns_of_table(name: &str, with: Option<&With>) -> Option<Vec<String>> {
    let tables = with.map(|with| &with.cte_tables);
    if let Some(table) =
        tables.into_iter().flatten().find(|table| normal(&table.alias.name) == name)
    {
        let named: Vec<_> = table.alias.columns.iter().map(|column| normal(&column.name)).collect();
        return if named.is_empty() { columns_of(&table.query.body) } else { Some(named) };
    }
    let views = VIEWS.iter().map(|view| &view.table);
    let spec = TABLES.iter().copied().chain(views).find(|spec| spec.name == name)?;
    Some(spec.columns.iter().map(|column| column.name.to_owned()).collect())
}

/// Names of the columns of a query without `*`.
fn columns_of(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => {
            let names = select.projection.iter().map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(normal(name)),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    parts.last().map(normal)
                }
                _ => None,
            });
            names.collect()
        }
        SetExpr::SetOperation { left, .. } => columns_of(left),
        SetExpr::Query(query) => columns_of(&query.body),
        _ => None,
    }
}

/// `*` as PostgreSQL has it: merged columns first, then the others of each side.
fn expand_wildcard(
    projection: &mut Vec<SelectItem>,
    chains: &[JoinChain],
    budget: &CopyBudget,
) -> Result<()> {
    let mut new = Vec::with_capacity(projection.len());
    for item in projection.drain(..) {
        if !matches!(item, SelectItem::Wildcard(_)) {
            new.push(item);
            continue;
        }
        for chain in chains {
            for column in &chain.merged {
                new.push(SelectItem::ExprWithAlias {
                    expr: column.value(budget)?,
                    alias: Ident::with_quote('"', &column.name),
                });
            }
            new.extend(chain.sides.iter().filter_map(rest_of_side));
        }
    }
    *projection = new;
    Ok(())
}

/// All columns of a side but the merged ones.
fn rest_of_side(side: &JoinSide) -> Option<SelectItem> {
    let has_rest = side
        .columns
        .as_ref()
        .is_none_or(|columns| columns.iter().any(|name| !side.merged.contains(name)));
    if !has_rest {
        return None;
    }
    let names = side.merged.iter().map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]));
    let names: Vec<_> = names.collect();
    let opt_exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
    let options = WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    let table = ObjectName::from(vec![side.table.clone()]);
    let kind = SelectItemQualifiedWildcardKind::ObjectName(table);
    Some(SelectItem::QualifiedWildcard(kind, options))
}
