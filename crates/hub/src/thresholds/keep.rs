//! Keeps the values of five minutes of each rule that has a section `[threshold]`, and mines them.
//!
//! Missing values of the last four weeks are filled in at the start and before each mining, because
//! logs that are read for the first time bring their past with them. That takes a fifth of the time
//! of one query at a time; the span of a query grows where queries are quick and shrinks where they
//! are not.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_rules::mine::{Point, SeriesModel, Side, mine};
use weir_rules::{Rule, ThresholdSpec, rows_of};
use weir_store::{Query, QueryLimits, Store, StoreError};
use weir_tables::{
    Batch, Clock, Measure, MeasureRows, Micros, Parcel, Rows, ThresholdProposalRows,
};

use super::past::{RulePast, SeriesName, name, number, time};
use super::report::ThresholdReport;
use super::{STEP_SECONDS, accepted_per_week, options};
use crate::rule_runner::RuleRunner;

/// How often it is looked whether something is due.
const TICK: Duration = Duration::from_secs(2);
/// After a step, the pause is this many times its duration.
const PAUSE_PARTS: u32 = 4;
/// After one that failed, the rule rests for so long.
const REST: Duration = Duration::from_secs(60);
/// Logs that are found at the start are read first.
const SETTLE: Duration = Duration::from_secs(20);
/// A row that comes later than this is in no value.
const LATE_SECONDS: i64 = 30;
/// Values that are made up for in one query: at the start, and at most.
const AT_ONCE: (i64, i64) = (12, 288);
/// A query that took less makes the next span longer, one that took more shorter.
const QUICK: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_secs(1);
/// Days that are made up for.
const BACK_DAYS: i64 = 28;
/// Subjects of one rule; further subjects are left out.
const MAX_SUBJECTS: usize = 500;
/// A subject that was not seen for so long is no longer 0 but gone.
const FORGET_SECONDS: i64 = 7 * 86_400;
/// How often normal is mined again, and proposals are made.
const MINE_SECONDS: f64 = 86_400.0;
const PROPOSE_SECONDS: f64 = 7.0 * 86_400.0;
/// Until a day is known, it is looked again after so long, and each time after twice as long, up to
/// an hour.
const RETRY_SECONDS: (f64, f64) = (300.0, 3_600.0);

