//! Outputs at work: targets from the configuration, the store's log behind them, a thread for each,
//! and their figures.
//!
//! What can be refused is refused before anything is served: an unknown column in a condition as a
//! missing file of a login.

mod settings;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use weir_config::Values;
use weir_config::place::{read_bytes, read_secret};
use weir_outputs::{
    BucketAddress, Credentials, LogReader, ObjectSink, Output, OutputFigures, OutputSettings,
    OutputStatus, OutputTarget, PutFuture, TargetAccess,
};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_store::{Bucket, BucketOptions, Copy, CopyOptions, Store, StoreError, parquet_file};
use weir_tables::{
    Batch, Clock, CopiedRows, LogPosition, Micros, OutputRun, OutputRunRows, Parcel, Rows,
};

use settings::NamedOutput;

/// How often figures become rows of `output_run`.
const REPORT: Duration = Duration::from_secs(5);
/// How long the threads may take to end; what they were sending is sent again at the next start.
const END: Duration = Duration::from_secs(5);

/// All outputs, as `/metrics` and `/api/status` show them.
#[derive(Default)]
pub(crate) struct Outputs {
    list: Vec<OutputView>,
}

struct OutputView {
    name: String,
    target: &'static str,
    table: &'static str,
    batch_seconds: f64,
    status: Arc<OutputStatus>,
    /// The figures of the last report.
    reported: Mutex<OutputFigures>,
}

/// Outputs whose settings are right, before the store is open.
pub(crate) struct PreparedOutputs {
    list: Vec<(NamedOutput, OutputTarget)>,
    pub(crate) shown: Arc<Outputs>,
}

/// Refuses outputs whose settings cannot be used; reads no files.
///
/// # Errors
/// What is wrong, with file and line.
pub fn check(values: &Values) -> Result<(), Failure> {
    values.outputs.iter().try_for_each(|entry| settings::read(entry).map(drop))
}

/// Reads the files with logins and makes the targets; connects to none of them yet.
pub(crate) fn prepare(values: &Values) -> Result<PreparedOutputs, Failure> {
    let mut list = Vec::new();
    let mut shown = Outputs::default();
    for entry in &values.outputs {
        let output = settings::read(entry)?;
        let target = target(&output)?;
        shown.list.push(OutputView {
            name: output.name.clone(),
            target: output.to,
            table: output.table.name,
            batch_seconds: output.limits.wait.as_secs_f64(),
            status: Arc::default(),
            reported: Mutex::default(),
        });
        list.push((output, target));
    }
    Ok(PreparedOutputs { list, shown: Arc::new(shown) })
}

fn target(output: &NamedOutput) -> Result<OutputTarget, Failure> {
    let password = output.password_file.as_deref().map(read_secret).transpose()?;
    let token = output.token_file.as_deref().map(read_secret).transpose()?;
    let authority = output.ca_file.as_deref().map(read_bytes).transpose()?;
    let refused = |why: String| {
        let (place, name) = (&output.place, &output.name);
        Failure::new(format!("cannot use {place}: output `{name}`: {why}")).code(EXIT_CONFIG)
    };
    if output.user.is_some() != password.is_some() {
        return Err(refused("`user` and `password_file` must be set together".into()));
    }
    let credentials = match (token, output.user.clone().zip(password)) {
        (Some(token), _) => Credentials::Token(token),
        (None, Some((user, password))) => Credentials::Password { user, password },
        (None, None) => Credentials::None,
    };
    let access = TargetAccess {
        credentials,
        authority,
        timeout: output.timeout,
        columns: output.columns.clone(),
        open_bucket,
    };
    output.plan.open(access).map_err(|error| refused(error.one_line()))
}

fn open_bucket(
    address: &BucketAddress,
    access: &TargetAccess,
) -> Result<Box<dyn ObjectSink>, weir_outputs::Error> {
    let keys = match &access.credentials {
        Credentials::Password { user, password } => Some((user.clone(), password.clone())),
        Credentials::Token(_) | Credentials::None => None,
    };
    let options = BucketOptions {
        bucket: address.bucket.clone(),
        endpoint: address.endpoint.clone(),
        region: address.region.clone(),
        keys,
        authority: access.authority.clone(),
        timeout: access.timeout,
    };
    Ok(Box::new(BucketSink(Bucket::new(&options).map_err(output_error)?)))
}

