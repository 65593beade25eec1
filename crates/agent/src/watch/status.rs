//! State and progress of the watch: written by its threads, read by the API and the start banner.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_collect::host::ListenerSummary;
use weir_collect::logs::{NewStream, Problem, StatusChanges, StatusKey, StreamState, StreamStatus};
use weir_probe::Targets;
use weir_process::meter::LineCounts;
use weir_tables::{LogFormat, LogSource};

use super::line_age::{AgesOf, LineAges};

/// Shared by the threads of one watch.
#[derive(Default)]
pub struct WatchStatus {
    sources: Mutex<Vec<LogSource>>,
    new_sources: Mutex<Option<Vec<LogSource>>>,
    source_of: Mutex<HashMap<Arc<str>, Arc<LogSource>>>,
    streams: Mutex<BTreeMap<StatusKey, StreamStatus>>,
    counts: Mutex<HashMap<Arc<str>, (u64, u64)>>,
    ages: Mutex<AgesOf>,
    /// `None` before the first sample.
    listeners: Mutex<Option<Vec<ListenerSummary>>>,
    probe_targets: Mutex<Arc<Targets>>,
    problems: Mutex<Vec<Problem>>,
}

/// Paths whose lines are counted one by one.
const MAX_COUNTED_PATHS: usize = 10_000;

impl WatchStatus {
    /// Replaces the sources; `true` when they differ from those before.
    pub(super) fn set_sources(&self, sources: Vec<LogSource>) -> bool {
        let mut current = self.sources.lock();
        if *current == sources {
            return false;
        }
        current.clone_from(&sources);
        *self.new_sources.lock() = Some(sources);
        true
    }

    /// Sources that the tailer has not seen yet.
    pub(super) fn take_new_sources(&self) -> Option<Vec<LogSource>> {
        self.new_sources.lock().take()
    }

    /// Remembers which source a path belongs to.
    pub(super) fn note_source(&self, new: &NewStream) {
        let mut known = self.source_of.lock();
        if known.len() < MAX_COUNTED_PATHS {
            known.insert(Arc::clone(&new.path), Arc::clone(&new.source));
        }
    }

    /// Adds lines and rejects of a path.
    pub(super) fn count(&self, path: &Arc<str>, new: LineCounts) {
        let mut counts = self.counts.lock();
        if counts.len() < MAX_COUNTED_PATHS || counts.contains_key(path) {
            let count = counts.entry(Arc::clone(path)).or_default();
            *count = (count.0 + new.lines, count.1 + new.rejects);
        }
    }

    /// How old the last lines of a path were.
    pub(super) fn note_ages(&self, path: &Arc<str>, ages: LineAges) {
        self.ages.lock().insert(Arc::clone(path), ages);
    }

    /// The ages of logs of which lines were read since the last call.
    pub(super) fn take_ages(&self) -> AgesOf {
        std::mem::take(&mut self.ages.lock())
    }

    /// Brings the streams' status up to date.
    pub(super) fn change_streams(&self, changes: StatusChanges) {
        let mut streams = self.streams.lock();
        for key in changes.gone {
            streams.remove(&key);
        }
        for status in changes.changed {
            streams.insert((Arc::clone(&status.path), status.stream), status);
        }
    }

    /// Replaces the listeners.
    pub(super) fn set_listeners(&self, listeners: Vec<ListenerSummary>) {
        *self.listeners.lock() = Some(listeners);
    }

    /// Replaces the probe targets: TLS addresses and names.
    pub(super) fn set_probe_targets(&self, targets: Targets) {
        *self.probe_targets.lock() = Arc::new(targets);
    }

    /// The probe targets: TLS addresses and names.
    pub(super) fn probe_targets(&self) -> Arc<Targets> {
        Arc::clone(&self.probe_targets.lock())
    }

    /// Replaces the problems; returns the new ones.
    pub(super) fn set_problems(&self, problems: Vec<Problem>) -> Vec<String> {
        let mut current = self.problems.lock();
        let known: Vec<String> = current.iter().map(|problem| problem.message.clone()).collect();
        let new = problems.iter().filter(|problem| !known.contains(&problem.message));
        let new = new.map(problem_text).collect();
        *current = problems;
        new
    }

    /// How far every stream is.
    pub fn streams(&self) -> Vec<StreamStatus> {
        self.streams.lock().values().cloned().collect()
    }

    /// All sources.
    pub fn sources(&self) -> Vec<LogSource> {
        self.sources.lock().clone()
    }

    /// All listeners; empty before the first sample.
    pub fn listeners(&self) -> Vec<ListenerSummary> {
        self.listeners.lock().clone().unwrap_or_default()
    }

    /// Whether the listeners of this host have been read at least once.
    pub fn has_sampled_listeners(&self) -> bool {
        self.listeners.lock().is_some()
    }

    /// What could not be found out, each with its hint.
    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().iter().map(problem_text).collect()
    }

    /// `log_sources` of `/api/status`.
    pub fn sources_json(&self) -> Vec<Value> {
        let streams = self.streams();
        let sources = self.sources();
        let source_of = self.source_of.lock();
        let counts = self.counts.lock();
        let mut out: Vec<Value> = Vec::new();
        for stream in streams.iter().filter(|stream| stream.state != StreamState::Rotated) {
            let source = source_of
                .get(&stream.path)
                .map(AsRef::as_ref)
                .or_else(|| sources.iter().find(|source| source.path.as_os_str() == &*stream.path));
            let (lines, rejects) = counts.get(&stream.path).copied().unwrap_or_default();
            out.push(json!({
                "path": &*stream.path,
                "program": stream.program.as_str(),
                "format": source.map_or("unknown", |source| format_name(&source.format)),
                "found_in": source.map_or("", |source| &source.found_in),
                "lines": lines,
                "rejects": rejects,
                "lag_bytes": stream.lag_bytes,
                "lost_bytes": stream.lost_bytes,
                "state": stream.state.as_str(),
                "error": stream.error,
            }));
        }
        out.extend(self.problems.lock().iter().map(problem_json));
        out
    }

    /// `listeners` of `/api/status`.
    pub fn listeners_json(&self) -> Vec<Value> {
        self.listeners()
            .iter()
            .map(|listener| {
                json!({
                    "netns": listener.netns,
                    "address": listener.address,
                    "port": listener.port,
                    "process_name": listener.process_name,
                    "process_id": listener.process_id,
                })
            })
            .collect()
    }
}

fn problem_text(problem: &Problem) -> String {
    let hint =
        if problem.hint.is_empty() { String::new() } else { format!("\nhint: {}", problem.hint) };
    format!("{}{hint}", problem.message)
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "path": problem.path,
        "program": "other",
        "format": "unknown",
        "found_in": "",
        "lines": 0,
        "rejects": 0,
        "lag_bytes": 0,
        "lost_bytes": 0,
        "state": "failed",
        "error": problem_text(problem),
    })
}

/// The word for a format.
pub fn format_name(format: &LogFormat) -> &'static str {
    format.name()
}
