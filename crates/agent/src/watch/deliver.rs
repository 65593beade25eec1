//! What collectors hand over, and to whom: the store in this process, or a hub. Both answer with the same replies.
//!
//! Rows of a stream and samples differ in what happens when nobody takes them: a stream waits, because its file can be
//! read again; a sample is dropped and counted, because the next one comes in a second.

use std::sync::mpsc::Sender;

use weir_tables::{Batch, Parcel, StreamId};

/// Takes rows until they are durable.
pub trait Destination: Send + Sync {
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
pub struct Ticket {
    /// The stream.
    pub stream: StreamId,
    /// Counts the rewinds of the stream, so that late news of an earlier attempt are recognised.
    pub epoch: u64,
    /// The stretch.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// Whether the destination does not know the stream yet: then a gap would go unnoticed, and the parcel must be
    /// durable before the next one of the stream is sent.
    pub is_first: bool,
    /// The tailer.
    pub reply: Sender<Reply>,
}

/// What became of a stretch.
#[derive(Debug)]
pub enum Reply {
    /// Durable up to `to`.
    Durable {
        /// The stream.
        stream: StreamId,
        /// The position up to which it is durable.
        to: u64,
    },
    /// Send the stream from `to` again; `is_busy` asks for a pause first.
    Again {
        /// The stream.
        stream: StreamId,
        /// The attempt that failed.
        epoch: u64,
        /// Where to begin.
        to: u64,
        /// Whether to pause first.
        is_busy: bool,
    },
    /// A buffer that is no longer needed.
    Spare(Vec<u8>),
}

impl Ticket {
    /// The rows are durable up to `to`.
    pub fn durable(self, to: u64) {
        let _ = self.reply.send(Reply::Durable { stream: self.stream, to });
    }

    /// The stream has to be sent from `to` again.
    pub fn again(self, to: u64, is_busy: bool) {
        let reply = Reply::Again { stream: self.stream, epoch: self.epoch, to, is_busy };
        let _ = self.reply.send(reply);
    }
}
