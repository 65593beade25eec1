//! Follows log files through growth, rotation and truncation, and hands out whole lines with their
//! place in a stream.
//!
//! ```text
//! path ──stat──► Waiting ──first line there──► Contact ──every answer of the hub──► TailFile ──renamed──► rotated
//!                (no identity yet)             (asks where the streams stand)        (is read)   ▲        (read to its end)
//!                   ▲                                                                   │        │
//!                   └───────────────────────── truncated, begins anew ──────────────────┘   copy found beside it
//! ```
//! Files are polled, because that works on network file systems and in other mount namespaces; what
//! has been idle is left to inotify where that can be (`idle`), or looked at once a second. The
//! surprising thing: a rotated file is read on through its open descriptor whatever its name has
//! become; names matter only after a restart.

mod agenda;
mod begin;
mod contact;
mod content;
mod directory;
#[cfg(test)]
mod event_tests;
mod file;
mod identified;
mod identity;
mod idle;
mod keep;
#[cfg(test)]
mod keep_tests;
mod poll;
#[cfg(test)]
mod quirk_tests;
mod rest;
mod rotated;
#[cfg(test)]
mod simulation;
mod status;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros, StreamId};

use super::multiline::Multiline;
use agenda::Agenda;
use contact::Contact;
use content::Content;
use file::{ReadOutcome, TailFile};
pub use identified::{Identified, Known};
pub(in crate::logs) use identity::hash_of;
use identity::{Age, Place};
use idle::{Directories, Watches};
pub use keep::RestOptions;
use keep::Rests;
use rotated::Listings;
pub use rotated::is_log_or_part;
pub use types::{
    Chunk, Gap, GapReason, NewStream, ReadFrom, StatusChanges, StatusKey, StreamState,
    StreamStatus, TailEvent, TailOptions,
};

/// Events that are kept until they are taken; further ones push the oldest out.
const EVENT_LIMIT: usize = 1000;

/// Chunks of what is followed after which the past gets one.
const BACKFILL_TURN: u32 = 8;
/// The past may have this part of all that may be in flight.
const BACKFILL_SHARE: u64 = 4;

/// Follows the files of a set of sources.
#[derive(Debug)]
pub struct Tailer {
    options: TailOptions,
    sources: Vec<Arc<LogSource>>,
    /// By path or glob: how lines make events.
    multiline: Vec<(PathBuf, Arc<Multiline>)>,
    are_sources_new: bool,
    expanded_at: Option<Micros>,
    /// When the globs were last matched although no name had changed.
    matched_at: Option<Micros>,
    watches: Watches,
    /// For first lines.
    waiting: Watches,
    waiting_paths: HashMap<u64, Arc<Path>>,
    next_waiting: u64,
    directories: Directories,
    scanned_at: Option<Micros>,
    files_due: Agenda<u64>,
    paths_due: Agenda<Arc<Path>>,
    paths: BTreeMap<PathBuf, Watched>,
    /// Rotated away before their first line was complete.
    orphans: Vec<Orphan>,
    contacts: BTreeMap<u64, Contact>,
    next_contact: u64,
    in_contact: HashSet<Arc<Path>>,
    /// Streams that were asked about, and by which contacts.
    asked: HashMap<StreamId, Vec<u64>>,
    files: HashMap<u64, TailFile>,
    keys: HashMap<StreamId, u64>,
    by_inode: HashMap<(u64, u64), u64>,
    by_path: HashMap<Arc<str>, Vec<u64>>,
    next_key: u64,
    ready: VecDeque<u64>,
    /// Files of the past that are read beside: when they were last written, the oldest last.
    backfill: Vec<(u64, u64)>,
    /// Files that were read in a row since one of the past was.
    turns: u32,
    /// Bytes of what is followed, and of the past.
    in_flight: [u64; 2],
    /// By slot: files that are not in their head's directory yet.
    registrations: HashMap<StreamId, u64>,
    unsent: VecDeque<StreamId>,
    /// By slot: what it will hold.
    registered: HashMap<StreamId, u64>,
    /// Streams that were dropped.
    given_up: HashSet<StreamId>,
    listings: Listings,
    events: VecDeque<TailEvent>,
    /// By path: bytes known to be lost.
    lost: HashMap<Arc<str>, u64>,
    /// Streams and paths whose end was not told yet.
    gone: Vec<StatusKey>,
    rests: Rests,
    spare: Vec<u8>,
}

