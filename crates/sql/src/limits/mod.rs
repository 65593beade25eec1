//! Limits, usage and outcome of queries.
//!
//! Every task of a query, including tasks that DataFusion starts for it, carries the query's
//! [`QueryUsage`]: CPU time and bytes read are added where they arise, and the first limit that is
//! exceeded is recorded there. So the error can be explained, whatever DataFusion has wrapped it
//! in.

mod class;
mod cpu;
mod ended;
mod memory;
mod reader;
mod reading;
mod spill;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use weir_datafile::{DataFile, ErrorKind, StoreError};

pub(crate) use class::{QueryClasses, QueryEnvironment};
pub(crate) use cpu::{MeteredFuture, watch_tasks};
pub(crate) use ended::{EndedQueries, RunningQuery};
pub use ended::{EndedQuery, QueryEnd};
pub(crate) use reader::{ReadQuota, ReadQuotas};
pub(crate) use reading::{CountingStore, count_read};
pub use spill::SpillSpace;

use crate::options::QueryLimits;

tokio::task_local! {
    /// Usage counter of the query that the current task belongs to.
    pub(crate) static USAGE: Arc<QueryUsage>;
}

/// A limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    /// Memory of this query.
    Memory,
    /// Memory of all queries together.
    SharedMemory,
    /// Disk space for spilling.
    Spill,
    Time,
    Read,
    /// Bytes that the user's queries read within an hour.
    UserRead,
    Answer,
}

/// Reads of files: their bytes and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileReads {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

/// Resources of a query that are counted wherever parts of it run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceUse {
    pub(crate) cpu: Duration,
    pub(crate) read_bytes: u64,
    pub(crate) reads: u64,
}

/// Resources that one query has used so far.
#[derive(Debug)]
pub(crate) struct QueryUsage {
    pub(crate) limits: QueryLimits,
    /// Read quota of its user, if there is one.
    reader: Option<Arc<ReadQuota>>,
    cpu_nanos: AtomicU64,
    read_bytes: AtomicU64,
    reads: AtomicU64,
    spilled_bytes: AtomicU64,
    memory_bytes: AtomicUsize,
    memory_peak: AtomicUsize,
    /// Bytes of the results of window functions.
    window_bytes: AtomicU64,
    /// Whether sorts and other spilling operators have equal shares of memory.
    shares_evenly: AtomicBool,
    /// Whether a row was too wide for a join with batches of usual size.
    has_wide_row: AtomicBool,
    /// Whether the query has ended or was cancelled.
    has_ended: AtomicBool,
    met: Mutex<Option<LimitKind>>,
    /// Files opened so far, in order.
    opened: Mutex<Vec<Arc<DataFile>>>,
}

impl QueryUsage {
    pub(crate) fn new(limits: QueryLimits) -> Arc<Self> {
        Self::for_reader(limits, None)
    }

