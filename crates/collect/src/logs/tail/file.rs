//! One open file: the next whole lines of it, and whether it is still the content that was begun.
//!
//! The check that the content is the same comes *after* the read: if the head, and the bytes before
//! the position, are unchanged then, the bytes read belong to it. Checked before, a truncation in
//! between would hand out bytes of the new content as the old's. The surprising thing: a file that
//! got shorter need not have been truncated. Network file systems show old attributes for some
//! seconds; those come with an old time of the last write, too.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use weir_tables::{LogSource, Micros, StreamId};

use super::contact::Registration;
use super::content::Content;
use super::identity::{Head, Place};
use super::keep::Keeping;
use super::types::{Chunk, StreamState};
use crate::logs::multiline::Multiline;

/// Bytes before the position that must stay the same: a content that grew beyond it while nobody
/// looked is told by them.
pub(super) const LAST_BYTES: usize = 64;

/// Bytes that one call passes over at most while it looks for the end of an overlong line.
const SKIP_LIMIT: u64 = 16 << 20;

/// A file whose stream is known.
#[derive(Debug)]
pub(super) struct TailFile {
    pub(super) content: Content,
    pub(super) path: Arc<str>,
    /// The path that it is watched under, which it may have left.
    pub(super) at: Arc<Path>,
    pub(super) source: Arc<LogSource>,
    pub(super) place: Place,
    pub(super) head: Head,
    pub(super) stream: StreamId,
    pub(super) position: u64,
    pub(super) acknowledged: u64,
    /// Of what is packed, one more than was read until its end is known.
    pub(super) size: u64,
    pub(super) is_rotated: bool,
    /// How its lines make events, if more than one can.
    pub(super) multiline: Option<Arc<Multiline>>,
    /// Whether the hub knows the stream.
    pub(super) is_known: bool,
    /// Older parts of the same log that the hub must know before this one is read: an older part
    /// that it does not know could not be told from one that was never wanted.
    pub(super) waits_for: Vec<StreamId>,
    /// Its entry in the directory of its head, while the hub does not have it.
    pub(super) registration: Option<Registration>,
    /// Whether it is read only because the past is wanted too.
    pub(super) is_backfill: bool,
    pub(super) seen: Seen,
}

/// What looks and reads have shown of a file.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Size at which a read found no whole line; nothing is tried until it changes.
    pub(super) stalled_size: Option<u64>,
    /// How far an overlong line or a hole is scanned already.
    pub(super) scanned: u64,
    pub(super) grown_at: Micros,
    pub(super) checked_at: Micros,
    /// When it is looked at next.
    pub(super) due_at: Micros,
    pub(super) changed_ns: i64,
    pub(super) modified_ns: i64,
    /// Since when it has been shorter than it was, without having been written.
    pub(super) shrunk_since: Option<Micros>,
    /// The last bytes before the position, at most [`LAST_BYTES`]; empty when they are not known.
    pub(super) last_bytes: Vec<u8>,
    /// After an error of reading: when opening it again was last tried.
    pub(super) reopened_at: Option<Micros>,
    pub(super) is_deleted: bool,
    pub(super) is_queued: bool,
    /// Whether it is left to inotify.
    pub(super) is_watched: bool,
    pub(super) error: Option<String>,
    /// What was last told of it.
    pub(super) told: Option<Told>,
    /// The copy of its rest, when it is deleted and the hub does not take it.
    pub(super) keeping: Keeping,
}

/// By which a status is known to be another one than the last.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) path: Arc<str>,
    numbers: [u64; 4],
    modified_ns: i64,
    state: StreamState,
}

impl Told {
    pub(super) fn of(file: &TailFile, lost_bytes: u64) -> Self {
        Self {
            path: file.path.clone(),
            numbers: [file.position, file.acknowledged, file.size, lost_bytes],
            modified_ns: file.seen.modified_ns,
            state: file.state(),
        }
    }
}

impl Seen {
    /// Nothing yet of what is read from `position` on.
    pub(super) fn nothing(position: u64, now: Micros) -> Self {
        Self { scanned: position, grown_at: now, checked_at: now, due_at: now, ..Self::default() }
    }
}

/// What a read gave.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// Lines; `is_more` when the file probably has further ones.
    Lines { chunk: Chunk, is_more: bool },
    /// No whole line there now.
    Nothing,
    /// Stopped in the middle of an overlong line; call again.
    Again,
    /// The content is another one than the stream's.
    Replaced,
}

/// What a look at the metadata gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// As before, or grown.
    Same,
    /// Its name or link count changed: look at the path.
    Moved,
    /// Shorter, but not than what was read.
    Cut { lost_bytes: u64 },
    /// Another content.
    Replaced,
}

