//! Progress and counters of an output, for `/metrics`, the API and the table `output_run`.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};
use weir_tables::Micros;

use crate::error::Error;

/// Status shared between the output's thread and readers.
#[derive(Debug, Default)]
pub struct OutputStatus {
    inner: Mutex<StatusInner>,
}

#[derive(Debug, Default)]
struct StatusInner {
    figures: OutputFigures,
    /// Time and end of the log, once a second, for records that are not copied yet.
    marks: VecDeque<(Micros, u64)>,
}

/// Most marks that are kept; beyond that, every other one is dropped.
const MARKS_MAX: usize = 4096;
/// Distinct reasons of refusals.
const REASONS_MAX: usize = 32;

/// Counters since the start, and the current lag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputFigures {
    /// Completed batches.
    pub batches: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Rows accepted by the target.
    pub rows: u64,
    /// Rows among them that the target had already: sent again after a response was lost.
    pub repeats: u64,
    /// Rows that the target will never accept.
    pub rows_refused: u64,
    /// Rows given up because the backlog exceeded its limit.
    pub rows_lost: u64,
    /// Bytes of rows as they were sent.
    pub bytes: u64,
    /// Bytes of the log not copied yet.
    pub lag_bytes: u64,
    /// Age of the oldest row not copied yet; 0 without any.
    pub lag_seconds: f64,
    /// Why the last attempt failed; `None` after a success.
    pub error: Option<String>,
    /// Refusals by reason.
    pub refusals: BTreeMap<String, u64>,
}

/// Positions of the log, as record numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogProgress {
    /// The record after the log's last.
    pub(crate) end: u64,
    /// Everything before this record is copied.
    pub(crate) copied: u64,
    /// Bytes of the log after that.
    pub(crate) lag_bytes: u64,
}

impl OutputStatus {
    fn inner(&self) -> MutexGuard<'_, StatusInner> {
        self.inner.lock()
    }

    /// The figures as of `now`.
    pub fn figures(&self, now: Micros) -> OutputFigures {
        let inner = self.inner();
        let oldest = inner.marks.front().map_or(now, |(since, _)| *since);
        OutputFigures { lag_seconds: now.seconds_since(oldest).max(0.0), ..inner.figures.clone() }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut OutputFigures)) {
        change(&mut self.inner().figures);
    }

    pub(crate) fn record_failure(&self, error: &Error) {
        self.change(|figures| {
            figures.failures += 1;
            figures.error = Some(error.one_line());
        });
    }

    pub(crate) fn record_refusals(&self, reasons: &BTreeMap<String, u64>) {
        self.change(|figures| {
            for (reason, count) in reasons {
                let is_known = figures.refusals.contains_key(reason);
                let reason =
                    if is_known || figures.refusals.len() < REASONS_MAX { reason } else { "other" };
                *figures.refusals.entry(reason.to_owned()).or_default() += count;
                figures.rows_refused += count;
            }
        });
    }

    /// Records the progress as of `now`.
    pub(crate) fn mark(&self, now: Micros, progress: LogProgress) {
        let LogProgress { end, copied, lag_bytes } = progress;
        let mut inner = self.inner();
        inner.figures.lag_bytes = lag_bytes;
        while inner.marks.front().is_some_and(|(_, reached)| *reached <= copied) {
            inner.marks.pop_front();
        }
        let (last, reached) = inner.marks.back().copied().unwrap_or((Micros(i64::MIN / 2), copied));
        if end > reached && now.seconds_since(last) >= 1.0 {
            inner.marks.push_back((now, end));
        }
        if inner.marks.len() > MARKS_MAX {
            let mut at = 0;
            inner.marks.retain(|_| {
                at += 1;
                at == 1 || at % 2 == 0
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_age_of_the_oldest_record_that_is_not_copied() {
        let status = OutputStatus::default();
        let lag = |seconds| status.figures(at(seconds)).lag_seconds;
        status.mark(at(0), LogProgress { end: 0, copied: 0, lag_bytes: 0 });
        assert_eq!(lag(5), 0.0);
        status.mark(at(10), LogProgress { end: 5, copied: 0, lag_bytes: 100 });
        status.mark(at(20), LogProgress { end: 9, copied: 0, lag_bytes: 200 });
        assert_eq!((lag(30), status.figures(at(30)).lag_bytes), (20.0, 200));
        status.mark(at(30), LogProgress { end: 9, copied: 5, lag_bytes: 100 });
        assert_eq!(lag(30), 10.0);
        status.mark(at(31), LogProgress { end: 9, copied: 9, lag_bytes: 0 });
        assert_eq!(lag(40), 0.0);
        for second in 0..10_000_i64 {
            let end = 10 + second.cast_unsigned();
            status.mark(at(second), LogProgress { end, copied: 9, lag_bytes: 1 });
        }
        assert!(status.inner().marks.len() <= MARKS_MAX);
        assert_eq!(lag(10_000), 10_000.0);
    }

    fn at(seconds: i64) -> Micros {
        Micros(seconds * 1_000_000)
    }
}
