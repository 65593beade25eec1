//! `sum` of integers that fails beyond 64 bits, and of decimals that fails beyond 38 digits, where the
//! engine's wraps around.
//!
//! All else is the engine's `sum`, whose name this has: other hubs and the optimizer find it by that.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::scalar::ScalarValue;

use crate::decimal_arithmetic;

/// The aggregate.
pub(crate) fn sum() -> AggregateUDF {
    AggregateUDF::from(CheckedSum { engine: sum_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    engine: Arc<AggregateUDF>,
}

/// An empty sum of decimals, each of them counted; `None` for another sum.
fn decimal_sum(args: &AccumulatorArgs<'_>) -> Option<DecimalSum> {
    match args.return_field.data_type() {
        DataType::Decimal128(digits, scale) if !args.is_distinct => {
            Some(DecimalSum { digits: *digits, scale: *scale, sum: 0, count: 0 })
        }
        _ => None,
    }
}

/// Whether the sum is one of integers, each of them counted.
fn is_checked(args: &AccumulatorArgs<'_>) -> bool {
    args.return_field.data_type() == &DataType::Int64 && !args.is_distinct
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_checked(&args) {
            return Ok(Box::new(WideSum::default()));
        }
        if let Some(sum) = decimal_sum(&args) {
            return Ok(Box::new(sum));
        }
        self.engine.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if is_checked(&args) {
            return Ok(Box::new(WideSum::default()));
        }
        if let Some(sum) = decimal_sum(&args) {
            return Ok(Box::new(sum));
        }
        self.engine.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.engine.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        decimal_sum(&args).is_none() && self.engine.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if is_checked(&args) {
            return Ok(Box::new(GroupSums::default()));
        }
        self.engine.create_groups_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.engine.inner().set_monotonicity(kind)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.engine.value_from_stats(args)
    }
}

fn out_of_digits() -> DataFusionError {
    DataFusionError::from(decimal_arithmetic::out_of_range())
}

fn out_of_range<T>() -> Result<T> {
    exec_err!("bigint out of range: sum of integers; cast them to double precision or numeric")
}

/// Sum of all values, or of those in a window: intermediate sums may exceed 64 bits.
#[derive(Debug, Default)]
struct WideSum {
    sum: i128,
    count: i128,
}

impl WideSum {
    fn add(&mut self, values: &ArrayRef, sign: i128) {
        let values = values.as_primitive::<Int64Type>();
        self.sum += sign * values.iter().flatten().map(i128::from).sum::<i128>();
        let count = values.len() - values.null_count();
        self.count += sign * i128::try_from(count).unwrap_or_default();
    }
}

impl Accumulator for WideSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::Int64(None));
        }
        match i64::try_from(self.sum) {
            Ok(sum) => Ok(ScalarValue::Int64(Some(sum))),
            Err(_) => out_of_range(),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Sum of decimals.
#[derive(Debug)]
struct DecimalSum {
    digits: u8,
    scale: i8,
    sum: i128,
    count: i64,
}

impl DecimalSum {
    fn add(&mut self, values: &ArrayRef, sign: i64) -> Result<()> {
        for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
            let sum = self.sum.checked_add(i128::from(sign) * value);
            self.sum = sum.ok_or_else(out_of_digits)?;
            self.count += sign;
        }
        Ok(())
    }
}

impl Accumulator for DecimalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let limit = 10_i128.pow(u32::from(self.digits));
        let sum = (self.count > 0).then_some(self.sum);
        if sum.is_some_and(|sum| sum.abs() >= limit) {
            return Err(out_of_digits());
        }
        Ok(ScalarValue::Decimal128(sum, self.digits, self.scale))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Sums by group; a group without values has none.
#[derive(Debug, Default)]
struct GroupSums {
    sums: Vec<i64>,
    has_value: Vec<bool>,
}

impl GroupSums {
    fn add(&mut self, group: usize, value: i64) -> Result<()> {
        let Some(sum) = self.sums[group].checked_add(value) else { return out_of_range() };
        self.sums[group] = sum;
        self.has_value[group] = true;
        Ok(())
    }
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, 0);
        self.has_value.resize(count, false);
        let values = values[0].as_primitive::<Int64Type>();
        if filter.is_none() && values.null_count() == 0 {
            return groups
                .iter()
                .zip(values.values())
                .try_for_each(|(group, value)| self.add(*group, *value));
        }
        for (at, group) in groups.iter().enumerate() {
            if values.is_valid(at) && is_selected(filter, at) {
                self.add(*group, values.value(at))?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums);
        let mut valid = BooleanBufferBuilder::new(sums.len());
        valid.append_slice(&emit.take_needed(&mut self.has_value));
        Ok(Arc::new(Int64Array::new(sums.into(), Some(NullBuffer::new(valid.finish())))))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Int64Type>();
        let kept =
            values.iter().enumerate().map(|(at, value)| value.filter(|_| is_selected(filter, at)));
        Ok(vec![Arc::new(kept.collect::<Int64Array>())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i64>() + self.has_value.capacity()
    }
}

fn is_selected(filter: Option<&BooleanArray>, at: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at))
}
