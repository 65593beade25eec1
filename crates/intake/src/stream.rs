//! Connections of protocols that are a stream of frames: syslog, Fluent's forward protocol, Lumberjack.
//!
//! ```text
//!   read ─► buffer ─► cut ─► harvest ─► durable ─► drop what was cut ─► read again
//!                                   └─ not kept ─► wait, cut the same bytes again; nothing is read meanwhile
//! ```
//!
//! Back-pressure is that nobody reads. Protocols with acknowledgements give them when the frames are durable.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use crate::counts::{Amount, Origin, Outcome};
use crate::harvest::{Harvest, Verdict};
use crate::intake::Intake;

/// Bytes that are read before they are kept.
const BUFFER_BYTES: usize = 256 << 10;
/// A connection on which nothing comes for so long is closed.
const IDLE: Duration = Duration::from_secs(3600);
/// How long the other side may take to read an answer.
const WRITE: Duration = Duration::from_secs(30);
/// The pause after rows were not kept.
const PAUSE: Duration = Duration::from_secs(1);
/// When weir ends: how long it waits for bytes that are on their way, and how long in all.
const LAST_BYTES: Duration = Duration::from_millis(200);
const LAST_READ: Duration = Duration::from_secs(3);

/// Why a stream cannot be read on: where the next frame begins is not known any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// One word for the counts.
    pub(crate) reason: &'static str,
    /// For a person.
    pub(crate) detail: &'static str,
}

impl Broken {
    pub(crate) fn new(reason: &'static str, detail: &'static str) -> Self {
        Self { reason, detail }
    }
}

/// How a protocol cuts its stream.
pub(crate) trait Framing: Send + Sync + Clone {
    /// What is written before anything is read.
    fn greet(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes whole frames from the front of `bytes`; how many bytes they were.
    ///
    /// # Errors
    /// [`Broken`] when the connection has to be closed; frames before the broken place are in the harvest.
    fn cut(
        &mut self,
        bytes: &[u8],
        peer: &str,
        source: &str,
        harvest: &mut Harvest,
    ) -> Result<usize, Broken>;

    /// Takes what is left when the connection ends.
    fn finish(&mut self, _bytes: &[u8], _peer: &str, _source: &str, _harvest: &mut Harvest) {}

    /// What is written when what was cut is durable.
    fn replies(&mut self, _verdicts: &[Verdict]) -> Vec<u8> {
        Vec::new()
    }
}

impl Intake {
    /// Reads one connection to its end, or until weir ends.
    pub(crate) async fn read_stream<F: Framing>(
        self: &Arc<Self>,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        mut framing: F,
        origin: Origin,
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
                let last = |framing: &mut F, harvest: &mut Harvest| {
                    framing.finish(&buffer, &peer, origin.protocol, harvest);
                    Ok(buffer.len())
                };
                self.keep_until(&mut framing, buffer.len(), origin, last).await;
                return;
            }
        }
    }

    /// Keeps the whole frames of `bytes`; `None` when the stream is broken.
    async fn keep_cut<F: Framing>(
        self: &Arc<Self>,
        framing: &mut F,
        bytes: &[u8],
        origin: Origin,
        peer: &str,
    ) -> Option<(usize, Vec<u8>)> {
        let (mut used, mut all_replies) = (0, Vec::new());
        loop {
            let rest = &bytes[used..];
            let cut = |framing: &mut F, harvest: &mut Harvest| {
                framing.cut(rest, peer, origin.protocol, harvest)
            };
            let (more, replies) = self.keep_until(framing, rest.len(), origin, cut).await?;
            used += more;
            all_replies.extend(replies);
            if more == 0 || used == bytes.len() {
                return Some((used, all_replies));
            }
        }
    }

    /// Cuts and keeps, again and again until it is kept.
    async fn keep_until<F: Framing>(
        self: &Arc<Self>,
        framing: &mut F,
        bytes: usize,
        origin: Origin,
        cut: impl Fn(&mut F, &mut Harvest) -> Result<usize, Broken>,
    ) -> Option<(usize, Vec<u8>)> {
        let _room = self.room_at_last(bytes).await;
        loop {
            let mut harvest = self.harvest();
            let mut next = framing.clone();
            let outcome = cut(&mut next, &mut harvest);
            let verdicts = if harvest.verdicts.is_empty() {
                Ok(Vec::new())
            } else {
                self.take(origin, *outcome.as_ref().unwrap_or(&bytes), harvest).await
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
                    let amount = Amount { batches: 1, rows: 0, bytes };
                    self.counts.add(origin, Outcome::Refused, Some(broken.reason), amount);
                    None
                }
            };
        }
    }
}

/// Writes; `false` when the other side does not take it.
async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    let all = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    bytes.is_empty() || matches!(tokio::time::timeout(WRITE, all).await, Ok(Ok(())))
}

/// Reads what is there; `None` when nothing more is to be read. After the end of weir: only what is still on its way.
async fn read_some(
    stream: &mut (impl AsyncRead + Unpin + Send),
    buffer: &mut Vec<u8>,
    ended: &mut watch::Receiver<bool>,
    last_read: &mut Option<tokio::time::Instant>,
) -> Option<usize> {
    // A frame larger than this is read in several turns; its protocol bounds it.
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

/// Frames that end with one byte, such as a newline or NUL, as long as `frame` takes them.
pub(crate) fn cut_at(
    end: u8,
    bytes: &[u8],
    max: usize,
    mut frame: impl FnMut(&[u8]) -> bool,
) -> Result<usize, Broken> {
    let mut used = 0;
    while let Some(length) = memchr::memchr(end, &bytes[used..]) {
        if !frame(&bytes[used..used + length]) {
            return Ok(used);
        }
        used += length + 1;
    }
    if bytes.len() - used > max {
        return Err(Broken::new("too_long", "a frame has no end"));
    }
    Ok(used)
}
