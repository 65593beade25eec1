//! Sums within quotients: PostgreSQL's `sum` of `bigint` is a `numeric`, so that `sum(hits) / sum(all)` is a
//! fraction. Here it is a `bigint`, and a quotient of two would be 0.
//!
//! The syntax step renames such sums; this step, which knows the types, makes them sums of floats, or
//! what they are of smaller integers, whose quotient is whole in PostgreSQL, too.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Case, Expr, Signature,
};
use datafusion::scalar::ScalarValue;
use weir_dialect::NUMERIC_SUM;

use crate::checked_sum;
use crate::rewrite_parts::{cast, type_of};

/// The aggregate that stands for a sum until its type is known.
pub(crate) fn numeric_sum() -> AggregateUDF {
    AggregateUDF::from(NumericSum { engine: sum_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumericSum {
    engine: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for NumericSum {
    fn name(&self) -> &'static str {
        NUMERIC_SUM
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(types)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        exec_err!("a sum within a quotient has been planned without its type")
    }
}

/// The sum in place of one within a quotient; `None` for another function.
pub(crate) fn in_place(
    function: &str,
    args: &mut [Expr],
    schema: &DFSchema,
) -> Option<Arc<AggregateUDF>> {
    if function != NUMERIC_SUM {
        return None;
    }
    for value in args.iter_mut().filter(|value| is_bigint(value, schema)) {
        *value = cast(std::mem::take(value), DataType::Float64);
    }
    Some(Arc::new(checked_sum::sum()))
}

/// Whether PostgreSQL has a `bigint`: constants, and what is computed from them, are `integer` there.
fn is_bigint(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => i32::try_from(*number).is_err(),
        Expr::Literal(..) => false,
        Expr::Alias(alias) => is_bigint(&alias.expr, schema),
        Expr::Negative(value) => is_bigint(value, schema),
        Expr::BinaryExpr(binary) => {
            is_bigint(&binary.left, schema) || is_bigint(&binary.right, schema)
        }
        Expr::Case(Case { when_then_expr, else_expr, .. }) => when_then_expr
            .iter()
            .map(|(_, then)| then)
            .chain(else_expr)
            .any(|then| is_bigint(then, schema)),
        Expr::ScalarFunction(call)
            if call.name().starts_with("checked_")
                || ["coalesce", "greatest", "least", "nullif", "abs"].contains(&call.name()) =>
        {
            call.args.iter().any(|arg| is_bigint(arg, schema))
        }
        other => matches!(type_of(other, schema), Some(DataType::Int64 | DataType::UInt64)),
    }
}
