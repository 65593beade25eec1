//! Replaces names of columns in one select by expressions. Nested queries keep theirs: a name that
//! they take from outside then has no column, which is an error and no wrong answer.

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, NamedWindowExpr, OrderBy, OrderByKind, Select, SelectItem,
    WindowSpec,
};

use crate::copy_budget::CopyBudget;
use crate::fragments::{nested, visit_with_depth};
use crate::refusal::Result;

/// Expressions by the names that they replace.
#[derive(Default)]
pub(crate) struct ColumnSubstitution {
    columns: Vec<SubstitutedColumn>,
}

struct SubstitutedColumn {
    /// Name of the table; `None` for a name without one.
    table: Option<String>,
    name: String,
    expr: Expr,
}

/// A name as the engine compares it: lower case unless it is in quotes.
pub(crate) fn normal(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

impl ColumnSubstitution {
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Adds a column; a later one of the same name replaces it.
    pub(crate) fn add(&mut self, table: Option<String>, name: &str, expr: Expr) {
        self.columns.retain(|column| column.table != table || column.name != name);
        self.columns.push(SubstitutedColumn { table, name: name.to_owned(), expr });
    }

    fn find(&self, expr: &Expr) -> Option<&SubstitutedColumn> {
        let (table, name) = match expr {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] => (Some(normal(table)), name),
                _ => return None,
            },
            _ => return None,
        };
        let name = normal(name);
        self.columns.iter().find(|column| column.table == table && column.name == name)
    }

    /// Replaces names in an expression.
    pub(crate) fn apply(&self, expr: &mut Expr, budget: &CopyBudget) -> Result<()> {
        let mut done = Ok(());
        visit_with_depth(expr, |expr, depth| {
            if depth == 0
                && done.is_ok()
                && let Some(column) = self.find(expr)
            {
                done = budget.copy(&column.expr, 1);
                if done.is_ok() {
                    *expr = nested(column.expr.clone());
                }
            }
        });
        done
    }

    /// Replaces names everywhere in a select but in `from`.
    pub(crate) fn apply_to_select(&self, select: &mut Select, budget: &CopyBudget) -> Result<()> {
        for item in &mut select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => match self.find(expr) {
                    Some(column) => {
                        budget.copy(&column.expr, 1)?;
                        let alias = Ident::with_quote('"', &column.name);
                        let expr = nested(column.expr.clone());
                        *item = SelectItem::ExprWithAlias { expr, alias };
                    }
                    None => self.apply(expr, budget)?,
                },
                SelectItem::ExprWithAlias { expr, .. } => self.apply(expr, budget)?,
                _ => {}
            }
        }
        for expr in [&mut select.selection, &mut select.having, &mut select.qualify] {
            expr.iter_mut().try_for_each(|expr| self.apply(expr, budget))?;
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().try_for_each(|key| self.apply(key, budget))?;
        }
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            keys.iter_mut().try_for_each(|key| self.apply(key, budget))?;
        }
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
                self.apply_to_window(spec, budget)?;
            }
        }
        Ok(())
    }

    fn apply_to_window(&self, spec: &mut WindowSpec, budget: &CopyBudget) -> Result<()> {
        spec.partition_by.iter_mut().try_for_each(|key| self.apply(key, budget))?;
        spec.order_by.iter_mut().try_for_each(|key| self.apply(&mut key.expr, budget))
    }

    /// Replaces names in the order of a query that returns the columns of `select`: a name of a
    /// result column stays.
    pub(crate) fn apply_to_order(
        &self,
        order: &mut OrderBy,
        select: &Select,
        budget: &CopyBudget,
    ) -> Result<()> {
        let OrderByKind::Expressions(keys) = &mut order.kind else { return Ok(()) };
        for key in keys {
            let is_result = match &key.expr {
                Expr::Identifier(name) => select.projection.iter().any(|item| {
                    matches!(item, SelectItem::ExprWithAlias { alias, .. } if normal(alias) == normal(name))
                }),
                _ => false,
            };
            if !is_result {
                self.apply(&mut key.expr, budget)?;
            }
        }
        Ok(())
    }
}
