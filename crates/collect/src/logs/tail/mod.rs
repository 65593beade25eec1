//! Follows log files through growth, rotation and truncation, and hands out whole lines with their place in a stream.
//!
//! ```text
//! path ──stat──► Waiting ──first line there──► Contact ──every answer of the hub──► TailFile ──renamed──► rotated
//!                (no identity yet)             (asks where the streams stand)        (is read)   ▲        (read to its end)
//!                   ▲                                                                   │        │
//!                   └───────────────────────── truncated, begins anew ──────────────────┘   copy found beside it
//! ```
//! Polling, no inotify: one fstat of an open file costs about a microsecond, works on network file systems and in other
//! mount namespaces, and what has been idle is looked at once a second only. The surprising thing: a rotated file is
//! read on through its open descriptor whatever its name has become; names matter only after a restart.

mod begin;
mod contact;
mod file;
mod identity;
mod poll;
mod rotated;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_tables::{LogSource, Micros, StreamId};

use contact::Contact;
use file::{ReadOutcome, TailFile};
pub(in crate::logs) use identity::hash_of;
use identity::{Age, Place};
pub use types::{Chunk, NewStream, ReadFrom, StreamState, StreamStatus, TailEvent, TailOptions};

/// Events that are kept until they are taken; further ones push the oldest out.
const EVENT_LIMIT: usize = 1000;

/// Follows the files of a set of sources.
#[derive(Debug)]
pub struct Tailer {
    options: TailOptions,
    sources: Vec<Arc<LogSource>>,
    are_sources_new: bool,
    expanded_at: Option<Micros>,
    paths: BTreeMap<PathBuf, Watched>,
    /// Rotated away before their first line was complete.
    orphans: Vec<Orphan>,
    contacts: Vec<Contact>,
    answers: HashMap<StreamId, Option<u64>>,
    asked: HashSet<StreamId>,
    files: HashMap<u64, TailFile>,
    keys: HashMap<StreamId, u64>,
    next_key: u64,
    ready: VecDeque<u64>,
    in_flight_bytes: u64,
    events: VecDeque<TailEvent>,
    spare: Vec<u8>,
}

/// A path that is looked at.
#[derive(Debug)]
struct Watched {
    source: Arc<LogSource>,
    label: Arc<str>,
    existed_at_start: bool,
    is_from_glob: bool,
    is_met: bool,
    looked_at: Option<Micros>,
    retry_at: Option<Micros>,
    begins_anew: bool,
    known_age: Option<Age>,
    live: Live,
    error: Option<String>,
}

/// What is at a watched path.
#[derive(Debug)]
enum Live {
    Absent,
    Waiting(File, Place),
    Resolving(Place),
    Following(u64),
}

/// A rotated file without a whole first line.
#[derive(Debug)]
struct Orphan {
    path: PathBuf,
    file: File,
    place: Place,
    size: u64,
    grown_at: Micros,
}

impl Tailer {
    /// A tailer without sources.
    pub fn new(options: TailOptions) -> Self {
        Self {
            options,
            sources: Vec::new(),
            are_sources_new: false,
            expanded_at: None,
            paths: BTreeMap::new(),
            orphans: Vec::new(),
            contacts: Vec::new(),
            answers: HashMap::new(),
            asked: HashSet::new(),
            files: HashMap::new(),
            keys: HashMap::new(),
            next_key: 0,
            ready: VecDeque::new(),
            in_flight_bytes: 0,
            events: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Replaces the sources; what is being read of sources that are gone is read to its end.
    pub fn set_sources(&mut self, sources: Vec<LogSource>) {
        self.sources = sources.into_iter().map(Arc::new).collect();
        self.are_sources_new = true;
    }

    /// Looks at paths and files; gives the streams that the hub must be asked about. Cheap enough for every 100 ms.
    pub fn scan(&mut self, now: Micros) -> Vec<NewStream> {
        self.expand(now);
        self.look_at_files(now);
        self.look_at_orphans(now);
        self.look_at_paths(now);
        self.resolve(now);
        self.questions()
    }

    /// The hub's answer for a stream that [`Tailer::scan`] gave; `None`: the hub does not know it.
    pub fn start(&mut self, stream: StreamId, position: Option<u64>) {
        if self.asked.remove(&stream) {
            self.answers.insert(stream, position);
        }
    }

    /// The next whole lines of any stream, in turn; `None` when there are none, or when too much is in flight.
    pub fn read(&mut self, now: Micros) -> Option<Chunk> {
        while self.in_flight_bytes < self.options.max_in_flight_bytes {
            let key = self.ready.pop_front()?;
            let Some(file) = self.files.get_mut(&key) else { continue };
            file.is_queued = false;
            let buffer = std::mem::take(&mut self.spare);
            let half_line_after = self.options.half_line_after;
            match file.read(now, self.options.chunk_bytes, half_line_after, buffer) {
                Ok(ReadOutcome::Lines { chunk, is_more }) => {
                    file.error = None;
                    self.in_flight_bytes += chunk.to - chunk.from;
                    if is_more {
                        self.queue(key);
                    }
                    return Some(chunk);
                }
                Ok(ReadOutcome::Nothing) => {}
                Ok(ReadOutcome::Again) => {
                    self.queue(key);
                    return None;
                }
                Ok(ReadOutcome::Replaced) => self.replaced(key, now),
                Err(error) => file.error = Some(cannot_read(&file.path, &error)),
            }
        }
        None
    }

    /// Gives the buffer of a chunk back, so that the next one need not be allocated.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() > self.spare.capacity() {
            self.spare = bytes;
        }
    }

