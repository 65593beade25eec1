//! weir measures itself: counters for `/metrics`, and rows of `collector_run` for what is no
//! collector (tail, parse, store), so that "is weir itself the problem" is a query like any other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_tables::{Batch, CollectorRun, CollectorRunRows, Micros, Rows};

/// A part of weir that reports on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading chunks of log files.
    Tail,
    /// Lines to rows.
    Parse,
    /// Rows to the store, or to the hub.
    Store,
    /// Looking for log files.
    Discover,
    /// Samples into the agent's spool.
    Spool,
    /// Packets of a live tap.
    Wire,
    /// What the kernel counts of sockets.
    Ebpf,
}

const STAGES: [(Stage, &str); 7] = [
    (Stage::Tail, "tail"),
    (Stage::Parse, "parse"),
    (Stage::Store, "store"),
    (Stage::Discover, "discover"),
    (Stage::Spool, "spool"),
    (Stage::Wire, "wire"),
    (Stage::Ebpf, "ebpf"),
];

#[derive(Debug, Default)]
struct StageFigures {
    runs: i64,
    failures: i64,
    duration: Duration,
    cpu: Duration,
    has_cpu: bool,
    rows: i64,
    error: Option<String>,
}

/// The figures of one weir.
#[derive(Debug, Default)]
pub struct Meter {
    requests: AtomicU64,
    queries: AtomicU64,
    query_failures: AtomicU64,
    rows: AtomicU64,
    lines: AtomicU64,
    rejects: AtomicU64,
    samples_dropped: AtomicU64,
    stages: [Mutex<StageFigures>; STAGES.len()],
}

/// A run that is under way.
pub struct StageRun {
    started: Instant,
    cpu: Duration,
}

impl StageRun {
    /// Starts to measure on this thread.
    pub fn start() -> Self {
        Self { started: Instant::now(), cpu: thread_cpu() }
    }
}

/// Processor time of this thread.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Lines that were parsed, and how many of them no parser could read.
#[derive(Clone, Copy, Debug)]
pub struct LineCounts {
    /// All lines.
    pub lines: u64,
    /// Lines that became a reject.
    pub rejects: u64,
}

impl Meter {
    /// One HTTP request.
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// One query of a user.
    pub fn count_query(&self, is_success: bool) {
        self.queries.fetch_add(1, Ordering::Relaxed);
        self.query_failures.fetch_add(u64::from(!is_success), Ordering::Relaxed);
    }

    /// Adds lines that were parsed.
    pub fn count_lines(&self, counts: LineCounts) {
        self.lines.fetch_add(counts.lines, Ordering::Relaxed);
        self.rejects.fetch_add(counts.rejects, Ordering::Relaxed);
    }

    /// Samples that were dropped because the destination was unavailable.
    pub fn count_dropped(&self, samples: u64) {
        self.samples_dropped.fetch_add(samples, Ordering::Relaxed);
    }

    /// A run on this thread that made `rows`.
    pub fn ran(&self, stage: Stage, run: &StageRun, rows: usize) {
        self.with(stage, |figures| {
            figures.cpu += thread_cpu().saturating_sub(run.cpu);
            figures.has_cpu = true;
        });
        self.took(stage, run.started.elapsed(), rows);
    }

    /// A run of a part that mostly waits: what counts is its processor time.
    pub fn spent(&self, stage: Stage, cpu: Duration, rows: usize) {
        self.with(stage, |figures| {
            figures.cpu += cpu;
            figures.has_cpu = true;
        });
        self.took(stage, cpu, rows);
    }

    /// A run that was measured elsewhere; its processor time is not known.
    pub fn took(&self, stage: Stage, duration: Duration, rows: usize) {
        if stage == Stage::Store {
            self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        }
        self.with(stage, |figures| {
            figures.runs += 1;
            figures.duration += duration;
            figures.rows += i64::try_from(rows).unwrap_or(i64::MAX);
        });
    }

    /// A run that failed.
    pub fn failed(&self, stage: Stage, error: &str) {
        self.with(stage, |figures| {
            figures.runs += 1;
            figures.failures += 1;
            figures.error = Some(error.to_owned());
        });
    }

    fn with(&self, stage: Stage, change: impl FnOnce(&mut StageFigures)) {
        let at =
            STAGES.iter().position(|(known, _)| *known == stage).expect("every stage is listed");
        change(&mut self.stages[at].lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Rows of `collector_run` for all stages that ran since the last call.
    pub fn report(&self, host: &str, now: Micros) -> Option<Batch> {
        let mut rows = CollectorRunRows::default();
        for ((_, name), figures) in STAGES.iter().zip(&self.stages) {
            let figures =
                std::mem::take(&mut *figures.lock().unwrap_or_else(PoisonError::into_inner));
            if figures.runs == 0 {
                continue;
            }
            rows.push(&CollectorRun {
                ts: now,
                host,
                collector: name,
                is_success: figures.error.is_none(),
                runs: figures.runs,
                failures: figures.failures,
                duration_seconds: figures.duration.as_secs_f64(),
                cpu_seconds: figures.has_cpu.then_some(figures.cpu.as_secs_f64()),
                rows: figures.rows,
                error: figures.error.as_deref(),
            });
        }
        (!rows.is_empty()).then(|| Batch { table: CollectorRunRows::SPEC, rows: rows.finish() })
    }

    /// Name, help and value of every counter.
    pub fn counters(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("weir_http_requests_total", "HTTP requests.", value(&self.requests)),
            ("weir_queries_total", "Queries of users.", value(&self.queries)),
            (
                "weir_query_failures_total",
                "Queries of users that failed.",
                value(&self.query_failures),
            ),
            ("weir_rows_total", "Rows that the store took from this process.", value(&self.rows)),
            ("weir_lines_total", "Log lines parsed.", value(&self.lines)),
            ("weir_rejects_total", "Log lines that could not be understood.", value(&self.rejects)),
            (
                "weir_samples_dropped_total",
                "Samples of the host that were dropped because the destination was unavailable.",
                value(&self.samples_dropped),
            ),
        ]
    }
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_tables::Micros;

    use super::{Meter, Stage};

    #[test]
    fn stages_report_once_what_they_did_since_the_last_report() {
        let meter = Meter::default();
        assert!(meter.report("web1", Micros(1)).is_none());
        meter.took(Stage::Store, Duration::from_millis(5), 10);
        meter.failed(Stage::Tail, "cannot read");
        let batch = meter.report("web1", Micros(2)).expect("two stages ran");
        assert_eq!(batch.rows.num_rows(), 2);
        assert!(meter.report("web1", Micros(3)).is_none());
    }
}
