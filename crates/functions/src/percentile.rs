//! `percentile(value, fraction)`: percentiles of very many groups at once, each within 1 % of the
//! true value.

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

use super::sketch::{Sketch, percentile_of};

/// The SQL function.
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
        Ok(Box::new(SinglePercentile { fraction: fraction(&args)?, sketch: Sketch::default() }))
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
        Ok(Box::new(GroupedPercentiles::new(fraction(&args)?)))
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

/// Accumulator for a single group.
#[derive(Debug)]
struct SinglePercentile {
    fraction: f64,
    sketch: Sketch,
}

impl Accumulator for SinglePercentile {
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

/// Accumulator for many groups: a sketch per group, and loose values that are not in a sketch yet.
///
/// Most groups have few values, and most queries end before sketches would pay off. So a value is
/// appended beside its group id, values are sorted by group at the end, and no sketch is built.
#[derive(Debug)]
struct GroupedPercentiles {
    fraction: f64,
    groups: usize,
    sketches: Vec<Sketch>,
    heap_bytes: usize,
    loose: Vec<f64>,
    /// Group of each loose value.
    loose_groups: Vec<u32>,
}

/// Most loose values: 48 MiB.
const LOOSE_MAX: usize = 4 << 20;

impl GroupedPercentiles {
    fn new(fraction: f64) -> Self {
        let (loose, loose_groups) = (Vec::new(), Vec::new());
        Self { fraction, groups: 0, sketches: Vec::new(), heap_bytes: 0, loose, loose_groups }
    }

    /// Changes the sketch of a group and updates the byte count.
    #[inline]
    fn with<T>(&mut self, group: usize, change: impl FnOnce(&mut Sketch) -> T) -> T {
        let sketch = &mut self.sketches[group];
        let before = sketch.byte_count();
        let outcome = change(sketch);
        self.heap_bytes = self.heap_bytes + sketch.byte_count() - before;
        outcome
    }

