//! `except all` and `intersect all`: equal rows are numbered, so that the set operation counts them.
//!
//! The engine answers both as if `all` were about the left side only. Here each side gets the number
//! of the row among its equals: the second of two equal rows is `(row, 2)`, and `except` of such
//! pairs is `except all` of the rows. The number is a call of [`DUPLICATE_NUMBER`], which the engine
//! replaces by a window function over all columns, whose names are known only then.

use sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, TableFactor, Values};

use crate::refusal::Result;
use crate::table_syntax::parse_query;

/// Function that stands for the number of a row among its equals, and the name of its column.
pub const DUPLICATE_NUMBER: &str = "duplicate_number";

/// Rewrites set operations that count duplicates.
pub(crate) fn count_duplicates(body: &mut SetExpr) -> Result<()> {
    let SetExpr::SetOperation { left, op, set_quantifier, right } = body else { return Ok(()) };
    count_duplicates(left)?;
    count_duplicates(right)?;
    let operator = match (*op, *set_quantifier) {
        (SetOperator::Except | SetOperator::Minus, SetQuantifier::All) => "except",
        (SetOperator::Intersect, SetQuantifier::All) => "intersect",
        _ => return Ok(()),
    };
    let side = format!("select *, {DUPLICATE_NUMBER}() as {DUPLICATE_NUMBER} from (select 1)");
    let sql = format!(
        "select * exclude ({DUPLICATE_NUMBER}) from ({side} as minuend {operator} {side} as subtrahend) as counted"
    );
    let mut counted = parse_query(&sql)?;
    let sides = [take_body(left), take_body(right)];
    if let Some(SetExpr::SetOperation { left, right, .. }) = source_of(&mut counted.body) {
        for (side, rows) in [left, right].into_iter().zip(sides) {
            if let Some(source) = source_of(side) {
                *source = rows;
            }
        }
    }
    *body = *counted.body;
    Ok(())
}

fn take_body(body: &mut SetExpr) -> SetExpr {
    std::mem::replace(
        body,
        SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() }),
    )
}

/// Body of the query that a select reads from.
fn source_of(body: &mut SetExpr) -> Option<&mut SetExpr> {
    let SetExpr::Select(select) = body else { return None };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => {
            let query: &mut Query = subquery;
            Some(&mut query.body)
        }
        _ => None,
    }
}