/// A path that is looked at.
#[derive(Debug)]
struct Watched {
    source: Arc<LogSource>,
    at: Arc<Path>,
    label: Arc<str>,
    /// Whether the path is a symbolic link: a change of its target's directory would not be seen in
    /// its own.
    is_link: bool,
    multiline: Option<Arc<Multiline>>,
    existed_at_start: bool,
    is_from_glob: bool,
    is_met: bool,
    looked_at: Option<Micros>,
    /// When it is looked at next.
    due_at: Micros,
    /// When what has no first line yet came, or last grew.
    entered_at: Micros,
    /// The watch for that line, and the size that it was set at.
    waiting: Option<u64>,
    waiting_size: u64,
    retry_at: Option<Micros>,
    begins_anew: bool,
    /// Newest age of what was there at the last contact.
    seen_age: Option<Age>,
    live: Live,
    error: Option<String>,
    /// What was last told of it, if anything was.
    told: Option<(StreamState, u64)>,
}

/// What is at a watched path.
#[derive(Debug)]
enum Live {
    Absent,
    Waiting(Content, Place),
    Resolving(Place),
    Following(u64),
}

/// A rotated file without a whole first line.
#[derive(Debug)]
struct Orphan {
    at: Arc<Path>,
    content: Content,
    place: Place,
    size: u64,
    grown_at: Micros,
}

impl Orphan {
    fn is_empty(&self) -> bool {
        self.content.metadata().is_ok_and(|metadata| metadata.len() == 0)
    }
}

impl Tailer {
    /// A tailer without sources.
    pub fn new(options: TailOptions) -> Self {
        Self {
            options,
            sources: Vec::new(),
            multiline: Vec::new(),
            are_sources_new: false,
            expanded_at: None,
            matched_at: None,
            watches: Watches::default(),
            waiting: Watches::default(),
            waiting_paths: HashMap::new(),
            next_waiting: 0,
            scanned_at: None,
            files_due: Agenda::default(),
            paths_due: Agenda::default(),
            directories: Directories::default(),
            paths: BTreeMap::new(),
            orphans: Vec::new(),
            contacts: BTreeMap::new(),
            next_contact: 0,
            in_contact: HashSet::new(),
            asked: HashMap::new(),
            files: HashMap::new(),
            keys: HashMap::new(),
            by_inode: HashMap::new(),
            by_path: HashMap::new(),
            next_key: 0,
            ready: VecDeque::new(),
            backfill: Vec::new(),
            turns: 0,
            in_flight: [0; 2],
            registrations: HashMap::new(),
            unsent: VecDeque::new(),
            registered: HashMap::new(),
            given_up: HashSet::new(),
            listings: Listings::default(),
            events: VecDeque::new(),
            lost: HashMap::new(),
            gone: Vec::new(),
            rests: Rests::default(),
            spare: Vec::new(),
        }
    }

    /// How lines of the logs at these paths or globs make events; for files that are begun from now
    /// on. The first counts.
    pub fn set_multiline(&mut self, rules: Vec<(PathBuf, Multiline)>) {
        self.multiline = rules.into_iter().map(|(path, rule)| (path, Arc::new(rule))).collect();
    }

    /// Replaces the sources; what is being read of sources that are gone is read to its end.
    pub fn set_sources(&mut self, sources: Vec<LogSource>) {
        self.sources = sources.into_iter().map(Arc::new).collect();
        self.are_sources_new = true;
    }

    /// Looks at paths and files; gives the streams that the hub must be asked about. Cheap enough
    /// for every 100 ms.
    pub fn scan(&mut self, now: Micros) -> Vec<NewStream> {
        if self.scanned_at.replace(now).is_some_and(|at| now < at) {
            self.hasten_all(now);
        }
        self.listings.clear();
        self.expand(now);
        self.look_at_files(now);
        self.look_at_orphans(now);
        self.look_at_paths(now);
        self.resolve(now);
        self.listings.clear();
        self.questions()
    }

    /// The hub's answer for a stream that [`Tailer::scan`] gave; `None`: the hub does not know it.
    pub fn start(&mut self, stream: StreamId, position: Option<u64>) {
        if self.begin_rest(stream, position) {
            return;
        }
        for id in self.asked.remove(&stream).unwrap_or_default() {
            if let Some(contact) = self.contacts.get_mut(&id) {
                contact.answers.insert(stream, position);
                contact.has_news = true;
            }
        }
    }

