//! Watching this host: threads that sample, discover, follow and parse, and hand rows to a
//! destination.
//!
//! ```text
//!   sample   1 Hz ───────────────────────────────► send_sample ─┐
//!      └─ new web server: nudge                                  ├─► store, or hub
//!      ┌─ probe: name servers, certificates ─────► send_sample ─┤
//!      ├─ checks: plugins, targets, digests ─────► send_sample ─┤
//!   discover 10 s ─► sources ─► follow ─► parse ─► send_stream ─┘
//!                                  ▲ durable / again │
//!                                  └─────────────────┘
//! ```
//! Plain threads and no async runtime, so that an agent stays small.

mod bucket;
mod checks;
pub mod deliver;
mod discover;
mod follow;
mod format_note;
mod lag;
mod line_age;
mod parse;
mod redis_log;
mod sample;
mod server_logs;
mod sockets;
mod status;
mod stop;
mod written_logs;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_collect::host::HostOptions;
use weir_collect::logs::{RecordLogs, RestOptions, TailOptions};
use weir_config::Values;
use weir_config::databases::NamedDatabase;
use weir_parse::StreamName;
use weir_probe::Prober;
use weir_probe::database::DatabaseProber;
use weir_process::failure::Failure;
use weir_process::meter::Meter;
use weir_tables::{Clock, LogSource};

use crate::hooks::AgentHooks;
use crate::memory_cap::{self, MemoryCap};
use crate::trial::TrialEvents;
use deliver::Destination;

pub use bucket::{BucketOptions, ObjectReply, ObjectSource};
pub use discover::directive_batch;
pub use format_note::format_notes;
pub use status::{WatchStatus, format_name};
pub use stop::StopFlag;

/// Chunks between the tail thread and the parser.
const CHUNKS_WAITING: usize = 2;

/// What every thread of a watch holds.
#[derive(Clone)]
pub struct WatchContext {
    /// The host's name in every row.
    pub host: String,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where rows go.
    pub destination: Arc<dyn Destination>,
    /// What the threads cost.
    pub meter: Arc<Meter>,
    /// State and progress, for the page.
    pub status: Arc<WatchStatus>,
    /// Ends all of them.
    pub stop: Arc<StopFlag>,
    /// Ends the waits of discovery when a new web server listens.
    pub nudge: Arc<StopFlag>,
    /// What the program lends.
    pub hooks: AgentHooks,
}

impl WatchContext {
    /// For threads that hand their rows to `destination`.
    pub fn new(
        values: &Values,
        destination: Arc<dyn Destination>,
        clock: &Arc<dyn Clock>,
        meter: &Arc<Meter>,
        status: &Arc<WatchStatus>,
        hooks: AgentHooks,
    ) -> Self {
        Self {
            host: values.collect.host.clone(),
            clock: Arc::clone(clock),
            destination,
            meter: Arc::clone(meter),
            status: Arc::clone(status),
            stop: Arc::new(StopFlag::default()),
            nudge: Arc::new(StopFlag::default()),
            hooks,
        }
    }
}

/// What an agent's reading of logs may cost its host, beyond what `weir up` is bound to.
pub struct AgentLimits {
    memory: MemoryCap,
    chunk_bytes: usize,
    /// Where rests of deleted logs are kept; `None`: they are not.
    rests: Option<RestOptions>,
}

impl AgentLimits {
    /// As configured.
    pub fn of(values: &Values) -> Self {
        let agent = &values.agent;
        let rests = (agent.rest_bytes > 0).then(|| RestOptions {
            dir: agent.dir.join("rests"),
            limit_bytes: agent.rest_bytes,
            after: Duration::from_secs(agent.deleted_seconds),
            used_percent: agent.deleted_used_percent,
        });
        let chunk_bytes = memory_cap::chunk_bytes(values, TailOptions::default().chunk_bytes);
        Self { memory: MemoryCap::new(agent.memory_bytes), chunk_bytes, rests }
    }
}