/// A bucket of the store's as the outputs write to it.
struct BucketSink(Bucket);

impl ObjectSink for BucketSink {
    fn put(&self, name: String, bytes: Vec<u8>) -> PutFuture<'_> {
        Box::pin(async move { self.0.put(&name, bytes).await.map_err(output_error) })
    }

    fn parquet(&self, rows: &[RecordBatch]) -> Result<Vec<u8>, weir_outputs::Error> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        parquet_file(&first.schema(), rows).map_err(output_error)
    }
}

fn output_error(error: StoreError) -> weir_outputs::Error {
    weir_outputs::Error::new(error.message)
}

/// The store's log as an output reads it.
struct LogSource(Copy);

impl LogReader for LogSource {
    fn read(&mut self, patience: Duration) -> Result<Option<CopiedRows>, weir_outputs::Error> {
        self.0.read(patience).map_err(output_error)
    }

    fn epoch(&self) -> u64 {
        self.0.epoch()
    }

    fn end(&self) -> u64 {
        self.0.end()
    }

    fn position(&self) -> LogPosition {
        self.0.position()
    }

    fn planned(&self) -> Option<LogPosition> {
        self.0.planned()
    }

    fn plan(&mut self, to: LogPosition) -> Result<(), weir_outputs::Error> {
        self.0.plan(to).map_err(output_error)
    }

    fn done(&mut self, to: LogPosition) -> Result<(), weir_outputs::Error> {
        self.0.done(to).map_err(output_error)
    }

    fn lag_bytes(&self) -> u64 {
        self.0.lag_bytes()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn is_still_over(&self) -> bool {
        self.0.is_still_over()
    }
}

/// Threads that copy.
pub(crate) struct RunningOutputs {
    shown: Arc<Outputs>,
    end: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    reporter: tokio::task::JoinHandle<()>,
    report: OutputReporter,
}

/// What reporting needs.
#[derive(Clone)]
struct OutputReporter {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    host: String,
}

impl PreparedOutputs {
    /// Begins to copy, each output from where it stood; `None` when there are none.
    pub(crate) fn start(
        self,
        values: &Values,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<RunningOutputs>, Failure> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let (end, ended) = watch::channel(false);
        let mut outputs = Vec::new();
        for ((output, target), shown) in self.list.into_iter().zip(&self.shown.list) {
            let source = Box::new(LogSource(copy(&output, store)?));
            let NamedOutput { name, table, columns, limits, .. } = output;
            outputs.push(Output {
                settings: OutputSettings { name, table, columns, limits },
                source,
                target,
                status: Arc::clone(&shown.status),
                clock: Arc::clone(clock),
                ended: ended.clone(),
            });
        }
        let mut threads = Vec::new();
        for output in outputs {
            let thread = std::thread::Builder::new().name("weir-output".into());
            let thread = thread.spawn(move || {
                // Ingest comes first.
                let _ = rustix::process::nice(5);
                output.run();
            });
            threads.push(
                thread.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?,
            );
        }
        let host = values.collect.host.clone();
        let report = OutputReporter { store: Arc::clone(store), clock: Arc::clone(clock), host };
        let reporter = tokio::spawn(report_always(Arc::clone(&self.shown), report.clone()));
        Ok(Some(RunningOutputs { shown: self.shown, end, threads, reporter, report }))
    }
}

fn copy(output: &NamedOutput, store: &Store) -> Result<Copy, Failure> {
    let options = CopyOptions {
        name: output.name.clone(),
        table: output.table,
        condition: output.condition.clone(),
        keep_bytes: output.keep_bytes,
    };
    store.copy(&options).map_err(|error| {
        let place = &output.condition_place;
        let what = format!("cannot use {place}: output `{}`: {}", output.name, error.message);
        Failure::new(what).hint(error.hint.unwrap_or_default()).code(EXIT_CONFIG)
    })
}

async fn report_always(shown: Arc<Outputs>, report: OutputReporter) {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + REPORT, REPORT);
    loop {
        ticks.tick().await;
        report.send(&shown).await;
    }
}

