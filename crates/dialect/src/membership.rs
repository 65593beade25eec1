//! `x in (select …)` as a value: the engine has it in conditions only.
//!
//! NULL has to be told apart from false, by counting the subquery's rows, its rows that are equal to
//! the value, and its NULLs.

use sqlparser::ast::{Expr, Query, SetExpr, TableFactor, UnaryOperator, VisitMut, VisitorMut};
use sqlparser::parser::Parser;

use crate::fragments::nested;
use crate::postgres_syntax::PostgresSyntax;

/// Name of the value in the template, and of the subquery's column.
const VALUE: &str = "searched_for";
/// Longest value and subquery that are copied.
const COPIED_BYTES_MAX: usize = 2_000;

const TEMPLATE: &str = "case \
    when (select count(*) from (select 1) as searched(searched_value)) = 0 then false \
    when searched_for is null then null \
    when (select count(*) from (select 1) as searched(searched_value) \
          where searched.searched_value = searched_for) > 0 then true \
    when (select count(*) from (select 1) as searched(searched_value) \
          where searched.searched_value is null) > 0 then null \
    else false end";

/// The test as a value; `None` if copies of it could double with each level of a query.
pub(crate) fn as_value(value: &Expr, subquery: &Query, negated: bool) -> Option<Expr> {
    let (text, query) = (value.to_string(), subquery.to_string().to_lowercase());
    let selects = query.matches("select").count() + text.to_lowercase().matches("select").count();
    if selects > 1 || text.len() + query.len() > COPIED_BYTES_MAX {
        return None;
    }
    let mut parser = Parser::new(&PostgresSyntax).try_with_sql(TEMPLATE).ok()?;
    let mut test = parser.parse_expr().ok()?;
    let _ = test.visit(&mut TemplateFiller { value, subquery });
    let test = nested(test);
    Some(if negated {
        nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(test) })
    } else {
        test
    })
}

struct TemplateFiller<'a> {
    value: &'a Expr,
    subquery: &'a Query,
}

impl VisitorMut for TemplateFiller<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> std::ops::ControlFlow<()> {
        if let SetExpr::Select(select) = &mut *query.body
            && let Some(from) = select.from.first_mut()
            && let TableFactor::Derived { subquery, .. } = &mut from.relation
        {
            **subquery = self.subquery.clone();
        }
        std::ops::ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if matches!(expr, Expr::Identifier(name) if name.value == VALUE) {
            *expr = nested(self.value.clone());
        }
        std::ops::ControlFlow::Continue(())
    }
}
