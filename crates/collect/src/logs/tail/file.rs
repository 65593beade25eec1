//! One open file: its next complete lines, and whether its content is still the same.
//!
//! The check for replaced content comes *after* the read: if the head, and the bytes before the
//! position, are unchanged then, the bytes read belong to it. With the check before the read, a
//! truncation in between would attribute bytes of the new content to the old one. The surprising
//! thing: a file that got shorter need not have been truncated. Network file systems show outdated
//! attributes for some seconds; those have an older time of the last write, too.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use weir_tables::{LogSource, Micros, StreamId};

use super::content::Content;
use super::fingerprint::{FileHead, FileIdentity};
use super::remnant::RemnantCopy;
use super::resolve_stream::Registration;
use super::types::{Chunk, Gap, GapReason, StreamState};
use weir_multiline::Multiline;

/// Bytes before the position that must not change: they detect replaced content.
pub(super) const LAST_BYTES: usize = 64;

/// Maximum bytes per call that are searched for the end of an overlong line.
const SKIP_LIMIT: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct TailFile {
    pub(super) content: Content,
    pub(super) path: Arc<str>,
    /// Path that it is watched under, even after a rotation.
    pub(super) at: Arc<Path>,
    pub(super) source: Arc<LogSource>,
    pub(super) identity: FileIdentity,
    pub(super) head: FileHead,
    pub(super) stream: StreamId,
    pub(super) position: u64,
    pub(super) acknowledged: u64,
    /// Size of the content; for compressed content, one more than was read until its end is known.
    pub(super) size: u64,
    pub(super) is_rotated: bool,
    pub(super) multiline: Option<Arc<Multiline>>,
    pub(super) is_known: bool,
    /// Older parts of the same log that the hub must know before this one is read: otherwise an
    /// unknown older part could not be distinguished from one that was never wanted.
    pub(super) waits_for: Vec<StreamId>,
    /// Entry in the directory of its head, while the hub does not have it.
    pub(super) registration: Option<Registration>,
    pub(super) is_backfill: bool,
    pub(super) observed: ObservedState,
}

#[derive(Debug, Default)]
pub(super) struct ObservedState {
    /// Size at which a read found no complete line; no read is tried until it changes.
    pub(super) stalled_size: Option<u64>,
    /// Offset up to which an overlong line or a hole was searched.
    pub(super) scanned: u64,
    pub(super) grown_at: Micros,
    pub(super) checked_at: Micros,
    pub(super) due_at: Micros,
    pub(super) changed_ns: i64,
    pub(super) modified_ns: i64,
    /// Time since which the file is shorter than before, without having been written.
    pub(super) shrunk_since: Option<Micros>,
    /// Last bytes before the position, at most [`LAST_BYTES`]; empty if unknown.
    pub(super) last_bytes: Vec<u8>,
    /// Time of the last attempt to reopen the file after a read error.
    pub(super) reopened_at: Option<Micros>,
    pub(super) is_deleted: bool,
    pub(super) is_queued: bool,
    pub(super) is_watched: bool,
    pub(super) error: Option<String>,
    pub(super) reported: Option<ReportedStatus>,
    /// Copy of its remnant, if it is deleted and the hub does not accept its lines.
    pub(super) copy: RemnantCopy,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReportedStatus {
    pub(super) path: Arc<str>,
    numbers: [u64; 4],
    modified_ns: i64,
    state: StreamState,
}

impl ReportedStatus {
    pub(super) fn of(file: &TailFile, lost_bytes: u64) -> Self {
        Self {
            path: file.path.clone(),
            numbers: [file.position, file.acknowledged, file.size, lost_bytes],
            modified_ns: file.observed.modified_ns,
            state: file.state(),
        }
    }
}

impl ObservedState {
    pub(super) fn nothing(position: u64, now: Micros) -> Self {
        Self { scanned: position, grown_at: now, checked_at: now, due_at: now, ..Self::default() }
    }
}

#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// Lines; `is_more` when the file probably has further ones.
    Lines {
        chunk: Chunk,
        is_more: bool,
    },
    Nothing,
    /// Stopped within an overlong line; call again.
    Again,
    /// The content is no longer that of the stream.
    Replaced,
}

