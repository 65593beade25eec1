//! `only_value(x)`: the value of the only row, an error for more rows.
//!
//! The engine takes a subquery as a value only if it sees that there is one row; this aggregate makes
//! sure of it as PostgreSQL does, when the query runs.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;
use weir_dialect::ONLY_VALUE;

/// The aggregate.
pub(crate) fn only_value() -> AggregateUDF {
    let signature = Signature::new(TypeSignature::Any(1), Volatility::Immutable);
    AggregateUDF::from(OnlyValue { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl AggregateUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        ONLY_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SingleRow {
            value: ScalarValue::try_from(args.return_field.data_type())?,
            rows: 0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let kind = args.return_field.data_type().clone();
        Ok(vec![
            Field::new(format!("{}[value]", args.name), kind, true).into(),
            Field::new(format!("{}[rows]", args.name), DataType::Int64, false).into(),
        ])
    }
}

/// The value of a row so far.
#[derive(Debug)]
struct SingleRow {
    value: ScalarValue,
    rows: i64,
}

impl SingleRow {
    fn take(&mut self, values: &ArrayRef, at: usize) -> Result<()> {
        self.rows += 1;
        if self.rows > 1 {
            return exec_err!("more than one row returned by a subquery used as an expression");
        }
        self.value = ScalarValue::try_from_array(values, at)?;
        Ok(())
    }
}

impl Accumulator for SingleRow {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|at| self.take(&values[0], at))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.rows)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<Int64Type>();
        for at in (0..rows.len()).filter(|at| rows.value(*at) > 0) {
            self.take(&states[0], at)?;
        }
        Ok(())
    }
}
