//! Lookup of the streams that a log and the rotated parts beside it belong to.
//!
//! The agent keeps no state, so it queries the hub, for each first line of one of the files:
//! ```text
//! directory  which files began with this line     slots 0, 1, … until one is unknown
//! streams    the position of each of these files  generations 0, 1, … until one is unknown
//! ```
//! A file in the directory continues at its position. A file that is not in it, but whose first
//! line is known, is a copy, or a compressed part, of a file that has other content by now or is
//! gone: it takes over that file's stream. The surprising thing: lines such as `starting` begin
//! many files, so apparent copies are compared.
//!
//! Example: `a.log` (mark 1, stream S, position 100) is copied to `a.log.1` (mark 2), truncated and
//! written again while no agent runs. `a.log.1` has the old first line, whose directory contains
//! mark 1 and thus S. `a.log` begins otherwise now, so no file holds S, and a line of `a.log.1`
//! ends at 100: it takes over S and is read from 100.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use weir_tables::StreamId;

use super::content::{Content, is_line_start, is_same_content};
use super::fingerprint::{FileHead, FileIdentity, PartAge, SlotEntry, directory_id};
use super::head_directory::{HeadDirectory, SLOT_LIMIT};

/// Number of oldest parts by which a running tailer decides whether there are older, unseen ones.
const OLDEST_PARTS: usize = 4;

#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) content: Content,
    pub(super) identity: FileIdentity,
    pub(super) head: FileHead,
    /// Current size; for compressed content, 0 unless known.
    pub(super) size: u64,
    /// Whether it was followed before it had an identity.
    pub(super) is_wanted: bool,
}

impl Candidate {
    /// Opens a candidate; returns the content if it is too short. `is_final`: it will not grow.
    pub(super) fn open(
        mut content: Content,
        identity: FileIdentity,
        is_final: bool,
    ) -> std::io::Result<Result<Self, Content>> {
        let size = content.known_size()?.unwrap_or(0);
        // It may have been written since it was opened.
        let identity = FileIdentity::of(&content).unwrap_or(identity);
        let is_final = is_final || content.is_immutable();
        let Some(head) = FileHead::read(&mut content, is_final)? else {
            return Ok(Err(content));
        };
        content.reset();
        Ok(Ok(Self { content, identity, head, size, is_wanted: false }))
    }

    /// Whether nothing can follow `position` any more.
    fn is_finished(&self, position: u64) -> bool {
        self.content.is_immutable() && self.content.ends_at(position)
    }

    /// Whether a reader of this content may have stopped at `position`.
    fn holds(&mut self, position: u64) -> bool {
        if self.content.is_immutable() {
            return self.content.ends_at(position)
                || is_line_start(&mut self.content, position).unwrap_or(false);
        }
        position <= self.size
            && (position == self.size || is_line_start(&mut self.content, position).unwrap_or(true))
    }

    fn first_held(&mut self, known: &[(StreamId, u64)]) -> Option<(StreamId, u64)> {
        known.iter().copied().find(|(_, position)| self.holds(*position))
    }
}

/// An entry of a new file in its head's directory, made before a byte of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) slot: StreamId,
    pub(super) from: u64,
    pub(super) to: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartPolicy {
    Start,
    /// Within its last bytes, unless an older part of it is known.
    Recent(u64),
    /// As a new stream even if the hub knows a similar one: its content was replaced.
    Fresh,
}

#[derive(Debug)]
pub(super) struct StreamLookup {
    pub(super) path: Arc<Path>,
    pub(super) live: Option<Candidate>,
    /// Rotated parts, newest first.
    pub(super) siblings: Vec<Candidate>,
    pub(super) has_older: bool,
    pub(super) policy: StartPolicy,
    /// Whether unknown rotated parts are wanted too (the user's own glob matches them).
    pub(super) wants_all: bool,
    /// Unknown parts are wanted if they were last written after this time, in ns since 1970.
    pub(super) wanted_since_ns: Option<u64>,
    /// Newest age of the files at the last lookup: newer ones are wanted.
    pub(super) newest_age: Option<PartAge>,
    pub(super) answers: HashMap<StreamId, Option<u64>>,
    /// Whether an answer came since the last evaluation.
    pub(super) has_news: bool,
    directories: Vec<HeadDirectory>,
}