    /// The next whole lines of any stream, in turn; `None` when there are none, or when too much is
    /// in flight.
    pub fn read(&mut self, now: Micros) -> Option<Chunk> {
        if let Some(chunk) = self.next_registration() {
            return Some(chunk);
        }
        while !self.is_full() {
            let key = self.next_key_to_read(now)?;
            let Some(file) = self.files.get_mut(&key) else { continue };
            file.seen.is_queued = false;
            let buffer = std::mem::take(&mut self.spare);
            let half_line_after = self.options.half_line_after;
            let sizes = (self.options.chunk_bytes, self.options.line_bytes);
            match file.read(now, sizes, half_line_after, buffer) {
                Ok(ReadOutcome::Lines { chunk, is_more }) => {
                    file.seen.error = None;
                    self.in_flight[usize::from(file.is_backfill)] += chunk.to - chunk.from;
                    if is_more {
                        self.queue(key);
                    }
                    if let Some(gap) = chunk.gap() {
                        self.count_lost(&gap);
                    }
                    return Some(chunk);
                }
                Ok(ReadOutcome::Nothing) => {}
                Ok(ReadOutcome::Again) => {
                    self.queue(key);
                    return None;
                }
                Ok(ReadOutcome::Replaced) => self.replaced(key, now),
                Err(error) => self.reopen(key, &error, now),
            }
        }
        None
    }

    /// Whether so much is in flight that nothing is read.
    pub fn is_full(&self) -> bool {
        self.in_flight_bytes() >= self.options.max_in_flight_bytes
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
            self.registered(stream, to);
            return;
        };
        let to = to.clamp(file.acknowledged, file.position);
        let is_new = !file.is_known && to > file.acknowledged;
        file.is_known |= is_new;
        self.in_flight[usize::from(file.is_backfill)] -= to - file.acknowledged;
        file.acknowledged = to;
        if is_new {
            let path = file.path.clone();
            self.release_those_of(&path);
        }
    }

    /// The hub stands at `to` and wants the stream from there again.
    pub fn rewind(&mut self, stream: StreamId, to: u64) {
        let Some((&key, file)) =
            self.keys.get(&stream).and_then(|key| Some((key, self.files.get_mut(key)?)))
        else {
            if self.register_again(stream, to) {
                return;
            }
            self.gap(Gap {
                path: "".into(),
                stream,
                from: to,
                to: None,
                lost_bytes: 0,
                is_exact: false,
                unwatched: None,
                reason: GapReason::StreamGone,
            });
            return;
        };
        self.in_flight[usize::from(file.is_backfill)] -= file.position - file.acknowledged;
        file.rewind(to);
        self.queue(key);
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<TailEvent> {
        self.events.drain(..).collect()
    }

    /// Bytes handed out and not yet acknowledged.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight.iter().sum()
    }

    /// What is followed comes first. The past gets one turn of [`BACKFILL_TURN`], or what is left,
    /// and a share of what may be in flight; of it, the oldest file comes first.
    fn next_key_to_read(&mut self, now: Micros) -> Option<u64> {
        if self.ready.is_empty() || self.turns >= BACKFILL_TURN {
            let has_room = self.in_flight[1] < self.options.max_in_flight_bytes / BACKFILL_SHARE;
            self.backfill.retain(|(_, key)| self.files.contains_key(key));
            let half_line_after = self.options.half_line_after;
            let is_readable = |(_, key): &&(u64, u64)| {
                self.files.get(key).is_some_and(|file| file.is_readable(now, half_line_after))
            };
            if let Some((_, key)) = self.backfill.iter().rev().find(is_readable)
                && has_room
            {
                self.turns = 0;
                return Some(*key);
            }
        }
        self.turns += 1;
        self.ready.pop_front()
    }

    fn gap(&mut self, gap: Gap) {
        self.count_lost(&gap);
        self.event(TailEvent::Gap(gap));
    }

    fn count_lost(&mut self, gap: &Gap) {
        if gap.lost_bytes > 0
            && (self.lost.len() < self.options.max_paths || self.lost.contains_key(&gap.path))
        {
            *self.lost.entry(gap.path.clone()).or_default() += gap.lost_bytes;
        }
    }

    fn event(&mut self, event: TailEvent) {
        if self.events.len() == EVENT_LIMIT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn queue(&mut self, key: u64) {
        if let Some(file) = self.files.get_mut(&key)
            && !file.is_backfill
            && file.may_be_read()
            && !std::mem::replace(&mut file.seen.is_queued, true)
        {
            self.ready.push_back(key);
        }
    }
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

/// Time from `since` to `now`, 0 when the clock was set back.
fn elapsed(since: Micros, now: Micros) -> Duration {
    Duration::from_micros(u64::try_from(now.0 - since.0).unwrap_or(0))
}

fn label(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}
