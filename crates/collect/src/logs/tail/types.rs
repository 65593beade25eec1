//! What goes in and out of a [`Tailer`](super::Tailer): options, chunks, new streams, status,
//! events.
//!
//! Positions are byte offsets. A chunk's bytes are what a parser gets; its range can be wider than
//! its bytes are long, because holes of NUL bytes and the rest of an overlong line are passed over,
//! counted in `skipped_bytes`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros, Program, StreamId};

use super::keep::RestOptions;

/// How much of a file is read when neither side has met it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// All of it.
    Start,
    /// Whole lines of its last so many bytes.
    Recent(u64),
}

/// Limits and habits of a tailer.
#[derive(Clone, Debug)]
pub struct TailOptions {
    /// Name of the host; part of every stream's identity, so that machines cloned from one image
    /// stay apart.
    pub host: String,
    /// For sources that were found, not named by the user (those begin at the start).
    pub first_contact: ReadFrom,
    /// Bytes of one chunk at most, unless one line is longer: 256 KiB. A chunk is in memory several
    /// times on its way: as bytes, as rows, encoded.
    pub chunk_bytes: usize,
    /// Bytes of one line, or of one event of several lines, at most: 1 MiB.
    pub line_bytes: usize,
    /// Bytes handed out and not yet acknowledged, over all streams, at most: 32 MiB. One chunk may
    /// exceed it.
    pub max_in_flight_bytes: u64,
    /// After this long without growth the unfinished last line of a rotated file counts as a line:
    /// 5 s.
    pub half_line_after: Duration,
    /// A rotated file that is read to its end stays open this long for a writer that has not
    /// reopened yet: 300 s.
    pub keep_rotated: Duration,
    /// The same for a file that has no name any more, whose space its file system cannot free: 30
    /// s.
    pub keep_deleted: Duration,
    /// A file that shrank without having been written since (attributes of network file systems can
    /// be old) is held for this long before it counts as truncated: 60 s.
    pub stale_for: Duration,
    /// Rotated parts, also packed ones, that were written within this time and that nobody knows
    /// are read too, oldest first, beside what is followed: none.
    pub backfill: Option<Duration>,
    /// Paths watched at most: 10,000.
    pub max_paths: usize,
    /// Whether rests of deleted files are kept, and where: no.
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

/// A stream that the tailer asks about: answer with [`Tailer::start`](super::Tailer::start).
#[derive(Clone, Debug)]
pub struct NewStream {
    /// Its identity.
    pub stream: StreamId,
    /// The file.
    pub path: Arc<str>,
    /// The source that the file belongs to.
    pub source: Arc<LogSource>,
    /// Whether the file was there when its source was first looked at.
    pub existed_at_start: bool,
}

/// Whole lines of one stream.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The stream.
    pub stream: StreamId,
    /// The path that the file is watched under; a rotated file keeps it.
    pub path: Arc<str>,
    /// The source that the file belongs to.
    pub source: Arc<LogSource>,
    /// Offset of `bytes[0]`.
    pub from: u64,
    /// Where the stream stands once this chunk is durable.
    pub to: u64,
    /// Lines, each ending in a newline; the last may lack it when its file ended so, or when it is
    /// cut at the limit.
    pub bytes: Vec<u8>,
    /// Bytes of `[from, to)` that are not in `bytes`: the rest of an overlong line, or a hole. They
    /// come last.
    pub skipped_bytes: u64,
    /// Whether these bytes were lines, which nobody has any more.
    pub is_lost: bool,
    /// Where events of several lines end in `bytes`; `None`: each line is one.
    pub events: Option<Vec<usize>>,
    /// Whether the hub does not know the stream yet. Then a gap would go unnoticed there, and this
    /// chunk must be durable before the next one of the stream is sent.
    pub is_first: bool,
}

