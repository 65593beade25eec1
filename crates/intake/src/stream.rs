//! Connections of protocols with a stream of frames: syslog, Fluent's forward protocol, Lumberjack.
//!
//! ```text
//!   read ─► buffer ─► cut frames ─► store ─► drop the stored bytes ─► read again
//!                                       └─ failed ─► wait, cut the same bytes again; read nothing
//! ```
//!
//! Backpressure is to stop reading. Acknowledgements are sent when the frames are durable.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use crate::batch_builder::{BatchBuilder, ItemVerdict};
use crate::counts::{BatchAmount, BatchOrigin, IntakeOutcome};
use crate::intake::Intake;

/// Bytes that are read before they are stored.
const BUFFER_BYTES: usize = 256 << 10;
/// Idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(3600);
/// How long the other side may take to read a reply.
const WRITE: Duration = Duration::from_secs(30);
/// Pause after a failure to store rows.
const PAUSE: Duration = Duration::from_secs(1);
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
    /// When the connection must be closed; frames before the error are in the builder.
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
        let (mut buffer, mut last_read) = (Vec::new(), None);
        let hello = framing.greet();
        if !write(&mut stream, &hello).await {
            return;
        }
        loop {
            let is_open =
                match read_some(&mut stream, &mut buffer, &mut ended, &mut last_read).await {
                    Some(bytes) => bytes > 0,
                    None => false,
                };
            let cut = self.keep_cut(&mut framing, &buffer, origin, &peer).await;
            let Some((used, replies)) = cut else { return };
            buffer.drain(..used);
            let is_open = is_open && write(&mut stream, &replies).await;
            if !is_open {
                let from = StreamOrigin { peer: &peer, source: origin.protocol };
                self.keep_until(&mut framing, buffer.len(), origin, |framing, builder| {
                    framing.finish(&buffer, from, builder);
                    Ok(buffer.len())
                })
                .await;
                return;
            }
        }
    }

    /// Stores the whole frames of `bytes`; `None` when the stream must be closed.
    async fn keep_cut<F: StreamProtocol>(
        self: &Arc<Self>,
        framing: &mut F,
        bytes: &[u8],
        origin: BatchOrigin,
        peer: &str,
    ) -> Option<(usize, Vec<u8>)> {
        let (mut used, mut all_replies) = (0, Vec::new());
        loop {
            let rest = &bytes[used..];
            let from = StreamOrigin { peer, source: origin.protocol };
            let (more, replies) = self
                .keep_until(framing, rest.len(), origin, |framing, builder| {
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
        cut: impl Fn(&mut F, &mut BatchBuilder) -> Result<usize, StreamError>,
    ) -> Option<(usize, Vec<u8>)> {
        let _memory = self.reserve_eventually(bytes).await;
        loop {
            let mut builder = self.builder();
            let mut next = framing.clone();
            let outcome = cut(&mut next, &mut builder);
            let verdicts = if builder.verdicts.is_empty() {
                self.count_lost(origin, &builder);
                Ok(Vec::new())
            } else {
                self.take(origin, *outcome.as_ref().unwrap_or(&bytes), builder).await
            };
            let Ok(verdicts) = verdicts else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let replies = next.replies(&verdicts);
            *framing = next;
            return match outcome {
                Ok(used) => Some((used, replies)),
                Err(broken) => {
                    let amount = BatchAmount { batches: 1, rows: 0, bytes };
                    self.counts.add(origin, IntakeOutcome::Refused, Some(broken.reason), amount);
                    None
                }
            };
        }
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
    last_read: &mut Option<tokio::time::Instant>,
) -> Option<usize> {
    // A larger frame is read in several rounds; its protocol limits its length.
    buffer.reserve(BUFFER_BYTES);
    let mut limited = stream.take(BUFFER_BYTES as u64);
    if last_read.is_none() {
        tokio::select! {
            read = tokio::time::timeout(IDLE, limited.read_buf(buffer)) => return read.ok()?.ok(),
            _ = ended.wait_for(|is_ended| *is_ended) => {
                *last_read = Some(tokio::time::Instant::now() + LAST_READ);
            }
        }
    }
    if last_read.is_some_and(|end| tokio::time::Instant::now() >= end) {
        return None;
    }
    tokio::time::timeout(LAST_BYTES, limited.read_buf(buffer)).await.ok()?.ok()
}

/// Frames that end with a byte, such as a newline or NUL. A frame beyond the limit is skipped up to
/// its end and counted as lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedFrames {
    /// Whether the rest of an overlong frame is being discarded.
    is_skipping: bool,
}

impl EndedFrames {
    /// Reads the whole frames at the front of `bytes` and returns their length. `end` finds the
    /// byte that ends the first frame.
    pub(crate) fn cut(
        &mut self,
        bytes: &[u8],
        max: usize,
        builder: &mut BatchBuilder,
        end: impl Fn(&[u8]) -> Option<usize>,
        mut frame: impl FnMut(&[u8], &mut BatchBuilder),
    ) -> usize {
        let mut used = 0;
        while !builder.is_full() {
            let rest = &bytes[used..];
            let found = end(rest);
            let length = found.unwrap_or(rest.len());
            let was_skipping = self.is_skipping;
            self.is_skipping = found.is_none() && (was_skipping || length > max);
            if was_skipping || length > max {
                builder.lose("too_long", usize::from(!was_skipping), length);
            } else if found.is_some() {
                frame(&rest[..length], builder);
            } else {
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
            let newline = |bytes: &[u8]| memchr::memchr(b'\n', bytes);
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