/// Runs until the task is ended.
pub(crate) async fn keep_always(
    judge: Arc<RuleRunner>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    host: String,
) {
    let mining = |rule: &Arc<Rule>| Some((Arc::clone(rule), rule.mining.clone()?));
    let mut kept = Vec::new();
    for (rule, mining) in judge.rules.iter().filter_map(mining) {
        kept.push(RuleValues::new(&store, rule, mining, clock.now()).await);
    }
    loop {
        let mut pause = TICK;
        if !store.is_leader() {
            tokio::time::sleep(TICK).await;
            continue;
        }
        for rule in &mut kept {
            let (now, began) = (clock.now(), Instant::now());
            if rule.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            rule.rests_until = None;
            match rule.step(&store, now, &host).await {
                Ok(true) => {
                    tokio::time::sleep(began.elapsed() * PAUSE_PARTS).await;
                    pause = Duration::ZERO;
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!("cannot keep values of `{}`: {}", rule.rule.id, error.message);
                    rule.rests_until = Some(now + REST);
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// One rule's values.
struct RuleValues {
    rule: Arc<Rule>,
    mining: ThresholdSpec,
    /// Begin of the five minutes that come next, seconds since 1970.
    next: i64,
    /// Spans of the past in which values are missing, oldest last,
    missing: Vec<(i64, i64)>,
    /// and those five minutes in them that have values, sorted.
    known: Vec<i64>,
    /// Whether missing values were filled in since the last mining.
    is_filled: bool,
    /// When it is mined next, and how soon again when too little was known.
    due: Micros,
    retry_seconds: f64,
    /// Values of one query.
    at_once: i64,
    rests_until: Option<Micros>,
    /// When each subject was last seen.
    seen: BTreeMap<SeriesName, i64>,
    models: BTreeMap<SeriesName, SubjectModel>,
}

/// The model of a subject, and the residuals of its newest values.
struct SubjectModel {
    mined: SeriesModel,
    left: VecDeque<f64>,
}

impl RuleValues {
    async fn new(store: &Store, rule: Arc<Rule>, mining: ThresholdSpec, now: Micros) -> Self {
        let due = proposed_at(store, &rule, &mining, now).await.unwrap_or(now);
        Self {
            next: complete(now),
            missing: Vec::new(),
            known: Vec::new(),
            is_filled: false,
            due: due.max(now + SETTLE),
            retry_seconds: RETRY_SECONDS.0,
            at_once: AT_ONCE.0,
            rests_until: None,
            seen: BTreeMap::new(),
            models: BTreeMap::new(),
            rule,
            mining,
        }
    }

    /// Does the next thing that is due; whether there was one.
    async fn step(&mut self, store: &Store, now: Micros, host: &str) -> Result<bool, StoreError> {
        if self.next < complete(now) {
            let until = complete(now).min(self.next + self.at_once * STEP_SECONDS);
            self.measure(store, self.next..until).await?;
            self.next = until;
        } else if let Some((from, to)) = self.missing.last().copied() {
            let until = to.min(from + self.at_once * STEP_SECONDS);
            self.measure(store, from..until).await?;
            self.missing.pop();
            self.missing.extend((until < to).then_some((until, to)));
        } else if now < self.due {
            return Ok(false);
        } else if !self.is_filled {
            self.missing = self.missing_before(store, now).await?;
            self.is_filled = true;
        } else {
            self.is_filled = false;
            let is_known = match self.mining.value {
                None => self.mine(store, now).await?,
                Some(_) => self.propose(store, now, host).await?,
            };
            let pause = match (is_known, self.mining.value) {
                (false, _) => self.retry_seconds,
                (true, None) => MINE_SECONDS,
                (true, Some(_)) => PROPOSE_SECONDS,
            };
            self.retry_seconds = (2.0 * self.retry_seconds).min(RETRY_SECONDS.1);
            self.due = after(now, pause);
        }
        Ok(true)
    }

    /// Spans of the last four weeks in which the rule has no value, and when each subject was last
    /// seen.
    async fn missing_before(
        &mut self,
        store: &Store,
        now: Micros,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let past = RulePast::of(store, &self.rule, now).await?;
        let mut known: Vec<i64> = Vec::new();
        for (name, points) in &past.series {
            known.extend(points.iter().map(|point| point.at));
            if let Some(last) = points.last() {
                let seen = self.seen.entry(name.clone()).or_insert(last.at);
                *seen = last.at.max(*seen);
            }
        }
        known.sort_unstable();
        known.dedup();
        // Before the first row there is nothing to ask for.
        let oldest = self.rule.needs.iter().filter_map(|table| store.oldest(table)).min();
        let oldest = oldest.map_or(self.next, |ts| ts.0.div_euclid(1_000_000));
        let from = oldest.div_euclid(STEP_SECONDS) * STEP_SECONDS;
        let from = from.max(complete(now) - BACK_DAYS * 86_400);
        let missing = gaps(&known, from..self.next);
        self.known = known;
        Ok(missing)
    }

    /// Keeps the values of a span.
    async fn measure(&mut self, store: &Store, span: Range<i64>) -> Result<(), StoreError> {
        let (from, to) = (span.start, span.end);
        let began = Instant::now();
        let sql = self.mining.series_between(at(from), at(to));
        let limits = QueryLimits::of_rule(200_000, Duration::from_secs(60));
        let answer = store.query(Query::new(&sql).limits(limits)).run().await?;
        let mut values: BTreeMap<i64, BTreeMap<SeriesName, f64>> = BTreeMap::new();
        for row in rows_of(&answer.batches, 200_000) {
            let Some(weir_rules::Cell::Time(ts)) = row.get("ts") else { continue };
            let Some(value) = number(&row, "value").filter(|value| value.is_finite()) else {
                continue;
            };
            values.entry(ts.0.div_euclid(1_000_000)).or_default().insert(name(&row), value);
        }
        let took = began.elapsed();
        if took < QUICK {
            self.at_once = (2 * self.at_once).min(AT_ONCE.1);
        } else if took > SLOW {
            self.at_once = (self.at_once / 2).max(1);
        }
        let is_live = from >= self.next;
        if !is_live {
            leave_out_unfinished(&mut values, to - STEP_SECONDS);
        }
        let mut rows = MeasureRows::default();
        let mut slot = from;
        while slot < to {
            let mut of_slot = values.remove(&slot).unwrap_or_default();
            let seen = &mut self.seen;
            of_slot.retain(|name, _| seen.contains_key(name) || seen.len() < MAX_SUBJECTS);
            for name in of_slot.keys() {
                let last = seen.entry(name.clone()).or_insert(slot);
                *last = slot.max(*last);
            }
            // Absence means 0 only while weir was running: in the past it may have been off.
            if self.mining.absent_is_zero && is_live {
                let silent =
                    seen.iter().filter(|(_, at)| **at < slot && slot - **at <= FORGET_SECONDS);
                for (name, _) in silent {
                    of_slot.entry(name.clone()).or_insert(0.0);
                }
            }
            if !is_live && self.known.binary_search(&slot).is_ok() {
                of_slot.clear();
            }
            for (name, value) in of_slot {
                self.push(&mut rows, name, Point { at: slot, value }, is_live);
            }
            slot += STEP_SECONDS;
        }
        if rows.len() == 0 {
            return Ok(());
        }
        append(store, Batch { table: MeasureRows::SPEC, rows: rows.finish() }).await
    }

    fn push(&mut self, rows: &mut MeasureRows, name: SeriesName, point: Point, is_live: bool) {
        // What is made up for is not compared: the models are of a later time.
        let model = self.models.get_mut(&name).filter(|_| is_live);
        let judged = model.map(|model| model.judge(point));
        rows.push(&Measure {
            ts: Micros(point.at * 1_000_000),
            host: &name.0,
            rule: &self.rule.id,
            subject: &name.1,
            value: point.value,
            expected: judged.map(|(expected, ..)| expected),
            low: judged.map(|(_, (low, _), _)| low),
            high: judged.map(|(_, (_, high), _)| high),
            nearness_ratio: judged.map(|(.., nearness)| nearness),
        });
    }

    /// Mines what is normal for every subject; whether it is known of one.
    async fn mine(&mut self, store: &Store, now: Micros) -> Result<bool, StoreError> {
        let past = RulePast::of(store, &self.rule, now).await?;
        let options = options(&self.rule, accepted_per_week(self.rule.class), past.series.len());
        let models = tokio::task::spawn_blocking(move || {
            past.series
                .into_iter()
                .filter_map(|(name, points): (SeriesName, Vec<Point>)| {
                    let calm = weir_rules::mine::without(&points, &past.incidents);
                    let mined = mine(&calm, &options).ok()?;
                    let newest = points.len().saturating_sub(longest(&mined));
                    let left =
                        points[newest..].iter().map(|point| mined.residual(*point)).collect();
                    Some((name, SubjectModel { mined, left }))
                })
                .collect()
        });
        self.models = models.await.unwrap_or_default();
        Ok(!self.models.is_empty())
    }

    /// Keeps what the threshold should be; whether it is known.
    async fn propose(&self, store: &Store, now: Micros, host: &str) -> Result<bool, StoreError> {
        let report = ThresholdReport::of(store, &self.rule, &self.mining, None, now).await?;
        let Some(row) = report.row(now, host).filter(|row| row.proposed.is_some()) else {
            return Ok(false);
        };
        let mut rows = ThresholdProposalRows::default();
        rows.push(&row);
        append(store, Batch { table: ThresholdProposalRows::SPEC, rows: rows.finish() }).await?;
        Ok(true)
    }
}

fn at(seconds: i64) -> Micros {
    Micros(seconds * 1_000_000)
}

impl SubjectModel {
    /// Normal, the range around it, and how near an event the newest values are, negative below
    /// normal.
    fn judge(&mut self, point: Point) -> (f64, (f64, f64), f64) {
        self.left.push_back(self.mined.residual(point));
        while self.left.len() > longest(&self.mined) {
            self.left.pop_front();
        }
        let left = self.left.make_contiguous();
        let newest = |side| self.mined.nearness(left, side).last().copied().unwrap_or_default();
        let (above, below) = (newest(Side::Above), newest(Side::Below));
        let nearness = if below > above { -below } else { above };
        (self.mined.expected(point.at), self.mined.range(point.at), nearness)
    }
}

/// Points of the longest mean.
fn longest(mined: &SeriesModel) -> usize {
    mined.bounds.iter().map(|bound| bound.points).max().unwrap_or(1)
}

/// When the next proposal is due: a week after the last one, at once when the value has changed
/// since.
async fn proposed_at(
    store: &Store,
    rule: &Rule,
    mining: &ThresholdSpec,
    now: Micros,
) -> Option<Micros> {
    let since = time(now - Duration::from_secs(8 * 86_400));
    let sql = format!(
        "select ts, value from threshold_proposal where rule = '{}' and ts > {since} \
         order by ts desc limit 1",
        rule.id
    );
    let limits = QueryLimits::of_rule(1, Duration::from_secs(60));
    let answer = store.query(Query::new(&sql).limits(limits)).run().await.ok()?;
    let row = rows_of(&answer.batches, 1).pop()?;
    let Some(weir_rules::Cell::Time(ts)) = row.get("ts") else { return None };
    (number(&row, "value") == mining.value).then(|| after(*ts, PROPOSE_SECONDS))
}

/// Takes out each subject's newest value unless it is of the last slot: its log may be being read
/// just there.
fn leave_out_unfinished(values: &mut BTreeMap<i64, BTreeMap<SeriesName, f64>>, last: i64) {
    let mut newest: BTreeMap<SeriesName, i64> = BTreeMap::new();
    for (slot, of_slot) in &*values {
        newest.extend(of_slot.keys().map(|name| (name.clone(), *slot)));
    }
    for (name, slot) in newest.iter().filter(|(_, slot)| **slot < last) {
        if let Some(of_slot) = values.get_mut(slot) {
            of_slot.remove(name);
        }
    }
}

/// Parts of `span` in which values are missing, newest first; those with less than a
/// query between them are one, since each costs a query.
fn gaps(known: &[i64], span: Range<i64>) -> Vec<(i64, i64)> {
    let (from, to) = (span.start, span.end);
    let mut gaps: Vec<(i64, i64)> = Vec::new();
    let mut begin = from;
    for at in known.iter().copied().chain([to]).filter(|at| *at >= from) {
        if at > begin {
            match gaps.last_mut() {
                Some(last) if begin - last.1 < AT_ONCE.1 * STEP_SECONDS => last.1 = at,
                _ => gaps.push((begin, at)),
            }
        }
        begin = at + STEP_SECONDS;
    }
    gaps.reverse();
    gaps
}

/// The end of the newest five minutes whose rows have all come.
fn complete(now: Micros) -> i64 {
    (now.0.div_euclid(1_000_000) - LATE_SECONDS).div_euclid(STEP_SECONDS) * STEP_SECONDS
}

fn after(time: Micros, seconds: f64) -> Micros {
    time + Duration::from_secs_f64(seconds)
}

async fn append(store: &Store, batch: Batch) -> Result<(), StoreError> {
    store.append(Parcel { range: None, batches: vec![batch] }).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{gaps, leave_out_unfinished};

    #[test]
    fn the_newest_value_of_a_log_that_is_being_read_is_left_out() {
        let name = |subject: &str| ("web1".to_owned(), subject.to_owned());
        let slot = |subjects: &[&str]| -> BTreeMap<_, _> {
            subjects.iter().map(|subject| (name(subject), 1.0)).collect()
        };
        let mut values = BTreeMap::from([
            (0, slot(&["read", "reading"])),
            (300, slot(&["read", "reading"])),
            (600, slot(&["read"])),
        ]);
        leave_out_unfinished(&mut values, 600);
        assert_eq!(values[&0].len(), 2);
        assert!(values[&300].contains_key(&name("read")) && values[&300].len() == 1);
        assert_eq!(values[&600].len(), 1);
    }

    #[test]
    fn gaps_near_each_other_are_asked_for_together() {
        let day = 86_400;
        assert_eq!(gaps(&[], 0..900), [(0, 900)]);
        assert_eq!(gaps(&[0, 300, 600], 0..900), []);
        assert_eq!(gaps(&[300, 900], 0..1_500), [(0, 1_500)]);
        let whole_days: Vec<i64> = (1..=2 * 288).map(|slot| slot * 300).collect();
        assert_eq!(gaps(&whole_days, 0..3 * day), [(2 * day + 300, 3 * day), (0, 300)]);
    }
}
