//! Connections of protocols with a stream of frames: syslog, Fluent's forward protocol, Lumberjack.
//!
//! ```text
//!   read ─► buffer ─► cut frames ─► store ─► drop the stored bytes ─► read again
//!                                       └─ failed ─► wait, cut the same bytes again; read nothing
//! ```
//!
//! Backpressure is to stop reading. Acknowledgements are sent when the frames are durable. The first
//! 64 KiB of a connection's buffer are free; memory for more comes from the pool of all senders, and
//! an unfinished frame of that length must go on at a minimum rate.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::batch_builder::{BatchBuilder, ItemVerdict};
use crate::body::{FREE_BYTES, MinimumRate};
use crate::counts::{BatchAmount, BatchOrigin, IntakeOutcome};
use crate::intake::Intake;
use crate::memory::MemoryHold;

/// Bytes that are read before they are stored.
const BUFFER_BYTES: usize = 256 << 10;
/// Idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(3600);
/// How long the other side may take to read a reply.
const WRITE: Duration = Duration::from_secs(30);
/// Pause after a failure to store rows.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a connection that holds memory waits for more; then it is closed, or all could wait for
/// each other.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
/// On shutdown, how long to wait for further bytes.
const LAST_BYTES: Duration = Duration::from_millis(200);
/// On shutdown, how long to read in total.
const LAST_READ: Duration = Duration::from_secs(3);

/// Why a stream must be closed: the start of the next frame is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamError {
    /// Reason code for the counts.
    pub(crate) reason: &'static str,
    /// The problem, for people.
    pub(crate) detail: &'static str,
}

/// Why nothing was read of a frame that can be read later: others use the memory.
pub(crate) const NO_MEMORY: StreamError =
    StreamError { reason: "no_room", detail: "too many bytes are in flight" };

/// Origin of a stream or datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamOrigin<'a> {
    /// The sender's address.
    pub(crate) peer: &'a str,
    /// The column `source` of its rows.
    pub(crate) source: &'a str,
}

