//! One open file: the next whole lines of it, and whether it is still the content that was begun.
//!
//! The check that the content is the same comes *after* the read: if the head is unchanged then, the bytes read before
//! belong to it. Checked before, a truncation in between would hand out bytes of the new content as the old's.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use weir_tables::{LogSource, Micros, StreamId};

use super::identity::{Head, Place, read_full};
use super::types::Chunk;

/// Bytes that one call passes over at most while it looks for the end of an overlong line.
const SKIP_LIMIT: u64 = 16 << 20;

/// A file whose stream is known.
#[derive(Debug)]
pub(super) struct TailFile {
    pub(super) file: File,
    pub(super) path: Arc<str>,
    pub(super) source: Arc<LogSource>,
    pub(super) place: Place,
    pub(super) head: Head,
    pub(super) stream: StreamId,
    pub(super) position: u64,
    pub(super) acknowledged: u64,
    pub(super) size: u64,
    /// Size at which a read found no whole line; nothing is tried until it changes.
    pub(super) stalled_size: Option<u64>,
    /// How far an overlong line or a hole is scanned already.
    pub(super) scanned: u64,
    pub(super) grown_at: Micros,
    pub(super) checked_at: Micros,
    pub(super) changed_ns: i64,
    pub(super) is_rotated: bool,
    pub(super) is_deleted: bool,
    pub(super) is_queued: bool,
    /// Whether the hub knows the stream.
    pub(super) is_known: bool,
    /// Older parts of the same log that the hub must know before this one is read: an older part that it does not know
    /// could not be told from one that was never wanted.
    pub(super) waits_for: Vec<StreamId>,
    pub(super) error: Option<String>,
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
    /// Shorter than what was read.
    Replaced,
}

impl TailFile {
    /// Reads the file's metadata.
    pub(super) fn look(&mut self, now: Micros) -> io::Result<Look> {
        let metadata = self.file.metadata()?;
        self.checked_at = now;
        if metadata.size() < self.position || metadata.size() < self.size {
            return Ok(Look::Replaced);
        }
        let is_grown = metadata.size() > self.size;
        if is_grown {
            self.size = metadata.size();
            self.grown_at = now;
        }
        self.is_deleted = metadata.nlink() == 0;
        let changed_ns = metadata.ctime().wrapping_mul(1_000_000_000) + metadata.ctime_nsec();
        let is_touched = std::mem::replace(&mut self.changed_ns, changed_ns) != changed_ns;
        let is_written =
            changed_ns == metadata.mtime().wrapping_mul(1_000_000_000) + metadata.mtime_nsec();
        if is_touched && is_written && !is_grown && self.is_replaced()? {
            return Ok(Look::Replaced);
        }
        Ok(if is_touched && !is_written { Look::Moved } else { Look::Same })
    }

    /// Whether a read may give something.
    pub(super) fn is_readable(&self, now: Micros, half_line_after: Duration) -> bool {
        self.waits_for.is_empty()
            && self.size > self.position
            && (self.stalled_size != Some(self.size) || self.is_ended(now, half_line_after))
    }

    /// Whether the last line counts although its newline is missing.
    fn is_ended(&self, now: Micros, half_line_after: Duration) -> bool {
        self.is_rotated && now >= self.grown_at + half_line_after
    }

