//! Cache of the plans of repeated queries that differ only in the current time: those of rules.
//!
//! A rule reads the last seconds of small tables, and planning takes longer than reading. The plan
//! depends on the current time only through times at a fixed offset from it, if at all. To verify
//! that, the query is planned for two times: if shifting the timestamps of one plan yields
//! the other, the same holds for any third time.
//!
//! # Example
//! `ts > $now - interval '10 seconds'`, planned for noon, contains the constant 11:59:50. Planned
//! for 12:01 it contains 12:00:50, which is the first plan shifted by a minute. So the plan is
//! cached, and a run at 15:00 shifts the constant to 14:59:50. `date_trunc('day', $now)` is
//! midnight in both plans, so that query is not cached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use datafusion::scalar::ScalarValue;
use parking_lot::Mutex;
use weir_datafile::{CutoffSide, TableSnapshot, VisibilityCutoff};
use weir_tables::{Micros, TABLES};

use crate::planning::plan_query;
use crate::table_provider::StoreTable;
use crate::tables::TableCatalog;

/// Placeholder of the current time.
const NOW: &str = "$now";
/// 2101-03-05T07:11:13.123457Z: no query contains a literal time within years of it.
const FIRST: Micros = Micros(4_139_449_873_123_457);
const NEAR: i64 = 8 * 366 * 86_400 * 1_000_000;
/// Shift to the second time, 2104-04-20T09:17:20.24258Z. Months and years before the two times
/// differ in length, and rounded times do not shift by this amount.
const WHILE: Duration = Duration::from_micros(98_676_367_119_123);
/// There are some hundred rules; queries beyond this limit are planned each time.
const PLANS_MAX: usize = 2000;

/// Plans by query, for [`FIRST`] and over tables without rows; `None` if the plan cannot be
/// shifted.
#[derive(Default)]
pub(crate) struct PlanCache(Mutex<HashMap<String, Option<LogicalPlan>>>);

/// A query template and its current time.
#[derive(Clone, Copy)]
pub(crate) struct PlanTemplate<'a> {
    /// SQL that contains `$now`.
    pub(crate) template: &'a str,
    pub(crate) now: Micros,
}

impl PlanTemplate<'_> {
    /// The SQL with the time inserted; the time has the type of the column `ts`.
    pub(crate) fn sql(self) -> String {
        let now = format!("arrow_cast('{}', 'Timestamp(Microsecond, Some(\"+00:00\"))')", self.now);
        self.template.replace(NOW, &now)
    }
}

impl PlanCache {
    /// The cached plan over `tables`; `None` if the SQL has to be planned.
    pub(crate) async fn plan(
        &self,
        state: &SessionState,
        template: &str,
        now: Micros,
        tables: &TableCatalog,
    ) -> Option<LogicalPlan> {
        let kept = || self.0.lock();
        let known = kept().get(template).cloned();
        let plan = match known {
            Some(plan) => plan?,
            None => {
                let plan = make(state, template).await;
                let mut kept = kept();
                if kept.len() < PLANS_MAX {
                    kept.insert(template.to_owned(), plan.clone());
                }
                drop(kept);
                plan?
            }
        };
        let by = now.0.checked_sub(FIRST.0)?;
        let source = |name: &TableReference| tables.source(name);
        moved(plan, by, &source).ok()
    }
}

/// Plans for [`FIRST`]; `None` if the plan cannot be shifted.
async fn make(state: &SessionState, template: &str) -> Option<LogicalPlan> {
    let plan = async |now: Micros| {
        // Use a fresh state, so that the numbering of generated names restarts.
        let mut state = state.clone();
        state.mark_start_execution();
        state.optimize(&plan_at(&state, template, now).await?)
    };
    let (first, second) = (plan(FIRST).await.ok()?, plan(FIRST + WHILE).await.ok()?);
    let by = i64::try_from(WHILE.as_micros()).ok()?;
    let first = moved(first, 0, &without_rows).ok()?;
    let moved = moved(first.clone(), by, &without_rows).ok()?;
    (moved == second).then_some(first)
}

