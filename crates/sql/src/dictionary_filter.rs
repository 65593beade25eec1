//! Evaluates a condition on a text once per distinct value of a row group instead of once per row.
//!
//! Most texts repeat, and Parquet stores them as a dictionary and a code per row. A column that a
//! query uses only in conditions on this column alone is read as stored, see [`columns`]; the
//! results for the dictionary's values are reused as long as rows come with the same dictionary
//! ([`DictionaryFilter`]).

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{ColumnarValue, Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use parking_lot::Mutex;
use weir_datafile::is_same;
use weir_tables::{DataKind, TableSpec};

/// Indexes of text columns with conditions in `filters` that reference no other column. Sort
/// columns are left out: page statistics select better there, and they need the condition in its
/// original form.
pub(crate) fn columns(table: &TableSpec, filters: &[Expr]) -> Vec<usize> {
    let (mut alone, mut together) = (HashSet::new(), HashSet::new());
    for condition in filters.iter().flat_map(split_conjunction) {
        let names: Vec<String> =
            condition.column_refs().iter().map(|column| column.name.clone()).collect();
        match &names[..] {
            [name] if !condition.is_volatile() => drop(alone.insert(name.clone())),
            _ => together.extend(names),
        }
    }
    let is_asked = |name: &str| alone.contains(name) && !together.contains(name);
    let columns = table.columns.iter().enumerate().filter(|(_, column)| {
        column.kind == DataKind::Text && is_asked(column.name) && !table.sort.contains(&column.name)
    });
    columns.map(|(place, _)| place).collect()
}

/// Adapts the conditions of a scan to files that are read with dictionaries.
#[derive(Debug)]
pub(crate) struct DictionaryFilterAdapters;

impl PhysicalExprAdapterFactory for DictionaryFilterAdapters {
    fn create(
        &self,
        logical: SchemaRef,
        physical: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let plain = DefaultPhysicalExprAdapterFactory.create(logical, Arc::clone(&physical))?;
        let has_dictionaries =
            physical.fields().iter().any(|field| is_dictionary(field.data_type()));
        if !has_dictionaries {
            return Ok(plain);
        }
        Ok(Arc::new(DictionaryFilterAdapter { plain, physical }))
    }
}

#[derive(Debug)]
struct DictionaryFilterAdapter {
    plain: Arc<dyn PhysicalExprAdapter>,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for DictionaryFilterAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        asked_per_value(self.plain.rewrite(expr)?, &self.physical)
    }
}

fn is_dictionary(kind: &DataType) -> bool {
    matches!(kind, DataType::Dictionary(..))
}

/// Rewrites every condition on one dictionary column to be evaluated per value.
fn asked_per_value(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    if let Some(both) = expr.downcast_ref::<BinaryExpr>()
        && *both.op() == Operator::And
    {
        let left = asked_per_value(Arc::clone(both.left()), schema)?;
        let right = asked_per_value(Arc::clone(both.right()), schema)?;
        return Ok(Arc::new(BinaryExpr::new(left, Operator::And, right)));
    }
    let columns = collect_columns(&expr);
    let [column] = &columns.iter().collect::<Vec<_>>()[..] else { return Ok(expr) };
    let is_text = is_dictionary(schema.field(column.index()).data_type());
    let is_condition = expr.data_type(schema)? == DataType::Boolean;
    // A bound that a join or a sort tightens at run time changes from batch to batch.
    if !is_text
        || !is_condition
        || DynamicFilterTracking::classify(&expr).contains_dynamic_filter()
        || is_volatile(&expr)
    {
        return Ok(expr);
    }
    let value: Arc<dyn PhysicalExpr> = Arc::new(Column::new(VALUE, 0));
    let condition = Arc::clone(&expr).transform_down(|node| {
        let is_text = node
            .downcast_ref::<CastExpr>()
            .is_some_and(|cast| cast.expr().is::<Column>() && *cast.cast_type() == DataType::Utf8);
        Ok(if is_text { Transformed::yes(Arc::clone(&value)) } else { Transformed::no(node) })
    });
    let condition = condition.data()?;
    if collect_columns(&condition).iter().any(|column| column.name() != VALUE) {
        return Ok(expr);
    }
    Ok(Arc::new(DictionaryFilter::new(condition, Arc::new((*column).clone()))))
}

