//! Inputs and outputs of a [`Tailer`](super::Tailer): options, chunks, new streams, status, events.
//!
//! Positions are byte offsets. A chunk's bytes are passed to a parser; its range can be longer than
//! its bytes, because holes of NUL bytes and remainders of overlong lines are skipped, counted in
//! `skipped_bytes`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros, Program, StreamId};

/// How much is read of a file that neither side knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// All of it.
    Start,
    /// Complete lines within its last bytes.
    Recent(u64),
}

/// Options of a tailer.
#[derive(Clone, Debug)]
pub struct TailOptions {
    /// Host name; part of every stream's identity, so that cloned machines are distinguished.
    pub host: String,
    /// How much is read of discovered logs; named ones are read from the start.
    pub first_contact: ReadFrom,
    /// Maximum bytes of a chunk, unless one line is longer: 256 KiB.
    pub chunk_bytes: usize,
    /// Maximum bytes of a line, or of an event of several lines: 1 MiB.
    pub line_bytes: usize,
    /// Maximum unacknowledged bytes over all streams: 32 MiB. One chunk may exceed it.
    pub max_in_flight_bytes: u64,
    /// Time without growth until the unfinished last line of a rotated file counts: 5 s.
    pub half_line_after: Duration,
    /// Time that a finished rotated file stays open for a writer that has not reopened: 300 s.
    pub keep_rotated: Duration,
    /// Time that a completely read deleted file stays open, while its space is not free: 30 s.
    pub keep_deleted: Duration,
    /// Time after which a file that shrank without having been written (network file systems can
    /// show outdated attributes) counts as truncated: 60 s.
    pub stale_for: Duration,
    /// Age up to which unknown rotated parts, including compressed ones, are read too, oldest
    /// first, beside the followed files: none.
    pub backfill: Option<Duration>,
    /// Maximum number of watched paths: 10,000.
    pub max_paths: usize,
    /// Whether and where remnants of deleted files are preserved: no.
    pub rests: Option<RestOptions>,
}

impl Default for TailOptions {
    fn default() -> Self {
        Self {
            host: String::new(),
            first_contact: ReadFrom::Recent(64 << 20),
            chunk_bytes: 256 << 10,
            line_bytes: 1 << 20,
            max_in_flight_bytes: 32 << 20,
            half_line_after: Duration::from_secs(5),
            keep_rotated: Duration::from_secs(300),
            keep_deleted: Duration::from_secs(30),
            stale_for: Duration::from_secs(60),
            backfill: None,
            max_paths: 10_000,
            rests: None,
        }
    }
}

/// When and where remnants of deleted logs are preserved.
#[derive(Clone, Debug)]
pub struct RestOptions {
    /// Directory of remnants, created when needed.
    pub dir: PathBuf,
    /// Maximum bytes of all remnants.
    pub limit_bytes: u64,
    /// How long a deleted log may occupy its space.
    pub after: Duration,
    /// File system usage in percent above which it may not occupy its space at all.
    pub used_percent: u64,
}

/// A stream to look up at the hub; answer with [`Tailer::start`](super::Tailer::start).
#[derive(Clone, Debug)]
pub struct NewStream {
    /// Stream id.
    pub stream: StreamId,
    /// Path of the file.
    pub path: Arc<str>,
    /// Source that the file belongs to.
    pub source: Arc<LogSource>,
    /// Whether the file existed when its source was first checked.
    pub existed_at_start: bool,
}

/// Complete lines of one stream.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Stream id.
    pub stream: StreamId,
    /// Path that the file is watched under, even after a rotation.
    pub path: Arc<str>,
    /// Source that the file belongs to.
    pub source: Arc<LogSource>,
    /// Offset of `bytes[0]`.
    pub from: u64,
    /// Position of the stream once this chunk is durable.
    pub to: u64,
    /// Lines, each ending in a newline; the last may lack it at the end of a file or limit.
    pub bytes: Vec<u8>,
    /// Bytes of `[from, to)` not in `bytes`, at the end: of an overlong line, or a hole.
    pub skipped_bytes: u64,
    /// Whether the skipped bytes were lines that are lost.
    pub is_lost: bool,
    /// Offsets in `bytes` at which events of several lines end; `None`: each line is an event.
    pub events: Option<Vec<usize>>,
    /// Whether the hub does not know the stream yet. It would then not notice a gap, so this chunk
    /// must be durable before the next one of the stream is sent.
    pub is_first: bool,
    /// Time of the last write of the file when it was read; `None` if unknown.
    pub modified: Option<Micros>,
}

impl Chunk {
    /// Row of `log_gap` for skipped bytes, if any.
    pub fn gap(&self) -> Option<Gap> {
        let is_journal = self.source.program == Program::Journal;
        // Positions in a journal are not byte offsets.
        let from = if is_journal { self.from } else { self.to - self.skipped_bytes };
        let is_hole = self.bytes.is_empty() && !is_journal && !self.is_lost;
        (self.skipped_bytes > 0).then(|| Gap {
            path: self.path.clone(),
            stream: self.stream,
            from,
            to: Some(self.to),
            lost_bytes: if is_hole { 0 } else { self.skipped_bytes },
            is_exact: true,
            unwatched: None,
            reason: match (is_hole, self.is_lost) {
                (true, _) => GapReason::NulBytes,
                (false, true) => GapReason::Gone,
                (false, false) => GapReason::TooLong,
            },
        })
    }
}