/// Passes the time as a parameter if possible: then generated column names do not contain it.
async fn plan_at(state: &SessionState, template: &str, now: Micros) -> Result<LogicalPlan> {
    let value = ScalarValue::TimestampMicrosecond(Some(now.0), Some("+00:00".into()));
    let values = HashMap::from([(NOW[1..].to_owned(), value)]);
    if let Ok(plan) = plan_query(state, template).await
        && let Ok(plan) = plan.with_param_values(values)
    {
        return Ok(plan);
    }
    plan_query(state, &PlanTemplate { template, now }.sql()).await
}

/// A cached plan must not retain rows and files between runs.
fn without_rows(name: &TableReference) -> Option<Arc<dyn TableSource>> {
    let spec = TABLES.iter().find(|spec| spec.name == name.table())?;
    let horizon = VisibilityCutoff { ts: i64::MAX, side: CutoffSide::Past };
    let table = StoreTable::new(spec, TableSnapshot::default(), None, horizon);
    Some(provider_as_source(Arc::new(table)))
}

/// Shifts all times near [`FIRST`] by some µs, also those in seconds since 1970, and replaces the
/// tables.
fn moved(
    plan: LogicalPlan,
    by: i64,
    source: &dyn Fn(&TableReference) -> Option<Arc<dyn TableSource>>,
) -> Result<LogicalPlan> {
    let node = |node: LogicalPlan| {
        let node = match node {
            LogicalPlan::TableScan(mut scan) => {
                scan.source = source(&scan.table_name).ok_or_else(|| {
                    datafusion::common::plan_datafusion_err!("{} is no table", scan.table_name)
                })?;
                LogicalPlan::TableScan(scan)
            }
            other => other,
        };
        let node = node.map_expressions(|expr| {
            expr.transform(|part| {
                Ok(match part {
                    Expr::Literal(value, of) => {
                        Transformed::yes(Expr::Literal(time(value, by), of))
                    }
                    other => Transformed::no(other),
                })
            })
        });
        Ok(Transformed::yes(node?.data))
    };
    plan.transform_down_with_subqueries(node).data()
}

fn time(value: ScalarValue, by: i64) -> ScalarValue {
    let is_near = |micros: i64| (micros - FIRST.0).abs() < NEAR;
    match value {
        ScalarValue::TimestampMicrosecond(Some(micros), zone) if is_near(micros) => {
            ScalarValue::TimestampMicrosecond(Some(micros + by), zone)
        }
        ScalarValue::TimestampNanosecond(Some(nanos), zone) if is_near(nanos / 1000) => {
            ScalarValue::TimestampNanosecond(Some(nanos + by * 1000), zone)
        }
        ScalarValue::Float64(Some(seconds)) => {
            let micros = micros_of(seconds).filter(|micros| is_near(*micros));
            ScalarValue::Float64(Some(
                micros.map_or(seconds, |micros| Micros(micros + by).as_unix_seconds()),
            ))
        }
        other => other,
    }
}

/// The time of which `date_part('epoch', …)` gives exactly these seconds.
fn micros_of(seconds: f64) -> Option<i64> {
    let nearest = Micros::from_unix_seconds(seconds + 0.000_000_5);
    (nearest.as_unix_seconds().to_bits() == seconds.to_bits()).then_some(nearest.0)
}

#[cfg(test)]
mod tests {
    use weir_datafile::Snapshot;
    use weir_tables::{FixedClock, Log, LogRows, Rows};

    use super::*;
    use crate::options::EngineOptions;
    use crate::query::QueryEngine;
    use crate::query_request::Query;

    const START: i64 = 1_795_176_000_000_000;

