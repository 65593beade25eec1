//! Results of collector runs: the rows of `collector_run`, and which collector is due.
//!
//! Rows are written every 10 s, and at once when a collector fails or recovers.

use rustix::time::{ClockId, clock_gettime};
use weir_tables::{Batch, CollectorRun, CollectorRunRows, Micros};

use super::{CollectorCost, take};
use crate::CollectError;

const REPORT_SECONDS: f64 = 10.0;
/// A round may be this early and still count as on time.
const SLACK_SECONDS: f64 = 0.5;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeSpent {
    pub(super) duration_seconds: f64,
    pub(super) cpu_seconds: f64,
}

#[derive(Debug)]
pub(super) struct Stopwatch(TimeSpent);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(read_clocks())
    }

    pub(super) fn stop(&self) -> TimeSpent {
        let now = read_clocks();
        TimeSpent {
            duration_seconds: now.duration_seconds - self.0.duration_seconds,
            cpu_seconds: now.cpu_seconds - self.0.cpu_seconds,
        }
    }
}

/// Limit on how often an expensive task runs.
#[derive(Debug)]
pub(super) struct DutyCycle {
    /// Share of one CPU that the task may use.
    pub(super) cost_ratio: f64,
    pub(super) pause_seconds: (f64, f64),
}

impl DutyCycle {
    /// Whether a task planned for `next` is due. A clock step back does not block it.
    pub(super) fn is_due(&self, next: Option<Micros>, now: Micros) -> bool {
        next.is_none_or(|next| now >= next || next.seconds_since(now) > self.pause_seconds.1)
    }

    /// Time of the next run after one that took `spent`.
    pub(super) fn next_run(&self, spent: TimeSpent, now: Micros) -> Micros {
        let (shortest, longest) = self.pause_seconds;
        let pause = (spent.cpu_seconds / self.cost_ratio).clamp(shortest, longest);
        now + std::time::Duration::from_secs_f64(pause)
    }
}

fn read_clocks() -> TimeSpent {
    TimeSpent {
        duration_seconds: seconds(ClockId::Monotonic),
        cpu_seconds: seconds(ClockId::ThreadCPUTime),
    }
}

#[expect(clippy::cast_precision_loss, reason = "clock readings stay far below 2^53")]
pub(super) fn seconds(clock: ClockId) -> f64 {
    let at = clock_gettime(clock);
    at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
}

#[derive(Debug, Default)]
struct RunEntry {
    name: &'static str,
    last_run: Option<Micros>,
    last_report: Option<Micros>,
    was_reported_failed: Option<bool>,
    is_failed: bool,
    runs: i64,
    failures: i64,
    rows: i64,
    spent: TimeSpent,
    total_runs: u64,
    total: TimeSpent,
    error: Option<String>,
}

/// Runs of all collectors since their last rows.
#[derive(Debug)]
pub(super) struct RunLog {
    entries: Vec<RunEntry>,
    rows: CollectorRunRows,
}

impl RunLog {
    pub(super) fn new(names: impl Iterator<Item = &'static str>) -> Self {
        let entries = names.map(|name| RunEntry { name, ..RunEntry::default() }).collect();
        Self { entries, rows: CollectorRunRows::default() }
    }

    /// Whether the collector is due at `now`; after a clock step back it always is.
    pub(super) fn is_due(&self, index: usize, every_seconds: f64, now: Micros) -> bool {
        let Some(last) = self.entries[index].last_run else { return true };
        let age = now.seconds_since(last);
        every_seconds <= 1.0 || age < 0.0 || age >= every_seconds - SLACK_SECONDS
    }

    pub(super) fn note(
        &mut self,
        index: usize,
        now: Micros,
        spent: TimeSpent,
        rows: usize,
        error: Option<CollectError>,
    ) {
        let entry = &mut self.entries[index];
        entry.last_run = Some(now);
        entry.runs += 1;
        entry.total_runs += 1;
        entry.rows += i64::try_from(rows).unwrap_or(i64::MAX);
        for sum in [&mut entry.spent, &mut entry.total] {
            sum.duration_seconds += spent.duration_seconds;
            sum.cpu_seconds += spent.cpu_seconds;
        }
        entry.is_failed = error.is_some();
        if let Some(error) = error {
            entry.failures += 1;
            entry.error = Some(error.to_string());
        }
    }