struct ReadExtent {
    /// Whether its last event is complete.
    is_whole: bool,
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataCheck {
    Same,
    /// Name or link count changed: check the path.
    Moved,
    /// Shorter, but not shorter than the position.
    Cut {
        lost_bytes: u64,
    },
    Replaced,
}

impl TailFile {
    /// Checks the metadata. A file that only became shorter is left alone for `stale_for`.
    pub(super) fn check_metadata(
        &mut self,
        now: Micros,
        stale_for: Duration,
    ) -> io::Result<MetadataCheck> {
        let metadata = self.content.metadata()?;
        self.observed.is_deleted = metadata.nlink() == 0;
        let modified_ns = metadata.mtime().wrapping_mul(1_000_000_000) + metadata.mtime_nsec();
        let changed_ns = metadata.ctime().wrapping_mul(1_000_000_000) + metadata.ctime_nsec();
        if self.content.is_immutable() {
            // The content does not change; its length is known at its end.
            self.observed.modified_ns = modified_ns;
            self.size = self.content.known_size()?.unwrap_or(self.position + 1);
            return Ok(MetadataCheck::Same);
        }
        if metadata.size() < self.size {
            let is_written = modified_ns > self.observed.modified_ns;
            if metadata.size() >= self.position
                && !self.observed.last_bytes.is_empty()
                && !self.is_replaced()?
            {
                // Cut behind the position: unneeded reserved space, or unread lines.
                let unread = std::mem::replace(&mut self.size, metadata.size());
                let lost_bytes = unread.saturating_sub(self.observed.scanned.max(self.size));
                (self.observed.scanned, self.observed.stalled_size) = (self.position, None);
                return Ok(if is_written {
                    MetadataCheck::Cut { lost_bytes }
                } else {
                    MetadataCheck::Same
                });
            }
            let since = *self.observed.shrunk_since.get_or_insert(now);
            let is_replaced = is_written
                || now >= since + stale_for
                || self.head.is_other(&mut self.content).unwrap_or(false);
            return Ok(if is_replaced { MetadataCheck::Replaced } else { MetadataCheck::Same });
        }
        self.observed.checked_at = now;
        self.observed.shrunk_since = None;
        let is_grown = metadata.size() > self.size;
        if is_grown {
            self.size = metadata.size();
            self.observed.grown_at = now;
        }
        self.observed.modified_ns = modified_ns;
        let is_touched = std::mem::replace(&mut self.observed.changed_ns, changed_ns) != changed_ns;
        let is_written = changed_ns == modified_ns;
        if is_touched && !is_grown {
            if is_written && self.is_replaced()? {
                return Ok(MetadataCheck::Replaced);
            }
            // Reserved space may have been written to without a change of the size.
            self.observed.stalled_size = None;
        }
        Ok(if is_touched && !is_written { MetadataCheck::Moved } else { MetadataCheck::Same })
    }

    /// Whether the hub knows the older parts, and the size is trustworthy.
    pub(super) fn may_be_read(&self) -> bool {
        self.waits_for.is_empty()
            && self.registration.is_none()
            && self.observed.shrunk_since.is_none()
    }

    pub(super) fn is_readable(&self, now: Micros, half_line_after: Duration) -> bool {
        self.may_be_read()
            && self.size > self.position
            && (self.observed.stalled_size != Some(self.size)
                || self.is_ended(now, half_line_after)
                || self.has_whole_event(now))
    }

    /// Whether the last line counts although its newline is missing.
    fn is_ended(&self, now: Micros, half_line_after: Duration) -> bool {
        self.content.is_immutable()
            || (self.is_rotated && now >= self.observed.grown_at + half_line_after)
    }

    /// Whether the last event counts although no other one has begun after it.
    fn has_whole_event(&self, now: Micros) -> bool {
        let timeout = self.multiline.as_ref().map(|multiline| multiline.timeout);
        timeout.is_some_and(|timeout| now >= self.observed.grown_at + timeout)
    }