impl Chunk {
    /// The row of `log_gap` for what was passed over, if anything was.
    pub fn gap(&self) -> Option<Gap> {
        let is_journal = self.source.program == Program::Journal;
        // Positions in a journal are no byte offsets.
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
    /// Deleted, or taken away by its file system.
    Gone,
    /// The rest of a line over the limit.
    TooLong,
    /// A hole, which no writer wrote.
    NulBytes,
    /// The hub wants bytes of a file that is not there any more.
    StreamGone,
}

impl GapReason {
    /// As in the column `reason`.
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

/// A stretch of a stream that is in no chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The path that the file is watched under.
    pub path: Arc<str>,
    /// The stream.
    pub stream: StreamId,
    /// Offset of the first missing byte.
    pub from: u64,
    /// Offset behind the last one; `None` when nobody knows how far the content reached.
    pub to: Option<u64>,
    /// Bytes known to be lost.
    pub lost_bytes: u64,
    /// Whether no more than these can be lost.
    pub is_exact: bool,
    /// How long the content had not been looked at when its end was noticed, if that is known and
    /// matters.
    pub unwatched: Option<Duration>,
    /// Why.
    pub reason: GapReason,
}

/// What a file is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// Empty, or its first line is not complete: no stream yet.
    Waiting,
    /// Asked about, not yet answered.
    Starting,
    /// Followed at its path.
    Reading,
    /// No longer at its path; read to its end.
    Rotated,
    /// No longer at any path; read to its end, then closed so that its space is free.
    Deleted,
    /// Cannot be read; tried again.
    Failed,
}

impl StreamState {
    /// The word for it, lower case.
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

/// How far one file is read. [`Tailer::status`](super::Tailer::status) gives one for each file that
/// is open.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// `None` before the identity is known.
    pub stream: Option<StreamId>,
    /// The path that the file is watched under.
    pub path: Arc<str>,
    /// Who writes it.
    pub program: Program,
    /// Bytes handed out.
    pub position: u64,
    /// Bytes acknowledged as durable.
    pub acknowledged: u64,
    /// Size at the last look.
    pub size: u64,
    /// Bytes that are not yet acknowledged.
    pub lag_bytes: u64,
    /// When the file was last written, as its file system says; `None` when that is not known.
    pub modified: Option<Micros>,
    /// Bytes known to be lost from the files at this path since the start, over all its streams.
    pub lost_bytes: u64,
    /// What it is doing.
    pub state: StreamState,
    /// Why it cannot be read, with a hint on a second line.
    pub error: Option<String>,
}

/// What a status is of: the path that the file is watched under, and its stream once that is known.
pub type StatusKey = (Arc<str>, Option<StreamId>);

/// What [`Tailer::status_changes`](super::Tailer::status_changes) gives.
#[derive(Clone, Debug, Default)]
pub struct StatusChanges {
    /// What is new or otherwise.
    pub changed: Vec<StreamStatus>,
    /// What is no longer there; something of the same key may be among `changed`.
    pub gone: Vec<StatusKey>,
}

/// Something that happened to a file and that someone should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEvent {
    /// Another file is at the path now; the old one is read to its end.
    Rotated {
        /// The path.
        path: Arc<str>,
        /// The old file's stream.
        stream: StreamId,
        /// Bytes of it still to be read.
        unread_bytes: u64,
    },
    /// The file was cut or overwritten from its start (copytruncate, `>`); it is read again from 0
    /// as a new stream.
    Truncated {
        /// The path.
        path: Arc<str>,
        /// The stream that ended.
        stream: StreamId,
        /// Whether a copy beside it holds the rest and is read instead.
        is_copy_found: bool,
    },
    /// A program goes on writing to a file that has no name any more.
    WriterOnDeleted {
        /// The path it had.
        path: Arc<str>,
        /// Its size.
        size: u64,
    },
    /// The rest of a deleted file was copied, and the file closed.
    Kept {
        /// The path it had.
        path: Arc<str>,
        /// Its stream.
        stream: StreamId,
        /// Bytes of it that the hub does not have.
        bytes: u64,
        /// Bytes of the copy.
        stored_bytes: u64,
        /// Bytes for which the copy had no room: they are lost, and the gap is told when its turn
        /// comes.
        lost_bytes: u64,
    },
    /// The rest of a deleted file was to be copied and could not; its space is held on.
    NotKept {
        /// The path it had.
        path: Arc<str>,
        /// Why.
        why: String,
    },
    /// A rest that an earlier agent left cannot be read.
    BadRest {
        /// The rest.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Bytes are missing, or may be.
    Gap(Gap),
}