    pub(crate) fn for_reader(limits: QueryLimits, reader: Option<Arc<ReadQuota>>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            reader,
            cpu_nanos: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            spilled_bytes: AtomicU64::new(0),
            memory_bytes: AtomicUsize::new(0),
            memory_peak: AtomicUsize::new(0),
            window_bytes: AtomicU64::new(0),
            shares_evenly: AtomicBool::new(false),
            has_wide_row: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            met: Mutex::new(None),
            opened: Mutex::default(),
        })
    }

    /// Records an exceeded limit. Exceeded memory may only have caused spilling; the first of the
    /// other limits ends the query.
    pub(crate) fn meet(&self, limit: LimitKind) {
        let mut met = self.met.lock();
        if matches!(*met, None | Some(LimitKind::Memory | LimitKind::SharedMemory)) {
            *met = Some(limit);
        }
    }

    pub(crate) fn met(&self) -> Option<LimitKind> {
        *self.met.lock()
    }

    fn add_cpu(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.cpu_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Counts bytes of files about to be read.
    ///
    /// # Errors
    /// When that exceeds the limit of the query, or its user's limit within an hour.
    fn add_read(&self, FileReads { bytes, count }: FileReads) -> Result<(), LimitKind> {
        self.reads.fetch_add(count, Ordering::Relaxed);
        let sum = self.read_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let limit = if sum > self.limits.read_bytes {
            LimitKind::Read
        } else if self.reader.as_ref().is_some_and(|reader| !reader.add(bytes)) {
            LimitKind::UserRead
        } else {
            return Ok(());
        };
        self.meet(limit);
        Err(limit)
    }

    /// Adds what another hub used for the query between two polls.
    ///
    /// # Errors
    /// As for local reads.
    pub(crate) fn add_elsewhere(
        &self,
        before: ResourceUse,
        now: ResourceUse,
    ) -> Result<(), LimitKind> {
        self.add_cpu(now.cpu.saturating_sub(before.cpu));
        self.add_read(FileReads {
            bytes: now.read_bytes.saturating_sub(before.read_bytes),
            count: now.reads.saturating_sub(before.reads),
        })
    }

    pub(crate) fn used(&self) -> ResourceUse {
        ResourceUse { cpu: self.cpu(), read_bytes: self.read_bytes(), reads: self.reads() }
    }

    /// Records that the current task's query opens a file.
    pub(crate) fn note_opened(file: &Arc<DataFile>) {
        let note = |usage: &Arc<Self>| {
            usage.opened.lock().push(Arc::clone(file));
        };
        // Reads outside a query are not recorded.
        let _ = USAGE.try_with(note);
    }

    pub(crate) fn opened(&self) -> Vec<Arc<DataFile>> {
        self.opened.lock().clone()
    }

    /// Adds bytes of the results of window functions; the sum so far.
    pub(crate) fn add_window_bytes(&self, bytes: u64) -> u64 {
        self.window_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    pub(crate) fn meet_wide_row(&self) {
        self.has_wide_row.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_wide_row(&self) -> bool {
        self.has_wide_row.load(Ordering::Relaxed)
    }

    /// Marks the query as ended: evaluations that still run stop at their next check.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn grow(&self, bytes: usize) {
        let now = self.memory_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.memory_peak.fetch_max(now, Ordering::Relaxed);
    }

    fn shrink(&self, bytes: usize) {
        self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Ordering::Relaxed) as u64
    }

    /// Gives sorts and other spilling operators equal shares of memory from now on.
    pub(crate) fn share_evenly(&self) {
        self.shares_evenly.store(true, Ordering::Relaxed);
    }

    /// The limit that caused DataFusion's `error`; `None` for any other cause.
    pub(crate) fn limit_behind(&self, error: &DataFusionError) -> Option<StoreError> {
        let is_memory = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
        match self.met() {
            Some(limit @ (LimitKind::Read | LimitKind::UserRead | LimitKind::Spill)) => {
                Some(self.explain(limit))
            }
            met => is_memory.then(|| {
                // The limit was exceeded at another hub, so it is not recorded here.
                let limit = met.unwrap_or(LimitKind::Memory);
                self.meet(limit);
                self.explain(limit)
            }),
        }
    }

    /// Whether a query that ended with `error` ran out of memory.
    pub(crate) fn lacks_memory(&self, error: &StoreError) -> bool {
        let is_memory = matches!(self.met(), Some(LimitKind::Memory | LimitKind::SharedMemory));
        is_memory && error.kind == ErrorKind::QueryLimit
    }

    /// Records an exceeded limit; the error for it.
    pub(crate) fn exceed(&self, limit: LimitKind) -> StoreError {
        self.meet(limit);
        self.explain(limit)
    }

    /// The error that tells a user which limit was exceeded.
    pub(crate) fn explain(&self, limit: LimitKind) -> StoreError {
        let limits = &self.limits;
        let (text, hint) = match limit {
            LimitKind::Memory => (
                format!("the query needs more than {} of memory", size(limits.memory_bytes as u64)),
                "query a shorter range of `ts`, fewer columns or fewer groups, or raise `api.one_query_memory_bytes`",
            ),
            LimitKind::SharedMemory => (
                "the queries that run now need more memory than queries may use together"
                    .to_owned(),
                "retry, query less, or raise `api.query_memory_bytes`",
            ),
            LimitKind::Spill => (
                format!(
                    "the query used up its spill space on disk ({} written)",
                    size(self.spilled_bytes())
                ),
                "query a shorter range of `ts`, or raise `api.query_spill_bytes` if the disk has free space",
            ),
            LimitKind::Time => (
                format!("the query was stopped after {} s", limits.timeout.as_secs_f64()),
                "query a shorter range of `ts`, or fewer columns",
            ),
            LimitKind::Read => (
                format!("the query was stopped at {} read from files", size(limits.read_bytes)),
                "query a shorter range of `ts` or fewer columns, or raise `api.query_read_bytes`",
            ),
            LimitKind::UserRead => (
                self.reader.as_ref().map_or_else(String::new, |reader| {
                    let most = size(reader.limit_bytes);
                    format!(
                        "queries of `{}` may read {most} from files within an hour, this one needs more",
                        reader.user
                    )
                }),
                "wait (the hour is a sliding window), query a shorter range of `ts`, or raise `api.user_read_bytes`",
            ),
            LimitKind::Answer => (
                format!("the answer is larger than {}", size(limits.answer_bytes as u64)),
                "request fewer rows (`limit`) or fewer columns, or raise `api.answer_bytes`",
            ),
        };
        StoreError::new(ErrorKind::QueryLimit, text).with_hint(hint)
    }
}

