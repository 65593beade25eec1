//! How far an output is and what became of its rows: read by `/metrics`, the API and the table `output_run`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_tables::Micros;

/// Shared by the output's thread and those who ask.
#[derive(Debug, Default)]
pub struct Status {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    figures: Figures,
    /// When the log reached which record, once a second, while that is not copied yet.
    marks: VecDeque<(Micros, u64)>,
}

/// Marks kept; beyond, every other one is dropped.
const MARKS_MAX: usize = 4096;
/// Reasons of refusals told apart.
const REASONS_MAX: usize = 32;

/// What was done since the start, and what is still to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Batches that were settled.
    pub batches: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Rows that the target has now.
    pub rows: u64,
    /// Of them, rows that it had before: sent again after an answer was lost.
    pub repeats: u64,
    /// Rows that the target will not take.
    pub rows_refused: u64,
    /// Rows that were given up because too much waited.
    pub rows_lost: u64,
    /// Bytes of rows as they were sent.
    pub bytes: u64,
    /// Bytes of the log that are not copied.
    pub lag_bytes: u64,
    /// Age of the oldest of them; 0 when there are none.
    pub lag_seconds: f64,
    /// Why the last attempt failed; `None` after one that did not.
    pub error: Option<String>,
    /// Refusals by reason.
    pub refusals: BTreeMap<String, u64>,
}

impl Status {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures as of `now`.
    pub fn figures(&self, now: Micros) -> Figures {
        let inner = self.inner();
        let oldest = inner.marks.front().map_or(now, |(since, _)| *since);
        Figures { lag_seconds: now.seconds_since(oldest).max(0.0), ..inner.figures.clone() }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.inner().figures);
    }

    pub(crate) fn failed(&self, why: &str) {
        self.change(|figures| {
            figures.failures += 1;
            figures.error = Some(why.to_owned());
        });
    }

    pub(crate) fn refused(&self, reasons: &BTreeMap<String, u64>) {
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

    /// The log ends before record `end`, and everything before `done` is copied.
    pub(crate) fn mark(&self, now: Micros, end: u64, done: u64, lag_bytes: u64) {
        let mut inner = self.inner();
        inner.figures.lag_bytes = lag_bytes;
        while inner.marks.front().is_some_and(|(_, reached)| *reached <= done) {
            inner.marks.pop_front();
        }
        let (last, reached) = inner.marks.back().copied().unwrap_or((Micros(i64::MIN / 2), done));
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
        let status = Status::default();
        let at = |seconds: i64| Micros(seconds * 1_000_000);
        let lag = |seconds| status.figures(at(seconds)).lag_seconds;
        status.mark(at(0), 0, 0, 0);
        assert_eq!(lag(5), 0.0);
        status.mark(at(10), 5, 0, 100);
        status.mark(at(20), 9, 0, 200);
        assert_eq!((lag(30), status.figures(at(30)).lag_bytes), (20.0, 200));
        status.mark(at(30), 9, 5, 100);
        assert_eq!(lag(30), 10.0);
        status.mark(at(31), 9, 9, 0);
        assert_eq!(lag(40), 0.0);
        for second in 0..10_000 {
            status.mark(at(second), 10 + second.cast_unsigned(), 9, 1);
        }
        assert!(status.inner().marks.len() <= MARKS_MAX);
        assert_eq!(lag(10_000), 10_000.0);
    }
}
