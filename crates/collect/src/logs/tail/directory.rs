//! What the hub knows of the files that begin with one line: which they are, and how far each of
//! their contents is. `docs/formats/stream-identity.md`, the directory of a head.

use std::collections::HashMap;

use weir_tables::StreamId;

use super::identity::{Entry, Head, directory_id, stream_id};

/// Contents with the same first line in the same file that are told apart.
const GENERATION_LIMIT: u32 = 1000;
/// Files with the same first line that the hub remembers; the oldest is forgotten for the newest.
pub(super) const SLOT_LIMIT: u32 = 32;
/// Streams of one kind that are asked about at once: first, and when these are all known.
const ASKED: (u32, u32) = (2, 16);

/// Streams that are numbered from 0, asked about in steps until one is not known.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    asked: u32,
    pub(super) known: Vec<(u32, StreamId, u64)>,
    is_done: bool,
}

impl Ladder {
    fn questions(&self, id: impl Fn(u32) -> StreamId) -> Vec<StreamId> {
        if self.is_done { Vec::new() } else { (0..self.asked.max(ASKED.0)).map(id).collect() }
    }

    /// Takes answers, if all are there.
    fn answer(
        &mut self,
        limit: u32,
        answers: &HashMap<StreamId, Option<u64>>,
        id: impl Fn(u32) -> StreamId,
    ) {
        self.asked = self.asked.max(ASKED.0);
        while !self.is_done {
            let ids = (0..self.asked).map(|n| (n, id(n)));
            let Some(all) = ids
                .map(|(n, id)| Some((n, id, *answers.get(&id)?)))
                .collect::<Option<Vec<(u32, StreamId, Option<u64>)>>>()
            else {
                return;
            };
            self.is_done = self.asked >= limit || all.last().is_some_and(|(.., at)| at.is_none());
            self.known = all.into_iter().filter_map(|(n, id, at)| Some((n, id, at?))).collect();
            self.asked = (self.asked + ASKED.1).min(limit);
        }
    }
}

/// What the hub knows of the files that begin with one line.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) head: Head,
    pub(super) slots: Ladder,
    /// By a file's mark.
    files: Vec<(u64, Ladder)>,
}

impl Directory {
    pub(super) fn new(head: Head) -> Self {
        Self { head, slots: Ladder::default(), files: Vec::new() }
    }

    pub(super) fn add(&mut self, mark: u64) {
        if !self.files.iter().any(|(known, _)| *known == mark) {
            self.files.push((mark, Ladder::default()));
        }
    }

    pub(super) fn questions(&self, host: &str) -> Vec<StreamId> {
        let mut all = self.slots.questions(|slot| directory_id(host, &self.head, slot));
        for (mark, ladder) in &self.files {
            all.extend(ladder.questions(|n| stream_id(host, *mark, &self.head, n)));
        }
        all
    }

    pub(super) fn answer(&mut self, host: &str, answers: &HashMap<StreamId, Option<u64>>) -> bool {
        let head = &self.head;
        self.slots.answer(SLOT_LIMIT, answers, |slot| directory_id(host, head, slot));
        if self.slots.is_done {
            for mark in self.entries().map(|entry| entry.mark).collect::<Vec<_>>() {
                self.add(mark);
            }
        }
        for (mark, ladder) in &mut self.files {
            ladder.answer(GENERATION_LIMIT, answers, |n| stream_id(host, *mark, &self.head, n));
        }
        self.slots.is_done && self.files.iter().all(|(_, ladder)| ladder.is_done)
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.slots.known.iter().map(|(.., position)| Entry::of_position(*position))
    }

    /// Streams of the files that begin so, the newest content of each file first.
    pub(super) fn streams(&self, mark: u64) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let of_file = self.files.iter().filter(move |(known, _)| *known == mark);
        of_file.flat_map(|(_, ladder)| ladder.known.iter().rev().map(|(_, id, at)| (*id, *at)))
    }

    /// All of them, those of the newest file first.
    pub(super) fn all_streams(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let mut entries: Vec<Entry> = self.entries().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        entries.into_iter().flat_map(|entry| self.streams(entry.mark))
    }

    /// The first generation of a file that nobody knows.
    pub(super) fn free(
        &self,
        host: &str,
        mark: u64,
        taken: &impl Fn(StreamId) -> bool,
    ) -> StreamId {
        let known = self.files.iter().find(|(known, _)| *known == mark);
        let last = known.and_then(|(_, ladder)| Some(ladder.known.last()?.0 + 1));
        let mut free =
            (last.unwrap_or(0)..).map(|generation| stream_id(host, mark, &self.head, generation));
        free.find(|id| !taken(*id)).expect("generations do not end")
    }
}
