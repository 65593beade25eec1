//! Where doctor's rows come from: this host, second by second, or a recording as fast as it reads.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use weir_agent_core::watch::directive_batch;
use weir_collect::CollectError;
use weir_collect::host::{HostOptions, HostSampler};
use weir_collect::logs::{Problem, ReadFrom, TailOptions, Tailer, discover};
use weir_collect::recording::{Replay, replay};
use weir_parse::{LineParser, ParsedRows, Parsers, StreamName};
use weir_probe::{Prober, Targets};
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_tables::{Batch, Clock, LogFormat, Micros, StreamId};

/// The last bytes of each log file that are read at the start: some minutes of most hosts.
const RECENT_BYTES: u64 = 4 << 20;
/// Bytes of log lines that are read in one second, over all files.
const BYTES_PER_ROUND: usize = 32 << 20;

/// Rows of one moment after the other.
pub(crate) trait HostSource {
    /// The next moment; `None` at the end.
    fn next(&mut self) -> Option<(Micros, Vec<Batch>)>;
    /// Whether the end came for a reason that is a failure.
    fn check(&self) -> Result<(), Failure>;
    /// What could not be read.
    fn problems(&self) -> Vec<String>;
    /// The host.
    fn host(&self) -> String;
    /// Whether this is a recording.
    fn is_recorded(&self) -> bool;
}

/// What to sample.
pub(crate) fn host_options(root: &Path, host: String) -> HostOptions {
    HostOptions {
        root: root.to_owned(),
        host,
        agent_version: env!("CARGO_PKG_VERSION").into(),
        ..HostOptions::default()
    }
}

/// A collector's error as the command's.
pub(crate) fn failure(error: &CollectError) -> Failure {
    Failure::new(error.message.clone()).hint(error.hint.clone().unwrap_or_default())
}

/// This host.
pub(crate) struct LiveHost {
    host: String,
    sampler: HostSampler,
    tailer: Tailer,
    parsers: Parsers,
    line_parsers: HashMap<StreamId, LineParser>,
    problems: Vec<Problem>,
    directives: Option<Batch>,
    probed: Receiver<Vec<Batch>>,
    started: Option<Micros>,
    rounds_left: u32,
}

impl LiveHost {
    pub(crate) fn new(root: &Path, host: String, seconds: u32) -> Self {
        let found = discover(root);
        let now = SystemClock.now();
        let mut tailer = Tailer::new(TailOptions {
            host: host.clone(),
            first_contact: ReadFrom::Recent(RECENT_BYTES),
            ..TailOptions::default()
        });
        // The journal is left out: a child process for five seconds of a system's log is not worth
        // its start.
        let files = found.sources.into_iter().filter(|source| source.format != LogFormat::Journal);
        tailer.set_sources(files.collect());
        let directives = &found.directives;
        let probed = probe(Prober::new(root.to_owned(), host.clone()), Prober::targets(directives));
        Self {
            probed,
            sampler: HostSampler::new(host_options(root, host.clone())),
            tailer,
            parsers: Parsers::built_in().with_zone(weir_agent_core::parsers::local_zone(root)),
            line_parsers: HashMap::new(),
            problems: found.problems,
            directives: (!directives.is_empty()).then(|| directive_batch(directives, &host, now)),
            started: None,
            rounds_left: seconds + 1,
            host,
        }
    }

    fn lines(&mut self, now: Micros) -> Vec<Batch> {
        // Twice: the first look finds streams, their answer takes effect at the second.
        for _ in 0..2 {
            for new in self.tailer.scan(now) {
                self.tailer.start(new.stream, None);
            }
        }
        let mut rows = ParsedRows::default();
        let mut read_bytes = 0;
        while read_bytes < BYTES_PER_ROUND
            && let Some(chunk) = self.tailer.read(now)
        {
            read_bytes += chunk.bytes.len();
            let parser = self.line_parsers.entry(chunk.stream).or_insert_with(|| {
                let stream = StreamName { path: &chunk.path, host: &self.host };
                self.parsers.line_parser(&chunk.source, stream)
            });
            parser.parse(&chunk.bytes, chunk.from, now, &mut rows);
            self.tailer.acknowledge(chunk.stream, chunk.to);
        }
        rows.finish()
    }
}

impl HostSource for LiveHost {
    fn next(&mut self) -> Option<(Micros, Vec<Batch>)> {
        self.rounds_left = self.rounds_left.checked_sub(1)?;
        if let Some(before) = self.started {
            pause_until(before + Duration::from_secs(1));
        }
        let now = SystemClock.now();
        self.started = Some(now);
        let mut batches = self.sampler.sample(now);
        batches.extend(self.directives.take());
        batches.extend(self.probed.try_iter().flatten());
        batches.extend(self.lines(now));
        Some((now, batches))
    }

    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn problems(&self) -> Vec<String> {
        let found = self.problems.iter().map(|problem| match problem.hint.as_str() {
            "" => problem.message.clone(),
            hint => format!("{}\nhint: {hint}", problem.message),
        });
        let unread = self.tailer.status().into_iter().filter_map(|stream| stream.error);
        found.chain(unread).collect()
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn is_recorded(&self) -> bool {
        false
    }
}

/// Probes DNS and TLS servers on a separate thread, which ends when the receiver is dropped.
#[expect(clippy::disallowed_methods, reason = "the thread waits for nothing but the next second")]
fn probe(mut prober: Prober, targets: Targets) -> Receiver<Vec<Batch>> {
    let (answers, probed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while answers.send(prober.probe(&targets, &|| SystemClock.now())).is_ok() {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    probed
}

#[expect(clippy::disallowed_methods, reason = "doctor looks once a second; nothing else runs")]
fn pause_until(then: Micros) {
    let left = u64::try_from(then.0 - SystemClock.now().0).unwrap_or_default();
    std::thread::sleep(Duration::from_micros(left.min(1_000_000)));
}

/// A recorded host.
pub(crate) struct RecordedHost {
    replay: Replay,
    directives: Option<weir_collect::logs::Discovery>,
}

impl RecordedHost {
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let replay = replay(dir).map_err(|error| failure(&error))?;
        let raw = dir.join("raw");
        let directives = raw.is_dir().then(|| discover(&raw));
        Ok(Self { replay, directives })
    }
}

impl HostSource for RecordedHost {
    fn next(&mut self) -> Option<(Micros, Vec<Batch>)> {
        let (now, mut batches) = self.replay.next()?;
        if let Some(found) = self.directives.take().filter(|found| !found.directives.is_empty()) {
            batches.push(directive_batch(&found.directives, &self.replay.meta().host, now));
        }
        Some((now, batches))
    }

    fn check(&self) -> Result<(), Failure> {
        self.replay.error().map_or(Ok(()), |error| Err(failure(error)))
    }

    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    fn host(&self) -> String {
        self.replay.meta().host.clone()
    }

    fn is_recorded(&self) -> bool {
        true
    }
}
