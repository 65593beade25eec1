//! A table as DataFusion sees it: hot rows from memory, frozen rows, and the manifest's files, as one union.
//!
//! Files and hot batches whose range of `ts` cannot match are left out here, before anything is opened; inside a file
//! row groups and pages are skipped by Parquet's own statistics.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use weir_tables::TableSpec;

use crate::hot::TableView;

/// One table in one query.
#[derive(Debug)]
pub(crate) struct StoreTable {
    schema: SchemaRef,
    view: TableView,
}

impl StoreTable {
    pub(crate) fn new(spec: &'static TableSpec, view: TableView) -> Self {
        Self { schema: spec.schema(), view }
    }

    /// The predicate that tells from the range of `ts` whether a container can hold a match.
    fn pruning(&self, session: &dyn Session, filters: &[Expr]) -> Option<PruningPredicate> {
        let filter = conjunction(filters.to_vec())?;
        let schema = DFSchema::try_from(Arc::clone(&self.schema)).ok()?;
        let filter = session.create_physical_expr(filter, &schema).ok()?;
        PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&self.schema))
            .try_build(filter)
            .ok()
    }

    fn hot_batches(&self, pruning: Option<&PruningPredicate>) -> Vec<RecordBatch> {
        let batches: Vec<_> = self.view.frozen.iter().chain(&*self.view.hot).collect();
        let ranges =
            batches.iter().map(|batch| (batch.min_ts, batch.max_ts, batch.rows.num_rows() as u64));
        let keep = kept(pruning, ranges);
        batches
            .iter()
            .zip(keep)
            .filter(|(_, keep)| *keep)
            .map(|(batch, _)| batch.rows.clone())
            .collect()
    }
}

#[async_trait]
impl TableProvider for StoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pruning = self.pruning(session, filters);
        let hot = self.hot_batches(pruning.as_ref());
        let parts = spread(hot, session.config().target_partitions());
        let schema = Arc::clone(&self.schema);
        let memory = MemorySourceConfig::try_new(&parts, schema, projection.cloned())?
            .with_show_sizes(false)
            .with_limit(limit);
        Ok(datafusion::datasource::source::DataSourceExec::from_data_source(memory))
    }

    /// `Inexact`: what passes here is still filtered above, the filters only say what can be left out.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}

/// Deals batches out to at most `count` partitions; at least one, maybe empty.
fn spread(batches: Vec<RecordBatch>, count: usize) -> Vec<Vec<RecordBatch>> {
    let count = batches.len().clamp(1, count.max(1));
    let mut parts = vec![Vec::new(); count];
    for (at, batch) in batches.into_iter().enumerate() {
        parts[at % count].push(batch);
    }
    parts
}

/// Which containers can hold a match, by (min ts, max ts, rows) of each.
fn kept(
    pruning: Option<&PruningPredicate>,
    ranges: impl Iterator<Item = (i64, i64, u64)>,
) -> Vec<bool> {
    let ranges: Vec<_> = ranges.collect();
    let all = vec![true; ranges.len()];
    let Some(pruning) = pruning else { return all };
    pruning.prune(&TimeRanges(ranges)).unwrap_or(all)
}

/// Statistics of containers: the range of `ts` and nothing else.
struct TimeRanges(Vec<(i64, i64, u64)>);

impl TimeRanges {
    fn column(&self, column: &Column, pick: impl Fn(&(i64, i64, u64)) -> i64) -> Option<ArrayRef> {
        (column.name == "ts").then(|| {
            let values: TimestampMicrosecondArray =
                self.0.iter().map(|range| Some(pick(range))).collect();
            Arc::new(values.with_timezone("+00:00")) as ArrayRef
        })
    }
}

impl PruningStatistics for TimeRanges {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |range| range.0)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |range| range.1)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == "ts")
            .then(|| Arc::new(UInt64Array::from(vec![0; self.0.len()])) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts: Vec<u64> = self.0.iter().map(|range| range.2).collect();
        Some(Arc::new(UInt64Array::from(counts)))
    }

    fn contained(
        &self,
        _: &Column,
        _: &std::collections::HashSet<ScalarValue>,
    ) -> Option<BooleanArray> {
        None
    }
}