#[derive(Debug)]
pub(super) struct StartPlan {
    pub(super) candidate: Candidate,
    pub(super) stream: StreamId,
    pub(super) position: StartPosition,
    pub(super) is_live: bool,
    pub(super) registration: Option<Registration>,
    /// Previous stream of a replaced file, and its position, if no copy has its remainder.
    pub(super) ended: Option<(StreamId, u64)>,
    /// Whether it is older than the followed files, and read only for the backfill.
    pub(super) is_backfill: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartPosition {
    Known(u64),
    Zero,
    /// Within the last bytes.
    Recent(u64),
}

/// State of the tailer that a lookup depends on.
pub(super) struct ResolveContext<'a> {
    pub(super) host: &'a str,
    pub(super) is_open: &'a dyn Fn(StreamId) -> bool,
    /// Whether a stream is being read or was read.
    pub(super) is_taken: &'a dyn Fn(StreamId) -> bool,
    /// Whether an open file of this path begins like the content. The content is then its copy; if
    /// that is needed, the truncation of the file will show it.
    pub(super) is_copy: &'a dyn Fn(&mut Content) -> bool,
    /// Contents of slots once the hub has answered.
    pub(super) registered: &'a mut HashMap<StreamId, u64>,
}

impl StreamLookup {
    pub(super) fn new(
        path: Arc<Path>,
        live: Option<Candidate>,
        siblings: Vec<Candidate>,
        policy: StartPolicy,
    ) -> Self {
        let mut lookup = Self {
            path,
            live,
            siblings,
            has_older: false,
            policy,
            wants_all: false,
            wanted_since_ns: None,
            newest_age: None,
            answers: HashMap::new(),
            has_news: true,
            directories: Vec::new(),
        };
        lookup.list_heads();
        lookup
    }

    fn list_heads(&mut self) {
        for candidate in self.live.iter().chain(&self.siblings) {
            let known = self.directories.iter().position(|known| known.head == candidate.head);
            let at = known.unwrap_or_else(|| {
                self.directories.push(HeadDirectory::new(candidate.head.clone()));
                self.directories.len() - 1
            });
            self.directories[at].add(candidate.identity.mark());
        }
    }

    /// Whether older parts may be wanted, once all answers are there. A running tailer knows what
    /// it has seen. After a start they are wanted if the hub knows none of the parts, or one of
    /// them incompletely.
    pub(super) fn wants_older(&self) -> bool {
        if !self.has_older {
            return false;
        }
        if let Some(age) = self.newest_age {
            let oldest = self.siblings.iter().rev().take(OLDEST_PARTS);
            return oldest.map(|part| part.identity.age()).any(|its| its.may_follow(&[age]));
        }
        let mut parts = self.live.iter().chain(&self.siblings);
        let newest_known = parts.position(|part| self.is_known(part)).unwrap_or(usize::MAX);
        let parts = self.live.iter().chain(&self.siblings);
        let mut older = parts.enumerate().skip(usize::from(self.live.is_some()));
        older.any(|(at, part)| at < newest_known || self.is_unfinished(part))
    }

    fn is_known(&self, part: &Candidate) -> bool {
        let directory = self.directory(&part.head);
        directory.streams(part.identity.mark()).chain(directory.all_streams()).next().is_some()
    }

    fn is_unfinished(&self, part: &Candidate) -> bool {
        let own = self.directory(&part.head).streams(part.identity.mark()).next();
        // The end of compressed content is not known yet.
        own.is_some_and(|(_, at)| !part.content.is_immutable() && at < part.size)
    }

    pub(super) fn add_older(&mut self, siblings: Vec<Candidate>) {
        let oldest = self.siblings.last().map(|oldest| oldest.identity.age());
        let mut older: Vec<Candidate> = siblings
            .into_iter()
            .filter(|new| oldest.is_none_or(|age| new.identity.age() <= age))
            .filter(|new| {
                let mut own = self.live.iter().chain(&self.siblings);
                !own.any(|own| own.identity.is_same_file(&new.identity))
            })
            .collect();
        self.siblings.append(&mut older);
        (self.has_older, self.has_news) = (false, true);
        self.list_heads();
    }

