//! One connection as messages: a reader that can be left and entered again, and a task that writes what is queued.
//!
//! Writing has a task of its own, so that neither side can hold the other up by not reading what it is answered.

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::bandwidth::Bandwidth;
use crate::error::{Kind, LinkError};
use crate::frame::{Decoder, Limits};
use crate::message::Message;

/// Frames that wait to be written.
const QUEUE_FRAMES: usize = 16;
/// Bytes that are asked of the connection at a time.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are written at a time; what the bandwidth is divided into.
const WRITE_BYTES: usize = 16 << 10;
/// One such piece has to be taken within this.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Returns when the flag is set, or nobody can set it any more.
pub(crate) async fn is_set(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}

/// Reads messages.
pub(crate) struct Inbox<S> {
    read: ReadHalf<S>,
    decoder: Decoder,
    chunk: Vec<u8>,
    /// When bytes last came.
    pub(crate) heard: Instant,
}

/// Queues messages.
pub(crate) struct Outbox {
    queue: mpsc::Sender<Vec<u8>>,
    writing: JoinHandle<()>,
}

pub(crate) fn split<S>(stream: S, limits: Limits, bandwidth: Bandwidth) -> (Inbox<S>, Outbox)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, write) = tokio::io::split(stream);
    let (queue, frames) = mpsc::channel(QUEUE_FRAMES);
    let writing = tokio::spawn(write_always(write, frames, bandwidth));
    let chunk = vec![0; READ_BYTES];
    let inbox = Inbox { read, decoder: Decoder::new(limits), chunk, heard: Instant::now() };
    (inbox, Outbox { queue, writing })
}

impl<S: AsyncRead> Inbox<S> {
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.decoder.set_limits(limits);
    }

    /// The next message. May be dropped at any time: bytes that came are kept.
    pub(crate) async fn next(&mut self) -> Result<Message, LinkError> {
        loop {
            while let Some(frame) = self.decoder.next_frame()? {
                if let Some(message) = Message::decode(&frame)? {
                    return Ok(message);
                }
            }
            let read = self.read.read(&mut self.chunk).await;
            let count = read.map_err(LinkError::cut)?;
            if count == 0 {
                return Err(LinkError::new(Kind::Cut, "the other side closed the connection"));
            }
            self.heard = Instant::now();
            self.decoder.push(&self.chunk[..count]);
        }
    }

    /// As [`Inbox::next`], at most for `patience`.
    pub(crate) async fn next_within(&mut self, patience: Duration) -> Result<Message, LinkError> {
        let next = tokio::time::timeout(patience, self.next()).await;
        next.unwrap_or_else(|_| {
            let text = format!("nothing was heard for {} s", patience.as_secs());
            Err(LinkError::new(Kind::Silent, text))
        })
    }
}

impl Outbox {
    /// Queues a message; waits while the queue is full.
    pub(crate) async fn send(&self, message: &Message) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let gone = |_| LinkError::new(Kind::Cut, "the connection was cut");
        self.queue.send(bytes).await.map_err(gone)
    }

    /// Writes what is queued and ends the connection.
    pub(crate) async fn end(self) {
        let Self { queue, writing } = self;
        drop(queue);
        let abort = writing.abort_handle();
        if tokio::time::timeout(Duration::from_secs(2), writing).await.is_err() {
            abort.abort();
        }
    }
}

async fn write_always<S: AsyncWrite>(
    mut write: WriteHalf<S>,
    mut frames: mpsc::Receiver<Vec<u8>>,
    mut bandwidth: Bandwidth,
) {
    while let Some(frame) = frames.recv().await {
        for piece in frame.chunks(WRITE_BYTES) {
            bandwidth.take(piece.len()).await;
            let written = tokio::time::timeout(WRITE_PATIENCE, write.write_all(piece)).await;
            if !matches!(written, Ok(Ok(()))) {
                return;
            }
        }
        if frames.is_empty() {
            let flushed = tokio::time::timeout(WRITE_PATIENCE, write.flush()).await;
            if !matches!(flushed, Ok(Ok(()))) {
                return;
            }
        }
    }
    let _ = tokio::time::timeout(WRITE_PATIENCE, write.shutdown()).await;
}