/// How a protocol divides its stream into frames.
pub(crate) trait StreamProtocol: Send + Sync + Clone {
    /// Bytes to write before anything is read.
    fn greet(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Reads whole frames from the front of `bytes` and returns their length.
    ///
    /// # Errors
    /// When the connection must be closed; frames before the error are in the builder. With
    /// [`NO_MEMORY`] nothing was read.
    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError>;

    /// Reads the rest when the connection ends.
    fn finish(&mut self, _rest: &[u8], _origin: StreamOrigin<'_>, _builder: &mut BatchBuilder) {}

    /// Bytes to write when the frames are durable.
    fn replies(&mut self, _verdicts: &[ItemVerdict]) -> Vec<u8> {
        Vec::new()
    }
}

impl Intake {
    /// Reads one connection to its end, or until shutdown.
    pub(crate) async fn read_stream<F: StreamProtocol>(
        self: &Arc<Self>,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        mut framing: F,
        origin: BatchOrigin,
        mut ended: watch::Receiver<bool>,
    ) {
        let peer = origin.peer.unwrap_or(IpAddr::from([0, 0, 0, 0])).to_string();
        let hold = self.memory.hold(origin);
        let (mut buffer, mut last_read) = (Vec::new(), None);
        let mut rate = MinimumRate::new(Instant::now());
        let hello = framing.greet();
        if !write(&mut stream, &hello).await {
            return;
        }
        loop {
            let before = buffer.len();
            let read =
                read_at_rate(&mut stream, &mut buffer, &mut ended, &mut last_read, &mut rate).await;
            if matches!(read, ReadOutcome::TooSlow) {
                return self.count_closed(origin, "too_slow", buffer.len());
            }
            if !hold_buffer(&hold, buffer.len()).await {
                return self.count_closed(origin, NO_MEMORY.reason, buffer.len());
            }
            let cut = self.keep_cut(&mut framing, &buffer, origin, &peer, &hold).await;
            let Some((used, replies)) = cut else { return };
            if used > 0 {
                rate = MinimumRate::new(Instant::now());
            }
            // A connection that brings little keeps little.
            let is_short = buffer.len() - before < FREE_BYTES;
            buffer.drain(..used);
            hold.shrink_to(beyond_free(buffer.len()));
            if is_short {
                buffer.shrink_to(FREE_BYTES);
            }
            let is_open = matches!(read, ReadOutcome::Bytes) && write(&mut stream, &replies).await;
            if !is_open {
                let from = StreamOrigin { peer: &peer, source: origin.protocol };
                self.keep_until(&mut framing, buffer.len(), origin, &hold, |framing, builder| {
                    framing.finish(&buffer, from, builder);
                    Ok(buffer.len())
                })
                .await;
                return;
            }
        }
    }

    /// Counts a connection that is closed.
    pub(crate) fn count_closed(&self, origin: BatchOrigin, reason: &str, bytes: usize) {
        let amount = BatchAmount { batches: 1, rows: 0, bytes };
        self.counts.add(origin, IntakeOutcome::Refused, Some(reason), amount);
    }

    /// Stores the whole frames of `bytes`; `None` when the stream must be closed.
    async fn keep_cut<F: StreamProtocol>(
        self: &Arc<Self>,
        framing: &mut F,
        bytes: &[u8],
        origin: BatchOrigin,
        peer: &str,
        hold: &MemoryHold,
    ) -> Option<(usize, Vec<u8>)> {
        let (mut used, mut all_replies) = (0, Vec::new());
        loop {
            let rest = &bytes[used..];
            let from = StreamOrigin { peer, source: origin.protocol };
            let (more, replies) = self
                .keep_until(framing, rest.len(), origin, hold, |framing, builder| {
                    framing.cut(rest, from, builder)
                })
                .await?;
            used += more;
            all_replies.extend(replies);
            if more == 0 || used == bytes.len() {
                return Some((used, all_replies));
            }
        }
    }

    /// Cuts and stores frames, and retries until they are stored.
    async fn keep_until<F: StreamProtocol>(
        self: &Arc<Self>,
        framing: &mut F,
        bytes: usize,
        origin: BatchOrigin,
        hold: &MemoryHold,
        cut: impl Fn(&mut F, &mut BatchBuilder) -> Result<usize, StreamError>,
    ) -> Option<(usize, Vec<u8>)> {
        let (held, give_up_at) = (hold.bytes(), Instant::now() + MEMORY_PATIENCE);
        loop {
            let mut builder = self.builder();
            builder.memory = Some(hold.clone());
            let mut next = framing.clone();
            let outcome = cut(&mut next, &mut builder);
            if outcome.as_ref() == Err(&NO_MEMORY) && Instant::now() < give_up_at {
                hold.shrink_to(held);
                let _ = tokio::time::timeout(PAUSE, hold.freed()).await;
                continue;
            }
            let verdicts = if builder.verdicts.is_empty() {
                self.count_lost(origin, &builder);
                Ok(Vec::new())
            } else {
                self.take(origin, *outcome.as_ref().unwrap_or(&bytes), builder).await
            };
            hold.shrink_to(held);
            let Ok(verdicts) = verdicts else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let replies = next.replies(&verdicts);
            *framing = next;
            return match outcome {
                Ok(used) => Some((used, replies)),
                Err(broken) => {
                    self.count_closed(origin, broken.reason, bytes);
                    None
                }
            };
        }
    }
}

/// What came of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOutcome {
    Bytes,
    /// The connection or the hub ends.
    End,
    /// A long frame hardly goes on.
    TooSlow,
}

/// Bytes of a buffer that need memory of the pool.
fn beyond_free(length: usize) -> usize {
    length.saturating_sub(FREE_BYTES)
}

/// Takes memory for a buffer; `false` when there is none and the connection holds some already.
async fn hold_buffer(hold: &MemoryHold, length: usize) -> bool {
    let held = hold.bytes();
    let more = beyond_free(length).saturating_sub(held);
    if held == 0 {
        hold.grow_eventually(more).await;
        return true;
    }
    hold.grow(more, MEMORY_PATIENCE).await
}

/// Reads available bytes; a frame that is long already must bring some in time.
async fn read_at_rate(
    stream: &mut (impl AsyncRead + Unpin + Send),
    buffer: &mut Vec<u8>,
    ended: &mut watch::Receiver<bool>,
    last_read: &mut Option<Instant>,
    rate: &mut MinimumRate,
) -> ReadOutcome {
    let before = buffer.len();
    let is_free = before <= FREE_BYTES;
    let next = read_some(stream, buffer, ended, last_read);
    let read =
        if is_free { Ok(next.await) } else { tokio::time::timeout_at(rate.check_at(), next).await };
    let now = Instant::now();
    if is_free {
        *rate = MinimumRate::new(now);
    }
    let is_kept = rate.is_kept(buffer.len() - before, now);
    match read {
        Ok(None | Some(0)) => ReadOutcome::End,
        _ if is_kept => ReadOutcome::Bytes,
        _ => ReadOutcome::TooSlow,
    }
}

/// Writes; `false` when the other side does not read it.
async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    let all = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    bytes.is_empty() || matches!(tokio::time::timeout(WRITE, all).await, Ok(Ok(())))
}

