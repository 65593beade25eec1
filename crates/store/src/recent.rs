//! Whether rows that fit a condition came lately, known without a query.
//!
//! Rules ask the same cheap conditions every few seconds, almost always in vain: `select 1 from request where
//! upstream_tries > 1 and ts > $now - interval '60 seconds' and ts <= $now limit 1`, or some of these joined by `union all`.
//! Planning one takes the processor longer than running it, and running it reads the same minute again and again. So each
//! row is looked at once, when it is appended, and the time of the newest that fits is kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use datafusion::common::cast::as_int64_array;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SetExpr, SetOperator, Statement,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use weir_datafile::{StoreError, table_index, timestamps};
use weir_tables::{Batch, Micros, TABLES, TableSpec};

use crate::condition::Condition;
use crate::options::QueryLimits;
use crate::store::Store;

/// A condition that is watched.
#[derive(Debug)]
pub struct Recent {
    parts: Vec<Arc<Watched>>,
    /// Whether the query asks for more than a row that fits.
    has_groups: bool,
    /// Whether rows that were there before are counted in.
    is_complete: AtomicBool,
}

impl Recent {
    /// Whether a row that fits is all that the query asks for.
    pub fn says_all(&self) -> bool {
        let is_watched = |watched: &Arc<Watched>| watched.newest.load(Ordering::Relaxed) < GIVEN_UP;
        !self.has_groups && self.parts.iter().all(is_watched)
    }
}

/// Rows of one table that fit.
#[derive(Debug)]
struct Watched {
    shape: RowCondition,
    condition: Condition,
    /// The newest `ts` of a row that fits, µs since 1970.
    newest: AtomicI64,
    /// Time that looking took, in ns, and rows that were looked at.
    spent: [AtomicU64; 2],
    /// When it was last asked for: what is older than its window then will never be asked for.
    asked: AtomicI64,
}

/// `select … from table where row and ts > $now - window and ts <= $now`: it can have an answer only when a row of the time
/// before fits.
#[derive(Debug)]
pub struct RowCondition {
    /// Whose rows.
    pub table: &'static TableSpec,
    /// What a row must be, in SQL.
    pub row: String,
    /// µs.
    window: i64,
    has_groups: bool,
}

impl RowCondition {
    /// How far back the query looks.
    pub fn window(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.window).unwrap_or_default())
    }
}

/// All conditions that are watched, by table.
pub(crate) struct Watching {
    tables: RwLock<Vec<Vec<Arc<Watched>>>>,
    /// Rows that are further ahead of the clock when they come do not count: queries do not show them.
    ahead: i64,
}

impl Watching {
    pub(crate) fn new(ahead: Duration) -> Self {
        let ahead = i64::try_from(ahead.as_micros()).unwrap_or(i64::MAX);
        Self { tables: RwLock::new(vec![Vec::new(); TABLES.len()]), ahead }
    }

    /// Looks at rows that are about to be shown.
    pub(crate) fn see(&self, batch: &Batch, now: Micros) {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let watched = &tables[table_index(batch.table)];
        if watched.is_empty() || batch.rows.num_rows() == 0 {
            return;
        }
        let ts = timestamps(&batch.rows);
        let end = now.0.saturating_add(self.ahead);
        let newest = ts.iter().copied().filter(|ts| *ts <= end).max().unwrap_or(i64::MIN);
        for watched in watched {
            watched.see(batch, ts, newest, end);
        }
    }

    fn add(&self, watched: Watched) -> Arc<Watched> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let list = &mut tables[table_index(watched.shape.table)];
        list.retain(|other| Arc::strong_count(other) > 1);
        let of = |one: &Watched| (one.shape.row.clone(), one.shape.window);
        if let Some(same) = list.iter().find(|other| of(other) == of(&watched)) {
            return Arc::clone(same);
        }
        let watched = Arc::new(watched);
        list.push(Arc::clone(&watched));
        watched
    }
}

impl Watched {
    fn see(&self, batch: &Batch, ts: &[i64], newest: i64, end: i64) {
        let start = self.asked.load(Ordering::Relaxed).saturating_sub(self.shape.window);
        if newest <= start.max(self.newest.load(Ordering::Relaxed)) {
            return;
        }
        let began = Instant::now();
        // Ingest must not end with a condition that somebody wrote.
        let fits = catch_unwind(AssertUnwindSafe(|| self.condition.choose(&batch.rows)));
        let newest = match fits {
            Ok(Ok(fits)) if !self.is_dear(began.elapsed(), ts.len()) => {
                let fits =
                    fits.iter().zip(ts).filter(|(fits, ts)| *fits == Some(true) && **ts <= end);
                fits.map(|(_, ts)| *ts).max()
            }
            // The query itself is asked from now on, and says what is wrong.
            _ => Some(GIVEN_UP),
        };
        self.newest.fetch_max(newest.unwrap_or(i64::MIN), Ordering::Relaxed);
    }

