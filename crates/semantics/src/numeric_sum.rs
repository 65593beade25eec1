//! Sums within quotients: PostgreSQL's `sum` of `bigint` is a `numeric`, so that `sum(hits) / sum(all)` is a
//! fraction. Here it is a `bigint`, and a quotient of two would be 0.
//!
//! The syntax step renames such sums; this step, which knows the types, makes them sums of floats, or
//! what they are of smaller integers, whose quotient is whole in PostgreSQL, too. Of sums that a query
//! names, the columns are marked, and the quotients of marked columns are fractions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, exec_err, plan_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Case, ColumnarValue, Expr, ExprSchemable,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use weir_dialect::{NAMED_EXTREMES, NAMED_SUM, NAMED_VALUE, NUMERIC_SUM};

use crate::checked_sum;
use crate::rewrite_parts::cast;

/// Metadata of columns that are `numeric` in PostgreSQL, while a query is planned.
const MARK: &str = "weir.numeric_sum";
/// Metadata of columns that are `integer` there, and `bigint` here.
const CONSTANT: &str = "weir.constant";

/// The aggregates that stand for others until the types are known.
pub(crate) fn placeholders() -> [AggregateUDF; 4] {
    let [max, min] = NAMED_EXTREMES;
    let [numeric, named] = [NUMERIC_SUM, NAMED_SUM].map(|name| (name, sum_udaf()));
    [numeric, named, (max, max_udaf()), (min, min_udaf())]
        .map(|(name, engine)| AggregateUDF::from(Placeholder { name, engine }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Placeholder {
    name: &'static str,
    engine: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Placeholder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.engine.coerce_types(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name, self.return_type(&types)?, true);
        let is_marked = self.name == NAMED_SUM
            && types.iter().any(is_long)
            && !fields.iter().any(|field| field.metadata().contains_key(CONSTANT));
        let is_marked = is_marked || fields.iter().any(has_mark);
        let mark = is_marked.then(|| (MARK.to_owned(), String::new()));
        Ok(Arc::new(field.with_metadata(HashMap::from_iter(mark))))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        exec_err!("`{}` has been planned without its type", self.name)
    }
}

/// The function that stands for its first argument, and marks its column like those of the others.
pub(crate) fn named_value() -> ScalarUDF {
    ScalarUDF::from(NamedValue { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedValue {
    signature: Signature,
}

impl ScalarUDFImpl for NamedValue {
    fn name(&self) -> &'static str {
        NAMED_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        exec_err!("`{NAMED_VALUE}` has a field in place of a type")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some((value, parts)) = args.arg_fields.split_first() else {
            return plan_err!("`{NAMED_VALUE}` takes a value");
        };
        let mark = match parts {
            _ if !is_long(value.data_type()) => None,
            [] => Some(CONSTANT),
            parts => parts.iter().any(has_mark).then_some(MARK),
        };
        let mark = mark.map(|mark| (mark.to_owned(), String::new()));
        let metadata = value.metadata().clone().into_iter().chain(mark).collect();
        Ok(Arc::new(value.as_ref().clone().with_metadata(metadata)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("`{NAMED_VALUE}` has been planned without its type")
    }
}

/// The aggregate in place of one that stands for it; `None` for another function.
pub(crate) fn in_place(
    function: &str,
    args: &mut [Expr],
    schema: &DFSchema,
) -> Option<Arc<AggregateUDF>> {
    let [max, min] = NAMED_EXTREMES;
    match function {
        NAMED_SUM => {}
        function if function == max => return Some(max_udaf()),
        function if function == min => return Some(min_udaf()),
        NUMERIC_SUM => {
            for value in args.iter_mut().filter(|value| is_bigint(value, schema)) {
                *value = cast(std::mem::take(value), DataType::Float64);
            }
        }
        _ => return None,
    }
    Some(Arc::new(checked_sum::sum()))
}

fn is_long(kind: &DataType) -> bool {
    matches!(kind, DataType::Int64 | DataType::UInt64)
}

fn has_mark(field: &FieldRef) -> bool {
    field.metadata().contains_key(MARK)
}

/// Whether an integer is made of sums that a query named, which are `numeric` in PostgreSQL.
pub(crate) fn is_named_sum(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(_) | Expr::ScalarSubquery(_) | Expr::OuterReferenceColumn(..) => {
            expr.to_field(schema).is_ok_and(|(_, field)| has_mark(&field))
        }
        Expr::Case(case) => results(case).any(|result| is_named_sum(result, schema)),
        Expr::Alias(alias) => is_named_sum(&alias.expr, schema),
        Expr::Negative(value) => is_named_sum(value, schema),
        Expr::ScalarFunction(call) if gives_argument(call.name()) => {
            call.args.iter().any(|arg| is_named_sum(arg, schema))
        }
        _ => false,
    }
}

fn results(case: &Case) -> impl Iterator<Item = &Expr> {
    case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref())
}

/// Whether the type of a result is that of the arguments.
fn gives_argument(function: &str) -> bool {
    function.starts_with("checked_")
        || ["coalesce", "greatest", "least", "nullif", "abs"].contains(&function)
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
        Expr::Case(case) => results(case).any(|result| is_bigint(result, schema)),
        Expr::ScalarFunction(call) if gives_argument(call.name()) => {
            call.args.iter().any(|arg| is_bigint(arg, schema))
        }
        other => other.to_field(schema).is_ok_and(|(_, field)| {
            is_long(field.data_type()) && !field.metadata().contains_key(CONSTANT)
        }),
    }
}