    pub(super) fn queries(&self, host: &str) -> impl Iterator<Item = StreamId> + '_ {
        let all: Vec<StreamId> =
            self.directories.iter().flat_map(|directory| directory.queries(host)).collect();
        all.into_iter().filter(|stream| !self.answers.contains_key(stream))
    }

    /// Evaluates the answers so far; returns whether all are there.
    pub(super) fn take_answers(&mut self, host: &str) -> bool {
        let mut is_complete = true;
        for directory in &mut self.directories {
            is_complete &= directory.answer(host, &self.answers);
        }
        is_complete
    }

    /// Takes out the live file if its first line has changed, and returns the old head.
    pub(super) fn take_stale_live(&mut self) -> Option<FileHead> {
        let stale = self.live.take_if(|live| {
            !live.content.is_immutable() && !live.head.is_head_of(&mut live.content).unwrap_or(true)
        });
        stale.map(|live| live.head)
    }

    /// Decides what to read, oldest first, once all answers are there.
    pub(super) fn resolve(
        mut self,
        stale: Option<&FileHead>,
        context: &mut ResolveContext<'_>,
    ) -> Vec<StartPlan> {
        let mut all: Vec<ResolvedCandidate> = Vec::new();
        let is_fresh = self.policy == StartPolicy::Fresh;
        let live = self.live.take().map(|live| ResolvedCandidate::new(live, true));
        let siblings = std::mem::take(&mut self.siblings)
            .into_iter()
            .map(|s| ResolvedCandidate::new(s, false));
        all.extend(live.into_iter().chain(siblings));
        let mut claimed = HashSet::new();
        for found in &mut all {
            self.claim_own(found, is_fresh, &mut claimed);
        }
        for at in 0..all.len() {
            if all[at].claim.is_none() && !all[at].is_live {
                self.claim_other(&mut all, at, &mut claimed, context);
            }
        }
        for found in &mut all {
            found.ended = found.ended.filter(|(stream, _)| !claimed.contains(stream));
        }
        self.plans(all, stale, context)
    }

    /// Returns the live file and its most probable stream: its newest one that fits, else one of
    /// another file with the same head that ends where it ends, else one that fits.
    pub(super) fn into_identified(mut self) -> Option<(Content, Option<(StreamId, u64)>)> {
        let mut live = self.live.take()?;
        let directory = self.directory(&live.head);
        let own: Vec<(StreamId, u64)> = directory.streams(live.identity.mark()).collect();
        let others: Vec<(StreamId, u64)> = directory.all_streams().collect();
        let stream = live
            .first_held(&own)
            .or_else(|| others.iter().copied().find(|(_, at)| live.content.ends_at(*at)))
            .or_else(|| live.first_held(&others));
        Some((live.content, stream))
    }

    fn directory(&self, head: &FileHead) -> &HeadDirectory {
        let mut all = self.directories.iter();
        all.find(|directory| directory.head == *head).expect("one for each candidate's head")
    }

    /// Claims the newest stream of the file itself, if its content is still there.
    fn claim_own(
        &self,
        found: &mut ResolvedCandidate,
        is_fresh: bool,
        claimed: &mut HashSet<StreamId>,
    ) {
        let directory = self.directory(&found.candidate.head);
        let Some((stream, at)) = directory.streams(found.candidate.identity.mark()).next() else {
            return;
        };
        if found.is_live && is_fresh {
            return;
        }
        if found.candidate.holds(at) {
            claimed.insert(stream);
            found.claim = Some(StreamClaim::Known(stream, at));
        } else {
            found.ended = Some((stream, at));
        }
    }

    /// Claims a stream whose file has other content by now, or is gone: the candidate is its copy.
    /// A copy of content that another file still has is no separate part.
    fn claim_other(
        &self,
        all: &mut [ResolvedCandidate],
        at: usize,
        claimed: &mut HashSet<StreamId>,
        context: &mut ResolveContext<'_>,
    ) {
        let directory = self.directory(&all[at].candidate.head);
        let is_copy = (0..all.len()).any(|other| other != at && is_copy_of(all, [at, other]))
            || (context.is_copy)(&mut all[at].candidate.content);
        if is_copy {
            all[at].claim = Some(StreamClaim::Nothing);
            return;
        }
        let mut orphans: Vec<(StreamId, u64)> = directory
            .all_streams()
            .filter(|(stream, _)| !claimed.contains(stream) && !(context.is_open)(*stream))
            .collect();
        let candidate = &mut all[at].candidate;
        let whole = orphans.iter().find(|(_, position)| candidate.content.ends_at(*position));
        let whole = whole.copied();
        if directory.slots.known.len() > 2 {
            // A line that begins many files: only the newest of them can be unfinished.
            orphans.truncate(1);
        }
        let found =
            whole.or_else(|| orphans.into_iter().find(|(_, position)| candidate.holds(*position)));
        if let Some((stream, position)) = found {
            claimed.insert(stream);
            all[at].claim = Some(StreamClaim::Known(stream, position));
        }
    }

    fn plans(
        &self,
        all: Vec<ResolvedCandidate>,
        stale: Option<&FileHead>,
        context: &mut ResolveContext<'_>,
    ) -> Vec<StartPlan> {
        let is_live_known = all.iter().any(|found| found.is_live && found.is_known());
        let of_siblings = all.iter().filter(|found| !found.is_live && found.is_known());
        let mut bases: Vec<PartAge> =
            of_siblings.map(|found| found.candidate.identity.age()).collect();
        let is_known = is_live_known || !bases.is_empty() || self.newest_age.is_some();
        if let Some(age) = self.newest_age {
            bases = vec![age];
        }
        let mut plans = Vec::new();
        for found in all.into_iter().rev() {
            let age = found.candidate.identity.age();
            let is_next = found.is_live
                || found.candidate.is_wanted
                || stale == Some(&found.candidate.head)
                || (!is_live_known && age.may_follow(&bases));
            let is_past = self.wanted_since_ns.is_some_and(|since| age.is_written_after(since))
                || (self.wants_all && !is_known);
            let ResolvedCandidate { candidate, is_live, claim, ended } = found;
            let (stream, position, registration) = match claim {
                Some(StreamClaim::Known(_, at)) if candidate.is_finished(at) => continue,
                Some(StreamClaim::Known(stream, at)) => (stream, StartPosition::Known(at), None),
                Some(StreamClaim::Nothing) => continue,
                None if !is_next && !is_past => continue,
                None => {
                    let position = match self.policy {
                        StartPolicy::Recent(recent) if is_live && !is_known && ended.is_none() => {
                            StartPosition::Recent(recent)
                        }
                        _ => StartPosition::Zero,
                    };
                    let (stream, registration) = self.new_stream(&candidate, context);
                    (stream, position, registration)
                }
            };
            let is_backfill = !is_live && !is_next && is_past;
            plans.push(StartPlan {
                candidate,
                stream,
                position,
                is_live,
                registration,
                ended,
                is_backfill,
            });
        }
        plans
    }

    fn new_stream(
        &self,
        candidate: &Candidate,
        context: &mut ResolveContext<'_>,
    ) -> (StreamId, Option<Registration>) {
        let directory = self.directory(&candidate.head);
        let mark = candidate.identity.mark();
        let stream = directory.free(context.host, mark, &context.is_taken);
        let slots: Vec<(StreamId, u64)> = (0..SLOT_LIMIT)
            .map(|slot| directory_id(context.host, &candidate.head, slot))
            .map(|slot| {
                let known = directory.slots.known.iter().find(|(_, id, _)| *id == slot);
                let known = known.map_or(0, |(.., position)| *position);
                (slot, context.registered.get(&slot).copied().unwrap_or(known))
            })
            .collect();
        let entries: Vec<SlotEntry> =
            slots.iter().map(|(_, position)| SlotEntry::of_position(*position)).collect();
        if entries.iter().any(|entry| entry.count > 0 && entry.mark == mark) {
            return (stream, None);
        }
        let newest = entries.iter().map(|entry| entry.count).max().unwrap_or(0);
        let (slot, from) = slots
            .iter()
            .min_by_key(|(_, position)| SlotEntry::of_position(*position).count)
            .copied()
            .expect("there are slots");
        let to = SlotEntry { count: newest + 1, mark }.position();
        context.registered.insert(slot, to);
        (stream, Some(Registration { slot, from, to }))
    }
}

#[derive(Debug)]
struct ResolvedCandidate {
    candidate: Candidate,
    is_live: bool,
    claim: Option<StreamClaim>,
    ended: Option<(StreamId, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum StreamClaim {
    Known(StreamId, u64),
    Nothing,
}

impl ResolvedCandidate {
    fn new(candidate: Candidate, is_live: bool) -> Self {
        Self { candidate, is_live, claim: None, ended: None }
    }

    fn is_known(&self) -> bool {
        matches!(self.claim, Some(StreamClaim::Known(..)))
    }
}

/// Whether `at` has only content of `other`. Of two unknown ones, the first counts.
fn is_copy_of(all: &mut [ResolvedCandidate], [at, other]: [usize; 2]) -> bool {
    if all[at].candidate.head != all[other].candidate.head {
        return false;
    }
    let is_held = match all[other].claim {
        Some(StreamClaim::Known(..)) => true,
        Some(StreamClaim::Nothing) => false,
        None => other < at,
    };
    let Ok([this, original]) = all.get_disjoint_mut([at, other]) else { return false };
    is_held
        && is_same_content(&mut this.candidate.content, &mut original.candidate.content)
            .unwrap_or(false)
}
