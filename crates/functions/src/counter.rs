//! Increase and rate of counters, which reset to zero when their program restarts.

use std::mem::size_of;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMicrosecondType};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

/// `counter_increase(ts, value)`: increase of the counter, in its own unit.
pub(super) fn counter_increase() -> AggregateUDF {
    AggregateUDF::from(Counter::new("counter_increase", increase))
}

/// `counter_rate(ts, value)`: increase per second between the first and the last row.
pub(super) fn counter_rate() -> AggregateUDF {
    AggregateUDF::from(Counter::new("counter_rate", rate))
}

/// Final function over (µs, counter value) points, sorted by time.
type Answer = fn(&[(i64, f64)]) -> Option<f64>;

#[derive(Debug)]
struct Counter {
    name: &'static str,
    signature: Signature,
    answer: Answer,
}

impl Counter {
    fn new(name: &'static str, answer: Answer) -> Self {
        let ts = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        let types = vec![ts, DataType::Float64];
        Self { name, signature: Signature::exact(types, Volatility::Immutable), answer }
    }
}

/// The name identifies the function, so it alone is compared.
impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Counter {}

impl std::hash::Hash for Counter {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AggregateUDFImpl for Counter {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(CounterPoints { answer: self.answer, points: Vec::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[points]", args.name);
        Ok(vec![std::sync::Arc::new(Field::new(name, DataType::Binary, true))])
    }
}

/// Points of one group, 16 bytes each, in input order.
#[derive(Debug)]
struct CounterPoints {
    answer: Answer,
    points: Vec<(i64, f64)>,
}

impl Accumulator for CounterPoints {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let instants = values[0].as_primitive::<TimestampMicrosecondType>();
        let values = values[1].as_primitive::<Float64Type>();
        self.points
            .extend(instants.iter().zip(values).filter_map(|(ts, value)| Some((ts?, value?))));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.points.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        Ok(ScalarValue::Float64((self.answer)(&self.points)))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.points.capacity() * size_of::<(i64, f64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let bytes = self.points.iter().flat_map(|(ts, value)| {
            let mut point = [0; 16];
            point[..8].copy_from_slice(&ts.to_le_bytes());
            point[8..].copy_from_slice(&value.to_le_bytes());
            point
        });
        Ok(vec![ScalarValue::Binary(Some(bytes.collect()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            let (halves, rest) = state.as_chunks::<8>();
            if !rest.is_empty() || halves.len() % 2 > 0 {
                return exec_err!("a part of a counter's rows is damaged");
            }
            let points = halves.as_chunks::<2>().0.iter();
            self.points.extend(
                points.map(|[ts, value]| (i64::from_le_bytes(*ts), f64::from_le_bytes(*value))),
            );
        }
        Ok(())
    }
}

fn increase(points: &[(i64, f64)]) -> Option<f64> {
    (points.len() > 1).then(|| {
        points
            .windows(2)
            .map(|pair| {
                let (before, now) = (pair[0].1, pair[1].1);
                // A counter never decreases: on a reset, the increase is the value since the
                // restart.
                if now >= before { now - before } else { now }
            })
            .sum()
    })
}

fn rate(points: &[(i64, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a span of time are below 2^53")]
    let seconds = (last - first) as f64 / 1e6;
    increase(points).filter(|_| seconds > 0.0).map(|increase| increase / seconds)
}

#[cfg(test)]
mod tests {
    use super::{increase, rate};

    #[test]
    fn a_counter_that_falls_began_again() {
        let points = [(0, 10.0), (1_000_000, 15.0), (2_000_000, 3.0), (4_000_000, 4.0)];
        assert_eq!(increase(&points), Some(5.0 + 3.0 + 1.0));
        assert_eq!(rate(&points), Some(9.0 / 4.0));
        assert_eq!((increase(&points[..1]), rate(&points[..1])), (None, None));
        assert_eq!(rate(&[(5, 1.0), (5, 2.0)]), None, "no time passed");
    }
}
