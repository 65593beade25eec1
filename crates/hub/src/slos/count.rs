//! Counts requests and checks of each SLO into `slo_slice`.
//!
//! A count is the difference between what is in the table of requests and what was counted before, so
//! it can be repeated at any time: after a restart, by another hub, and for requests that arrive late.
//!
//! ```text
//! now:  the minutes since the last count, 15 s after their end
//! 10 min: the last two hours again      start and day: hours of the window without a count, the last two days again
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_config::slos::SloSpec;
use weir_rules::slo::SloCount;
use weir_rules::{Cell, Row, rows_of};
use weir_store::{Query, QueryLimits, Store, StoreError};
use weir_tables::{Batch, Clock, Micros, Parcel, Rows, SloSlice, SloSliceRows};

use super::source::{MinuteSpan, counts_sql, literal, quoted};

/// How often it is looked whether something is due.
const TICK: Duration = Duration::from_secs(2);
/// After a count of the past, the pause is this many times its duration.
const PAUSE_PARTS: u32 = 4;
/// After one that failed, the SLO rests for so long.
const REST: Duration = Duration::from_secs(60);
/// A minute is counted this long after its end.
const LATE_SECONDS: i64 = 15;
/// Minutes that are counted again at the start.
const START_SECONDS: i64 = 600;
/// Most minutes of one count.
const SPAN_SECONDS: i64 = 3_600;
/// How often the newest hours are counted again, and how many.
const RECOUNT: (i64, Duration) = (600, Duration::from_secs(7_200));
/// How often the whole window is looked through, and how much of it is counted again.
const SURVEY: (i64, Duration) = (86_400, Duration::from_secs(172_800));
/// Rows of one query.
const ROWS_MAX: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Hosts and upstreams in a row.
const NAMES_MAX: usize = 8;