    /// Whether looking takes so long that it is better asked now and then.
    fn is_dear(&self, took: Duration, rows: usize) -> bool {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let add = |sum: &AtomicU64, more: u64| sum.fetch_add(more, Ordering::Relaxed) + more;
        let (nanos, rows) = (add(&self.spent[0], took), add(&self.spent[1], rows as u64));
        nanos > DEAR_NANOS && nanos / rows.max(1) > DEAR_NANOS_PER_ROW
    }
}

/// Instead of a time: always ask the query.
const GIVEN_UP: i64 = i64::MAX;
/// A condition that took a second in all, and two microseconds a row, is given up: the writer has other things to do.
const DEAR_NANOS: u64 = 1_000_000_000;
const DEAR_NANOS_PER_ROW: u64 = 2_000;

impl Store {
    /// Watches a condition from now on, as long as the answer lives; `now` is written `$now` in it. `None` when it
    /// depends on more than single rows and their age, and for one of several hubs: then only the query can tell.
    pub fn watch(&self, sql: &str) -> Option<Recent> {
        if self.cluster.is_some() {
            // Rows of other hubs are not seen here.
            return None;
        }
        let shapes = row_conditions(sql)?;
        let has_groups = shapes.iter().any(|shape| shape.has_groups);
        let compile = |shape: RowCondition| {
            let condition = self.engine.condition(shape.table, &shape.row).ok()?;
            let (newest, asked) = (AtomicI64::new(i64::MIN), AtomicI64::new(i64::MIN));
            Some(Watched { shape, condition, newest, spent: Default::default(), asked })
        };
        let watched: Vec<_> = shapes.into_iter().map(compile).collect::<Option<_>>()?;
        let parts = watched.into_iter().map(|one| self.shared.watching.add(one)).collect();
        Some(Recent { parts, has_groups, is_complete: AtomicBool::new(false) })
    }

    /// Whether the query of a watched condition may have rows at `now`; never false when it has some.
    ///
    /// # Errors
    /// As [`Store::query`], at the first call and when `now` went back: then the rows that are there are asked.
    pub async fn may_have(&self, recent: &Recent, now: Micros) -> Result<bool, StoreError> {
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
            watched.newest.load(Ordering::Relaxed) > now.0.saturating_sub(watched.shape.window)
        }))
    }

    async fn look_back(&self, watched: &Watched, now: Micros) -> Result<(), StoreError> {
        let RowCondition { table, row, window, .. } = &watched.shape;
        let (name, start) = (table.name, Micros(now.0.saturating_sub(*window)));
        let sql = format!(
            "select max(cast(ts as bigint)) from {name} where ({row}) and ts > timestamp '{start}'"
        );
        let limits = QueryLimits::of_rule(1, Duration::from_secs(10));
        let answer = self.query(&sql, limits).await?;
        let newest = answer
            .batches
            .first()
            .and_then(|rows| as_int64_array(rows.column(0)).ok()?.iter().next()?);
        watched.newest.fetch_max(newest.unwrap_or(i64::MIN), Ordering::Relaxed);
        Ok(())
    }
}

/// The selects of `sql`, in which `now` is written `$now`, when it is made of nothing but them: it has an answer only when one of
/// them has. `None` when it depends on more than single rows and their age.
pub fn row_conditions(sql: &str) -> Option<Vec<RowCondition>> {
    let [Statement::Query(query)] = &Parser::parse_sql(&GenericDialect {}, sql).ok()?[..] else {
        return None;
    };
    let mut found = Vec::new();
    let text = walk(&query.body, &mut found)?;
    // What was not looked at would be in the one and not in the other.
    let is_all = query.to_string() == text || query.to_string() == format!("{text} LIMIT 1");
    is_all.then_some(found)
}

/// Adds the selects below `body`, and gives its text as far as it was understood.
fn walk(body: &SetExpr, found: &mut Vec<RowCondition>) -> Option<String> {
    match body {
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            let (left, right) = (walk(left, found)?, walk(right, found)?);
            Some(format!("{left} UNION ALL {right}"))
        }
        SetExpr::Query(query) => {
            let Query { body, .. } = &**query;
            Some(format!("({})", walk(body, found)?))
        }
        SetExpr::Select(select) => {
            let (shape, text) = shape(select)?;
            found.push(shape);
            Some(text)
        }
        _ => None,
    }
}

