//! Watched conditions of a store: a rule asks whether its query may have rows before it runs it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use weir_datafile::StoreError;
use weir_sql::{Query, QueryLimits, RowCondition, row_conditions};
use weir_tables::Micros;

use crate::condition_watch::{ConditionWatch, WatchedCondition};
use crate::store::Store;

impl Store {
    /// Watches a condition from now on, until the returned watch is dropped; `$now` stands for the
    /// time. `None` when the condition depends on more than single rows and their age, and on one
    /// of several hubs: then only the query can answer.
    pub fn watch(&self, sql: &str) -> Option<ConditionWatch> {
        if self.cluster.is_some() {
            // Rows of other hubs are not seen here.
            return None;
        }
        let shapes = row_conditions(sql)?;
        let has_groups = shapes.iter().any(|shape| shape.has_groups);
        let watched: Vec<_> = shapes
            .into_iter()
            .map(|shape| {
                let condition = self.engine.condition(shape.table, &shape.row).ok()?;
                let (newest, asked) = (AtomicI64::new(i64::MIN), AtomicI64::new(i64::MIN));
                Some(WatchedCondition {
                    shape,
                    condition,
                    newest,
                    spent: Default::default(),
                    asked,
                })
            })
            .collect::<Option<_>>()?;
        let parts = watched.into_iter().map(|one| self.shared.watching.add(one)).collect();
        Some(ConditionWatch { parts, has_groups, is_complete: AtomicBool::new(false) })
    }

    /// Whether the query of a watched condition may have rows at `now`; never false when it has some.
    ///
    /// # Errors
    /// As [`crate::StoreQuery::run`], at the first call and when `now` went back: then stored rows
    /// are queried.
    pub async fn may_have(&self, recent: &ConditionWatch, now: Micros) -> Result<bool, StoreError> {
        let mut is_complete = recent.is_complete.load(Ordering::Relaxed);
        for watched in &recent.parts {
            is_complete &= watched.asked.swap(now.0, Ordering::Relaxed) <= now.0;
        }
        if !is_complete {
            recent.is_complete.store(false, Ordering::Relaxed);
            for watched in &recent.parts {
                self.look_back(watched, now).await?;
            }
            recent.is_complete.store(true, Ordering::Relaxed);
        }
        Ok(recent.parts.iter().any(|watched| {
            watched.newest.load(Ordering::Relaxed)
                > now.0.saturating_sub(watched.shape.window_micros)
        }))
    }

    async fn look_back(&self, watched: &WatchedCondition, now: Micros) -> Result<(), StoreError> {
        let RowCondition { table, row, window_micros: window, .. } = &watched.shape;
        let (name, start) = (table.name, Micros(now.0.saturating_sub(*window)));
        let sql = format!(
            "select max(cast(ts as bigint)) from {name} where ({row}) and ts > timestamp '{start}'"
        );
        let limits = QueryLimits::of_rule(1, Duration::from_secs(10));
        let answer = self.query(Query::new(&sql).limits(limits)).run().await?;
        let newest = answer
            .batches
            .first()
            .and_then(|rows| rows.column(0).as_primitive_opt::<Int64Type>()?.iter().next()?);
        watched.newest.fetch_max(newest.unwrap_or(i64::MIN), Ordering::Relaxed);
        Ok(())
    }
}