/// The threads of one watch.
pub struct Watch {
    context: WatchContext,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch; returns when the first sample is taken and the first discovery is done, at
    /// most 1.5 s later.
    pub fn start(
        context: WatchContext,
        values: &Values,
        limits: Option<AgentLimits>,
    ) -> Result<Self, Failure> {
        let parsers = crate::parsers::load(values)?;
        let (ready, first) = std::sync::mpsc::channel();
        let mut watch = Self { context, threads: Vec::new() };
        let collect = &values.collect;
        let finder = discover::LogFinder {
            root: collect.root.clone(),
            extra: named_logs(values),
            finds_logs: collect.find_logs,
            every: Duration::from_secs(collect.discover_seconds.max(1)),
        };
        let ready_too = ready.clone();
        watch.spawn("weir-discover", move |context| finder.run(&context, &ready_too))?;
        watch.spawn_sampler(values, ready)?;
        if let Some(runner) = checks::CheckRunner::configured(values)? {
            watch.spawn("weir-checks", move |context| runner.run(&context))?;
        }
        for target in values.databases.iter().map(NamedDatabase::target) {
            let prober = DatabaseProber::new(watch.context.host.clone(), target?);
            watch.spawn("weir-database", move |context| ask_always(&context, prober))?;
        }
        let (jobs, work) = std::sync::mpsc::sync_channel(CHUNKS_WAITING);
        let record_parsers = parsers.clone();
        watch.spawn("weir-parse", move |context| {
            parse::parse_always(&context, &parsers, &work);
        })?;
        let chunk_bytes =
            limits.as_ref().map_or(TailOptions::default().chunk_bytes, |limits| limits.chunk_bytes);
        let mut buckets = Vec::new();
        for named in &values.buckets {
            let (followed, fetcher) =
                bucket::prepare(named, chunk_bytes, watch.context.hooks.open_bucket)?;
            buckets.push(followed);
            watch.spawn("weir-bucket", move |context| fetcher.run(&context))?;
        }
        let mut follower =
            follow::Follower::new(watch.context.clone(), jobs, values, limits, buckets);
        follower.set_record_logs(RecordLogs::new(move |source, path| {
            record_parsers.line_parser(source, StreamName { path, host: "" }).joins_quotes()
        }));
        watch.spawn("weir-tail", move |_| follower.run())?;
        for collector in crate::capture::Collector::configured(values) {
            watch.spawn("weir-wire", move |context| collector.run(&context))?;
        }
        if let Some(counting) = sockets::SocketCollector::configured(values) {
            watch.spawn("weir-ebpf", move |context| counting.run(&context))?;
        }
        for _ in 0..2 {
            let _ = first.recv_timeout(Duration::from_millis(750));
        }
        Ok(watch)
    }

    fn spawn_sampler(&mut self, values: &Values, ready: Sender<()>) -> Result<(), Failure> {
        if !values.collect.sample_host {
            return self.spawn("weir-sample", move |context| sample::report_only(&context, &ready));
        }
        let prober = Prober::new(values.collect.root.clone(), self.context.host.clone());
        self.spawn("weir-probe", move |context| probe_always(&context, prober))?;
        let dir = values.tune.dir.clone();
        let trials = self.context.hooks.is_tryable;
        let trials = trials.map(|is_tryable| TrialEvents::new(dir, is_tryable));
        let options = host_options(values);
        self.spawn("weir-sample", move |context| sample::run(&context, options, trials, &ready))
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(WatchContext) + Send + 'static,
    ) -> Result<(), Failure> {
        let context = self.context.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(context))
            .map_err(|error| Failure::new(format!("cannot start the thread `{name}`: {error}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Ends all threads; what was handed over is still delivered, what was not is read again at the
    /// next start.
    pub fn end(self) {
        self.context.stop.set();
        self.context.nudge.set();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the watch panicked");
            }
        }
    }
}

/// The sampler's options, with what the configuration says of this host.
fn host_options(values: &Values) -> HostOptions {
    let collect = &values.collect;
    let [role, zone] = [&collect.role, &collect.zone].map(|word| Some(word.clone()));
    HostOptions {
        root: collect.root.clone(),
        host: collect.host.clone(),
        agent_version: env!("CARGO_PKG_VERSION").into(),
        role: role.filter(|word| !word.is_empty()),
        zone: zone.filter(|word| !word.is_empty()),
    }
}

/// Probes DNS and TLS servers until the stop, on a separate thread, because a probe waits for its
/// timeout.
fn probe_always(context: &WatchContext, mut prober: Prober) {
    loop {
        let targets = context.status.probe_targets();
        let batches = prober.probe(&targets, &|| context.clock.now());
        if !batches.is_empty() {
            context.destination.send_sample(batches);
        }
        if context.stop.wait(Duration::from_secs(1)) {
            return;
        }
    }
}

/// Asks a database server until the stop.
fn ask_always(context: &WatchContext, mut prober: DatabaseProber) {
    loop {
        let batches = prober.probe(&|| context.clock.now());
        if !batches.is_empty() {
            context.destination.send_sample(batches);
        }
        if context.stop.wait(Duration::from_secs(1)) {
            return;
        }
    }
}

/// The sources that the user names.
fn named_logs(values: &Values) -> Vec<LogSource> {
    let logs = values.logs.iter().map(|log| log.path.as_str());
    let globs = values.collect.tail.iter().map(String::as_str);
    globs.chain(logs).map(named_by_user).collect()
}

/// The source for a path or glob given with `--tail` or `collect.tail`.
pub fn named_by_user(glob: &str) -> LogSource {
    let path = std::path::PathBuf::from(glob);
    let absolute = std::path::absolute(&path).unwrap_or(path);
    LogSource {
        path: absolute,
        program: weir_tables::Program::Other,
        format: weir_tables::LogFormat::Auto,
        found_in: "--tail".into(),
    }
}
