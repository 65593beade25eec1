//! First contact with a log: which of the hub's streams its file and the rotated parts beside it
//! are.
//!
//! The agent keeps no state, so it asks the hub, for each first line that one of the files has:
//! ```text
//! directory  which files began with this line   slots 0, 1, … until one is not known
//! streams    how far each of these files is      generations 0, 1, … until one is not known
//! ```
//! A file that the directory names goes on where it stands. One that it does not name but whose
//! first line it knows is a copy, or a packed part, of a file that has another content by now or is
//! gone: it takes that file's stream over. The surprising thing: lines such as `starting` begin
//! many files, so what looks like a copy is compared.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use weir_tables::StreamId;

use super::content::{Content, is_same_content};
use super::directory::{Directory, SLOT_LIMIT};
use super::file::is_line_start;
use super::identity::{Age, Entry, Head, Place, directory_id};

/// The oldest of the parts that are looked at, by which a running tailer tells whether there are
/// older ones that it has not seen.
const OLDEST_PARTS: usize = 4;

/// A file whose stream is looked for.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) content: Content,
    pub(super) place: Place,
    pub(super) head: Head,
    /// Bytes of it now; of what is packed, as far as that is known.
    pub(super) size: u64,
    /// Whether it was followed before it had an identity.
    pub(super) is_wanted: bool,
}

impl Candidate {
    /// `None`: the file is too short to have an identity. With `is_final` it will not grow any
    /// more.
    pub(super) fn open(
        mut content: Content,
        place: Place,
        is_final: bool,
    ) -> std::io::Result<Result<Self, Content>> {
        let size = content.known_size()?.unwrap_or(0);
        // It may have been written since it was opened.
        let place = Place::of(&content).unwrap_or(place);
        let is_final = is_final || content.is_packed();
        let Some(head) = Head::read(&mut content, is_final)? else {
            return Ok(Err(content));
        };
        content.rest();
        Ok(Ok(Self { content, place, head, size, is_wanted: false }))
    }

    /// Whether nothing can come behind `position` any more.
    fn is_finished(&self, position: u64) -> bool {
        self.content.is_packed() && self.content.ends_at(position)
    }

    /// Whether `position` can be where a reader of this content stopped.
    fn holds(&mut self, position: u64) -> bool {
        if self.content.is_packed() {
            return self.content.ends_at(position)
                || is_line_start(&mut self.content, position).unwrap_or(false);
        }
        position <= self.size
            && (position == self.size || is_line_start(&mut self.content, position).unwrap_or(true))
    }
}

/// A file that has to be entered into its head's directory before a byte of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    /// The slot, as a stream.
    pub(super) slot: StreamId,
    /// What the slot holds.
    pub(super) from: u64,
    /// What it will hold.
    pub(super) to: u64,
}

/// How the live file is begun when the hub does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// At its start.
    Start,
    /// At its last so many bytes, unless an older part of it is known.
    Recent(u64),
    /// As a new stream even if the hub knows one that begins alike: its content was seen to begin
    /// anew.
    Fresh,
}

/// A path whose streams are being asked about.
#[derive(Debug)]
pub(super) struct Contact {
    pub(super) path: Arc<Path>,
    pub(super) live: Option<Candidate>,
    /// Newest first.
    pub(super) siblings: Vec<Candidate>,
    /// Whether there may be parts that are older than these.
    pub(super) has_older: bool,
    pub(super) policy: Policy,
    /// Whether rotated parts that nobody knows are wanted too (the user's own glob names them).
    pub(super) wants_all: bool,
    /// Parts that nobody knows are wanted if they were last written after this, in ns since 1970.
    pub(super) wanted_since_ns: Option<u64>,
    /// Newest age of what was there at the last contact: whatever is newer is wanted.
    pub(super) seen_age: Option<Age>,
    /// The hub's, as they come.
    pub(super) answers: HashMap<StreamId, Option<u64>>,
    /// Whether an answer came since the questions were last looked through.
    pub(super) has_news: bool,
    directories: Vec<Directory>,
}

