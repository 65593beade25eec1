//! Kinds of types that do not exist here: composite types, domains, enums and ranges.
//!
//! Drivers load the parts of such types by subqueries within `case when t.typtype = 'c' then …`,
//! which the engine cannot run. No type has that kind, so the branch is never taken.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Statement, Value, VisitMut, VisitorMut,
};

use super::fragments::expression;

/// Values of `pg_type.typtype` that no type has.
const ABSENT_KINDS: [&str; 5] = ["c", "d", "e", "m", "r"];

/// Leaves out branches for types of absent kinds.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut AbsentTypes);
}

struct AbsentTypes;

impl VisitorMut for AbsentTypes {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Case { operand: None, conditions, else_result, .. } = expr else {
            return ControlFlow::Continue(());
        };
        let Some(first) = conditions.iter().find(|when| is_of_absent_type(when)) else {
            return ControlFlow::Continue(());
        };
        let null = typed_null(&first.result);
        conditions.retain(|when| !is_of_absent_type(when));
        if conditions.is_empty() {
            let rest = else_result.take().map(|rest| *rest).filter(|rest| !is_null(rest));
            if let Some(rest) = rest.or(null) {
                *expr = rest;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether the branch is one for types of an absent kind, with a subquery.
fn is_of_absent_type(when: &CaseWhen) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = &when.condition else {
        return false;
    };
    let column = match &**left {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) if !names.is_empty() => &names[names.len() - 1],
        _ => return false,
    };
    column.value.eq_ignore_ascii_case("typtype")
        && matches!(&**right, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(kind) if ABSENT_KINDS.contains(&kind.as_str())))
        && matches!(when.result, Expr::Subquery(_))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

/// The null of the type that the parts of a type have: OIDs or names, alone or in an array.
fn typed_null(parts: &Expr) -> Option<Expr> {
    let text = parts.to_string().to_lowercase();
    let is_text = text.contains("::text") || text.contains("as text");
    expression(match (is_text, text.contains("array_agg")) {
        (true, false) => "null::text",
        (true, true) => "null::text[]",
        (false, false) => "arrow_cast(null, 'UInt32')",
        (false, true) => "arrow_cast(null, 'List(UInt32)')",
    })
}
