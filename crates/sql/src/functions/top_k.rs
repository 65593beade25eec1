//! `top_k(value, count)`: the most frequent values of a group and how often each occurs, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::size_of;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;
use serde::Serializer;

/// Values that are kept when there are too many, and the most that can be asked for.
const KEPT: usize = 1_024;

/// Different values of a group above which only [`KEPT`] are kept: up to here, counts are exact.
const HELD_MAX: usize = 2 * KEPT;

/// The function as SQL knows it.
pub(super) fn top_k() -> AggregateUDF {
    AggregateUDF::from(TopK { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TopK {
    signature: Signature,
}

impl AggregateUDFImpl for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Whatever has a text is counted by it: numbers and instants, too.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, _] => Ok(vec![DataType::Utf8, DataType::Int64]),
            _ => {
                plan_err!("top_k wants a column and how many of its values, as top_k(url_path, 10)")
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(ValueCounts { asked: asked(&args)?, counts: HashMap::new(), text_bytes: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[counts]", args.name);
        Ok(vec![Arc::new(Field::new(name, DataType::Utf8, true))])
    }
}

fn asked(args: &AccumulatorArgs<'_>) -> Result<usize> {
    if args.is_distinct {
        return plan_err!("top_k takes no `distinct`");
    }
    let literal = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
    match literal.map(Literal::value) {
        Some(ScalarValue::Int64(Some(count))) => match usize::try_from(*count) {
            Ok(count @ 1..=KEPT) => Ok(count),
            _ => plan_err!("top_k: {count} values asked for, which is not between 1 and {KEPT}"),
        },
        Some(other) => plan_err!("top_k: {other} is no number of values"),
        None => plan_err!("top_k: the number of values has to be a constant, such as 10"),
    }
}

/// How often each value of one group came: a summary after Misra and Gries, which keeps its bound when merged.
#[derive(Debug)]
struct ValueCounts {
    asked: usize,
    counts: HashMap<String, u64>,
    text_bytes: usize,
}

impl ValueCounts {
    fn add(&mut self, value: &str, count: u64) {
        if let Some(known) = self.counts.get_mut(value) {
            *known += count;
            return;
        }
        self.text_bytes += value.len();
        self.counts.insert(value.to_owned(), count);
        if self.counts.len() > HELD_MAX {
            self.drop_rare();
        }
    }

    /// Takes what the first value not to be kept has off every value.
    ///
    /// At least [`KEPT`] + 1 values lose it, so over all times a value loses less than the rows divided by [`KEPT`].
    fn drop_rare(&mut self) {
        let mut all: Vec<u64> = self.counts.values().copied().collect();
        let (_, &mut lost, _) = all.select_nth_unstable_by_key(KEPT, |count| Reverse(*count));
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(lost);
            *count > 0
        });
        self.text_bytes = self.counts.keys().map(String::len).sum();
    }
}

impl Accumulator for ValueCounts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_string::<i32>().iter().flatten().for_each(|value| self.add(value, 1));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut all: Vec<(&str, u64)> =
            self.counts.iter().map(|(value, count)| (value.as_str(), *count)).collect();
        all.sort_unstable_by_key(|&(value, count)| (Reverse(count), value));
        all.truncate(self.asked);
        Ok(ScalarValue::Utf8(if all.is_empty() { None } else { Some(object(all)?) }))
    }

    fn size(&self) -> usize {
        // The table holds a byte more for each entry, and what texts take on the heap is rounded up to 16.
        let entry = size_of::<(String, u64)>() + 1;
        size_of::<Self>()
            + self.counts.capacity() * entry
            + self.text_bytes
            + self.counts.len() * 16
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = self.counts.iter().map(|(value, count)| (value.as_str(), *count));
        Ok(vec![ScalarValue::Utf8(Some(object(all)?))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in states[0].as_string::<i32>().iter().flatten() {
            let counts: HashMap<String, u64> = serde_json::from_str(state).map_err(|error| {
                exec_datafusion_err!("top_k: a part of the answer is damaged: {error}")
            })?;
            counts.iter().for_each(|(value, count)| self.add(value, *count));
        }
        Ok(())
    }
}

/// A JSON object of values and their counts, in this order.
fn object<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Result<String> {
    let mut json = Vec::new();
    let written = serde_json::Serializer::new(&mut json).collect_map(counts);
    written.map_err(|error| DataFusionError::External(error.into()))?;
    String::from_utf8(json).map_err(|error| DataFusionError::External(error.into()))
}
