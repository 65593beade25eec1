//! Tracks whether rows that match a condition arrived recently, without running a query.
//!
//! Rules evaluate the same cheap conditions every few seconds, and almost always find nothing:
//! `select 1 from request where upstream_tries > 1 and ts > $now - interval '60 seconds' and ts <=
//! $now limit 1`, or several of these joined by `union all`. Planning one costs more CPU time than
//! running it, and each run reads the same minute again. So each row is evaluated once, on append,
//! and the time of the newest match is kept. One search finds the words that the conditions look
//! for in a line, and only those whose word is there are evaluated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_select::take::take_record_batch;
use parking_lot::RwLock;
use weir_datafile::{table_index, timestamps};
use weir_sql::{Condition, PossibleRows, RowCondition, WordFilter};
use weir_tables::{Batch, Micros, TABLES};

/// A watched condition.
#[derive(Debug)]
pub struct ConditionWatch {
    pub(crate) parts: Vec<Arc<WatchedCondition>>,
    /// Whether the query computes more than the existence of a matching row.
    pub(crate) has_groups: bool,
    /// Whether rows that existed before the watch are included.
    pub(crate) is_complete: AtomicBool,
}

impl ConditionWatch {
    /// Whether the query returns nothing beyond the existence of a matching row.
    pub fn says_all(&self) -> bool {
        let is_watched =
            |watched: &Arc<WatchedCondition>| watched.newest.load(Ordering::Relaxed) < GIVEN_UP;
        !self.has_groups && self.parts.iter().all(is_watched)
    }
}

/// The condition on one table of a watched query.
#[derive(Debug)]
pub(crate) struct WatchedCondition {
    pub(crate) shape: RowCondition,
    pub(crate) condition: Condition,
    /// The newest `ts` of a matching row, µs since 1970.
    pub(crate) newest: AtomicI64,
    /// Total evaluation time in ns, and the number of evaluated rows.
    pub(crate) spent: [AtomicU64; 2],
    /// Time of the last request: rows older than its window will never matter again.
    pub(crate) asked: AtomicI64,
}

/// All watched conditions, by table.
pub(crate) struct WatchRegistry {
    tables: RwLock<Vec<TableWatches>>,
    /// Rows further ahead of the clock than this on arrival do not count: queries do not show them.
    ahead: i64,
}

/// The watched conditions of one table.
#[derive(Default)]
struct TableWatches {
    conditions: Vec<Arc<WatchedCondition>>,
    /// Made of all conditions when the next rows arrive.
    filter: OnceLock<WordFilter>,
}

impl TableWatches {
    /// The rows to evaluate, by condition.
    fn possible(&self, rows: &RecordBatch) -> Vec<PossibleRows> {
        let conditions = self.conditions.iter().map(|watched| watched.shape.row.as_str());
        self.filter.get_or_init(|| WordFilter::new(conditions)).rows(rows)
    }
}

impl WatchRegistry {
    pub(crate) fn new(ahead: Duration) -> Self {
        let ahead = i64::try_from(ahead.as_micros()).unwrap_or(i64::MAX);
        let tables = TABLES.iter().map(|_| TableWatches::default()).collect();
        Self { tables: RwLock::new(tables), ahead }
    }

    /// Evaluates rows that are about to become visible.
    pub(crate) fn see(&self, batch: &Batch, now: Micros) {
        let tables = self.tables.read();
        let watched = &tables[table_index(batch.table)];
        if watched.conditions.is_empty() || batch.rows.num_rows() == 0 {
            return;
        }
        let end = now.0.saturating_add(self.ahead);
        let all = RowTimes::new(&batch.rows, end);
        for (watched, possible) in watched.conditions.iter().zip(watched.possible(&batch.rows)) {
            match possible {
                PossibleRows::All => watched.see(&batch.rows, all),
                PossibleRows::Some(rows) if rows.is_empty() => {}
                PossibleRows::Some(rows) => match take_record_batch(&batch.rows, &rows) {
                    Ok(rows) => watched.see(&rows, RowTimes::new(&rows, end)),
                    Err(_) => watched.see(&batch.rows, all),
                },
            }
        }
    }

    pub(crate) fn add(&self, watched: WatchedCondition) -> Arc<WatchedCondition> {
        let mut tables = self.tables.write();
        let TableWatches { conditions: list, filter } =
            &mut tables[table_index(watched.shape.table)];
        *filter = OnceLock::new();
        list.retain(|other| Arc::strong_count(other) > 1);
        let of = |one: &WatchedCondition| (one.shape.row.clone(), one.shape.window_micros);
        if let Some(same) = list.iter().find(|other| of(other) == of(&watched)) {
            return Arc::clone(same);
        }
        let watched = Arc::new(watched);
        list.push(Arc::clone(&watched));
        watched
    }
}

/// Times of rows, µs since 1970.
#[derive(Clone, Copy)]
struct RowTimes<'a> {
    ts: &'a [i64],
    /// Newest time of a row that counts.
    newest: i64,
    /// Rows after this do not count.
    end: i64,
}

impl<'a> RowTimes<'a> {
    fn new(rows: &'a RecordBatch, end: i64) -> Self {
        let ts = timestamps(rows);
        let newest = ts.iter().copied().filter(|ts| *ts <= end).max().unwrap_or(i64::MIN);
        Self { ts, newest, end }
    }
}

impl WatchedCondition {
    fn see(&self, rows: &RecordBatch, RowTimes { ts, newest, end }: RowTimes<'_>) {
        let start = self.asked.load(Ordering::Relaxed).saturating_sub(self.shape.window_micros);
        if newest <= start.max(self.newest.load(Ordering::Relaxed)) {
            return;
        }
        let began = Instant::now();
        // A condition from a user must not stop ingest.
        let fits = catch_unwind(AssertUnwindSafe(|| self.condition.choose(rows)));
        let newest = match fits {
            Ok(Ok(fits)) if !self.is_expensive(began.elapsed(), ts.len()) => {
                let fits =
                    fits.iter().zip(ts).filter(|(fits, ts)| *fits == Some(true) && **ts <= end);
                fits.map(|(_, ts)| *ts).max()
            }
            // From now on the query itself runs, and reports what is wrong.
            _ => Some(GIVEN_UP),
        };
        self.newest.fetch_max(newest.unwrap_or(i64::MIN), Ordering::Relaxed);
    }

    /// Whether evaluation costs so much that running the query is cheaper.
    fn is_expensive(&self, took: Duration, rows: usize) -> bool {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let (nanos, rows) = (add_to(&self.spent[0], took), add_to(&self.spent[1], rows as u64));
        nanos > EXPENSIVE_NANOS && nanos / rows.max(1) > EXPENSIVE_NANOS_PER_ROW
    }
}

fn add_to(sum: &AtomicU64, more: u64) -> u64 {
    sum.fetch_add(more, Ordering::Relaxed) + more
}

/// Stored instead of a time: always run the query.
const GIVEN_UP: i64 = i64::MAX;
/// Total evaluation time after which a condition is given up if it also takes two microseconds per
/// row: the writer thread has other work.
const EXPENSIVE_NANOS: u64 = 1_000_000_000;
const EXPENSIVE_NANOS_PER_ROW: u64 = 2_000;