/// Why bytes of a log are in no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// Cut or overwritten before it was read.
    Truncated,
    /// Deleted, or removed by its file system.
    Gone,
    /// Remainder of a line over the limit.
    TooLong,
    /// A hole that no writer wrote.
    NulBytes,
    /// The hub wants bytes of a file that does not exist any more.
    StreamGone,
}

impl GapReason {
    /// Value of the column `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Gone => "gone",
            Self::TooLong => "too_long",
            Self::NulBytes => "nul_bytes",
            Self::StreamGone => "stream_gone",
        }
    }
}

/// A range of a stream that is in no chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Path that the file is watched under.
    pub path: Arc<str>,
    /// Stream id.
    pub stream: StreamId,
    /// Offset of the first missing byte.
    pub from: u64,
    /// Offset behind the last one; `None` if unknown.
    pub to: Option<u64>,
    /// Bytes known to be lost.
    pub lost_bytes: u64,
    /// Whether the loss cannot be larger.
    pub is_exact: bool,
    /// Time since the last check when the end of the content was noticed, if known and relevant.
    pub unwatched: Option<Duration>,
    /// Reason.
    pub reason: GapReason,
}

/// State of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// Empty, or its first line is not complete: no stream yet.
    Waiting,
    /// Queried at the hub, not answered yet.
    Starting,
    /// Followed at its path.
    Reading,
    /// No longer at its path; read to its end.
    Rotated,
    /// No longer at any path; read to its end, then closed so that its space is free.
    Deleted,
    /// Unreadable; retried.
    Failed,
}

impl StreamState {
    /// Name of the state, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Reading => "reading",
            Self::Rotated => "rotated",
            Self::Deleted => "deleted",
            Self::Failed => "failed",
        }
    }
}

/// Progress of one file. [`Tailer::status`](super::Tailer::status) returns one for each open file.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Stream; `None` before the identity is known.
    pub stream: Option<StreamId>,
    /// Path that the file is watched under.
    pub path: Arc<str>,
    /// Program that writes the log.
    pub program: Program,
    /// Bytes returned.
    pub position: u64,
    /// Bytes acknowledged as durable.
    pub acknowledged: u64,
    /// Size at the last check.
    pub size: u64,
    /// Unacknowledged bytes.
    pub lag_bytes: u64,
    /// Time of the last write, as reported by the file system; `None` if unknown.
    pub modified: Option<Micros>,
    /// Bytes known to be lost from the files at this path since the start, over all its streams.
    pub lost_bytes: u64,
    /// State.
    pub state: StreamState,
    /// Error, with a hint on a second line.
    pub error: Option<String>,
}

/// Key of a status: the path that the file is watched under, and its stream once known.
pub type StatusKey = (Arc<str>, Option<StreamId>);

/// Result of [`Tailer::status_changes`](super::Tailer::status_changes).
#[derive(Clone, Debug, Default)]
pub struct StatusChanges {
    /// New or changed files.
    pub changed: Vec<StreamStatus>,
    /// Ended ones; the same key may be among `changed` again.
    pub gone: Vec<StatusKey>,
}

/// A reportable event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEvent {
    /// Another file is at the path now; the old one is read to its end.
    Rotated {
        /// Watched path.
        path: Arc<str>,
        /// Stream of the old file.
        stream: StreamId,
        /// Unread bytes of it.
        unread_bytes: u64,
    },
    /// The file was truncated (copytruncate, `>`); it is read from 0 as a new stream.
    Truncated {
        /// Watched path.
        path: Arc<str>,
        /// Stream that ended.
        stream: StreamId,
        /// Whether a copy beside it has the remainder and is read instead.
        is_copy_found: bool,
    },
    /// A program keeps writing to a deleted file.
    WriterOnDeleted {
        /// Former path.
        path: Arc<str>,
        /// Size of the file.
        size: u64,
    },
    /// The remnant of a deleted file was copied, and the file closed.
    Kept {
        /// Former path.
        path: Arc<str>,
        /// Stream of the file.
        stream: StreamId,
        /// Bytes that the hub does not have.
        bytes: u64,
        /// Bytes of the copy.
        stored_bytes: u64,
        /// Bytes that did not fit; the gap is reported when the stream reaches it.
        lost_bytes: u64,
    },
    /// The remnant of a deleted file could not be copied; the file stays open.
    NotKept {
        /// Former path.
        path: Arc<str>,
        /// Error.
        why: String,
    },
    /// A remnant of an earlier agent is unreadable.
    BadRest {
        /// Path of the remnant.
        path: PathBuf,
        /// Error.
        why: String,
    },
    /// Bytes are missing, or may be.
    Gap(Gap),
}