    /// Queries, and whether each can be planned once for all times.
    const QUESTIONS: &[(&str, bool)] = &[
        ("select count(*) from log where ts > $now - interval '20 seconds' and ts <= $now", true),
        (
            "select date_part('epoch', $now) - date_part('epoch', max(ts)) as age from log where ts <= $now",
            true,
        ),
        (
            "select max(ts) >= $now - interval '1 minute' as late, host from log where ts <= $now group by host order by host",
            true,
        ),
        (
            "select count(*) filter (where ts > $now - interval '5 seconds') from log where ts <= $now",
            true,
        ),
        (
            "with few as (select *, row_number() over (partition by program order by ts desc) as place from log \
            where ts > $now - interval '1 hour' and ts <= $now and attrs['a'] = 'b') \
          select few.ts, other.body from few join log other on few.ts = other.ts where place = 1 order by 1",
            true,
        ),
        ("select max(date_part('epoch', $now) * 2) from log where ts <= $now", false),
        ("select count(*) from log where ts > date_trunc('minute', $now)", false),
        ("select count(*) from log where ts > date_trunc('year', $now) and ts <= $now", false),
        ("select max(cast(ts as bigint) % cast($now as bigint)) from log where ts <= $now", false),
        ("select count(*) from log where ts > $now - interval '1 month' and ts <= $now", false),
        ("select count(*) from log where ts > $now - interval '2 years' and ts <= $now", false),
        (
            "select count(*) from log where ts > timestamp '2026-11-20T12:00:05Z' and ts <= $now",
            true,
        ),
        ("select 1 from future.log where ts > $now limit 1", true),
        ("select count(*) from information_schema.tables", false),
        (
            "select sum(n) from (select 1 as n from log where ts > $now union all select 2 from log where ts <= $now)",
            true,
        ),
        ("select body from log where ts in (select max(ts) from log where ts <= $now)", true),
    ];

    #[test]
    fn answers_are_those_of_the_words_at_any_moment() {
        let options = EngineOptions::new(Arc::new(FixedClock::new(Micros(START))));
        let engine = QueryEngine::new(&options, None, None).unwrap();
        let mut rows = LogRows::default();
        for number in 0..5000 {
            let ts = Micros(START + (number - 4000) * 17_003);
            let host = if number % 2 == 0 { "web1" } else { "web2" };
            let program = Some("nginx");
            let body = format!("line {number}");
            rows.push(&Log { ts, host, program, body: &body, ..Default::default() });
        }
        let mut view = Snapshot::new();
        view.push(&weir_tables::Batch { table: LogRows::SPEC, rows: rows.finish() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let execute = |query: Query| {
            let collected = async { engine.stream(view.clone(), query).await?.collect().await };
            let answer = runtime.block_on(collected).unwrap();
            arrow_select::concat::concat_batches(&answer.schema, &answer.batches).unwrap()
        };
        for (template, is_kept) in QUESTIONS {
            for micros in [0, 1, -33_000_001, 7_000_000, -60_000_000, 86_400_000_000] {
                let asked = PlanTemplate { template, now: Micros(START + micros) };
                let words = execute(Query::new(&asked.sql()));
                let answer = execute(Query::new(template).at(asked.now));
                assert_eq!(answer.columns(), words.columns(), "{template} at {micros}");
            }
            let kept = engine.kept.0.lock();
            assert_eq!(kept[*template].is_some(), *is_kept, "{template}");
        }
    }

    #[test]
    fn a_kept_plan_holds_no_rows_and_no_files() {
        let options = EngineOptions::new(Arc::new(FixedClock::new(Micros(START))));
        let engine = QueryEngine::new(&options, None, None).unwrap();
        let mut view = Snapshot::new();
        let mut rows = LogRows::default();
        rows.push(&Log { ts: Micros(START), body: "a", ..Default::default() });
        view.push(&weir_tables::Batch { table: LogRows::SPEC, rows: rows.finish() });
        let hot = Arc::clone(&view.tables[weir_datafile::table_index(&Log::SPEC)].hot);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let template = QUESTIONS[0].0;
        let query = Query::new(template).at(Micros(START));
        let collected = async { engine.stream(view, query).await?.collect().await };
        runtime.block_on(collected).unwrap();
        assert!(engine.kept.0.lock()[template].is_some());
        // The query's task ends shortly after its result.
        for _ in 0..1000 {
            if Arc::strong_count(&hot) == 1 {
                return;
            }
            runtime.block_on(tokio::time::sleep(Duration::from_millis(5)));
        }
        panic!("{} others hold the rows", Arc::strong_count(&hot) - 1);
    }
}