/// Column name of the value in a rewritten condition.
const VALUE: &str = "value";

/// A condition on one dictionary-encoded column.
#[derive(Debug)]
struct DictionaryFilter {
    /// The condition, over a batch of one column.
    condition: Arc<dyn PhysicalExpr>,
    column: Arc<dyn PhysicalExpr>,
    known: Mutex<KnownDictionary>,
}

/// Cached results for the most recent dictionary.
#[derive(Debug, Default)]
struct KnownDictionary {
    values: Option<ArrayRef>,
    /// Rows evaluated one by one for this dictionary.
    rows: usize,
    answers: Option<ValueOutcomes>,
}

/// Results of a condition for the values of a dictionary, and for NULL.
#[derive(Clone, Debug)]
struct ValueOutcomes {
    of_values: BooleanArray,
    of_null: Option<bool>,
}

impl DictionaryFilter {
    fn new(condition: Arc<dyn PhysicalExpr>, column: Arc<dyn PhysicalExpr>) -> Self {
        Self { condition, column, known: Mutex::default() }
    }

    fn ask(&self, texts: &ArrayRef) -> Result<BooleanArray> {
        let schema = Schema::new(vec![Field::new(VALUE, DataType::Utf8, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(texts)])?;
        let answer = self.condition.evaluate(&batch)?.into_array(texts.len())?;
        Ok(answer.as_boolean().clone())
    }

    /// Results per value; `None` to evaluate row by row, while that costs less than evaluating all
    /// values for the rows seen so far.
    fn answers(&self, values: &ArrayRef, rows: usize) -> Result<Option<ValueOutcomes>> {
        let mut known = self.known.lock();
        if !known.values.as_ref().is_some_and(|known| is_same(known, values)) {
            *known =
                KnownDictionary { values: Some(Arc::clone(values)), ..KnownDictionary::default() };
        }
        if known.answers.is_none() {
            if known.rows + rows < values.len() {
                known.rows += rows;
                return Ok(None);
            }
            let of_null = self.ask(&new_null_array(&DataType::Utf8, 1))?;
            let of_null = of_null.is_valid(0).then(|| of_null.value(0));
            known.answers = Some(ValueOutcomes { of_values: self.ask(values)?, of_null });
        }
        Ok(known.answers.clone())
    }
}

impl ValueOutcomes {
    fn of(&self, keys: &arrow_array::PrimitiveArray<Int32Type>) -> BooleanArray {
        let place = |row: usize| keys.values()[row].cast_unsigned() as usize;
        let (values, valid) = (self.of_values.values(), self.of_values.nulls());
        if keys.null_count() == 0 && valid.is_none() {
            let bits = BooleanBuffer::collect_bool(keys.len(), |row| values.value(place(row)));
            return BooleanArray::new(bits, None);
        }
        let (null, null_is_valid) = (self.of_null == Some(true), self.of_null.is_some());
        let bits = BooleanBuffer::collect_bool(keys.len(), |row| {
            if keys.is_null(row) { null } else { values.value(place(row)) }
        });
        let valid = BooleanBuffer::collect_bool(keys.len(), |row| {
            if keys.is_null(row) {
                null_is_valid
            } else {
                valid.is_none_or(|valid| valid.is_valid(place(row)))
            }
        });
        BooleanArray::new(bits, Some(NullBuffer::new(valid)))
    }
}

impl PhysicalExpr for DictionaryFilter {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(dictionary) = texts.as_dictionary_opt::<Int32Type>() else {
            return internal_err!("`{}` was not read as a dictionary", self.column);
        };
        let answers = match self.answers(dictionary.values(), texts.len())? {
            Some(answers) => answers.of(dictionary.keys()),
            None => self.ask(&cast(&texts, &DataType::Utf8)?)?,
        };
        Ok(ColumnarValue::Array(Arc::new(answers)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [column] = &children[..] else { return internal_err!("a condition on one column") };
        Ok(Arc::new(Self::new(Arc::clone(&self.condition), Arc::clone(column))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for DictionaryFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "per value of {}: {}", self.column, self.condition)
    }
}

impl PartialEq for DictionaryFilter {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition) && self.column.eq(&other.column)
    }
}

impl Eq for DictionaryFilter {}

impl Hash for DictionaryFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.condition, &self.column).hash(state);
    }
}
