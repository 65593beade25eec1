//! Directory of a head at the hub: the files that begin with one line, and the position of each of
//! their contents. `docs/formats/stream-identity.md`, the directory of a head.

use std::collections::HashMap;

use weir_tables::StreamId;

use super::fingerprint::{FileHead, SlotEntry, directory_id, stream_id};

/// Maximum number of contents with the same first line in one file.
const GENERATION_LIMIT: u32 = 1000;
/// Number of files with the same first line that the hub remembers.
pub(super) const SLOT_LIMIT: u32 = 32;
/// Streams of one kind that are queried at once: first, and whenever all are known.
const QUERIED: (u32, u32) = (2, 16);

/// Streams numbered from 0, queried in steps until one is unknown.
#[derive(Debug, Default)]
pub(super) struct NumberedStreams {
    queried: u32,
    pub(super) known: Vec<(u32, StreamId, u64)>,
    is_done: bool,
}

impl NumberedStreams {
    fn queries(&self, id: impl Fn(u32) -> StreamId) -> Vec<StreamId> {
        if self.is_done { Vec::new() } else { (0..self.queried.max(QUERIED.0)).map(id).collect() }
    }

    /// Evaluates the answers, if all are there.
    fn answer(
        &mut self,
        limit: u32,
        answers: &HashMap<StreamId, Option<u64>>,
        id: impl Fn(u32) -> StreamId,
    ) {
        self.queried = self.queried.max(QUERIED.0);
        while !self.is_done {
            let ids = (0..self.queried).map(|n| (n, id(n)));
            let Some(all) = ids
                .map(|(n, id)| Some((n, id, *answers.get(&id)?)))
                .collect::<Option<Vec<(u32, StreamId, Option<u64>)>>>()
            else {
                return;
            };
            self.is_done = self.queried >= limit || all.last().is_some_and(|(.., at)| at.is_none());
            self.known = all.into_iter().filter_map(|(n, id, at)| Some((n, id, at?))).collect();
            self.queried = (self.queried + QUERIED.1).min(limit);
        }
    }
}

/// Files at the hub that begin with one line.
#[derive(Debug)]
pub(super) struct HeadDirectory {
    pub(super) head: FileHead,
    pub(super) slots: NumberedStreams,
    files: Vec<(u64, NumberedStreams)>,
}

impl HeadDirectory {
    pub(super) fn new(head: FileHead) -> Self {
        Self { head, slots: NumberedStreams::default(), files: Vec::new() }
    }

    pub(super) fn add(&mut self, mark: u64) {
        if !self.files.iter().any(|(known, _)| *known == mark) {
            self.files.push((mark, NumberedStreams::default()));
        }
    }

    pub(super) fn queries(&self, host: &str) -> Vec<StreamId> {
        let mut all = self.slots.queries(|slot| directory_id(host, &self.head, slot));
        for (mark, ladder) in &self.files {
            all.extend(ladder.queries(|n| stream_id(host, *mark, &self.head, n)));
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

    fn entries(&self) -> impl Iterator<Item = SlotEntry> + '_ {
        self.slots.known.iter().map(|(.., position)| SlotEntry::of_position(*position))
    }

    /// Streams of a file, the newest content first.
    pub(super) fn streams(&self, mark: u64) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let of_file = self.files.iter().filter(move |(known, _)| *known == mark);
        of_file.flat_map(|(_, ladder)| ladder.known.iter().rev().map(|(_, id, at)| (*id, *at)))
    }

    /// All streams, those of the newest file first.
    pub(super) fn all_streams(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let mut entries: Vec<SlotEntry> = self.entries().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        entries.into_iter().flat_map(|entry| self.streams(entry.mark))
    }

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
