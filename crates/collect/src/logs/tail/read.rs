//! The open files of a [`Tailer`](super::Tailer): indexes, checks, and the order of reads.
//!
//! A file is found by key, stream, inode, or the path it is watched under. A file that grew in the
//! last ten seconds is checked at each scan, others once a second or on an inotify event.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Micros, StreamId};

use super::file::{ReadOutcome, TailFile};
use super::idle::{InotifyWatches, TRUST};
use super::schedule::{QUIET_AFTER, Schedule};
use super::types::TailOptions;

const QUIET_FILE_EVERY: Duration = Duration::from_secs(1);
const BACKFILL_TURN: u32 = 8;
/// Backfill may use 1/`BACKFILL_SHARE` of the bytes in flight.
const BACKFILL_SHARE: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: HashMap<u64, TailFile>,
    by_stream: HashMap<StreamId, u64>,
    by_inode: HashMap<(u64, u64), u64>,
    by_path: HashMap<Arc<str>, Vec<u64>>,
    next_key: u64,
    watches: InotifyWatches,
    due: Schedule<u64>,
    ready: VecDeque<u64>,
    /// Backfill files by the time of their last write, oldest last.
    backfill: Vec<(u64, u64)>,
    /// Turns of followed files since the last backfill turn.
    turns: u32,
    /// Bytes in flight of followed files, and of backfill files.
    in_flight: [u64; 2],
    spare_buffer: Vec<u8>,
}

impl OpenFiles {
    pub(super) fn get(&self, key: u64) -> Option<&TailFile> {
        self.files.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut TailFile> {
        self.files.get_mut(&key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &TailFile)> {
        self.files.iter().map(|(key, file)| (*key, file))
    }

    pub(super) fn has_stream(&self, stream: StreamId) -> bool {
        self.by_stream.contains_key(&stream)
    }

    pub(super) fn has_inode(&self, inode: (u64, u64)) -> bool {
        self.by_inode.contains_key(&inode)
    }

    pub(super) fn at_path(&self, path: &str) -> impl Iterator<Item = &TailFile> {
        let keys = self.by_path.get(path).map_or(&[][..], Vec::as_slice);
        keys.iter().filter_map(|key| self.files.get(key))
    }

    pub(super) fn insert(&mut self, file: TailFile) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.by_stream.insert(file.stream, key);
        self.by_inode.insert(file.identity.inode(), key);
        self.by_path.entry(file.path.clone()).or_default().push(key);
        if file.is_backfill {
            self.backfill.push((file.identity.modified_ns, key));
            self.backfill.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.due.add(file.observed.due_at, key);
        self.files.insert(key, file);
        self.queue(key);
        key
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<TailFile> {
        let file = self.files.remove(&key)?;
        self.by_stream.remove(&file.stream);
        self.watches.remove(key);
        self.remove_inode(file.identity.inode(), key);
        self.remove_path(&file.path, key);
        self.in_flight[usize::from(file.is_backfill)] -= file.position - file.acknowledged;
        Some(file)
    }

    pub(super) fn restore_in_flight(&mut self, removed: &TailFile) {
        self.in_flight[usize::from(removed.is_backfill)] += removed.position - removed.acknowledged;
    }

    /// Releases the inode of a file whose descriptor was closed; the next file may reuse it.
    pub(super) fn release_inode(&mut self, key: u64) {
        if let Some(inode) = self.files.get(&key).map(|file| file.identity.inode()) {
            self.remove_inode(inode, key);
        }
        self.watches.remove(key);
    }

    fn remove_inode(&mut self, inode: (u64, u64), key: u64) {
        if self.by_inode.get(&inode) == Some(&key) {
            self.by_inode.remove(&inode);
        }
    }

    fn remove_path(&mut self, path: &str, key: u64) {
        if let Some(keys) = self.by_path.get_mut(path) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.by_path.remove(path);
            }
        }
    }

    /// Handles a file that appeared at a watched path: `None` when it is not open. Returns the key
    /// if it was rotated away and is back; a file found under a second name keeps its first one.
    pub(super) fn readmit(
        &mut self,
        inode: (u64, u64),
        (label, at): (&Arc<str>, &Arc<Path>),
        now: Micros,
    ) -> Option<Option<u64>> {
        let key = *self.by_inode.get(&inode)?;
        let file = self.files.get_mut(&key)?;
        if !std::mem::replace(&mut file.is_rotated, false) {
            return Some(None);
        }
        let previous = std::mem::replace(&mut file.path, label.clone());
        file.at = at.clone();
        self.remove_path(&previous, key);
        self.by_path.entry(label.clone()).or_default().push(key);
        self.hasten(key, now);
        Some(Some(key))
    }

    /// Files whose check is due, including files with inotify events.
    pub(super) fn take_due(&mut self, now: Micros) -> Vec<u64> {
        let mut due = self.watches.take();
        for key in &due {
            if let Some(file) = self.files.get_mut(key) {
                file.observed.is_watched = false;
            }
        }
        let files = &self.files;
        let planned = self.due.take(now).filter(|(at, key)| {
            // A file that was rescheduled has outdated entries.
            files.get(key).is_some_and(|file| file.observed.due_at == *at)
        });
        due.extend(planned.map(|(_, key)| key));
        due.sort_unstable();
        due.dedup();
        due
    }

    pub(super) fn plan(&mut self, key: u64, now: Micros) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let is_busy =
            now < file.observed.grown_at + QUIET_AFTER || file.observed.copy.is_under_way();
        let every = if is_busy {
            Duration::ZERO
        } else if file.observed.is_watched && file.observed.shrunk_since.is_none() {
            TRUST
        } else {
            QUIET_FILE_EVERY
        };
        file.observed.due_at = now + every;
        self.due.add(file.observed.due_at, key);
    }

