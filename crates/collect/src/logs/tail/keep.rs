//! Deleted logs that the hub does not take: their rest is copied, their file closed.
//!
//! As long as somebody has a deleted file open its space is not free. A log that is deleted while
//! the hub is away would hold its disk for as long, so after a while, or when the file system is
//! nearly full, its rest goes to a `rest` file. If that has no room either and the disk is nearly
//! full, the lines are given up, and the gap is a row.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Micros, StreamId};

use super::content::Content;
use super::file::{LAST_BYTES, Seen, TailFile};
use super::rest::{BLOCK_BYTES, Description, Kept, RestWriter};
use super::types::{Gap, GapReason, NewStream, TailEvent};
use super::{Tailer, label};

/// Blocks that are copied between two looks at everything else.
const BLOCKS_AT_ONCE: usize = 16;
/// After there was no room: when it is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(60);

/// When rests of deleted logs are kept, and where.
#[derive(Clone, Debug)]
pub struct RestOptions {
    /// The directory of rests, which is made when it is needed.
    pub dir: PathBuf,
    /// Bytes of all rests at most.
    pub limit_bytes: u64,
    /// A deleted log may hold its space for this long.
    pub after: Duration,
    /// Where more than this part of the file system is used it may not; percent.
    pub used_percent: u64,
}

/// Rests that are there.
#[derive(Debug, Default)]
pub(super) struct Rests {
    is_read: bool,
    /// Bytes of all of them.
    bytes: u64,
    /// Found at the start; the hub has to say where they stand.
    found: Vec<(Description, Kept)>,
    is_asked: bool,
}

/// A copy under way.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    writer: Option<RestWriter>,
    retry_at: Option<Micros>,
}

impl Keeping {
    /// Whether a copy is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.writer.is_some()
    }
}

/// What became of a step.
enum Step {
    More,
    Done,
    /// What is left does not fit.
    NoRoom(io::Error),
}

impl Tailer {
    /// Rests that an earlier agent left, and the questions about them.
    pub(super) fn rest_questions(&mut self) -> Vec<NewStream> {
        if !std::mem::replace(&mut self.rests.is_read, true) {
            self.find_rests();
        }
        if std::mem::replace(&mut self.rests.is_asked, true) {
            return Vec::new();
        }
        let question = |(description, _): &(Description, Kept)| NewStream {
            stream: description.stream,
            path: label(&description.path),
            source: Arc::new(description.source.clone()),
            existed_at_start: true,
        };
        self.rests.found.iter().map(question).collect()
    }

