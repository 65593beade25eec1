//! `percentile(value, fraction)`: percentiles of very many groups at once, each within 1 % of the true value.

use std::mem::size_of;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, Float64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;

use super::sketch::Sketch;

/// The function as SQL knows it.
pub(super) fn percentile() -> AggregateUDF {
    let types = vec![DataType::Float64, DataType::Float64];
    AggregateUDF::from(Percentile { signature: Signature::exact(types, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    signature: Signature,
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &'static str {
        "percentile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { fraction: fraction(&args)?, sketch: Sketch::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[sketch]", args.name);
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many { fraction: fraction(&args)?, sketches: Vec::new(), heap_bytes: 0 }))
    }
}

fn fraction(args: &AccumulatorArgs<'_>) -> Result<f64> {
    if args.is_distinct {
        return plan_err!("percentile takes no `distinct`");
    }
    let literal = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
    match literal.map(Literal::value) {
        Some(ScalarValue::Float64(Some(fraction))) if (0.0..=1.0).contains(fraction) => {
            Ok(*fraction)
        }
        Some(other) => plan_err!("percentile: the fraction {other} is not between 0 and 1"),
        None => plan_err!("percentile: the fraction has to be a constant, such as 0.99"),
    }
}

fn merge(sketch: &mut Sketch, state: &[u8]) -> Result<()> {
    match sketch.merge(state) {
        Some(()) => Ok(()),
        None => exec_err!("percentile: a part of the answer is damaged"),
    }
}

/// All rows are one group.
#[derive(Debug)]
struct One {
    fraction: f64,
    sketch: Sketch,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.sketch.push(value));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.sketch.percentile(self.fraction)))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.sketch.byte_count()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut bytes = Vec::new();
        self.sketch.encode(&mut bytes);
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states[0].as_binary::<i32>();
        states.iter().flatten().try_for_each(|state| merge(&mut self.sketch, state))
    }
}

/// A sketch for each group.
#[derive(Debug)]
struct Many {
    fraction: f64,
    sketches: Vec<Sketch>,
    heap_bytes: usize,
}

impl Many {
    /// Does something to the sketch of a group, and keeps the sum of bytes.
    #[inline]
    fn with<T>(&mut self, group: usize, change: impl FnOnce(&mut Sketch) -> T) -> T {
        let sketch = &mut self.sketches[group];
        let before = sketch.byte_count();
        let outcome = change(sketch);
        self.heap_bytes = self.heap_bytes + sketch.byte_count() - before;
        outcome
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Sketch> {
        let taken = emit_to.take_needed(&mut self.sketches);
        self.heap_bytes = self.sketches.iter().map(Sketch::byte_count).sum();
        taken
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.sketches.resize_with(group_count, Sketch::default);
        let values = values[0].as_primitive::<Float64Type>();
        for (row, group) in groups.iter().enumerate() {
            if values.is_valid(row)
                && filter.is_none_or(|rows| rows.is_valid(row) && rows.value(row))
            {
                self.with(*group, |sketch| sketch.push(values.value(row)));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let fraction = self.fraction;
        let sketches = self.take(emit_to);
        let values = sketches.into_iter().map(|mut sketch| sketch.percentile(fraction));
        Ok(Arc::new(values.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut bytes = Vec::new();
        let mut states = BinaryBuilder::new();
        for mut sketch in self.take(emit_to) {
            bytes.clear();
            sketch.encode(&mut bytes);
            states.append_value(&bytes);
        }
        Ok(vec![Arc::new(states.finish())])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.sketches.resize_with(group_count, Sketch::default);
        let states = states[0].as_binary::<i32>();
        for (row, group) in groups.iter().enumerate() {
            if states.is_valid(row) {
                self.with(*group, |sketch| merge(sketch, states.value(row)))?;
            }
        }
        Ok(())
    }

    /// Rows that were not worth being grouped before they are merged.
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Float64Type>();
        let states = values.iter().enumerate().map(|(row, value)| {
            let is_in = filter.is_none_or(|rows| rows.is_valid(row) && rows.value(row));
            let mut sketch = Sketch::default();
            sketch.push(value.filter(|_| is_in)?);
            let mut bytes = Vec::new();
            sketch.encode(&mut bytes);
            Some(bytes)
        });
        Ok(vec![Arc::new(BinaryArray::from_iter(states))])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.sketches.capacity() * size_of::<Sketch>() + self.heap_bytes
    }
}
