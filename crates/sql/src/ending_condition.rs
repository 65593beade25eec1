//! A condition of a join that fails once its query has ended.
//!
//! A join whose condition is never true evaluates it for all pairs before it returns a batch, so its task does
//! not yield and cannot be cancelled.

use std::any::type_name;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::limits::USAGE;

/// The condition with a check of the query that the task belongs to.
pub(crate) fn ending(filter: &JoinFilter) -> JoinFilter {
    let inner = Arc::clone(filter.expression());
    let schema = Arc::clone(filter.schema());
    JoinFilter::new(Arc::new(EndingCondition { inner }), filter.column_indices().to_vec(), schema)
}

#[derive(Debug, Eq)]
struct EndingCondition {
    inner: Arc<dyn PhysicalExpr>,
}

impl PartialEq for EndingCondition {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Hash for EndingCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        type_name::<Self>().hash(state);
        self.inner.hash(state);
    }
}

impl fmt::Display for EndingCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for EndingCondition {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if USAGE.try_with(|usage| usage.has_ended()).unwrap_or(false) {
            return exec_err!("the query has ended");
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(inner) if children.is_empty() => Ok(Arc::new(Self { inner })),
            _ => exec_err!("a condition of a join has one part"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