    /// The stream is durable up to `to`.
    pub fn acknowledge(&mut self, stream: StreamId, to: u64) {
        let Some(file) = self.keys.get(&stream).and_then(|key| self.files.get_mut(key)) else {
            return;
        };
        let to = to.clamp(file.acknowledged, file.position);
        file.is_known |= to > file.acknowledged;
        self.in_flight_bytes -= to - file.acknowledged;
        file.acknowledged = to;
    }

    /// The hub stands at `to` and wants the stream from there again.
    pub fn rewind(&mut self, stream: StreamId, to: u64) {
        let Some((&key, file)) =
            self.keys.get(&stream).and_then(|key| Some((key, self.files.get_mut(key)?)))
        else {
            self.event(TailEvent::Lost { stream, position: to });
            return;
        };
        self.in_flight_bytes -= file.position - file.acknowledged;
        file.position = to.min(file.size);
        file.acknowledged = file.position;
        file.scanned = file.position;
        file.stalled_size = None;
        self.queue(key);
    }

    /// Every file: how far it is, and what is wrong with it.
    pub fn status(&self) -> Vec<StreamStatus> {
        let files = self.files.values().map(file_status);
        let mut all: Vec<StreamStatus> =
            files.chain(self.paths.values().filter_map(path_status)).collect();
        all.sort_by(|a, b| (&a.path, a.stream).cmp(&(&b.path, b.stream)));
        all
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<TailEvent> {
        self.events.drain(..).collect()
    }

    /// Bytes handed out and not yet acknowledged.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    fn event(&mut self, event: TailEvent) {
        if self.events.len() == EVENT_LIMIT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn queue(&mut self, key: u64) {
        if let Some(file) = self.files.get_mut(&key)
            && !std::mem::replace(&mut file.is_queued, true)
        {
            self.ready.push_back(key);
        }
    }
}

fn file_status(file: &TailFile) -> StreamStatus {
    let state = match (&file.error, file.is_rotated) {
        (Some(_), _) => StreamState::Failed,
        (None, true) => StreamState::Rotated,
        (None, false) => StreamState::Reading,
    };
    StreamStatus {
        stream: Some(file.stream),
        path: file.path.clone(),
        program: file.source.program,
        position: file.position,
        acknowledged: file.acknowledged,
        size: file.size,
        lag_bytes: file.size.saturating_sub(file.acknowledged),
        state,
        error: file.error.clone(),
    }
}

/// The status of a path that has no stream (yet).
fn path_status(watched: &Watched) -> Option<StreamStatus> {
    let (state, size) = match (&watched.live, &watched.error) {
        (_, Some(_)) => (StreamState::Failed, 0),
        (Live::Waiting(file, _), None) => {
            (StreamState::Waiting, file.metadata().map_or(0, |metadata| metadata.len()))
        }
        (Live::Resolving(_), None) => (StreamState::Starting, 0),
        (Live::Absent | Live::Following(_), None) => return None,
    };
    Some(StreamStatus {
        stream: None,
        path: watched.label.clone(),
        program: watched.source.program,
        position: 0,
        acknowledged: 0,
        size,
        lag_bytes: size,
        state,
        error: watched.error.clone(),
    })
}

fn cannot_read(path: &str, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "\nhint: add weir's user to the group that owns the file, such as `adm`, or run weir as root"
        }
        _ if error.raw_os_error() == Some(24) => {
            "\nhint: raise `LimitNOFILE` (`ulimit -n`) of weir"
        }
        _ => "",
    };
    format!("cannot read `{path}`: {}{hint}", error.to_string().to_lowercase())
}

fn label(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}