    /// The next lines, at most `limit` bytes.
    pub(super) fn read(
        &mut self,
        now: Micros,
        limit: usize,
        half_line_after: Duration,
        buffer: Vec<u8>,
    ) -> io::Result<ReadOutcome> {
        let bytes = self.fill(limit, buffer)?;
        if self.is_replaced()? {
            return Ok(ReadOutcome::Replaced);
        }
        let is_full = bytes.len() == limit;
        let end = self.position + bytes.len() as u64;
        self.size = self.size.max(end);
        if bytes.first() == Some(&0) {
            return self.skip_hole();
        }
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            return Ok(self.lines(bytes, newline + 1, is_full));
        }
        if is_full {
            return self.skip_overlong(bytes, self.is_ended(now, half_line_after));
        }
        self.stalled_size = Some(end);
        if self.is_ended(now, half_line_after) && !bytes.is_empty() {
            let length = bytes.len();
            return Ok(self.lines(bytes, length, false));
        }
        Ok(ReadOutcome::Nothing)
    }

    fn fill(&self, limit: usize, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        buffer.clear();
        let wanted =
            self.size.saturating_sub(self.position).clamp(limit.min(4096) as u64, limit as u64);
        let wanted = usize::try_from(wanted).expect("limited by a usize");
        buffer.reserve_exact(wanted);
        while buffer.len() < wanted {
            let offset = self.position + buffer.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut buffer), offset) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        buffer.truncate(limit);
        Ok(buffer)
    }

    fn is_replaced(&self) -> io::Result<bool> {
        Ok(!self.head.is_head_of(&self.file)?)
    }

    fn lines(&mut self, mut bytes: Vec<u8>, length: usize, is_more: bool) -> ReadOutcome {
        bytes.truncate(length);
        let to = self.position + length as u64;
        self.stalled_size = None;
        ReadOutcome::Lines { chunk: self.chunk(bytes, to), is_more }
    }

    fn chunk(&mut self, bytes: Vec<u8>, to: u64) -> Chunk {
        let from = std::mem::replace(&mut self.position, to);
        self.scanned = to;
        Chunk {
            stream: self.stream,
            path: self.path.clone(),
            source: self.source.clone(),
            from,
            to,
            skipped_bytes: (to - from) - bytes.len() as u64,
            bytes,
        }
    }

    /// A line longer than a chunk: its first bytes are the line, the rest is passed over once its end is there.
    fn skip_overlong(&mut self, bytes: Vec<u8>, is_ended: bool) -> io::Result<ReadOutcome> {
        let start = self.scanned.max(self.position + bytes.len() as u64);
        match self.scan(start, |block| memchr::memchr(b'\n', block))? {
            Scan::Found(newline) => Ok(self.passed_over(bytes, newline + 1)),
            Scan::Limit => Ok(ReadOutcome::Again),
            Scan::End if is_ended => Ok(self.passed_over(bytes, self.scanned)),
            Scan::End => {
                self.stalled_size = Some(self.scanned);
                Ok(ReadOutcome::Nothing)
            }
        }
    }

    /// A run of NUL bytes (a writer that does not append after a truncation, a power loss) is passed over once
    /// something follows it; until then it may be room that a writer has reserved.
    fn skip_hole(&mut self) -> io::Result<ReadOutcome> {
        let start = self.scanned.max(self.position);
        match self.scan(start, |block| block.iter().position(|byte| *byte != 0))? {
            Scan::Found(data) => Ok(self.passed_over(Vec::new(), data)),
            Scan::Limit => Ok(ReadOutcome::Again),
            Scan::End => {
                self.stalled_size = Some(self.scanned);
                Ok(ReadOutcome::Nothing)
            }
        }
    }

    fn passed_over(&mut self, bytes: Vec<u8>, to: u64) -> ReadOutcome {
        self.stalled_size = None;
        ReadOutcome::Lines { chunk: self.chunk(bytes, to), is_more: true }
    }

    /// Looks for a byte from `start` on and remembers how far it looked.
    fn scan(&mut self, start: u64, find: impl Fn(&[u8]) -> Option<usize>) -> io::Result<Scan> {
        let mut block = vec![0; 64 << 10];
        let mut at = start;
        while at < start + SKIP_LIMIT {
            let length = read_full(&self.file, &mut block, at)?;
            if let Some(found) = find(&block[..length]) {
                return Ok(Scan::Found(at + found as u64));
            }
            at += length as u64;
            self.scanned = at;
            self.size = self.size.max(at);
            if length < block.len() {
                return Ok(Scan::End);
            }
        }
        Ok(Scan::Limit)
    }
}

enum Scan {
    Found(u64),
    Limit,
    End,
}

/// The offset at which the last `recent` bytes of a file begin, moved on to the start of a line.
pub(super) fn recent_start(file: &File, size: u64, recent: u64) -> io::Result<u64> {
    let Some(start) = size.checked_sub(recent).filter(|start| *start > 0) else { return Ok(0) };
    let mut block = vec![0; 1 << 20];
    let length = read_full(file, &mut block, start - 1)?;
    Ok(memchr::memchr(b'\n', &block[..length]).map_or(start, |newline| start + newline as u64))
}

/// Whether `position` can be where a reader of these lines stopped: within the file, at the start of a line.
pub(super) fn is_line_start(file: &File, position: u64) -> io::Result<bool> {
    let mut byte = [0];
    Ok(position == 0 || (read_full(file, &mut byte, position - 1)? == 1 && byte[0] == b'\n'))
}