    /// Sorts loose values by group; returns them with the start offset of each group, and the end.
    fn sorted(&mut self) -> (Vec<f64>, Vec<u32>) {
        let mut ends = vec![0_u32; self.groups + 1];
        self.loose_groups.iter().for_each(|group| ends[*group as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut values = vec![0.0; self.loose.len()];
        for (value, group) in self.loose.iter().zip(&self.loose_groups).rev() {
            let at = &mut ends[*group as usize];
            *at -= 1;
            values[*at as usize] = *value;
        }
        (self.loose, self.loose_groups) = (Vec::new(), Vec::new());
        (values, ends)
    }

    /// Moves loose values into sketches.
    fn settle(&mut self) {
        self.sketches.resize_with(self.groups, Sketch::default);
        if self.loose.is_empty() {
            return;
        }
        let (values, starts) = self.sorted();
        for (group, ends) in starts.array_windows::<2>().enumerate() {
            let values = &values[ends[0] as usize..ends[1] as usize];
            if !values.is_empty() {
                self.with(group, |sketch| values.iter().for_each(|value| sketch.push(*value)));
            }
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Sketch> {
        self.settle();
        let taken = emit_to.take_needed(&mut self.sketches);
        self.groups = self.sketches.len();
        self.heap_bytes = self.sketches.iter().map(Sketch::byte_count).sum();
        taken
    }

    /// Percentile of each group when all values are loose.
    fn of_loose(&mut self) -> Float64Array {
        let fraction = self.fraction;
        let (mut values, starts) = self.sorted();
        let groups = starts.array_windows::<2>();
        let percentiles = groups
            .map(|ends| percentile_of(&mut values[ends[0] as usize..ends[1] as usize], fraction));
        let percentiles = percentiles.collect();
        self.groups = 0;
        percentiles
    }
}

impl GroupsAccumulator for GroupedPercentiles {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.groups = group_count;
        let values = values[0].as_primitive::<Float64Type>();
        if self.loose.len() + groups.len() > LOOSE_MAX {
            self.settle();
        }
        let is_nan = values.values().iter().any(|value| value.is_nan());
        if values.null_count() == 0 && filter.is_none() && !is_nan {
            self.loose.extend_from_slice(values.values());
            self.loose_groups.extend(groups.iter().map(group_number));
            return Ok(());
        }
        for (row, group) in groups.iter().enumerate() {
            let value = values.value(row);
            if values.is_valid(row)
                && !value.is_nan()
                && filter.is_none_or(|rows| rows.is_valid(row) && rows.value(row))
            {
                self.loose.push(value);
                self.loose_groups.push(group_number(group));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        if self.sketches.is_empty() && matches!(emit_to, EmitTo::All) {
            return Ok(Arc::new(self.of_loose()));
        }
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
        self.groups = group_count;
        self.settle();
        let states = states[0].as_binary::<i32>();
        for (row, group) in groups.iter().enumerate() {
            if states.is_valid(row) {
                self.with(*group, |sketch| merge(sketch, states.value(row)))?;
            }
        }
        Ok(())
    }

    /// Converts rows to partial states without grouping them, for when partial aggregation does not
    /// pay off.
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
        let loose = self.loose.capacity() * 8 + self.loose_groups.capacity() * 4;
        let sketches = self.sketches.capacity() * size_of::<Sketch>() + self.heap_bytes;
        size_of::<Self>() + loose + sketches
    }
}

fn group_number(group: &usize) -> u32 {
    u32::try_from(*group).expect("fewer groups than 2^32")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of 300 groups, some of them without values.
    fn batches() -> Vec<(ArrayRef, Vec<usize>)> {
        let mut state = 7_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let batch = |_| {
            let groups: Vec<usize> =
                (0..2000).map(|_| usize::try_from(next() % 17 * (next() % 18)).unwrap()).collect();
            let values: Float64Array = (0..2000)
                .map(|_| match next() % 50 {
                    0 => None,
                    1 => Some(f64::NAN),
                    2 => Some(-0.5),
                    _ => Some(f64::from(u32::try_from(next() % 100_000).unwrap()) / 1000.0),
                })
                .collect();
            (Arc::new(values) as ArrayRef, groups)
        };
        (0..9).map(batch).collect()
    }

    fn answer(of: &mut GroupedPercentiles) -> ArrayRef {
        of.evaluate(EmitTo::All).unwrap()
    }

    #[test]
    fn loose_values_give_what_sketches_give() {
        let batches = batches();
        for fraction in [0.0, 0.5, 0.9, 0.99, 1.0] {
            let (mut loose, mut settled) =
                (GroupedPercentiles::new(fraction), GroupedPercentiles::new(fraction));
            let (mut merged, mut filtered) =
                (GroupedPercentiles::new(fraction), GroupedPercentiles::new(fraction));
            let mut all = GroupedPercentiles::new(fraction);
            for (values, groups) in &batches {
                let values = std::slice::from_ref(values);
                let some: BooleanArray = (0..groups.len()).map(|row| Some(row % 3 > 0)).collect();
                loose.update_batch(values, groups, None, 300).unwrap();
                settled.update_batch(values, groups, None, 300).unwrap();
                settled.settle();
                let mut part = GroupedPercentiles::new(fraction);
                part.update_batch(values, groups, None, 300).unwrap();
                let state = part.state(EmitTo::All).unwrap();
                merged.merge_batch(&state, &(0..300).collect::<Vec<_>>(), 300).unwrap();
                filtered.update_batch(values, groups, Some(&some), 300).unwrap();
                all.update_batch(values, groups, Some(&some), 300).unwrap();
                let others: BooleanArray =
                    (0..groups.len()).map(|row| Some(row % 3 == 0)).collect();
                all.update_batch(values, groups, Some(&others), 300).unwrap();
            }
            assert!(loose.size() > 12 * 15_000, "what is loose is counted");
            let filtered = answer(&mut filtered);
            let expected = answer(&mut settled);
            for other in [answer(&mut loose), answer(&mut merged), answer(&mut all)] {
                assert_eq!(&other, &expected, "{fraction}");
            }
            assert!(expected.null_count() > 0 && filtered != expected);
        }
    }
}
