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

use weir_datafile::{table_index, timestamps};
use weir_sql::{Condition, RowCondition};
use weir_tables::{Batch, Micros, TABLES};

/// A condition that is watched.
#[derive(Debug)]
pub struct Recent {
    pub(crate) parts: Vec<Arc<WatchedCondition>>,
    /// Whether the query asks for more than a row that fits.
    pub(crate) has_groups: bool,
    /// Whether rows that were there before are counted in.
    pub(crate) is_complete: AtomicBool,
}

impl Recent {
    /// Whether a row that fits is all that the query asks for.
    pub fn says_all(&self) -> bool {
        let is_watched =
            |watched: &Arc<WatchedCondition>| watched.newest.load(Ordering::Relaxed) < GIVEN_UP;
        !self.has_groups && self.parts.iter().all(is_watched)
    }
}

/// Rows of one table that fit.
#[derive(Debug)]
pub(crate) struct WatchedCondition {
    pub(crate) shape: RowCondition,
    pub(crate) condition: Condition,
    /// The newest `ts` of a row that fits, µs since 1970.
    pub(crate) newest: AtomicI64,
    /// Time that looking took, in ns, and rows that were looked at.
    pub(crate) spent: [AtomicU64; 2],
    /// When it was last asked for: what is older than its window then will never be asked for.
    pub(crate) asked: AtomicI64,
}

/// All conditions that are watched, by table.
pub(crate) struct WatchRegistry {
    tables: RwLock<Vec<Vec<Arc<WatchedCondition>>>>,
    /// Rows that are further ahead of the clock when they come do not count: queries do not show them.
    ahead: i64,
}

impl WatchRegistry {
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

    pub(crate) fn add(&self, watched: WatchedCondition) -> Arc<WatchedCondition> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let list = &mut tables[table_index(watched.shape.table)];
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

impl WatchedCondition {
    fn see(&self, batch: &Batch, ts: &[i64], newest: i64, end: i64) {
        let start = self.asked.load(Ordering::Relaxed).saturating_sub(self.shape.window_micros);
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