    fn find_rests(&mut self) {
        let Some(options) = &self.options.rests else { return };
        let entries = options.dir.read_dir().into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "rest"));
        paths.sort();
        for path in paths {
            match Kept::open(&path) {
                Ok(found) => {
                    self.rests.bytes += found.1.stored_bytes;
                    self.rests.found.push(found);
                }
                Err(error) => self.event(TailEvent::BadRest { path, why: error.to_string() }),
            }
        }
    }

    /// The hub's answer about a rest; gives whether it was about one.
    pub(super) fn begin_rest(&mut self, stream: StreamId, answer: Option<u64>) -> bool {
        let is_it = |(description, _): &(Description, Kept)| description.stream == stream;
        let Some(at) = self.rests.found.iter().position(is_it) else { return false };
        let (description, mut kept) = self.rests.found.swap_remove(at);
        let position = answer.unwrap_or(description.acknowledged);
        if position >= description.size {
            self.remove_rest(kept);
            return true;
        }
        let now = self.scanned_at.unwrap_or_default();
        let Description { size, place, head, path, source, .. } = description;
        let mut seen = Seen::nothing(position, now);
        // By these a copy of the log is told from another one that began alike.
        let count = LAST_BYTES.min(usize::try_from(position).unwrap_or(LAST_BYTES));
        let mut last_bytes = vec![0; count];
        if kept.read_at(&mut last_bytes, position - count as u64).is_ok_and(|read| read == count) {
            seen.last_bytes = last_bytes;
        }
        let file = TailFile {
            content: Content::Kept(kept),
            path: label(&path),
            at: path.as_path().into(),
            multiline: self.multiline_of(&path),
            source: Arc::new(source),
            place,
            head,
            stream,
            position,
            acknowledged: position,
            size,
            is_rotated: true,
            is_known: answer.is_some(),
            waits_for: Vec::new(),
            registration: None,
            is_backfill: false,
            seen,
        };
        self.insert(file);
        true
    }

    /// The hub has all of a rest.
    pub(super) fn remove_rest(&mut self, kept: Kept) {
        self.rests.bytes = self.rests.bytes.saturating_sub(kept.stored_bytes);
        kept.remove();
    }

    /// Keeps the rest of a file if it is deleted and holds its space for too long; a few blocks at
    /// a time.
    pub(super) fn keep_rest(&mut self, key: u64, now: Micros) {
        let Some(options) = self.options.rests.clone() else { return };
        let quiet_for = self.options.keep_deleted.min(options.after);
        let Some(file) = self.files.get_mut(&key) else { return };
        let is_held = file.seen.is_deleted
            && file.is_rotated
            && !file.content.is_packed()
            && file.acknowledged < file.size
            && now >= file.seen.grown_at + quiet_for;
        let is_put_off = file.seen.keeping.retry_at.is_some_and(|at| now < at);
        if !is_held || is_put_off {
            return;
        }
        let is_pressing = is_nearly_full(&file.content, options.used_percent);
        if !file.seen.keeping.is_under_way() {
            if !is_pressing && now < file.seen.grown_at + options.after {
                return;
            }
            match begin(file, &options.dir) {
                Ok(writer) => {
                    self.rests.bytes += writer.stored_bytes;
                    file.seen.keeping.writer = Some(writer);
                }
                Err(error) => return self.no_room(key, &error, is_pressing, now),
            }
        }
        let room = options.limit_bytes.saturating_sub(self.rests.bytes);
        match step(file, room, &mut self.rests.bytes) {
            Step::More => {}
            Step::Done => self.keep(key, now),
            Step::NoRoom(error) => self.no_room(key, &error, is_pressing, now),
        }
    }

    /// What was copied becomes the file's content, and the file is closed.
    fn keep(&mut self, key: u64, now: Micros) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let Some(writer) = file.seen.keeping.writer.take() else { return };
        let (copied, stored_bytes) = (writer.next, writer.stored_bytes);
        match writer.finish() {
            Ok(kept) => {
                let event = TailEvent::Kept {
                    path: file.path.clone(),
                    stream: file.stream,
                    bytes: file.size.saturating_sub(file.acknowledged),
                    stored_bytes,
                    lost_bytes: file.size.saturating_sub(copied.max(file.position)),
                };
                file.content = Content::Kept(kept);
                file.seen.is_deleted = false;
                file.seen.stalled_size = None;
                // The next file may have the same inode.
                let inode = file.place.inode();
                if self.by_inode.get(&inode) == Some(&key) {
                    self.by_inode.remove(&inode);
                }
                self.watches.remove(key);
                self.event(event);
                self.queue(key);
            }
            Err(error) => {
                self.rests.bytes = self.rests.bytes.saturating_sub(stored_bytes);
                self.no_room(key, &error, false, now);
            }
        }
    }

    /// What is left does not fit: it holds its space on, or, where that is short, it is lost.
    fn no_room(&mut self, key: u64, error: &io::Error, is_pressing: bool, now: Micros) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let is_begun = file.seen.keeping.is_under_way();
        if is_pressing && is_begun {
            return self.keep(key, now);
        }
        if is_pressing {
            // Not even a note of it could be written.
            let gap = Gap {
                path: file.path.clone(),
                stream: file.stream,
                from: file.position,
                to: Some(file.size),
                lost_bytes: file.size.saturating_sub(file.position),
                is_exact: true,
                unwatched: None,
                reason: GapReason::Gone,
            };
            self.forget(key);
            return self.gap(gap);
        }
        if let Some(writer) = file.seen.keeping.writer.take() {
            self.rests.bytes = self.rests.bytes.saturating_sub(writer.stored_bytes);
            writer.abandon();
        }
        file.seen.keeping.retry_at = Some(now + RETRY_EVERY);
        let (path, why) = (file.path.clone(), error.to_string());
        self.event(TailEvent::NotKept { path, why });
    }

    /// The file is at its end, or gone: what was being copied of it is not needed.
    pub(super) fn end_keeping(&mut self, file: &mut TailFile) {
        if let Some(writer) = file.seen.keeping.writer.take() {
            self.rests.bytes = self.rests.bytes.saturating_sub(writer.stored_bytes);
            writer.abandon();
        }
    }
}

fn begin(file: &TailFile, dir: &Path) -> io::Result<RestWriter> {
    let description = Description {
        stream: file.stream,
        acknowledged: file.acknowledged,
        size: file.size,
        place: file.place,
        head: file.head.clone(),
        path: file.at.to_path_buf(),
        source: file.source.as_ref().clone(),
    };
    let first = file.acknowledged.saturating_sub(LAST_BYTES as u64);
    RestWriter::begin(dir, description, first)
}

/// Copies a few blocks.
fn step(file: &mut TailFile, room: u64, all_bytes: &mut u64) -> Step {
    let Some(writer) = &mut file.seen.keeping.writer else { return Step::Done };
    let mut room = room;
    let mut bytes = vec![0; BLOCK_BYTES];
    for _ in 0..BLOCKS_AT_ONCE {
        if writer.next >= writer.size() {
            return Step::Done;
        }
        let wanted = usize::try_from(writer.size() - writer.next).unwrap_or(BLOCK_BYTES);
        let wanted = wanted.min(BLOCK_BYTES);
        let read = match file.content.read_at(&mut bytes[..wanted], writer.next) {
            Ok(0) => return Step::Done,
            Ok(read) => read,
            Err(error) => return Step::NoRoom(error),
        };
        let block = match writer.pack(&bytes[..read]) {
            Ok(block) => block,
            Err(error) => return Step::NoRoom(error),
        };
        if block.len() as u64 > room {
            return Step::NoRoom(io::Error::other("`agent.rest_bytes` is reached"));
        }
        if let Err(error) = writer.add(&block, read) {
            return Step::NoRoom(error);
        }
        room -= block.len() as u64;
        *all_bytes += block.len() as u64;
    }
    Step::More
}

/// Whether more than `percent` of what users may have of the file system is used.
fn is_nearly_full(content: &Content, percent: u64) -> bool {
    rustix::fs::fstatvfs(content.file()).is_ok_and(|fs| {
        let used = fs.f_blocks.saturating_sub(fs.f_bfree);
        let all = used.saturating_add(fs.f_bavail);
        all > 0 && used.saturating_mul(100) > all.saturating_mul(percent)
    })
}