impl TailFile {
    /// Reads the file's metadata. A file that is shorter than before, and neither written since nor
    /// of another head, is left alone for `stale_for`.
    pub(super) fn look(&mut self, now: Micros, stale_for: Duration) -> io::Result<Look> {
        let metadata = self.content.metadata()?;
        self.seen.is_deleted = metadata.nlink() == 0;
        let modified_ns = metadata.mtime().wrapping_mul(1_000_000_000) + metadata.mtime_nsec();
        let changed_ns = metadata.ctime().wrapping_mul(1_000_000_000) + metadata.ctime_nsec();
        if self.content.is_packed() {
            // It does not change; how long it is shows at its end.
            self.seen.modified_ns = modified_ns;
            self.size = self.content.known_size()?.unwrap_or(self.position + 1);
            return Ok(Look::Same);
        }
        if metadata.size() < self.size {
            let is_written = modified_ns > self.seen.modified_ns;
            if metadata.size() >= self.position
                && !self.seen.last_bytes.is_empty()
                && !self.is_replaced()?
            {
                // Cut behind what was read: room that was reserved and not needed, or unread lines.
                let unread = std::mem::replace(&mut self.size, metadata.size());
                let lost_bytes = unread.saturating_sub(self.seen.scanned.max(self.size));
                (self.seen.scanned, self.seen.stalled_size) = (self.position, None);
                return Ok(if is_written { Look::Cut { lost_bytes } } else { Look::Same });
            }
            let since = *self.seen.shrunk_since.get_or_insert(now);
            let is_replaced = is_written
                || now >= since + stale_for
                || self.head.is_other(&mut self.content).unwrap_or(false);
            return Ok(if is_replaced { Look::Replaced } else { Look::Same });
        }
        self.seen.checked_at = now;
        self.seen.shrunk_since = None;
        let is_grown = metadata.size() > self.size;
        if is_grown {
            self.size = metadata.size();
            self.seen.grown_at = now;
        }
        self.seen.modified_ns = modified_ns;
        let is_touched = std::mem::replace(&mut self.seen.changed_ns, changed_ns) != changed_ns;
        let is_written = changed_ns == modified_ns;
        if is_touched && !is_grown {
            if is_written && self.is_replaced()? {
                return Ok(Look::Replaced);
            }
            // Room that was reserved may have been written to: then the size stays as it is.
            self.seen.stalled_size = None;
        }
        Ok(if is_touched && !is_written { Look::Moved } else { Look::Same })
    }

    /// Whether the hub knows all that it must before, and the size can be believed.
    pub(super) fn may_be_read(&self) -> bool {
        self.waits_for.is_empty() && self.registration.is_none() && self.seen.shrunk_since.is_none()
    }

    /// Whether a read may give something.
    pub(super) fn is_readable(&self, now: Micros, half_line_after: Duration) -> bool {
        self.may_be_read()
            && self.size > self.position
            && (self.seen.stalled_size != Some(self.size)
                || self.is_ended(now, half_line_after)
                || self.has_whole_event(now))
    }

    /// Whether the last line counts although its newline is missing.
    fn is_ended(&self, now: Micros, half_line_after: Duration) -> bool {
        self.content.is_packed() || (self.is_rotated && now >= self.seen.grown_at + half_line_after)
    }

    /// Whether the last event counts although no other one has begun behind it.
    fn has_whole_event(&self, now: Micros) -> bool {
        let timeout = self.multiline.as_ref().map(|multiline| multiline.timeout);
        timeout.is_some_and(|timeout| now >= self.seen.grown_at + timeout)
    }