/// A file to be read, and from where.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) candidate: Candidate,
    pub(super) stream: StreamId,
    pub(super) position: StartAt,
    pub(super) is_live: bool,
    pub(super) registration: Option<Registration>,
    /// A stream that the file had before it began anew, and how far that was read, if no copy holds
    /// the rest of it.
    pub(super) ended: Option<(StreamId, u64)>,
    /// Whether it is older than what is followed, and read only because the past is wanted too.
    pub(super) is_backfill: bool,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartAt {
    /// What the hub said.
    Known(u64),
    /// The beginning.
    Zero,
    /// The last so many bytes.
    Recent(u64),
}

/// What the tailer knows besides the hub.
pub(super) struct Surroundings<'a> {
    pub(super) host: &'a str,
    /// Streams that are being read.
    pub(super) is_open: &'a dyn Fn(StreamId) -> bool,
    /// These, and those that were read.
    pub(super) is_taken: &'a dyn Fn(StreamId) -> bool,
    /// Whether a file that is being read at this path begins like a content. Then that is its copy,
    /// and if it is needed that will show when the file is seen to begin anew.
    pub(super) is_copy: &'a dyn Fn(&mut Content) -> bool,
    /// What slots will hold once the hub has answered.
    pub(super) registered: &'a mut HashMap<StreamId, u64>,
}

impl Contact {
    pub(super) fn new(
        path: Arc<Path>,
        live: Option<Candidate>,
        siblings: Vec<Candidate>,
        policy: Policy,
    ) -> Self {
        let mut contact = Self {
            path,
            live,
            siblings,
            has_older: false,
            policy,
            wants_all: false,
            wanted_since_ns: None,
            seen_age: None,
            answers: HashMap::new(),
            has_news: true,
            directories: Vec::new(),
        };
        contact.list_heads();
        contact
    }

    fn list_heads(&mut self) {
        for candidate in self.live.iter().chain(&self.siblings) {
            let known = self.directories.iter().position(|known| known.head == candidate.head);
            let at = known.unwrap_or_else(|| {
                self.directories.push(Directory::new(candidate.head.clone()));
                self.directories.len() - 1
            });
            self.directories[at].add(candidate.place.mark());
        }
    }

    /// Once every answer is there: whether parts that are older than these may be wanted too. While
    /// the tailer runs it knows what it has seen. After a start: if the hub knows neither one of
    /// these nor a newer one, or has not all of it.
    pub(super) fn wants_older(&self) -> bool {
        if !self.has_older {
            return false;
        }
        if let Some(age) = self.seen_age {
            let oldest = self.siblings.iter().rev().take(OLDEST_PARTS);
            return oldest.map(|part| part.place.age()).any(|its| its.may_follow(&[age]));
        }
        let is_known = |part: &Candidate| {
            let directory = self.directory(&part.head);
            directory.streams(part.place.mark()).chain(directory.all_streams()).next().is_some()
        };
        let is_unfinished = |part: &Candidate| {
            let own = self.directory(&part.head).streams(part.place.mark()).next();
            // Of what is packed the end is not known yet.
            own.is_some_and(|(_, at)| !part.content.is_packed() && at < part.size)
        };
        let parts = || self.live.iter().chain(&self.siblings);
        let newest_known = parts().position(is_known).unwrap_or(usize::MAX);
        let mut older = parts().enumerate().skip(usize::from(self.live.is_some()));
        older.any(|(at, part)| at < newest_known || is_unfinished(part))
    }

    /// Adds those of the parts that are older than the ones that it has.
    pub(super) fn add_older(&mut self, siblings: Vec<Candidate>) {
        let is_there = |new: &Candidate| {
            let own = self.live.iter().chain(&self.siblings);
            own.map(|own| &own.place).any(|own| own.is_same_file(&new.place))
        };
        let oldest = self.siblings.last().map(|oldest| oldest.place.age());
        let mut older: Vec<Candidate> = siblings
            .into_iter()
            .filter(|new| oldest.is_none_or(|age| new.place.age() <= age) && !is_there(new))
            .collect();
        self.siblings.append(&mut older);
        (self.has_older, self.has_news) = (false, true);
        self.list_heads();
    }