/// Without `group by`, an aggregate would have a row even when no row fits; with it, there is a group only when one does.
fn shape(select: &Select) -> Option<(RowCondition, String)> {
    let [from] = &select.from[..] else { return None };
    let name = from.to_string();
    let table = TABLES.iter().find(|table| table.name == name)?;
    let selection = select.selection.as_ref()?;
    let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let mut text = format!("SELECT {} FROM {name} WHERE {selection}", items.join(", "));
    let has_groups =
        !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if has_groups {
        text = format!("{text} {}", select.group_by);
    } else if items.iter().any(|item| item.contains('(')) {
        return None;
    }
    if let Some(having) = &select.having {
        text = format!("{text} HAVING {having}");
    }
    let (mut window, mut row) = (None, Vec::new());
    for term in terms(selection) {
        match term.strip_prefix("ts > $now - INTERVAL '").and_then(|rest| rest.strip_suffix('\'')) {
            Some(span) if window.is_none() => window = Some(micros(span)?),
            _ if term == "ts <= $now" => {}
            _ if term.contains("$now") => return None,
            _ => row.push(term),
        }
    }
    if row.is_empty() {
        row.push("true".to_owned());
    }
    Some((RowCondition { table, row: row.join(" AND "), window: window?, has_groups }, text))
}

/// What `and` joins.
fn terms(expr: &Expr) -> Vec<String> {
    use datafusion::sql::sqlparser::ast::BinaryOperator::And;
    match expr {
        Expr::BinaryOp { left, op: And, right } => {
            terms(left).into_iter().chain(terms(right)).collect()
        }
        other => vec![other.to_string()],
    }
}

/// `15 seconds`
fn micros(span: &str) -> Option<i64> {
    let (count, unit) = span.split_once(' ')?;
    let unit = match unit.trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86400,
        _ => return None,
    };
    count.parse::<i64>().ok()?.checked_mul(unit * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sql: &str) -> Option<Vec<(&'static str, String, i64)>> {
        let shapes = row_conditions(sql)?;
        Some(
            shapes
                .into_iter()
                .map(|one| (one.table.name, one.row, one.window / 1_000_000))
                .collect(),
        )
    }

    #[test]
    fn conditions_on_single_rows_are_understood() {
        let one = "select 1 from request where (upstream_tries > 1 or status = 'x') and ts > $now - interval '2 minutes' and ts <= $now limit 1";
        assert_eq!(
            told(one),
            Some(vec![("request", "(upstream_tries > 1 OR status = 'x')".into(), 120)])
        );
        let two = "select 1 as n from kmsg where kind = 'oom_kill' and ts > $now - interval '1 hour' and ts <= $now \
            union all select 1 as n from log where body like '%a \\\\_ b%' and ts > $now - interval '1 second' and ts <= $now limit 1";
        let two = told(two).expect("two selects");
        assert_eq!((two[0].0, two[0].2, two[1].0, two[1].2), ("kmsg", 3600, "log", 1));
        let groups = "select host from softnet_stat where ts > $now - interval '60 seconds' and ts <= $now group by host, cpu having max(drops_total) >= 5 limit 1";
        assert_eq!(told(groups), Some(vec![("softnet_stat", "true".into(), 60)]));
    }

    #[test]
    fn what_needs_more_than_a_row_and_its_age_is_left_to_the_query() {
        for sql in [
            "select max(ts) from request where ts > $now - interval '1 minute' and ts <= $now",
            "select 1 from request where ts > $now - interval '1 day' - interval '10 minutes' and ts <= $now - interval '1 day' limit 1",
            "select 1 from certificate where served_not_after < $now + interval '21 days' and ts > $now - interval '3 minutes' and ts <= $now limit 1",
            "select 1 from request r join log l on r.host = l.host where ts > $now - interval '1 minute' and ts <= $now limit 1",
            "select 1 from (select 1 from request where ts > $now - interval '1 minute' and ts <= $now) limit 1",
            "select 1 from request where ts <= $now limit 1",
            "with a as (select 1) select 1 from request where ts > $now - interval '1 minute' and ts <= $now limit 1",
            "select 1 from request where ts > $now - interval '1 minute' and ts <= $now limit 1 offset 5",
            "select 1 from nowhere where ts > $now - interval '1 minute' limit 1",
            "not sql",
        ] {
            assert_eq!(told(sql), None, "{sql}");
        }
    }
}
