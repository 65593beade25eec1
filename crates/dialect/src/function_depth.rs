//! The bound of functions within functions that operators and casts become.
//!
//! A chain such as `x -> 'a' -> 'a' …` is flat for the parser, but a nest of functions for the
//! engine, whose names cost the cube of its depth.

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use crate::refusal::{Result, refuse};

/// Functions within functions that one expression may become.
const DEPTH_MAX: usize = 64;

/// Refuses an expression that became a function, if it is too deep.
pub(crate) fn check(expr: &Expr) -> Result<()> {
    if depth(expr) > DEPTH_MAX {
        return refuse!(
            "more than {DEPTH_MAX} operators or casts in a chain: name a part of it in a subquery"
        );
    }
    Ok(())
}

/// Functions within functions, at the deepest place that operators and casts lead to. Expressions
/// below were checked before, so the recursion ends soon.
fn depth(expr: &Expr) -> usize {
    match expr {
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &function.args else { return 1 };
            let depths = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => depth(expr),
                _ => 0,
            });
            1 + depths.max().unwrap_or_default()
        }
        Expr::Nested(expr) | Expr::Cast { expr, .. } | Expr::UnaryOp { expr, .. } => depth(expr),
        _ => 0,
    }
}
