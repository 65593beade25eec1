//! Events that a shard sends to the sequencer: what depends on the packet order of the whole
//! capture.

use super::exchange::Exchange;
use super::seen::{ConnectionSeen, End};
use crate::flow::Protocol;
use crate::packet::Endpoint;

/// One event; slots are the shard's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// First packet of a connection.
    Open { slot: u32 },
    /// The shard uses the number `local` for a port from now on.
    Tier { local: u16, port: u16 },
    /// A server listens at this address.
    Server(u128),
    /// First byte of a request.
    Begin { slot: u32, tier: u16, ts: i64 },
    /// The request line is known: take the next of [`Out::asks`].
    Ask,
    /// The response is complete.
    Answered { slot: u32, answered: [i64; 2], think_ns: i64 },
    /// A request is complete: take the next of [`Out::dones`].
    Done,
    /// A connection is closed: take the next of [`Out::closed`].
    Closed,
}

/// The method, target and peers of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) slot: u32,
    /// Path without query, as a range of [`Out::text`].
    pub(crate) path: (u32, u32),
    pub(crate) hash: u64,
    /// Hashes of the request id and of the target; 0 for none.
    pub(crate) keys: [u64; 2],
    pub(crate) client: u128,
    pub(crate) server: u128,
}

/// A completed request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) slot: u32,
    pub(crate) connection: u32,
    pub(crate) exchange: Exchange,
    /// Client and server; set only when rows are wanted.
    pub(crate) ends: Option<Box<[Endpoint; 2]>>,
    pub(crate) protocol: Protocol,
    pub(crate) end: End,
    pub(crate) acknowledged: Option<i64>,
}

/// A closed connection; the sequencer assigns its number.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) slot: u32,
    pub(crate) seen: ConnectionSeen,
}

/// An event with its packet's index in the block and slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) at: u32,
    pub(crate) slice: u32,
    pub(crate) event: Event,
}

/// Events of one shard in order, with their payloads.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) events: Vec<Told>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) dones: Vec<Done>,
    pub(crate) closed: Vec<Closed>,
    pub(crate) text: Vec<u8>,
}
