//! Bounds the function calls of a plan, including those that the planner generates from operators
//! and syntax.

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::bounded_function::bind;
use super::row_cost::instructions;
use super::{string_concat, window_result};

/// Most items of a value of a fixed length, which even a NULL takes.
const FIXED_LENGTH_MAX: i32 = 1024;
/// Most instructions of a regular expression or a `like` pattern.
const PATTERN_MAX: u64 = 100_000;

/// Rewrites each expression of a plan before its types are resolved.
#[derive(Debug)]
pub(crate) struct BoundRewrite;

impl FunctionRewrite for BoundRewrite {
    fn name(&self) -> &str {
        "bounds"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        check_patterns(&expr)?;
        check_fixed_lengths(&expr)?;
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
                let kinds = left.get_type(schema).ok().zip(right.get_type(schema).ok());
                match kinds.and_then(|(left, right)| string_concat::text_type(&left, &right)) {
                    Some(_) => Transformed::yes(string_concat::call(*left, *right)),
                    None => Transformed::no(Expr::BinaryExpr(BinaryExpr {
                        left,
                        op: Operator::StringConcat,
                        right,
                    })),
                }
            }
            Expr::WindowFunction(call) => window_result::bind(call),
            other => bind(other),
        })
    }
}

fn check_patterns(expr: &Expr) -> Result<()> {
    let instructions = match expr {
        Expr::SimilarTo(like) => text(&like.pattern).map(instructions),
        Expr::Like(like) => text(&like.pattern).map(|pattern| pattern.len() as u64),
        Expr::BinaryExpr(BinaryExpr { op, right, .. }) if is_regex(*op) => {
            text(right).map(instructions)
        }
        Expr::ScalarFunction(call) if call.name().starts_with("regexp_") => {
            call.args.get(1).and_then(text).map(instructions)
        }
        _ => None,
    };
    match instructions {
        Some(count) if count > PATTERN_MAX => plan_err!(
            "a pattern has {count} instructions with its repetitions unrolled, the limit is \
             {PATTERN_MAX}: use smaller counts, or several conditions"
        ),
        _ => Ok(()),
    }
}

fn is_regex(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
    )
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn check_fixed_lengths(expr: &Expr) -> Result<()> {
    let length = match expr {
        Expr::Cast(cast) => fixed_length(cast.field.data_type()),
        Expr::TryCast(cast) => fixed_length(cast.field.data_type()),
        Expr::ScalarFunction(call) if call.name().starts_with("arrow_") => {
            let kind = call.args.get(1).and_then(text).filter(|kind| kind.contains("Fixed"));
            kind.and_then(|kind| kind.parse::<DataType>().ok()).and_then(|kind| fixed_length(&kind))
        }
        _ => None,
    };
    match length {
        Some(length) if length > FIXED_LENGTH_MAX => plan_err!(
            "a type with {length} items in each value, the limit is {FIXED_LENGTH_MAX}: use a \
             list without a length (`int[]`)"
        ),
        _ => Ok(()),
    }
}

/// Items of each value, also a NULL one.
fn fixed_length(kind: &DataType) -> Option<i32> {
    match kind {
        DataType::FixedSizeList(item, length) => {
            Some(length.saturating_mul(fixed_length(item.data_type()).unwrap_or(1)))
        }
        DataType::FixedSizeBinary(length) => Some(*length),
        DataType::List(item) | DataType::LargeList(item) => fixed_length(item.data_type()),
        _ => None,
    }
}