/// Counts until the task is ended.
pub(crate) async fn keep_always(
    slos: Vec<SloSpec>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    host: String,
) {
    let mut counters: Vec<SloCounter> = Vec::new();
    while !slos.is_empty() {
        if !store.is_leader() {
            // Another hub counts; this one begins again where that one ends.
            counters.clear();
            tokio::time::sleep(TICK).await;
            continue;
        }
        if counters.is_empty() {
            let now = clock.now();
            counters.extend(slos.iter().map(|slo| SloCounter::new(slo.clone(), &host, now)));
        }
        let mut pause = TICK;
        for counter in &mut counters {
            let (now, began) = (clock.now(), Instant::now());
            if counter.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            counter.rests_until = None;
            match counter.step(&store, now).await {
                Ok(true) => {
                    tokio::time::sleep(began.elapsed() * PAUSE_PARTS).await;
                    pause = Duration::from_millis(100);
                }
                Ok(false) => {}
                Err(error) => {
                    let name = &counter.slo.name;
                    tracing::warn!("cannot count the SLO `{name}`: {}", error.message);
                    counter.rests_until = Some(now + REST);
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// A minute's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MinuteCount {
    total: i64,
    failed: i64,
    hosts: String,
    upstreams: String,
}

/// One SLO, and what of it is counted next.
pub(super) struct SloCounter {
    slo: SloSpec,
    definition: String,
    host: String,
    /// Begin of the minute that comes next, seconds since 1970.
    next: i64,
    /// When the newest hours and the whole window are due.
    recount_at: i64,
    survey_at: i64,
    /// Spans of the past that are counted, the newest last.
    past: Vec<MinuteSpan>,
    /// Requests and failures of the window; `None` until they were summed.
    window: Option<(i64, i64)>,
    rests_until: Option<Micros>,
}

/// The begin of the first minute that is not complete.
fn complete(now: Micros) -> i64 {
    (now.0.div_euclid(1_000_000) - LATE_SECONDS).div_euclid(60) * 60
}

impl SloCounter {
    pub(super) fn new(slo: SloSpec, host: &str, now: Micros) -> Self {
        let next = complete(now) - START_SECONDS;
        Self {
            definition: slo.definition(),
            slo,
            host: host.to_owned(),
            next,
            recount_at: complete(now),
            survey_at: complete(now),
            past: Vec::new(),
            window: None,
            rests_until: None,
        }
    }

    /// Does the next thing that is due; whether it was one about the past, which is paced.
    pub(super) async fn step(&mut self, store: &Store, now: Micros) -> Result<bool, StoreError> {
        let end = complete(now);
        if self.next > end {
            // The clock went back.
            self.next = end;
        }
        if self.window.is_none() {
            self.window = Some(self.window_sums(store, end).await?);
        }
        if self.next < end {
            let span = MinuteSpan { from: self.next, to: end.min(self.next + SPAN_SECONDS) };
            self.count(store, span, true).await?;
            self.next = span.to;
            return Ok(false);
        }
        if end >= self.survey_at {
            self.survey_at = end + SURVEY.0;
            self.past = self.missing(store, end).await?;
        } else if end >= self.recount_at {
            self.recount_at = end + RECOUNT.0;
            self.window = Some(self.window_sums(store, end).await?);
            self.past.extend(hours(MinuteSpan::before(end - START_SECONDS, RECOUNT.1)));
        } else if let Some(span) = self.past.last().copied() {
            self.count(store, span, false).await?;
            self.past.pop();
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The next minute and the spans that wait.
    #[cfg(test)]
    pub(super) fn progress(&self) -> (i64, usize) {
        (self.next, self.past.len())
    }

    /// Appends what a span has beyond what was counted before. A live minute without requests is a row as well.
    async fn count(
        &mut self,
        store: &Store,
        span: MinuteSpan,
        is_live: bool,
    ) -> Result<(), StoreError> {
        let found = minutes(store, &counts_sql(&self.slo, span)).await?;
        let counted = minutes(store, &self.counted_sql(span)).await?;
        let was_measured = is_live || !found.is_empty();
        let mut rows = SloSliceRows::default();
        for minute in span.minutes() {
            let before = counted.get(&minute);
            let new = found.get(&minute).cloned().unwrap_or_default();
            // Rows of requests are deleted by their own retention: fewer than before is no news.
            let Some(new) = news(new, before).filter(|_| was_measured) else { continue };
            if let Some(window) = &mut self.window {
                window.0 += new.total;
                window.1 += new.failed;
            }
            rows.push(&self.row(minute, &new));
        }
        if rows.len() == 0 {
            return Ok(());
        }
        let batch = Batch { table: SloSliceRows::SPEC, rows: rows.finish() };
        store.append(Parcel { range: None, batches: vec![batch] }).await.map(drop)
    }

    fn row<'a>(&'a self, minute: i64, count: &'a MinuteCount) -> SloSlice<'a> {
        SloSlice {
            ts: Micros(minute * 1_000_000),
            host: &self.host,
            slo: &self.slo.name,
            kind: self.slo.kind.as_str(),
            definition: &self.definition,
            target: self.slo.target.as_deref().unwrap_or_default(),
            objective_ratio: self.slo.objective_ratio(),
            window_seconds: window_seconds(&self.slo),
            total_count: count.total,
            failed_count: count.failed,
            failing_hosts: Some(count.hosts.as_str()).filter(|names| !names.is_empty()),
            failing_upstreams: Some(count.upstreams.as_str()).filter(|names| !names.is_empty()),
            budget_left_ratio: self.budget_left(),
        }
    }

    fn budget_left(&self) -> Option<f64> {
        let (total, failed) = self.window?;
        let count = SloCount {
            total: u64::try_from(total).unwrap_or(0),
            failed: u64::try_from(failed).unwrap_or(0),
            covered_ratio: 1.0,
        };
        Some(count.budget_left_ratio(self.slo.allowed_ratio))
    }

    fn of_slo(&self) -> String {
        let (slo, definition) = (quoted(&self.slo.name), quoted(&self.definition));
        format!("slo = {slo} and definition = {definition}")
    }

    /// What was counted of a span, in the columns of the counts.
    fn counted_sql(&self, span: MinuteSpan) -> String {
        format!(
            "select cast(date_part('epoch', ts) as bigint) as minute, sum(total_count) as total, \
             sum(failed_count) as failed from slo_slice where {} and {} group by 1",
            self.of_slo(),
            span.condition()
        )
    }

    async fn window_sums(&self, store: &Store, end: i64) -> Result<(i64, i64), StoreError> {
        let sql = format!(
            "select coalesce(sum(total_count), 0) as total, coalesce(sum(failed_count), 0) as failed \
             from slo_slice where {} and ts >= {} and ts < {}",
            self.of_slo(),
            literal(end - window_seconds(&self.slo)),
            literal(end)
        );
        let row = rows(store, &sql).await?.pop();
        Ok(row.map_or((0, 0), |row| (int(&row, "total"), int(&row, "failed"))))
    }

    /// The hours of the window that have no count, and those of the last two days; the newest last.
    async fn missing(&self, store: &Store, end: i64) -> Result<Vec<MinuteSpan>, StoreError> {
        let table = if self.slo.kind.as_str() == "checks" { "check_result" } else { "request" };
        let Some(oldest) = store.oldest(table) else { return Ok(Vec::new()) };
        let from = (end - window_seconds(&self.slo)).max(oldest.0.div_euclid(1_000_000));
        let from = from.div_euclid(SPAN_SECONDS) * SPAN_SECONDS;
        let span = MinuteSpan { from, to: end };
        let sql = format!(
            "select distinct cast(date_part('epoch', date_bin(interval '1 hour', ts)) as bigint) as hour \
             from slo_slice where {} and {}",
            self.of_slo(),
            span.condition()
        );
        let known = rows(store, &sql).await?;
        let known: Vec<i64> = known.iter().map(|row| int(row, "hour")).collect();
        let again = MinuteSpan::before(end, SURVEY.1).from;
        let mut missing = hours(span);
        missing.retain(|hour| hour.to > again || !known.contains(&hour.from));
        Ok(missing)
    }
}

/// What a minute has beyond what was counted of it; `None` if that is nothing.
fn news(found: MinuteCount, before: Option<&MinuteCount>) -> Option<MinuteCount> {
    let Some(before) = before else { return Some(found) };
    let total = found.total - before.total;
    let failed = (found.failed - before.failed).max(0);
    (total > 0).then(|| MinuteCount { total, failed: failed.min(total), ..found })
}

/// A span in hours, the newest last.
fn hours(span: MinuteSpan) -> Vec<MinuteSpan> {
    let mut hours = Vec::new();
    let mut from = span.from.div_euclid(60) * 60;
    while from < span.to {
        let to = span.to.min((from.div_euclid(SPAN_SECONDS) + 1) * SPAN_SECONDS);
        hours.push(MinuteSpan { from, to });
        from = to;
    }
    hours
}

fn window_seconds(slo: &SloSpec) -> i64 {
    i64::try_from(slo.window_days).unwrap_or(30) * 86_400
}

async fn rows(store: &Store, sql: &str) -> Result<Vec<Row>, StoreError> {
    let limits = QueryLimits::of_rule(ROWS_MAX, TIMEOUT);
    let answer = store.query(Query::new(sql).limits(limits)).run().await?;
    Ok(rows_of(&answer.batches, ROWS_MAX))
}

/// Counts by the begin of the minute.
async fn minutes(store: &Store, sql: &str) -> Result<BTreeMap<i64, MinuteCount>, StoreError> {
    let rows = rows(store, sql).await?;
    let counts = rows.iter().map(|row| {
        let count = MinuteCount {
            total: int(row, "total"),
            failed: int(row, "failed"),
            hosts: names(row, "hosts"),
            upstreams: names(row, "upstreams"),
        };
        (int(row, "minute"), count)
    });
    Ok(counts.collect())
}

fn int(row: &Row, column: &str) -> i64 {
    match row.get(column) {
        Some(Cell::Int(number)) => *number,
        _ => 0,
    }
}

/// The first names of a list.
fn names(row: &Row, column: &str) -> String {
    let mut names: Vec<&str> = row.text(column).unwrap_or_default().split(',').collect();
    names.sort_unstable();
    names.truncate(NAMES_MAX);
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(total: i64, failed: i64) -> MinuteCount {
        MinuteCount { total, failed, ..MinuteCount::default() }
    }

    #[test]
    fn only_what_arrived_later_is_counted_again() {
        assert_eq!(news(count(10, 1), None), Some(count(10, 1)));
        assert_eq!(news(count(0, 0), None), Some(count(0, 0)), "a minute without requests");
        assert_eq!(news(count(10, 1), Some(&count(10, 1))), None);
        assert_eq!(news(count(15, 4), Some(&count(10, 1))), Some(count(5, 3)));
        assert_eq!(news(count(0, 0), Some(&count(10, 1))), None, "deleted by its retention");
    }

    #[test]
    fn spans_are_cut_at_full_hours() {
        let cut = hours(MinuteSpan { from: 3_000, to: 8_000 });
        let spans: Vec<(i64, i64)> = cut.iter().map(|span| (span.from, span.to)).collect();
        assert_eq!(spans, [(3_000, 3_600), (3_600, 7_200), (7_200, 8_000)]);
    }

    #[test]
    fn minute_is_complete_a_quarter_of_a_minute_after_its_end() {
        assert_eq!(complete(Micros(134_000_000)), 60);
        assert_eq!(complete(Micros(135_000_000)), 120);
    }
}
