//! A function whose worst case is estimated before each call.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ExprSchema, Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use super::EvaluationLimit;
use super::row_cost::{CostModel, RowCost};
use crate::limits::size;

/// Steps of one row; some seconds, in which it cannot be cancelled.
const ROW_STEPS_MAX: u64 = 2_000_000_000;
/// Steps between two checks for cancellation.
const PART_STEPS: u64 = 100_000_000;

/// A function with its bound.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BoundedFunction {
    inner: ScalarUDF,
    model: CostModel,
}

/// Wraps the function; `None` if it is cheap or already wrapped.
pub(super) fn bounded(function: &ScalarUDF) -> Option<ScalarUDF> {
    if function.inner().is::<BoundedFunction>() {
        return None;
    }
    let model = CostModel::of(function.name())?;
    Some(ScalarUDF::new_from_impl(BoundedFunction { inner: function.clone(), model }))
}

/// Replaces a call of a function that needs a bound; for one node of an expression.
pub(super) fn bind(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call) => match bounded(&call.func) {
            Some(func) => Transformed::yes(Expr::ScalarFunction(ScalarFunction {
                func: Arc::new(func),
                args: call.args,
            })),
            None => Transformed::no(Expr::ScalarFunction(call)),
        },
        other => Transformed::no(other),
    }
}

impl BoundedFunction {
    fn invoke_in_parts(
        &self,
        args: &ScalarFunctionArgs,
        costs: &[RowCost],
        limit: &EvaluationLimit,
    ) -> Result<ColumnarValue> {
        let (mut parts, mut made, mut start) = (Vec::<ArrayRef>::new(), 0, 0);
        while start < costs.len() {
            let rows = self.part(&costs[start..], limit)?;
            let part = self.inner.inner().invoke_with_args(slice(args, start, rows))?;
            let part = part.into_array(rows)?;
            made += part.get_array_memory_size() as u64;
            if made > limit.bytes {
                return self.refuse(made, limit);
            }
            parts.push(part);
            start += rows;
            limit.check_time(self.name())?;
        }
        if parts.is_empty() {
            return Ok(ColumnarValue::Array(new_empty_array(args.return_type())));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(arrow_select::concat::concat(&parts)?))
    }

    /// Rows of the next part: as many as are within a quarter of the limit, at least one.
    fn part(&self, costs: &[RowCost], limit: &EvaluationLimit) -> Result<usize> {
        let (mut bytes, mut steps, mut rows) = (0_u64, 0_u64, 0);
        for cost in costs {
            if cost.bytes > limit.bytes {
                return self.refuse(cost.bytes, limit);
            }
            if cost.steps > ROW_STEPS_MAX {
                return exec_err!(
                    "`{}` would take too long for one row ({} million steps, the limit is {}): \
                     pass it shorter texts, such as `left(…, 1000)`",
                    self.name(),
                    cost.steps / 1_000_000,
                    ROW_STEPS_MAX / 1_000_000
                );
            }
            (bytes, steps) = (bytes.saturating_add(cost.bytes), steps.saturating_add(cost.steps));
            if rows > 0 && (bytes > limit.bytes / 4 || steps > PART_STEPS) {
                break;
            }
            rows += 1;
        }
        Ok(rows)
    }

    /// What the author of the SQL calls it.
    fn label(&self) -> String {
        match self.name() {
            "string_concat" => "`||`".to_owned(),
            "wide_constant" => "a constant in each row".to_owned(),
            name => format!("`{name}`"),
        }
    }

    fn refuse<T>(&self, bytes: u64, limit: &EvaluationLimit) -> Result<T> {
        exec_err!(
            "{} would make {}, the limit is {}: use shorter values or fewer rows, or raise \
             `api.one_query_memory_bytes`",
            self.label(),
            size(bytes),
            size(limit.bytes)
        )
    }
}

/// The arguments of some rows.
fn slice(args: &ScalarFunctionArgs, start: usize, rows: usize) -> ScalarFunctionArgs {
    let values = args.args.iter().map(|value| match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(start, rows)),
        scalar @ ColumnarValue::Scalar(_) => scalar.clone(),
    });
    ScalarFunctionArgs { args: values.collect(), number_rows: rows, ..args.clone() }
}

impl ScalarUDFImpl for BoundedFunction {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let costs = self.model.rows(&args.args, args.number_rows)?;
        let limit = EvaluationLimit::current();
        let bytes = costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(cost.bytes));
        let steps = costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(cost.steps));
        if bytes <= limit.bytes && steps <= PART_STEPS {
            return self.inner.inner().invoke_with_args(args);
        }
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        if is_scalar {
            // A constant for each row, or one call.
            if bytes > limit.bytes {
                return self.refuse(bytes, &limit);
            }
            self.part(&costs, &limit)?;
            return self.inner.inner().invoke_with_args(args);
        }
        self.invoke_in_parts(&args, &costs, &limit)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.inner.inner().simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => {
                ExprSimplifyResult::Simplified(expr.transform_up(|part| Ok(bind(part)))?.data)
            }
            original @ ExprSimplifyResult::Original(_) => original,
        })
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let updated = self.inner.inner().with_updated_config(config)?;
        bounded(&updated)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[expect(deprecated, reason = "the inner function may still implement it")]
        self.inner.inner().is_nullable(args, schema)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.inner().short_circuits()
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.inner().evaluate_bounds(input)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.inner().propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}
