//! Bounds the results of window functions, which no operator reserves.
//!
//! `array_agg(host) over ()` copies the array of all rows to each row: 14 GB for 60,000 rows. The
//! bytes of the results are added up for the whole query. A partition of millions of rows is one step of the
//! engine, so the time is checked within it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, SortOptions};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::function::{
    AccumulatorArgs, ExpressionArgs, PartitionEvaluatorArgs, StateFieldsArgs,
    WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, LimitEffect,
    PartitionEvaluator, ReversedUDAF, ReversedUDWF, SetMonotonicity, Signature,
    WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use super::EvaluationLimit;

/// Results of a window between two checks of the time: all rows of a partition are one step of the engine.
const RESULTS_PER_CHECK: u32 = 1024;
/// Window functions that return values of other rows.
const FUNCTIONS: &[&str] = &["first_value", "lag", "last_value", "lead", "nth_value"];
/// Results up to this size are not added up: they are as wide as usual columns.
const NARROW_BYTES: u64 = 1024;

/// Bounds a window function's call.
pub(super) fn bind(mut call: Box<WindowFunction>) -> Transformed<Expr> {
    let bounded = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) if !is_bounded_aggregate(function) => {
            let function = BoundedAggregate { inner: AggregateUDF::clone(function) };
            let function = Arc::new(AggregateUDF::new_from_impl(function));
            WindowFunctionDefinition::AggregateUDF(function)
        }
        WindowFunctionDefinition::WindowUDF(function)
            if FUNCTIONS.contains(&function.name()) && !is_bounded_window(function) =>
        {
            let function = BoundedWindow { inner: WindowUDF::clone(function) };
            let function = Arc::new(WindowUDF::new_from_impl(function));
            WindowFunctionDefinition::WindowUDF(function)
        }
        _ => return Transformed::no(Expr::WindowFunction(call)),
    };
    call.fun = bounded;
    Transformed::yes(Expr::WindowFunction(call))
}

fn is_bounded_aggregate(function: &AggregateUDF) -> bool {
    function.inner().is::<BoundedAggregate>()
}

fn is_bounded_window(function: &WindowUDF) -> bool {
    function.inner().is::<BoundedWindow>()
}

/// Bytes of a result that count.
fn bytes(value: &ScalarValue) -> u64 {
    let size = value.size() as u64;
    if size > NARROW_BYTES { size } else { 0 }
}

/// An aggregate function over a window.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BoundedAggregate {
    inner: AggregateUDF,
}

impl BoundedAggregate {
    fn wrap(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        let limit = EvaluationLimit::current();
        let function = self.inner.name().to_owned();
        Box::new(BoundedAccumulator { inner, function, limit, rows: 0, results: 0 })
    }
}

impl AggregateUDFImpl for BoundedAggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.inner().window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.inner().window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.inner().return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.inner().is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.wrap(self.inner.inner().accumulator(args)?))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(self.wrap(self.inner.inner().create_sliding_accumulator(args)?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.inner().reverse_expr() {
            ReversedUDAF::Reversed(inner) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(Self {
                    inner: AggregateUDF::clone(&inner),
                })))
            }
            other => other,
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.inner.inner().default_value(kind)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.inner().supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.inner().supports_within_group_clause()
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(kind)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}

struct BoundedAccumulator {
    inner: Box<dyn Accumulator>,
    function: String,
    limit: EvaluationLimit,
    /// Rows of the frame so far.
    rows: u64,
    results: u32,
}

impl fmt::Debug for BoundedAccumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedAccumulator").finish_non_exhaustive()
    }
}

impl Accumulator for BoundedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, |values| values.len() as u64);
        self.inner.update_batch(values)
    }

    /// The first result may be the only one, for all rows of its partition.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let copies = if self.results > 0 { 1 } else { self.rows };
        let result = self.inner.evaluate()?;
        self.results = self.results.wrapping_add(1).max(1);
        if self.results.is_multiple_of(RESULTS_PER_CHECK) {
            self.limit.check_time(&self.function)?;
        }
        match bytes(&result).saturating_mul(copies) {
            0 => {}
            bytes => self.limit.add_window_bytes(&self.function, bytes)?,
        }
        Ok(result)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// A function that returns values of other rows of its window.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BoundedWindow {
    inner: WindowUDF,
}

impl WindowUDFImpl for BoundedWindow {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.inner().expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.inner().partition_evaluator(args)?;
        let (function, limit) = (self.inner.name().to_owned(), EvaluationLimit::current());
        Ok(Box::new(BoundedEvaluator { inner, function, limit }))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.inner.inner().simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().field(args)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.inner().sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.inner().reverse_expr() {
            ReversedUDWF::Reversed(inner) => {
                ReversedUDWF::Reversed(Arc::new(WindowUDF::new_from_impl(Self {
                    inner: WindowUDF::clone(&inner),
                })))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

struct BoundedEvaluator {
    inner: Box<dyn PartitionEvaluator>,
    function: String,
    limit: EvaluationLimit,
}

impl fmt::Debug for BoundedEvaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedEvaluator").finish_non_exhaustive()
    }
}

impl PartitionEvaluator for BoundedEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.inner.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let result = self.inner.evaluate(values, range)?;
        self.limit.add_window_bytes(&self.function, bytes(&result))?;
        Ok(result)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        self.inner.evaluate_all_with_rank(rows, ranks)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::functions_aggregate::count::count_udaf;

    use super::*;

    #[test]
    fn a_long_partition_ends_within_it() {
        let limit = EvaluationLimit {
            bytes: u64::MAX,
            usage: None,
            timeout: Duration::ZERO,
            started: Instant::now(),
        };
        let count = count_udaf();
        let field: FieldRef = Arc::new(arrow_schema::Field::new("n", DataType::Int64, false));
        let inner = count.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&field),
            schema: &arrow_schema::Schema::empty(),
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: "count",
            is_distinct: false,
            exprs: &[],
            expr_fields: &[],
        });
        let inner = inner.expect("count has one");
        let mut window =
            BoundedAccumulator { inner, function: "count".to_owned(), limit, rows: 0, results: 0 };
        let ended = (0..2 * RESULTS_PER_CHECK).find_map(|_| window.evaluate().err());
        let text = ended.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("`count` was stopped"), "{text}");
    }
}
