//! Messages over one connection: a cancel-safe reader, and a task that writes the queue.
//!
//! Writing runs in a separate task, so that a peer that does not read cannot block reading.

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::bandwidth::Bandwidth;
use crate::error::{LinkError, LinkErrorKind};
use crate::frame::{Decoder, FrameLimits};
use crate::message::Message;

/// Length of the write queue in frames.
const QUEUE_FRAMES: usize = 16;
/// Size of a read in bytes.
const READ_BYTES: usize = 64 << 10;
/// Size of a write in bytes, and unit of the rate limit.
const WRITE_BYTES: usize = 16 << 10;
/// Timeout of one write.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Returns when the flag is set, or its sender is gone.
pub(crate) async fn is_set(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}

/// Reading half of a connection.
pub(crate) struct Inbox<S> {
    read: ReadHalf<S>,
    decoder: Decoder,
    chunk: Vec<u8>,
    /// When bytes last arrived.
    pub(crate) last_received: Instant,
}

/// Writing half of a connection.
pub(crate) struct Outbox {
    queue: mpsc::Sender<Vec<u8>>,
    writing: JoinHandle<()>,
}

pub(crate) fn split<S>(stream: S, limits: FrameLimits, bandwidth: Bandwidth) -> (Inbox<S>, Outbox)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, write) = tokio::io::split(stream);
    let (queue, frames) = mpsc::channel(QUEUE_FRAMES);
    let writing = tokio::spawn(write_always(write, frames, bandwidth));
    let chunk = vec![0; READ_BYTES];
    let inbox = Inbox { read, decoder: Decoder::new(limits), chunk, last_received: Instant::now() };
    (inbox, Outbox { queue, writing })
}

impl<S: AsyncRead> Inbox<S> {
    pub(crate) fn set_limits(&mut self, limits: FrameLimits) {
        self.decoder.set_limits(limits);
    }

    /// Receives the next message. Cancel safe: received bytes are kept.
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
                return Err(LinkError::new(LinkErrorKind::Cut, "the peer closed the connection"));
            }
            self.last_received = Instant::now();
            self.decoder.push(&self.chunk[..count]);
        }
    }

    /// Like [`Inbox::next`], with a timeout.
    pub(crate) async fn next_within(&mut self, patience: Duration) -> Result<Message, LinkError> {
        let next = tokio::time::timeout(patience, self.next()).await;
        next.unwrap_or_else(|_| {
            let text = format!("no message for {} s", patience.as_secs());
            Err(LinkError::new(LinkErrorKind::Silent, text))
        })
    }
}

impl Outbox {
    /// Queues a message; waits while the queue is full.
    pub(crate) async fn send(&self, message: &Message) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let sent = self.queue.send(bytes).await;
        sent.map_err(|_| LinkError::new(LinkErrorKind::Cut, "the connection was lost"))
    }

    /// Writes the queue and ends the connection.
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