/// Reads available bytes; `None` when reading is over. After shutdown, reads only bytes in transit.
async fn read_some(
    stream: &mut (impl AsyncRead + Unpin + Send),
    buffer: &mut Vec<u8>,
    ended: &mut watch::Receiver<bool>,
    last_read: &mut Option<Instant>,
) -> Option<usize> {
    // A larger frame is read in several rounds; its protocol limits its length.
    buffer.reserve(BUFFER_BYTES);
    let mut limited = stream.take(BUFFER_BYTES as u64);
    if last_read.is_none() {
        tokio::select! {
            read = tokio::time::timeout(IDLE, limited.read_buf(buffer)) => return read.ok()?.ok(),
            _ = ended.wait_for(|is_ended| *is_ended) => {
                *last_read = Some(Instant::now() + LAST_READ);
            }
        }
    }
    if last_read.is_some_and(|end| Instant::now() >= end) {
        return None;
    }
    tokio::time::timeout(LAST_BYTES, limited.read_buf(buffer)).await.ok()?.ok()
}

/// The first newline from an offset on.
pub(crate) fn newline(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', bytes.get(from..)?).map(|at| from + at)
}

/// Frames that end with a byte, such as a newline or NUL. A frame beyond the limit is skipped up to
/// its end and counted as lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedFrames {
    /// Whether the rest of an overlong frame is being discarded.
    is_skipping: bool,
    /// Bytes at the front that have no end: they are not searched again.
    searched: usize,
}

/// White space at the end of the buffer may decide what a newline before it is.
const LOOK_BACK_BYTES: usize = 64;

impl EndedFrames {
    /// Reads the whole frames at the front of `bytes` and returns their length. `end` finds the
    /// byte that ends the first frame; no byte before the given offset does.
    pub(crate) fn cut(
        &mut self,
        bytes: &[u8],
        max: usize,
        builder: &mut BatchBuilder,
        end: impl Fn(&[u8], usize) -> Option<usize>,
        mut frame: impl FnMut(&[u8], &mut BatchBuilder),
    ) -> usize {
        let mut used = 0;
        while !builder.is_batch_full() {
            let rest = &bytes[used..];
            let found = end(rest, self.searched);
            self.searched = 0;
            let length = found.unwrap_or(rest.len());
            let was_skipping = self.is_skipping;
            self.is_skipping = found.is_none() && (was_skipping || length > max);
            if was_skipping || length > max {
                builder.lose("too_long", usize::from(!was_skipping), length);
            } else if found.is_some() {
                frame(&rest[..length], builder);
            } else {
                let tail = &rest[rest.len().saturating_sub(LOOK_BACK_BYTES)..];
                self.searched = rest.len() - (tail.len() - tail.trim_ascii_end().len());
                break;
            }
            used += length + usize::from(found.is_some());
            if used == bytes.len() {
                break;
            }
        }
        used
    }

    /// Reads the rest when the connection ends.
    pub(crate) fn finish(
        &mut self,
        rest: &[u8],
        builder: &mut BatchBuilder,
        frame: impl FnOnce(&[u8], &mut BatchBuilder),
    ) {
        if self.is_skipping {
            builder.lose("too_long", 0, rest.len());
        } else {
            frame(rest, builder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::builder;

    #[test]
    fn an_overlong_frame_is_lost_once_and_those_around_it_are_read() {
        let bytes = b"one\ntoo long for it\ntwo\nlong without an end";
        for step in [1, 5, bytes.len()] {
            let (mut frames, mut builder) = (EndedFrames::default(), builder());
            let (mut buffer, mut seen) = (Vec::new(), Vec::new());
            for read in bytes.chunks(step) {
                buffer.extend_from_slice(read);
                let used = frames.cut(&buffer, 5, &mut builder, newline, |frame, _| {
                    seen.push(String::from_utf8_lossy(frame).into_owned());
                });
                buffer.drain(..used);
            }
            frames.finish(&buffer, &mut builder, |frame, _| assert!(frame.is_empty(), "{frame:?}"));
            assert_eq!(seen, ["one", "two"]);
            assert_eq!(builder.lost["too_long"], (2, 34), "{step}");
        }
    }
}