/// Formats bytes: `512 MiB`, `1.5 GiB`, `300 B`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in UNITS {
        if bytes >> shift > 0 {
            let tenths = (bytes >> (shift - 10)).saturating_mul(10) >> 10;
            let (whole, tenth) = (tenths / 10, tenths % 10);
            return if tenth == 0 {
                format!("{whole} {unit}")
            } else {
                format!("{whole}.{tenth} {unit}")
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_largest_unit_that_fits() {
        let told = [0, 1023, 1024, 1 << 20, (1 << 20) + (1 << 19), 512 << 20, 3 << 30];
        let told: Vec<String> = told.into_iter().map(size).collect();
        assert_eq!(told, ["0 B", "1023 B", "1 KiB", "1 MiB", "1.5 MiB", "512 MiB", "3 GiB"]);
    }

    #[test]
    fn reading_past_the_limit_is_refused_and_remembered() {
        let usage = QueryUsage::new(QueryLimits { read_bytes: 100, ..QueryLimits::default() });
        assert_eq!(usage.add_read(FileReads { bytes: 60, count: 1 }), Ok(()));
        assert_eq!(usage.add_read(FileReads { bytes: 60, count: 1 }), Err(LimitKind::Read));
        assert_eq!(
            (usage.met(), usage.read_bytes(), usage.reads()),
            (Some(LimitKind::Read), 120, 2)
        );
        let told = usage.explain(LimitKind::Read).to_string();
        assert!(
            told.starts_with("the query was stopped at 100 B read from files\nhint: "),
            "{told}"
        );
    }

    #[test]
    fn reading_past_a_users_limit_is_refused_in_the_users_name() {
        let readers = ReadQuotas::new(2048);
        let limits = QueryLimits { read_bytes: 2000, ..QueryLimits::default() };
        let usage = || QueryUsage::for_reader(limits, readers.of("ops"));
        assert_eq!(usage().add_read(FileReads { bytes: 1500, count: 1 }), Ok(()));
        let second = usage();
        assert_eq!(second.add_read(FileReads { bytes: 600, count: 1 }), Err(LimitKind::UserRead));
        let told = second.explain(LimitKind::UserRead).to_string();
        let text = "queries of `ops` may read 2 KiB from files within an hour, this one needs more\nhint: wait";
        assert!(told.starts_with(text), "{told}");
        assert_eq!(
            QueryUsage::for_reader(limits, readers.of("other"))
                .add_read(FileReads { bytes: 600, count: 1 }),
            Ok(())
        );
    }
}