    pub(super) fn hasten(&mut self, key: u64, now: Micros) {
        if let Some(file) = self.files.get_mut(&key) {
            file.observed.due_at = now;
            self.due.add(now, key);
        }
    }

    /// Makes all checks due now: after a clock step back the planned times mean nothing.
    pub(super) fn hasten_all(&mut self, now: Micros) {
        self.due.clear();
        for (key, file) in &mut self.files {
            file.observed.due_at = now;
            self.due.add(now, *key);
        }
    }

    /// Leaves a quiet file to inotify: completely acknowledged, it changes only by an event.
    pub(super) fn watch_if_idle(&mut self, key: u64, now: Micros) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let is_at_end = file.acknowledged == file.size && !file.is_rotated;
        if is_at_end && now >= file.observed.grown_at + QUIET_AFTER {
            file.observed.is_watched = self.watches.add(key, file.content.file());
        }
    }

    pub(super) fn queue(&mut self, key: u64) {
        if let Some(file) = self.files.get_mut(&key)
            && !file.is_backfill
            && file.may_be_read()
            && !std::mem::replace(&mut file.observed.is_queued, true)
        {
            self.ready.push_back(key);
        }
    }

    /// The next file to read. Followed files come first; backfill gets one turn in
    /// [`BACKFILL_TURN`], or all idle turns, and a share of the bytes in flight, oldest file first.
    pub(super) fn next_to_read(&mut self, now: Micros, options: &TailOptions) -> Option<u64> {
        if self.ready.is_empty() || self.turns >= BACKFILL_TURN {
            let has_space = self.in_flight[1] < options.max_in_flight_bytes / BACKFILL_SHARE;
            self.backfill.retain(|(_, key)| self.files.contains_key(key));
            let readable = self.backfill.iter().rev().find(|(_, key)| {
                let file = self.files.get(key);
                file.is_some_and(|file| file.is_readable(now, options.half_line_after))
            });
            if let Some((_, key)) = readable
                && has_space
            {
                self.turns = 0;
                return Some(*key);
            }
        }
        self.turns += 1;
        self.ready.pop_front()
    }

    /// Reads the next lines of a file and queues it if there may be more; `None` if closed.
    pub(super) fn read(
        &mut self,
        key: u64,
        now: Micros,
        options: &TailOptions,
    ) -> Option<io::Result<ReadOutcome>> {
        let file = self.files.get_mut(&key)?;
        file.observed.is_queued = false;
        let buffer = std::mem::take(&mut self.spare_buffer);
        let sizes = (options.chunk_bytes, options.line_bytes);
        let outcome = file.read(now, sizes, options.half_line_after, buffer);
        match &outcome {
            Ok(ReadOutcome::Lines { chunk, is_more }) => {
                file.observed.error = None;
                self.in_flight[usize::from(file.is_backfill)] += chunk.to - chunk.from;
                if *is_more {
                    self.queue(key);
                }
            }
            Ok(ReadOutcome::Again) => self.queue(key),
            Ok(ReadOutcome::Nothing | ReadOutcome::Replaced) | Err(_) => {}
        }
        Some(outcome)
    }

    /// Keeps a larger buffer for the next read.
    pub(super) fn recycle(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() > self.spare_buffer.capacity() {
            self.spare_buffer = bytes;
        }
    }

    /// Marks a stream as durable up to `to`; false when no file of it is open.
    pub(super) fn acknowledge(&mut self, stream: StreamId, to: u64) -> bool {
        let Some(file) = self.by_stream.get(&stream).and_then(|key| self.files.get_mut(key)) else {
            return false;
        };
        let to = to.clamp(file.acknowledged, file.position);
        let is_new = !file.is_known && to > file.acknowledged;
        file.is_known |= is_new;
        self.in_flight[usize::from(file.is_backfill)] -= to - file.acknowledged;
        file.acknowledged = to;
        if is_new {
            let path = file.path.clone();
            self.release_waiting(&path);
        }
        true
    }

    /// Moves a stream back to `to`; false when no file of it is open.
    pub(super) fn rewind(&mut self, stream: StreamId, to: u64) -> bool {
        let Some(&key) = self.by_stream.get(&stream) else { return false };
        let Some(file) = self.files.get_mut(&key) else { return false };
        self.in_flight[usize::from(file.is_backfill)] -= file.position - file.acknowledged;
        file.rewind(to);
        self.queue(key);
        true
    }

    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight.iter().sum()
    }

    fn release_waiting(&mut self, path: &str) {
        for key in self.by_path.get(path).cloned().unwrap_or_default() {
            if self.files.get(&key).is_some_and(|file| !file.waits_for.is_empty()) {
                self.release(key);
                self.queue(key);
            }
        }
    }

    /// Removes streams from a file's waiting list that the hub knows or that are gone.
    pub(super) fn release(&mut self, key: u64) {
        let Some(file) = self.files.get_mut(&key).filter(|file| !file.waits_for.is_empty()) else {
            return;
        };
        let mut waits_for = std::mem::take(&mut file.waits_for);
        waits_for.retain(|stream| {
            let older = self.by_stream.get(stream).and_then(|key| self.files.get(key));
            older.is_some_and(|older| {
                !older.is_known && older.size > older.position.min(older.acknowledged)
            })
        });
        if let Some(file) = self.files.get_mut(&key) {
            file.waits_for = waits_for;
        }
    }

    /// Whether a rotated file is acknowledged, and its writer had time to reopen its log.
    pub(super) fn is_finished(&self, key: u64, now: Micros, options: &TailOptions) -> bool {
        let Some(file) = self.files.get(&key) else { return false };
        let keep = match (file.content.is_immutable(), file.observed.is_deleted) {
            (true, _) => Duration::ZERO,
            (false, true) => options.keep_deleted,
            (false, false) => options.keep_rotated,
        };
        file.is_rotated
            && file.acknowledged == file.position
            && file.position >= file.size
            && now >= file.observed.grown_at + keep
    }
}

#[cfg(test)]
impl OpenFiles {
    pub(super) fn values(&self) -> impl ExactSizeIterator<Item = &TailFile> {
        self.files.values()
    }

    pub(super) fn first_key(&self) -> u64 {
        *self.files.keys().next().expect("a test opened a file")
    }
}
