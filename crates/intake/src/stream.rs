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

/// Cuts frames that end with one byte, such as a newline or NUL, while `frame` accepts them.
pub(crate) fn cut_at(
    end: u8,
    bytes: &[u8],
    max: usize,
    mut frame: impl FnMut(&[u8]) -> bool,
) -> Result<usize, StreamError> {
    let mut used = 0;
    while let Some(length) = memchr::memchr(end, &bytes[used..]) {
        if !frame(&bytes[used..used + length]) {
            return Ok(used);
        }
        used += length + 1;
    }
    if bytes.len() - used > max {
        return Err(StreamError { reason: "too_long", detail: "a frame is too long" });
    }
    Ok(used)
}
