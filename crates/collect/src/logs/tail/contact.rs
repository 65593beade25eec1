//! First contact with a log: which of the hub's streams its file and the rotated parts beside it are.
//!
//! The agent keeps no state, so it computes every identity a file could have had and asks the hub for each:
//! ```text
//! own    the file's inode and first line             read before it was renamed, or still in place
//! copy   an OLDER file's inode, this first line      what copytruncate has left beside that file
//! ```
//! each with generation 0, and the next as long as the hub knows it (one inode, the same first line, another content).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use weir_tables::StreamId;

use super::identity::{Age, Head, Place, stream_id};

/// Contents with the same first line in the same inode that are told apart.
const GENERATION_LIMIT: u32 = 1000;

/// A file and what the hub may know it as.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) file: File,
    pub(super) place: Place,
    pub(super) head: Head,
    pub(super) size: u64,
    pub(super) own: Probe,
    pub(super) copies: Vec<Probe>,
}

/// One possible identity, asked about generation by generation.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    place: Place,
    head: Head,
    generation: u32,
    /// The newest generation that the hub knows, and how far.
    pub(super) known: Option<(StreamId, u64)>,
    /// The first generation that the hub does not know.
    pub(super) free: Option<StreamId>,
}

impl Probe {
    pub(super) fn new(place: Place, head: &Head) -> Self {
        Self { place, head: head.clone(), generation: 0, known: None, free: None }
    }

    /// The identity to ask about next, `None` when all is known.
    pub(super) fn question(&self, host: &str) -> Option<StreamId> {
        self.free.is_none().then(|| stream_id(host, self.place, &self.head, self.generation))
    }

    fn answer(&mut self, stream: StreamId, position: Option<u64>) {
        match position {
            Some(position) if self.generation < GENERATION_LIMIT => {
                self.known = Some((stream, position));
                self.generation += 1;
            }
            _ => self.free = Some(stream),
        }
    }
}

impl Candidate {
    /// `None`: the file is too short to have an identity. With `is_final` it will not grow any more.
    pub(super) fn open(
        file: File,
        place: Place,
        is_final: bool,
        originals: &[Place],
    ) -> io::Result<Option<Self>> {
        let size = file.metadata()?.len();
        let Some(head) = Head::read(&file, is_final)? else { return Ok(None) };
        let own = Probe::new(place, &head);
        let is_original =
            |other: &&Place| other.birth_ns <= place.birth_ns && !other.is_same_file(&place);
        let copies = originals.iter().filter(is_original).map(|place| Probe::new(*place, &head));
        let copies = copies.collect();
        Ok(Some(Self { file, place, head, size, own, copies }))
    }

    fn probes(&self) -> impl Iterator<Item = &Probe> {
        std::iter::once(&self.own).chain(&self.copies)
    }

    /// The identity that the hub knows this file's content by.
    fn known(&self) -> Option<(StreamId, u64)> {
        self.probes().find_map(|probe| probe.known)
    }

    /// The identity for content that the hub does not know.
    fn free(&self) -> StreamId {
        self.own.free.expect("asked only when every probe has its answer")
    }
}

/// How the live file is begun when the hub does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// At its start.
    Start,
    /// At its last so many bytes, unless an older part of it is known.
    Recent(u64),
    /// As a new stream even if the hub knows one that begins alike: its content was seen to begin anew.
    Fresh,
}

/// A path whose streams are being asked about.
#[derive(Debug)]
pub(super) struct Contact {
    pub(super) path: PathBuf,
    pub(super) live: Option<Candidate>,
    pub(super) siblings: Vec<Candidate>,
    pub(super) policy: Policy,
    /// Whether rotated parts that nobody knows are wanted too (the user's own glob names them).
    pub(super) wants_all: bool,
    /// Age of the newest part that is being read already.
    pub(super) known_age: Option<Age>,
}

/// A file to be read, and from where.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) candidate: Candidate,
    pub(super) stream: StreamId,
    pub(super) position: StartAt,
    pub(super) is_live: bool,
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

impl Contact {
    /// What is still to be asked.
    pub(super) fn questions<'a>(&'a self, host: &'a str) -> impl Iterator<Item = StreamId> + 'a {
        self.candidates().flat_map(Candidate::probes).filter_map(move |probe| probe.question(host))
    }

    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.live.iter().chain(&self.siblings)
    }

    /// Takes the answers that have come; gives whether all are there.
    pub(super) fn answer(&mut self, host: &str, answers: &HashMap<StreamId, Option<u64>>) -> bool {
        let mut is_complete = true;
        for candidate in self.live.iter_mut().chain(&mut self.siblings) {
            for probe in std::iter::once(&mut candidate.own).chain(&mut candidate.copies) {
                if let Some(stream) = probe.question(host) {
                    match answers.get(&stream) {
                        Some(position) => probe.answer(stream, *position),
                        None => is_complete = false,
                    }
                }
                is_complete &= probe.free.is_some();
            }
        }
        is_complete
    }

    /// Decides, once every answer is there.
    pub(super) fn resolve(self) -> Vec<Begin> {
        let is_live_known = self.live.as_ref().is_some_and(|live| live.own.known.is_some());
        let known_ages = self.known_ages();
        let is_known = is_live_known || !known_ages.is_empty();
        let known_heads: Vec<Head> = self
            .candidates()
            .filter(|candidate| candidate.known().is_some())
            .chain(&self.live)
            .map(|candidate| candidate.head.clone())
            .collect();
        let live_known = self.live.as_ref().and_then(|live| live.own.known);
        let wants_unknown = |candidate: &Candidate| {
            let is_newer = candidate.place.age().may_follow(&known_ages);
            let is_copy = known_heads.contains(&candidate.head);
            !is_copy && ((!is_live_known && is_newer) || (self.wants_all && !is_known))
        };
        let mut begins: Vec<Begin> = self
            .siblings
            .into_iter()
            .filter_map(|candidate| match candidate.known() {
                // A copy of what the live file still holds is no part of its own.
                known @ Some(_) if known == live_known => None,
                // One that is read to its end may still have a writer that has not reopened.
                Some((stream, position)) => (position <= candidate.size)
                    .then_some((stream, StartAt::Known(position)))
                    .map(|at| (candidate, at)),
                None if wants_unknown(&candidate) => {
                    let stream = candidate.free();
                    Some((candidate, (stream, StartAt::Zero)))
                }
                None => None,
            })
            .map(|(candidate, (stream, position))| Begin {
                candidate,
                stream,
                position,
                is_live: false,
            })
            .collect();
        begins.reverse();
        begins.extend(self.live.map(|live| begin_live(live, self.policy, is_known)));
        begins
    }

    fn known_ages(&self) -> Vec<Age> {
        let known = self.siblings.iter().filter(|candidate| candidate.known().is_some());
        known.map(|candidate| candidate.place.age()).chain(self.known_age).collect()
    }
}

fn begin_live(candidate: Candidate, policy: Policy, is_known: bool) -> Begin {
    let free = candidate.free();
    let (stream, position) = match (candidate.own.known, policy) {
        (Some((stream, position)), Policy::Start | Policy::Recent(_)) => {
            (stream, StartAt::Known(position))
        }
        (None, Policy::Recent(recent)) if !is_known => (free, StartAt::Recent(recent)),
        _ => (free, StartAt::Zero),
    };
    Begin { candidate, stream, position, is_live: true }
}