    /// What is still to be asked.
    pub(super) fn questions(&self, host: &str) -> impl Iterator<Item = StreamId> + '_ {
        let all: Vec<StreamId> =
            self.directories.iter().flat_map(|directory| directory.questions(host)).collect();
        all.into_iter().filter(|stream| !self.answers.contains_key(stream))
    }

    /// Takes the answers that have come; gives whether all are there.
    pub(super) fn has_answers(&mut self, host: &str) -> bool {
        let mut is_complete = true;
        for directory in &mut self.directories {
            is_complete &= directory.answer(host, &self.answers);
        }
        is_complete
    }

    /// The live file's head, if the file begins otherwise by now: then what is beside it holds its
    /// content.
    pub(super) fn take_stale_live(&mut self) -> Option<Head> {
        let is_stale = |live: &mut Candidate| {
            !live.content.is_packed() && !live.head.is_head_of(&mut live.content).unwrap_or(true)
        };
        self.live.take_if(is_stale).map(|live| live.head)
    }

    /// Decides, once every answer is there: what to read, oldest first.
    pub(super) fn resolve(
        mut self,
        stale: Option<&Head>,
        around: &mut Surroundings<'_>,
    ) -> Vec<Begin> {
        let mut all: Vec<Found> = Vec::new();
        let is_fresh = self.policy == Policy::Fresh;
        let live = self.live.take().map(|live| Found::new(live, true));
        let siblings = std::mem::take(&mut self.siblings).into_iter().map(|s| Found::new(s, false));
        all.extend(live.into_iter().chain(siblings));
        let mut claimed = HashSet::new();
        for found in &mut all {
            self.claim_own(found, is_fresh, &mut claimed);
        }
        for at in 0..all.len() {
            if all[at].claim.is_none() && !all[at].is_live {
                self.claim_other(&mut all, at, &mut claimed, around);
            }
        }
        for found in &mut all {
            found.ended = found.ended.filter(|(stream, _)| !claimed.contains(stream));
        }
        self.begins(all, stale, around)
    }

    /// The live file, and the stream that it most probably is: the newest of its own that it can
    /// hold, else one of another file that began alike and that it holds to its end, else one that
    /// it can hold.
    pub(super) fn into_identified(mut self) -> Option<(Content, Option<(StreamId, u64)>)> {
        let mut live = self.live.take()?;
        let directory = self.directory(&live.head);
        let own: Vec<(StreamId, u64)> = directory.streams(live.place.mark()).collect();
        let others: Vec<(StreamId, u64)> = directory.all_streams().collect();
        let holds = |live: &mut Candidate, known: &[(StreamId, u64)]| {
            known.iter().copied().find(|(_, position)| live.holds(*position))
        };
        let stream = holds(&mut live, &own)
            .or_else(|| others.iter().copied().find(|(_, at)| live.content.ends_at(*at)))
            .or_else(|| holds(&mut live, &others));
        Some((live.content, stream))
    }

    fn directory(&self, head: &Head) -> &Directory {
        let mut all = self.directories.iter();
        all.find(|directory| directory.head == *head).expect("one for each candidate's head")
    }

    /// The newest content of the file itself, if it is still there.
    fn claim_own(&self, found: &mut Found, is_fresh: bool, claimed: &mut HashSet<StreamId>) {
        let directory = self.directory(&found.candidate.head);
        let Some((stream, at)) = directory.streams(found.candidate.place.mark()).next() else {
            return;
        };
        if found.is_live && is_fresh {
            return;
        }
        if found.candidate.holds(at) {
            claimed.insert(stream);
            found.claim = Some(Claim::Known(stream, at));
        } else {
            found.ended = Some((stream, at));
        }
    }

    /// A stream whose file has another content by now, or is gone: the candidate is its copy. Or it
    /// is the copy of what another file still holds, and no part of its own.
    fn claim_other(
        &self,
        all: &mut [Found],
        at: usize,
        claimed: &mut HashSet<StreamId>,
        around: &mut Surroundings<'_>,
    ) {
        let directory = self.directory(&all[at].candidate.head);
        let is_copy = (0..all.len()).any(|other| other != at && is_copy_of(all, at, other))
            || (around.is_copy)(&mut all[at].candidate.content);
        if is_copy {
            all[at].claim = Some(Claim::Nothing);
            return;
        }
        let is_orphan = |stream: &StreamId| !claimed.contains(stream) && !(around.is_open)(*stream);
        let mut orphans: Vec<(StreamId, u64)> =
            directory.all_streams().filter(|(stream, _)| is_orphan(stream)).collect();
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
            all[at].claim = Some(Claim::Known(stream, position));
        }
    }

    fn begins(
        &self,
        all: Vec<Found>,
        stale: Option<&Head>,
        around: &mut Surroundings<'_>,
    ) -> Vec<Begin> {
        let is_live_known = all.iter().any(|found| found.is_live && found.is_known());
        let of_siblings = all.iter().filter(|found| !found.is_live && found.is_known());
        let mut bases: Vec<Age> = of_siblings.map(|found| found.candidate.place.age()).collect();
        let is_known = is_live_known || !bases.is_empty() || self.seen_age.is_some();
        if let Some(age) = self.seen_age {
            bases = vec![age];
        }
        let mut begins = Vec::new();
        for found in all.into_iter().rev() {
            let age = found.candidate.place.age();
            let is_next = found.is_live
                || found.candidate.is_wanted
                || stale == Some(&found.candidate.head)
                || (!is_live_known && age.may_follow(&bases));
            let is_past = self.wanted_since_ns.is_some_and(|since| age.is_written_after(since))
                || (self.wants_all && !is_known);
            let Found { candidate, is_live, claim, ended } = found;
            let (stream, position, registration) = match claim {
                Some(Claim::Known(_, at)) if candidate.is_finished(at) => continue,
                Some(Claim::Known(stream, at)) => (stream, StartAt::Known(at), None),
                Some(Claim::Nothing) => continue,
                None if !is_next && !is_past => continue,
                None => {
                    let position = match self.policy {
                        Policy::Recent(recent) if is_live && !is_known && ended.is_none() => {
                            StartAt::Recent(recent)
                        }
                        _ => StartAt::Zero,
                    };
                    let (stream, registration) = self.new_stream(&candidate, around);
                    (stream, position, registration)
                }
            };
            let is_backfill = !is_live && !is_next && is_past;
            begins.push(Begin {
                candidate,
                stream,
                position,
                is_live,
                registration,
                ended,
                is_backfill,
            });
        }
        begins
    }

    fn new_stream(
        &self,
        candidate: &Candidate,
        around: &mut Surroundings<'_>,
    ) -> (StreamId, Option<Registration>) {
        let directory = self.directory(&candidate.head);
        let mark = candidate.place.mark();
        let stream = directory.free(around.host, mark, &around.is_taken);
        let slots: Vec<(StreamId, u64)> = (0..SLOT_LIMIT)
            .map(|slot| directory_id(around.host, &candidate.head, slot))
            .map(|slot| {
                let known = directory.slots.known.iter().find(|(_, id, _)| *id == slot);
                let known = known.map_or(0, |(.., position)| *position);
                (slot, around.registered.get(&slot).copied().unwrap_or(known))
            })
            .collect();
        let entries = || slots.iter().map(|(_, position)| Entry::of_position(*position));
        if entries().any(|entry| entry.count > 0 && entry.mark == mark) {
            return (stream, None);
        }
        let newest = entries().map(|entry| entry.count).max().unwrap_or(0);
        let (slot, from) = slots
            .iter()
            .min_by_key(|(_, position)| Entry::of_position(*position).count)
            .copied()
            .expect("there are slots");
        let to = Entry { count: newest + 1, mark }.position();
        around.registered.insert(slot, to);
        (stream, Some(Registration { slot, from, to }))
    }
}

/// What became of a candidate.
#[derive(Debug)]
struct Found {
    candidate: Candidate,
    is_live: bool,
    claim: Option<Claim>,
    ended: Option<(StreamId, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Claim {
    /// A stream that the hub knows, and how far.
    Known(StreamId, u64),
    /// It holds nothing that another file does not hold.
    Nothing,
}

impl Found {
    fn new(candidate: Candidate, is_live: bool) -> Self {
        Self { candidate, is_live, claim: None, ended: None }
    }

    fn is_known(&self) -> bool {
        matches!(self.claim, Some(Claim::Known(..)))
    }
}

/// Whether candidate `at` holds nothing that candidate `other` does not hold. Of two that nobody
/// knows, the one that comes first counts.
fn is_copy_of(all: &mut [Found], at: usize, other: usize) -> bool {
    if all[at].candidate.head != all[other].candidate.head {
        return false;
    }
    let is_held = match all[other].claim {
        Some(Claim::Known(..)) => true,
        Some(Claim::Nothing) => false,
        None => other < at,
    };
    let Ok([this, original]) = all.get_disjoint_mut([at, other]) else { return false };
    is_held
        && is_same_content(&mut this.candidate.content, &mut original.candidate.content)
            .unwrap_or(false)
}
