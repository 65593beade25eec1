//! Aggregates over a sorted group: `percentile_cont`, `percentile_disc` and `mode`.
//!
//! The engine's own `percentile_cont` cuts the fraction between two neighbours to six digits; the
//! others it lacks. All keep the values of a group, which counts as memory of the query.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef, SortOptions};
use datafusion::arrow::compute::{concat, is_not_null, sort};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;

/// All aggregates.
pub(crate) fn all() -> Vec<AggregateUDF> {
    let floats = Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable);
    let two = Signature::new(TypeSignature::Any(2), Volatility::Immutable);
    let one = Signature::new(TypeSignature::Any(1), Volatility::Immutable);
    vec![
        OrderedSet {
            kind: SetKind::Continuous,
            signature: floats,
            aliases: vec!["quantile_cont".into()],
        },
        OrderedSet { kind: SetKind::Discrete, signature: two, aliases: Vec::new() },
        OrderedSet { kind: SetKind::Mode, signature: one, aliases: Vec::new() },
    ]
    .into_iter()
    .map(AggregateUDF::from)
    .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SetKind {
    Continuous,
    Discrete,
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: SetKind,
    signature: Signature,
    aliases: Vec<String>,
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.kind {
            SetKind::Continuous => "percentile_cont",
            SetKind::Discrete => "percentile_disc",
            SetKind::Mode => "mode",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(DataType::Interval(_)) => plan_err!(
                "{} of intervals is not supported: use `extract(epoch from …)`",
                self.name()
            ),
            Some(kind) => Ok(kind.clone()),
            None => plan_err!("{} takes `within group (order by …)`", self.name()),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{} takes no `distinct`", self.name());
        }
        let fraction = match self.kind {
            SetKind::Mode => 0.0,
            _ => fraction(&args, self.name())?,
        };
        let descending = args.order_bys.first().is_some_and(|key| key.options.descending);
        let kind =
            args.expr_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Box::new(SortedValues {
            set: self.kind,
            fraction,
            descending,
            kind,
            values: Vec::new(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
        let kind = DataType::List(Arc::new(item));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), kind, true))])
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

fn fraction(args: &AccumulatorArgs<'_>, name: &str) -> Result<f64> {
    let literal = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
    let fraction = literal.and_then(|literal| literal.value().cast_to(&DataType::Float64).ok());
    match fraction {
        Some(ScalarValue::Float64(Some(fraction))) if (0.0..=1.0).contains(&fraction) => {
            Ok(fraction)
        }
        Some(other) => plan_err!("{name}: the fraction {other} is not between 0 and 1"),
        None => plan_err!("{name}: the fraction has to be a constant, such as 0.99"),
    }
}

/// Values of a group.
#[derive(Debug)]
struct SortedValues {
    set: SetKind,
    fraction: f64,
    descending: bool,
    kind: DataType,
    values: Vec<ArrayRef>,
}

impl SortedValues {
    fn push(&mut self, array: &ArrayRef) -> Result<()> {
        let present = if array.null_count() > 0 {
            datafusion::arrow::compute::filter(array, &is_not_null(array)?)?
        } else {
            Arc::clone(array)
        };
        if !present.is_empty() {
            self.values.push(present);
        }
        // Many small arrays take more memory than their values.
        if self.values.len() >= 64 {
            self.values = vec![self.all()?];
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        if self.values.is_empty() {
            return Ok(new_empty_array(&self.kind));
        }
        let arrays: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        Ok(concat(&arrays)?)
    }

    fn sorted(&self) -> Result<ArrayRef> {
        let options = SortOptions { descending: self.descending, nulls_first: false };
        Ok(sort(&self.all()?, Some(options))?)
    }
}

impl Accumulator for SortedValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.push(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sorted = self.sorted()?;
        if sorted.is_empty() {
            return ScalarValue::try_from(&self.kind);
        }
        match self.set {
            SetKind::Continuous => interpolated(&sorted, self.fraction),
            SetKind::Discrete => {
                let at = position(sorted.len(), self.fraction);
                ScalarValue::try_from_array(&sorted, at)
            }
            SetKind::Mode => most_frequent(&sorted),
        }
    }

    fn size(&self) -> usize {
        let arrays: usize = self.values.iter().map(|array| array.get_array_memory_size()).sum();
        size_of_val(self) + arrays
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = SingleRowListArrayBuilder::new(self.all()?).build_list_array();
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        (0..lists.len())
            .filter(|at| lists.is_valid(*at))
            .try_for_each(|at| self.push(&lists.value(at)))
    }
}

/// Index of the first value that is not before this share of the values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index"
)]
fn position(count: usize, fraction: f64) -> usize {
    let rank = (fraction * count as f64).ceil() as usize;
    rank.clamp(1, count) - 1
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index"
)]
fn interpolated(sorted: &ArrayRef, fraction: f64) -> Result<ScalarValue> {
    let Some(values) = sorted.as_primitive_opt::<Float64Type>() else {
        return exec_err!("percentile_cont takes numbers");
    };
    let place = fraction * (values.len() - 1) as f64;
    let (low, high) = (place.floor(), place.ceil());
    let (first, second) = (values.value(low as usize), values.value(high as usize));
    let value = if low < high { first + (place - low) * (second - first) } else { first };
    Ok(ScalarValue::Float64(Some(value)))
}

/// First of the values that occur most often.
fn most_frequent(sorted: &ArrayRef) -> Result<ScalarValue> {
    let ranges = datafusion::arrow::compute::partition(&[Arc::clone(sorted)])?.ranges();
    let longest = ranges.iter().rev().max_by_key(|range| range.len());
    let at = longest.map_or(0, |range| range.start);
    ScalarValue::try_from_array(sorted, at)
}