impl OutputReporter {
    async fn send(&self, shown: &Outputs) {
        let batch = shown.rows(&self.host, self.clock.now());
        let parcel = Parcel { range: None, batches: vec![batch] };
        if let Err(error) = self.store.append(parcel).await {
            tracing::warn!("cannot keep rows of `output_run`: {}", error.message);
        }
    }
}

impl RunningOutputs {
    /// Ends the threads and keeps the last figures. What is not copied yet is copied after the next
    /// start.
    pub(crate) async fn end(self) {
        let _ = self.end.send(true);
        let threads = self.threads;
        let join = tokio::task::spawn_blocking(move || {
            threads.into_iter().for_each(|thread| drop(thread.join()))
        });
        if tokio::time::timeout(END, join).await.is_err() {
            tracing::warn!("an output did not end in {} s", END.as_secs());
        }
        self.reporter.abort();
        self.report.send(&self.shown).await;
    }
}

impl Outputs {
    /// Rows of `output_run` for what happened since the last call.
    fn rows(&self, host: &str, now: Micros) -> Batch {
        let mut rows = OutputRunRows::default();
        for output in &self.list {
            let figures = output.status.figures(now);
            let mut reported = output.reported.lock();
            let since = |pick: fn(&OutputFigures) -> u64| {
                i64::try_from(pick(&figures).saturating_sub(pick(&reported))).unwrap_or(i64::MAX)
            };
            let refusals: Vec<String> = figures
                .refusals
                .iter()
                .map(|(reason, count)| {
                    (reason, count - reported.refusals.get(reason).unwrap_or(&0))
                })
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| format!("{reason} {count}"))
                .collect();
            let refusals = refusals.join(", ");
            rows.push(&OutputRun {
                ts: now,
                host,
                output: &output.name,
                target: output.target,
                table_name: output.table,
                is_success: figures.error.is_none(),
                batches: since(|figures| figures.batches),
                failures: since(|figures| figures.failures),
                rows: since(|figures| figures.rows),
                repeats: since(|figures| figures.repeats),
                rows_refused: since(|figures| figures.rows_refused),
                rows_lost: since(|figures| figures.rows_lost),
                bytes: since(|figures| figures.bytes),
                lag_bytes: i64::try_from(figures.lag_bytes).unwrap_or(i64::MAX),
                lag_seconds: figures.lag_seconds,
                error: figures.error.as_deref(),
                refusals: Some(refusals.as_str()).filter(|text| !text.is_empty()),
                batch_seconds: Some(output.batch_seconds),
            });
            *reported = figures;
        }
        Batch { table: OutputRunRows::SPEC, rows: rows.finish() }
    }

    /// `outputs` of `/api/status`.
    pub(crate) fn json(&self, now: Micros) -> Vec<Value> {
        let one = |output: &OutputView| {
            let figures = output.status.figures(now);
            json!({
                "name": output.name,
                "target": output.target,
                "table": output.table,
                "rows": figures.rows,
                "rows_refused": figures.rows_refused,
                "rows_lost": figures.rows_lost,
                "failures": figures.failures,
                "lag_bytes": figures.lag_bytes,
                "lag_seconds": figures.lag_seconds,
                "error": figures.error,
            })
        };
        self.list.iter().map(one).collect()
    }

    /// Name and figures of each.
    pub(crate) fn figures(&self, now: Micros) -> Vec<(&str, OutputFigures)> {
        self.list.iter().map(|output| (output.name.as_str(), output.status.figures(now))).collect()
    }

    /// One line for each: what is copied to where.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.list
            .iter()
            .map(|output: &OutputView| {
                format!("{:<14} {} to {}", output.name, output.table, output.target)
            })
            .collect()
    }
}
