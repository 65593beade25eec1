//! `top_k(value, count)`: the most frequent values of a group and how often each occurs, in bounded
//! memory.

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

/// Values retained after pruning, and the largest allowed `count`.
const KEPT: usize = 1_024;

/// Distinct values of a group above which it is pruned to [`KEPT`]; below, counts are exact.
const HELD_MAX: usize = 2 * KEPT;

/// The SQL function.
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

    /// Casts the values to text: numbers and timestamps are accepted, too.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, _] => Ok(vec![DataType::Utf8, DataType::Int64]),
            _ => {
                plan_err!("top_k takes a column and a number of values: top_k(url_path, 10)")
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
            _ => plan_err!("top_k: {count} values requested, not between 1 and {KEPT}"),
        },
        Some(other) => plan_err!("top_k: {other} is not a number of values"),
        None => plan_err!("top_k: the number of values has to be a constant, such as 10"),
    }
}

/// Counts of the values of one group: a Misra-Gries summary, whose error bound survives merging.
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

    /// Prunes to [`KEPT`] values: subtracts from every count that of the most frequent value to be
    /// dropped.
    ///
    /// At least [`KEPT`] + 1 values lose that much, so in total a count is too low by less than the
    /// rows divided by [`KEPT`].
    ///
    /// With `KEPT` = 2, the counts a 9, b 5, c 3, d 1 become a 6, b 2: c's count of 3 is subtracted
    /// from each, and values that reach zero are dropped.
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
        // The hash table adds a byte per entry, and heap allocations of texts are rounded up to 16
        // bytes.
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

/// JSON object of values and their counts, in this order.
fn object<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Result<String> {
    let mut json = Vec::new();
    let written = serde_json::Serializer::new(&mut json).collect_map(counts);
    written.map_err(|error| DataFusionError::External(error.into()))?;
    String::from_utf8(json).map_err(|error| DataFusionError::External(error.into()))
}
