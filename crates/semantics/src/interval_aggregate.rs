//! `min`, `max`, `sum` and `avg` of intervals, `sum` and `avg` of differences of times. The engine compares
//! intervals part by part.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;
use weir_dialect::IntervalParts;

use crate::interval_functions::{INTERVAL, interval_value, parts_of};

/// All aggregates.
pub(crate) fn all() -> Vec<AggregateUDF> {
    let kinds = [IntervalSet::Min, IntervalSet::Max, IntervalSet::Sum, IntervalSet::Avg];
    let all = kinds.into_iter().map(|set| {
        let signature = Signature::new(TypeSignature::Any(1), Volatility::Immutable);
        AggregateUDF::from(IntervalAggregate { set, signature })
    });
    all.collect()
}

/// The aggregate in place of the engine's of this name, for differences of times as well: the engine adds
/// nanoseconds without a check, and 30,000 differences of ten days are more than 292 years.
pub(crate) fn in_place_for_differences(name: &str) -> Option<AggregateUDF> {
    ["sum", "avg", "mean"].contains(&name).then(|| in_place_of(name)).flatten()
}

/// The aggregate for intervals in place of the engine's of this name.
pub(crate) fn in_place_of(name: &str) -> Option<AggregateUDF> {
    let set = match name {
        "min" => IntervalSet::Min,
        "max" => IntervalSet::Max,
        "sum" => IntervalSet::Sum,
        "avg" | "mean" => IntervalSet::Avg,
        _ => return None,
    };
    all().into_iter().find(|aggregate| aggregate.name() == set.name())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IntervalSet {
    Min,
    Max,
    Sum,
    Avg,
}

impl IntervalSet {
    fn name(self) -> &'static str {
        match self {
            Self::Min => "interval_min",
            Self::Max => "interval_max",
            Self::Sum => "interval_sum",
            Self::Avg => "interval_avg",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalAggregate {
    set: IntervalSet,
    signature: Signature,
}

impl AggregateUDFImpl for IntervalAggregate {
    fn name(&self) -> &str {
        self.set.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && matches!(self.set, IntervalSet::Sum | IntervalSet::Avg) {
            return plan_err!("sum and avg of distinct intervals are not supported");
        }
        Ok(Box::new(IntervalSummary { set: self.set, months: 0, days: 0, micros: 0, count: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let fields = ["months", "days", "micros", "count"].into_iter().map(|part| {
            let name = format!("{}[{part}]", args.name);
            Arc::new(Field::new(name, DataType::Int64, true))
        });
        Ok(fields.collect())
    }
}

/// Sum or extreme of a group, and the number of its values.
#[derive(Debug)]
struct IntervalSummary {
    set: IntervalSet,
    months: i64,
    days: i64,
    micros: i64,
    count: i64,
}

impl IntervalSummary {
    fn add(&mut self, [months, days, micros]: [i64; 3], count: i64) -> Result<()> {
        let (old, new) =
            (length([self.months, self.days, self.micros]), length([months, days, micros]));
        let replaces = match self.set {
            IntervalSet::Sum | IntervalSet::Avg => None,
            IntervalSet::Min => Some(self.count == 0 || new < old),
            IntervalSet::Max => Some(self.count == 0 || new > old),
        };
        match replaces {
            None => {
                self.months += months;
                self.days += days;
                let Some(sum) = self.micros.checked_add(micros) else {
                    return exec_err!("a sum of intervals exceeds its limits");
                };
                self.micros = sum;
            }
            Some(true) => (self.months, self.days, self.micros) = (months, days, micros),
            Some(false) => {}
        }
        self.count += count;
        Ok(())
    }
}

fn length([months, days, micros]: [i64; 3]) -> i128 {
    (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000 + i128::from(micros)
}

impl Accumulator for IntervalSummary {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for at in 0..values[0].len() {
            if let Some(parts) = parts_of(&ScalarValue::try_from_array(&values[0], at)?) {
                self.add([parts.months.into(), parts.days.into(), parts.micros], 1)?;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for at in 0..values[0].len() {
            if let Some(parts) = parts_of(&ScalarValue::try_from_array(&values[0], at)?) {
                self.add([-i64::from(parts.months), -i64::from(parts.days), -parts.micros], -1)?;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        matches!(self.set, IntervalSet::Sum | IntervalSet::Avg)
    }

    #[expect(clippy::cast_precision_loss, reason = "an average")]
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let (Ok(months), Ok(days)) = (i32::try_from(self.months), i32::try_from(self.days)) else {
            return exec_err!("a sum of intervals exceeds its limits");
        };
        let parts = IntervalParts { months, days, micros: self.micros };
        interval_value(match self.set {
            IntervalSet::Avg => parts.times(1.0 / self.count as f64),
            _ => parts,
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.months, self.days, self.micros, self.count].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [months, days, micros, count] = states else {
            return exec_err!("a part of the answer is damaged");
        };
        let columns =
            [months, days, micros, count].map(|column| column.as_primitive::<Int64Type>());
        for at in 0..columns[0].len() {
            let [months, days, micros, count] = columns.map(|column| column.value(at));
            if count > 0 {
                self.add([months, days, micros], count)?;
            }
        }
        Ok(())
    }
}
