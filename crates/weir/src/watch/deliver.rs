//! What collectors hand over, and to whom: the store in this process, or a hub. Both answer with the same replies.
//!
//! Rows of a stream and samples differ in what happens when nobody takes them: a stream waits, because its file can be
//! read again; a sample is dropped and counted, because the next one comes in a second.

use std::sync::mpsc::Sender;

use weir_tables::{Batch, Parcel, StreamId};

/// Takes rows until they are durable.
pub(crate) trait Destination: Send + Sync {
    /// Where streams stand; those that are not known are left out. An error means "ask again".
    fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String>;
    /// Hands over rows of a stream; waits while too much is on its way. The reply comes through the ticket.
    fn send_stream(&self, parcel: Parcel, ticket: Ticket);
    /// Hands over rows that cannot be read again; never waits.
    fn send_sample(&self, batches: Vec<Batch>);
    /// Makes every call return at once from now on.
    fn close(&self);
}

/// Whom to tell what became of a stretch of a stream.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The stream.
    pub(crate) stream: StreamId,
    /// Counts the rewinds of the stream, so that late news of an earlier attempt are recognised.
    pub(crate) epoch: u64,
    /// The stretch.
    pub(crate) from: u64,
    /// Its end.
    pub(crate) to: u64,
    /// Whether the destination does not know the stream yet: then a gap would go unnoticed, and the parcel must be
    /// durable before the next one of the stream is sent.
    pub(crate) is_first: bool,
    /// The tailer.
    pub(crate) reply: Sender<Reply>,
}

/// What became of a stretch.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Durable up to `to`.
    Durable { stream: StreamId, to: u64 },
    /// Send the stream from `to` again; `is_busy` asks for a pause first.
    Again { stream: StreamId, epoch: u64, to: u64, is_busy: bool },
    /// A buffer that is no longer needed.
    Spare(Vec<u8>),
}

impl Ticket {
    /// The rows are durable up to `to`.
    pub(crate) fn durable(self, to: u64) {
        let _ = self.reply.send(Reply::Durable { stream: self.stream, to });
    }

    /// The stream has to be sent from `to` again.
    pub(crate) fn again(self, to: u64, is_busy: bool) {
        let reply = Reply::Again { stream: self.stream, epoch: self.epoch, to, is_busy };
        let _ = self.reply.send(reply);
    }
}
