//! Events that a shard sends to the sequencer: what depends on the packet order of the whole
//! capture.

use super::exchange::Exchange;
use super::observed::{ObservedConnection, RequestEnd};
use crate::flow::Protocol;
use weir_capture::packet::Endpoint;

#[derive(Debug, Clone, Copy)]
pub(crate) enum ShardEvent {
    Open {
        slot: u32,
    },
    /// The shard uses the number `local` for a port from now on.
    Tier {
        local: u16,
        port: u16,
    },
    /// A server listens at this address.
    Server(u128),
    Begin {
        slot: u32,
        tier: u16,
        ts: i64,
    },
    /// The request line is known: take the next of [`EventBuffer::details`].
    Details,
    Answered {
        slot: u32,
        answered: [i64; 2],
        think_ns: i64,
    },
    /// A request is complete: take the next of [`EventBuffer::completed`].
    Completed,
    /// A connection is closed: take the next of [`EventBuffer::closed`].
    Closed,
}

/// The method, target and peers of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestDetails {
    pub(crate) slot: u32,
    /// Path without query, as a range of [`EventBuffer::text`].
    pub(crate) path: (u32, u32),
    pub(crate) hash: u64,
    /// Hashes of the request id and of the target; 0 for none.
    pub(crate) keys: [u64; 2],
    pub(crate) client: u128,
    pub(crate) server: u128,
}

#[derive(Debug)]
pub(crate) struct CompletedRequest {
    pub(crate) slot: u32,
    pub(crate) connection: u32,
    pub(crate) exchange: Exchange,
    /// Client and server; set only when rows are wanted.
    pub(crate) ends: Option<Box<[Endpoint; 2]>>,
    pub(crate) protocol: Protocol,
    pub(crate) end: RequestEnd,
    pub(crate) acknowledged: Option<i64>,
}

/// A closed connection; the sequencer assigns its number.
#[derive(Debug)]
pub(crate) struct ClosedConnection {
    pub(crate) slot: u32,
    pub(crate) observed: ObservedConnection,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StampedEvent {
    pub(crate) at: u32,
    pub(crate) slice: u32,
    pub(crate) event: ShardEvent,
}

/// Events of one shard in order, with their payloads.
#[derive(Debug, Default)]
pub(crate) struct EventBuffer {
    pub(crate) events: Vec<StampedEvent>,
    pub(crate) details: Vec<RequestDetails>,
    pub(crate) completed: Vec<CompletedRequest>,
    pub(crate) closed: Vec<ClosedConnection>,
    pub(crate) text: Vec<u8>,
}