    /// The next lines: at most `usual` bytes of them, or one line or event of at most `longest`.
    pub(super) fn read(
        &mut self,
        now: Micros,
        (usual, longest): (usize, usize),
        half_line_after: Duration,
        buffer: Vec<u8>,
    ) -> io::Result<ReadOutcome> {
        if let Some(to) = self.content.missing_until(self.position) {
            let ReadOutcome::Lines { mut chunk, is_more } = self.passed_over(Vec::new(), to) else {
                return Ok(ReadOutcome::Nothing);
            };
            chunk.is_lost = true;
            return Ok(ReadOutcome::Lines { chunk, is_more });
        }
        let mut limit = if self.multiline.is_some() { usual.max(longest) } else { usual };
        let mut bytes = self.fill(limit, buffer)?;
        if bytes.len() == limit && limit < longest && memchr::memrchr(b'\n', &bytes).is_none() {
            limit = longest;
            bytes = self.fill(limit, bytes)?;
        }
        if self.is_replaced()? {
            return Ok(ReadOutcome::Replaced);
        }
        let is_full = bytes.len() == limit;
        let end = self.position + bytes.len() as u64;
        self.size = self.size.max(end);
        if bytes.first() == Some(&0) {
            return self.skip_hole();
        }
        if let Some(line_end) = before_hole(&bytes) {
            return Ok(self.lines(bytes, line_end, true));
        }
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            let is_whole = self.is_ended(now, half_line_after) || self.has_whole_event(now);
            let length = self.whole_events(&bytes[..=newline], is_whole, is_full);
            if length == 0 {
                self.seen.stalled_size = Some(end);
                return Ok(ReadOutcome::Nothing);
            }
            return Ok(self.lines(bytes, length, is_full));
        }
        if is_full {
            return self.skip_overlong(bytes, self.is_ended(now, half_line_after));
        }
        self.seen.stalled_size = Some(end);
        if self.is_ended(now, half_line_after) && !bytes.is_empty() {
            let length = bytes.len();
            return Ok(self.lines(bytes, length, false));
        }
        Ok(ReadOutcome::Nothing)
    }

    fn fill(&mut self, limit: usize, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        buffer.clear();
        let position = self.position;
        let file = match &mut self.content {
            Content::Plain(file) => file,
            packed @ (Content::Packed(_) | Content::Kept(_)) => {
                buffer.resize(limit, 0);
                let length = packed.read_at(&mut buffer, position)?;
                buffer.truncate(length);
                self.size = packed.known_size()?.unwrap_or(position + length as u64 + 1);
                return Ok(buffer);
            }
        };
        let wanted = self.size.saturating_sub(position).clamp(limit.min(4096) as u64, limit as u64);
        let wanted = usize::try_from(wanted).expect("limited by a usize");
        buffer.reserve_exact(wanted);
        while buffer.len() < wanted {
            let offset = position + buffer.len() as u64;
            match rustix::io::pread(&*file, spare_capacity(&mut buffer), offset) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        buffer.truncate(limit);
        Ok(buffer)
    }

    /// Whether it holds another content than the one that was begun.
    pub(super) fn is_replaced(&mut self) -> io::Result<bool> {
        if self.content.is_packed() {
            return Ok(false);
        }
        let same =
            is_begun_alike(&mut self.content, &self.head, &self.seen.last_bytes, self.position)?;
        Ok(!same)
    }

    /// Whether `other` begins like this file, up to what was read of it.
    pub(super) fn is_copied_to(&self, other: &mut Content) -> bool {
        is_begun_alike(other, &self.head, &self.seen.last_bytes, self.position).unwrap_or(false)
    }

    /// Goes back to `to`.
    pub(super) fn rewind(&mut self, to: u64) {
        self.position = to.min(self.size);
        self.acknowledged = self.position;
        self.seen.scanned = self.position;
        self.seen.stalled_size = None;
        self.seen.last_bytes.clear();
    }

    /// What it is doing.
    pub(super) fn state(&self) -> StreamState {
        match (&self.seen.error, self.is_rotated, self.seen.is_deleted) {
            (Some(_), ..) => StreamState::Failed,
            (None, true, true) => StreamState::Deleted,
            (None, true, false) => StreamState::Rotated,
            (None, false, _) => StreamState::Reading,
        }
    }

    /// When it was last written, if that is known.
    pub(super) fn modified(&self) -> Option<Micros> {
        (self.seen.modified_ns != 0).then_some(Micros(self.seen.modified_ns / 1000))
    }

    /// Bytes that are not acknowledged.
    pub(super) fn lag(&self) -> u64 {
        self.size.saturating_sub(self.acknowledged)
    }

    /// The length of those of `lines` that make whole events. One that fills a chunk is whole.
    fn whole_events(&self, lines: &[u8], is_whole: bool, is_full: bool) -> usize {
        let Some(multiline) = &self.multiline else { return lines.len() };
        let ends = multiline.ends(lines);
        match ends.as_slice() {
            [.., last, _] if is_full || !is_whole => *last,
            [_] if !is_full && !is_whole => 0,
            _ => lines.len(),
        }
    }

    fn lines(&mut self, mut bytes: Vec<u8>, length: usize, is_more: bool) -> ReadOutcome {
        bytes.truncate(length);
        let to = self.position + length as u64;
        self.seen.stalled_size = None;
        ReadOutcome::Lines { chunk: self.chunk(bytes, to), is_more }
    }

    fn chunk(&mut self, bytes: Vec<u8>, to: u64) -> Chunk {
        let from = std::mem::replace(&mut self.position, to);
        self.seen.scanned = to;
        self.seen.last_bytes.clear();
        if to == from + bytes.len() as u64 {
            self.seen
                .last_bytes
                .extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]);
        }
        let events = self.multiline.as_ref().map(|multiline| multiline.ends(&bytes));
        Chunk {
            stream: self.stream,
            path: self.path.clone(),
            source: self.source.clone(),
            from,
            to,
            skipped_bytes: (to - from) - bytes.len() as u64,
            bytes,
            is_lost: false,
            events,
            is_first: !self.is_known,
        }
    }

    /// A line longer than a chunk: its first bytes are the line, the rest is passed over once its
    /// end is there.
    fn skip_overlong(&mut self, bytes: Vec<u8>, is_ended: bool) -> io::Result<ReadOutcome> {
        let start = self.seen.scanned.max(self.position + bytes.len() as u64);
        match self.scan(start, |block| memchr::memchr(b'\n', block))? {
            Scan::Found(newline) => Ok(self.passed_over(bytes, newline + 1)),
            Scan::Limit => Ok(ReadOutcome::Again),
            Scan::End if is_ended => Ok(self.passed_over(bytes, self.seen.scanned)),
            Scan::End => {
                self.seen.stalled_size = Some(self.seen.scanned);
                Ok(ReadOutcome::Nothing)
            }
        }
    }

    /// A run of NUL bytes (a writer that does not append after a truncation, a power loss) is
    /// passed over once something follows it; until then it may be room that a writer has reserved.
    fn skip_hole(&mut self) -> io::Result<ReadOutcome> {
        let start = self.seen.scanned.max(self.position);
        match self.scan(start, |block| block.iter().position(|byte| *byte != 0))? {
            Scan::Found(data) => Ok(self.passed_over(Vec::new(), data)),
            Scan::Limit => Ok(ReadOutcome::Again),
            Scan::End => {
                self.seen.stalled_size = Some(self.seen.scanned);
                Ok(ReadOutcome::Nothing)
            }
        }
    }

    fn passed_over(&mut self, bytes: Vec<u8>, to: u64) -> ReadOutcome {
        self.seen.stalled_size = None;
        ReadOutcome::Lines { chunk: self.chunk(bytes, to), is_more: true }
    }

    /// Looks for a byte from `start` on and remembers how far it looked.
    fn scan(&mut self, start: u64, find: impl Fn(&[u8]) -> Option<usize>) -> io::Result<Scan> {
        let mut block = vec![0; 64 << 10];
        let mut at = start;
        while at < start + SKIP_LIMIT {
            let length = self.content.read_at(&mut block, at)?;
            if let Some(found) = find(&block[..length]) {
                return Ok(Scan::Found(at + found as u64));
            }
            at += length as u64;
            self.seen.scanned = at;
            self.size = self.size.max(at);
            if length < block.len() {
                return Ok(Scan::End);
            }
        }
        Ok(Scan::Limit)
    }
}