    pub(super) fn report(&mut self, host: &str, now: Micros, out: &mut Vec<Batch>) {
        for entry in &mut self.entries {
            if entry.runs == 0 || !entry.is_report_due(now) {
                continue;
            }
            self.rows.push(&CollectorRun {
                ts: entry.last_run.unwrap_or(now),
                host,
                collector: entry.name,
                is_success: !entry.is_failed,
                runs: entry.runs,
                failures: entry.failures,
                duration_seconds: entry.spent.duration_seconds,
                cpu_seconds: Some(entry.spent.cpu_seconds),
                rows: entry.rows,
                error: entry.error.as_deref(),
            });
            entry.reset(now);
        }
        take(&mut self.rows, out);
    }

    pub(super) fn costs(&self) -> Vec<CollectorCost> {
        self.entries
            .iter()
            .map(|entry| CollectorCost {
                collector: entry.name,
                runs: entry.total_runs,
                cpu_seconds: entry.total.cpu_seconds,
                duration_seconds: entry.total.duration_seconds,
            })
            .collect()
    }
}

impl RunEntry {
    fn is_report_due(&self, now: Micros) -> bool {
        let is_changed = self.was_reported_failed != Some(self.is_failed);
        let age = self.last_report.map_or(f64::INFINITY, |last| now.seconds_since(last));
        is_changed || !(0.0..REPORT_SECONDS - SLACK_SECONDS).contains(&age)
    }

    fn reset(&mut self, now: Micros) {
        self.last_report = Some(now);
        self.was_reported_failed = Some(self.is_failed);
        (self.runs, self.failures, self.rows) = (0, 0, 0);
        self.spent = TimeSpent::default();
        self.error = None;
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    fn reported(log: &mut RunLog, second: i64, error: Option<&str>) -> Vec<bool> {
        let now = Micros(second * 1_000_000);
        log.note(0, now, TimeSpent::default(), 1, error.map(|why| CollectError::new("read", why)));
        let mut out = Vec::new();
        log.report("web1", now, &mut out);
        let success =
            |batch: &Batch| batch.rows.column_by_name("is_success").unwrap().as_boolean().value(0);
        out.iter().map(success).collect()
    }

    #[test]
    fn failure_and_recovery_are_reported_at_once_and_the_rest_every_ten_seconds() {
        let mut log = RunLog::new(["cpu_stat"].into_iter());
        assert_eq!(reported(&mut log, 1, None), [true]);
        assert!(reported(&mut log, 2, None).is_empty());
        assert_eq!(reported(&mut log, 3, Some("gone")), [false]);
        assert!(reported(&mut log, 4, Some("gone")).is_empty());
        assert_eq!(reported(&mut log, 13, Some("gone")), [false]);
        assert_eq!(reported(&mut log, 14, None), [true]);
    }

    #[test]
    fn expensive_task_waits_longer_within_bounds_and_a_clock_step_back_does_not_stop_it() {
        let cycle = DutyCycle { cost_ratio: 0.001, pause_seconds: (2.0, 600.0) };
        let spent = |cpu_seconds| TimeSpent { cpu_seconds, ..TimeSpent::default() };
        let now = Micros(1_000_000_000);
        let pause = |cpu_seconds| cycle.next_run(spent(cpu_seconds), now).seconds_since(now);
        assert_eq!([pause(0.0), pause(0.1), pause(9.0)], [2.0, 100.0, 600.0]);
        let next = cycle.next_run(spent(0.1), now);
        assert!(cycle.is_due(None, now) && cycle.is_due(Some(next), next));
        assert!(!cycle.is_due(Some(next), now));
        assert!(cycle.is_due(Some(next), Micros(0)));
    }

    #[test]
    fn slow_collector_waits_and_a_clock_step_back_does_not_stop_it() {
        let mut log = RunLog::new(["filesystem"].into_iter());
        let at = |second: i64| Micros(second * 1_000_000);
        assert!(log.is_due(0, 10.0, at(100)));
        log.note(0, at(100), TimeSpent::default(), 0, None);
        assert!(!log.is_due(0, 10.0, at(109)));
        assert!(log.is_due(0, 10.0, at(110)));
        assert!(log.is_due(0, 10.0, at(50)));
    }
}