    /// Reads the next lines: at most `usual` bytes, or one line or event of at most `longest`.
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
        let mut limit = match &self.multiline {
            Some(rule) if rule.is_for_reader() => usual.max(rule.max_bytes),
            Some(_) => usual.max(longest),
            None => usual,
        };
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
        if let Some(order) = self.head.byte_order() {
            if let Some(length) = order.whole_lines(self.position, &bytes) {
                return Ok(self.lines(bytes, length, is_full));
            }
        } else if bytes.first() == Some(&0) {
            return self.skip_hole();
        } else if let Some(line_end) = before_hole(&bytes) {
            return Ok(self.lines(bytes, line_end, true));
        } else if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            let is_whole = self.is_ended(now, half_line_after) || self.has_whole_event(now);
            let length =
                self.complete_events(&bytes[..=newline], &ReadExtent { is_whole, is_full });
            if length == 0 {
                self.observed.stalled_size = Some(end);
                return Ok(ReadOutcome::Nothing);
            }
            return Ok(self.lines(bytes, length, is_full));
        }
        if is_full {
            return self.skip_overlong(bytes, self.is_ended(now, half_line_after));
        }
        self.observed.stalled_size = Some(end);
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
            other @ (Content::Compressed(_) | Content::Remnant(_)) => {
                buffer.resize(limit, 0);
                let length = other.read_at(&mut buffer, position)?;
                buffer.truncate(length);
                self.size = other.known_size()?.unwrap_or(position + length as u64 + 1);
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

    pub(super) fn is_replaced(&mut self) -> io::Result<bool> {
        if self.content.is_immutable() {
            return Ok(false);
        }
        let same = is_begun_alike(
            &mut self.content,
            &self.head,
            &self.observed.last_bytes,
            self.position,
        )?;
        Ok(!same)
    }

    /// Whether `other` begins like this file, up to the position.
    pub(super) fn is_copied_to(&self, other: &mut Content) -> bool {
        is_begun_alike(other, &self.head, &self.observed.last_bytes, self.position).unwrap_or(false)
    }

    pub(super) fn rewind(&mut self, to: u64) {
        self.position = to.min(self.size);
        self.acknowledged = self.position;
        self.observed.scanned = self.position;
        self.observed.stalled_size = None;
        self.observed.last_bytes.clear();
    }

    pub(super) fn state(&self) -> StreamState {
        match (&self.observed.error, self.is_rotated, self.observed.is_deleted) {
            (Some(_), ..) => StreamState::Failed,
            (None, true, true) => StreamState::Deleted,
            (None, true, false) => StreamState::Rotated,
            (None, false, _) => StreamState::Reading,
        }
    }

    /// A gap from `from` on, where `lost_bytes` are known to be lost.
    pub(super) fn gap(&self, from: u64, reason: GapReason, lost_bytes: u64) -> Gap {
        Gap {
            path: self.path.clone(),
            stream: self.stream,
            from,
            to: None,
            lost_bytes,
            is_exact: false,
            unwatched: None,
            reason,
        }
    }

    pub(super) fn modified(&self) -> Option<Micros> {
        (self.observed.modified_ns != 0).then_some(Micros(self.observed.modified_ns / 1000))
    }

    pub(super) fn lag(&self) -> u64 {
        self.size.saturating_sub(self.acknowledged)
    }

    fn complete_events(&self, lines: &[u8], read: &ReadExtent) -> usize {
        let Some(multiline) = &self.multiline else { return lines.len() };
        let ReadExtent { is_whole, is_full } = *read;
        let (ends, is_closed) = multiline.ends_and_state(lines);
        match ends.as_slice() {
            _ if is_closed => lines.len(),
            [.., last, _] if is_full || !is_whole => *last,
            [_] if !is_full && !is_whole => 0,
            _ => lines.len(),
        }
    }

    fn lines(&mut self, mut bytes: Vec<u8>, length: usize, is_more: bool) -> ReadOutcome {
        bytes.truncate(length);
        let to = self.position + length as u64;
        self.observed.stalled_size = None;
        ReadOutcome::Lines { chunk: self.chunk(bytes, to), is_more }
    }

    fn chunk(&mut self, bytes: Vec<u8>, to: u64) -> Chunk {
        let from = std::mem::replace(&mut self.position, to);
        self.observed.scanned = to;
        self.observed.last_bytes.clear();
        if to == from + bytes.len() as u64 {
            self.observed
                .last_bytes
                .extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]);
        }
        // The parser joins pieces of containers' messages and lines of records.
        let rule = self.multiline.as_ref().filter(|multiline| !multiline.is_for_reader());
        let events = rule.map(|multiline| multiline.ends(&bytes));
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
            modified: self.modified().or_else(|| self.identity.modified()),
        }
    }

    /// Returns the beginning of an overlong line, and skips its remainder once its end is there.
    fn skip_overlong(&mut self, bytes: Vec<u8>, is_ended: bool) -> io::Result<ReadOutcome> {
        let start = self.observed.scanned.max(self.position + bytes.len() as u64);
        match self.scan(start, |block| memchr::memchr(b'\n', block))? {
            ScanOutcome::ResolvedCandidate(newline) => Ok(self.passed_over(bytes, newline + 1)),
            ScanOutcome::Limit => Ok(ReadOutcome::Again),
            ScanOutcome::End if is_ended => Ok(self.passed_over(bytes, self.observed.scanned)),
            ScanOutcome::End => {
                self.observed.stalled_size = Some(self.observed.scanned);
                Ok(ReadOutcome::Nothing)
            }
        }
    }

    /// Skips a run of NUL bytes (a writer without append after a truncation, a power loss) once
    /// data follows it; until then it may be reserved space.
    fn skip_hole(&mut self) -> io::Result<ReadOutcome> {
        let start = self.observed.scanned.max(self.position);
        match self.scan(start, |block| block.iter().position(|byte| *byte != 0))? {
            ScanOutcome::ResolvedCandidate(data) => Ok(self.passed_over(Vec::new(), data)),
            ScanOutcome::Limit => Ok(ReadOutcome::Again),
            ScanOutcome::End => {
                self.observed.stalled_size = Some(self.observed.scanned);
                Ok(ReadOutcome::Nothing)
            }
        }
    }

    fn passed_over(&mut self, bytes: Vec<u8>, to: u64) -> ReadOutcome {
        self.observed.stalled_size = None;
        ReadOutcome::Lines { chunk: self.chunk(bytes, to), is_more: true }
    }

    /// Searches from `start` on and remembers how far.
    fn scan(
        &mut self,
        start: u64,
        find: impl Fn(&[u8]) -> Option<usize>,
    ) -> io::Result<ScanOutcome> {
        let mut block = vec![0; 64 << 10];
        let mut at = start;
        while at < start + SKIP_LIMIT {
            let length = self.content.read_at(&mut block, at)?;
            if let Some(found) = find(&block[..length]) {
                return Ok(ScanOutcome::ResolvedCandidate(at + found as u64));
            }
            at += length as u64;
            self.observed.scanned = at;
            self.size = self.size.max(at);
            if length < block.len() {
                return Ok(ScanOutcome::End);
            }
        }
        Ok(ScanOutcome::Limit)
    }
}

/// Whether `content` has this head, and these bytes before `position` unless it is shorter.
fn is_begun_alike(
    content: &mut Content,
    head: &FileHead,
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

/// End of the last line before a line that begins with NUL: a hole may follow.
fn before_hole(bytes: &[u8]) -> Option<usize> {
    let nul = memchr::memchr(0, bytes)?;
    let start = nul.saturating_sub(1);
    memchr::memmem::find(&bytes[start..], b"\n\0").map(|at| start + at + 1)
}

enum ScanOutcome {
    ResolvedCandidate(u64),
    Limit,
    End,
}
