//! The streams that a [`Tailer`](super::Tailer) is resolving: lookups under way, queries to the
//! hub, and entries in head directories that the hub does not have yet.
//!
//! A file may be truncated or renamed between a query and its answer, so `start` checks it again.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_tables::StreamId;

use super::content::Content;
use super::fingerprint::FileHead;
use super::read::OpenFiles;
use super::resolve_stream::{Registration, ResolveContext, StartPlan, StreamLookup};
use super::rotated::SIBLING_LIMIT;
use super::scan::WatchedPath;
use super::types::{Chunk, NewStream};

/// Rotated parts opened for a log whose usual number of parts is too few, and for all such logs.
pub(super) const WIDE_LIMIT: usize = 1000;
/// Names of dropped streams that are remembered.
const GIVEN_UP_LIMIT: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct StreamResolver {
    lookups: BTreeMap<u64, StreamLookup>,
    next_lookup: u64,
    looked_up_paths: HashSet<Arc<Path>>,
    waiting: HashMap<StreamId, Vec<u64>>,
    /// Files whose entry in their head's directory the hub does not have, by slot.
    registrations: HashMap<StreamId, u64>,
    unsent: VecDeque<StreamId>,
    /// Contents of slots once the hub has confirmed them.
    registered: HashMap<StreamId, u64>,
    given_up: HashSet<StreamId>,
}

impl StreamResolver {
    /// Starts a lookup. Only one lookup per path at a time: two would find the same parts.
    pub(super) fn start_lookup(&mut self, lookup: StreamLookup) {
        self.looked_up_paths.insert(lookup.path.clone());
        self.lookups.insert(self.next_lookup, lookup);
        self.next_lookup += 1;
    }

    pub(super) fn is_looking_up(&self, path: &Path) -> bool {
        self.looked_up_paths.contains(path)
    }

    pub(super) fn retain_paths(&mut self, paths: &BTreeMap<PathBuf, WatchedPath>) {
        self.lookups.retain(|_, lookup| paths.contains_key(&*lookup.path));
        self.looked_up_paths.retain(|path| paths.contains_key(&**path));
    }

    /// Streams to query at the hub, each once.
    pub(super) fn queries(
        &mut self,
        paths: &BTreeMap<PathBuf, WatchedPath>,
        host: &str,
    ) -> Vec<NewStream> {
        let mut new = Vec::new();
        for (id, lookup) in self.lookups.iter_mut().filter(|(_, lookup)| lookup.has_news) {
            lookup.has_news = false;
            let Some(watched) = paths.get(&*lookup.path) else { continue };
            for stream in lookup.queries(host) {
                let waiting = self.waiting.entry(stream).or_default();
                if waiting.is_empty() {
                    new.push(NewStream {
                        stream,
                        path: Arc::clone(&watched.label),
                        source: watched.source.clone(),
                        existed_at_start: watched.existed_at_start,
                    });
                }
                if !waiting.contains(id) {
                    waiting.push(*id);
                }
            }
        }
        new
    }

    /// Passes the hub's answer to the lookups that wait for it.
    pub(super) fn answer(&mut self, stream: StreamId, position: Option<u64>) {
        for id in self.waiting.remove(&stream).unwrap_or_default() {
            if let Some(lookup) = self.lookups.get_mut(&id) {
                lookup.answers.insert(stream, position);
                lookup.has_news = true;
            }
        }
    }

    pub(super) fn take_complete(&mut self, host: &str) -> Vec<(u64, StreamLookup)> {
        let complete =
            self.lookups.extract_if(.., |_, lookup| lookup.has_news && lookup.take_answers(host));
        complete.collect()
    }

    pub(super) fn put_back(&mut self, id: u64, lookup: StreamLookup) {
        self.lookups.insert(id, lookup);
    }

    /// Whether too many parts are open for lookups to open more.
    pub(super) fn is_crowded(&self) -> bool {
        let counts = self.lookups.values().map(|lookup| lookup.siblings.len());
        counts.filter(|count| *count > SIBLING_LIMIT).sum::<usize>() >= WIDE_LIMIT
    }

    /// Finishes a lookup: decides what to read, oldest first.
    pub(super) fn finish(
        &mut self,
        lookup: StreamLookup,
        stale: Option<&FileHead>,
        (host, label): (&str, Option<&str>),
        files: &OpenFiles,
    ) -> Vec<StartPlan> {
        self.looked_up_paths.remove(&lookup.path);
        let given_up = &self.given_up;
        let is_copy = |content: &mut Content| {
            let mut open = label.into_iter().flat_map(|label| files.at_path(label));
            open.any(|file| file.is_copied_to(content))
        };
        let mut context = ResolveContext {
            host,
            is_open: &|stream| files.has_stream(stream),
            is_taken: &|stream| files.has_stream(stream) || given_up.contains(&stream),
            is_copy: &is_copy,
            registered: &mut self.registered,
        };
        lookup.resolve(stale, &mut context)
    }

    /// Remembers the registration of a new file until the hub confirms it.
    pub(super) fn register(&mut self, registration: Registration, key: u64) {
        self.registrations.insert(registration.slot, key);
        self.unsent.push_back(registration.slot);
    }

    /// Drops a file's registration and gives up its name. Data in flight may still arrive, and an
    /// answer that the hub does not know the stream may be outdated: so no other file may get it.
    pub(super) fn give_up(&mut self, stream: StreamId, registration: Option<Registration>) {
        if let Some(registration) = registration {
            self.registrations.remove(&registration.slot);
        }
        if self.given_up.len() >= GIVEN_UP_LIMIT && self.lookups.is_empty() {
            self.given_up.clear();
        }
        self.given_up.insert(stream);
    }

    /// Allows a given-up name again, for the copy of a replaced file.
    pub(super) fn take_back(&mut self, stream: StreamId) {
        self.given_up.remove(&stream);
    }

    /// The next file's entry in its head's directory, which must be durable before its lines.
    pub(super) fn next_registration(&mut self, files: &OpenFiles) -> Option<Chunk> {
        while let Some(slot) = self.unsent.pop_front() {
            let file = self.registrations.get(&slot).and_then(|key| files.get(*key));
            let Some((file, registration)) = file.and_then(|file| Some((file, file.registration?)))
            else {
                continue;
            };
            return Some(Chunk {
                stream: slot,
                path: file.path.clone(),
                source: file.source.clone(),
                from: registration.from,
                to: registration.to,
                bytes: Vec::new(),
                skipped_bytes: 0,
                is_lost: false,
                events: None,
                is_first: true,
                modified: None,
            });
        }
        None
    }

    /// Marks a slot as durable up to `to`.
    pub(super) fn confirm_registration(&mut self, slot: StreamId, to: u64, files: &mut OpenFiles) {
        let Some(key) = self.registrations.get(&slot).copied() else { return };
        if let Some(file) = files.get_mut(key)
            && file.registration.is_some_and(|registration| registration.to <= to)
        {
            file.registration = None;
            self.registrations.remove(&slot);
            files.queue(key);
        }
    }

    /// Sends a slot's entry again, since the hub does not have it; false when this is no slot.
    pub(super) fn register_again(
        &mut self,
        slot: StreamId,
        from: u64,
        files: &mut OpenFiles,
    ) -> bool {
        let Some(key) = self.registrations.get(&slot).copied() else { return false };
        if let Some(registration) = files.get_mut(key).and_then(|file| file.registration.as_mut()) {
            registration.from = from.min(registration.to);
            self.unsent.push_back(slot);
        }
        true
    }
}