/// Whether a content has this head, and these bytes before a position as far as it reaches that.
fn is_begun_alike(
    content: &mut Content,
    head: &Head,
    last_bytes: &[u8],
    position: u64,
) -> io::Result<bool> {
    if !head.is_head_of(content)? {
        return Ok(false);
    }
    let mut bytes = [0; LAST_BYTES];
    let bytes = &mut bytes[..last_bytes.len()];
    let length = content.read_at(bytes, position - last_bytes.len() as u64)?;
    Ok(length < bytes.len() || *bytes == *last_bytes)
}

/// The end of the last line before a line that begins with NUL: what follows may be a hole.
fn before_hole(bytes: &[u8]) -> Option<usize> {
    let nul = memchr::memchr(0, bytes)?;
    let start = nul.saturating_sub(1);
    memchr::memmem::find(&bytes[start..], b"\n\0").map(|at| start + at + 1)
}

enum Scan {
    Found(u64),
    Limit,
    End,
}

/// The offset at which the last `recent` bytes of a file begin, moved on to the start of a line.
pub(super) fn recent_start(content: &mut Content, size: u64, recent: u64) -> io::Result<u64> {
    let Some(start) = size.checked_sub(recent).filter(|start| *start > 0) else { return Ok(0) };
    let mut block = vec![0; 1 << 20];
    let length = content.read_at(&mut block, start - 1)?;
    Ok(memchr::memchr(b'\n', &block[..length]).map_or(start, |newline| start + newline as u64))
}

/// Whether `position` can be where a reader of these lines stopped: within the file, behind a line
/// or a hole.
pub(super) fn is_line_start(content: &mut Content, position: u64) -> io::Result<bool> {
    let mut byte = [0];
    Ok(position == 0
        || (content.read_at(&mut byte, position - 1)? == 1 && matches!(byte, [b'\n' | 0])))
}
