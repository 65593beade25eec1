//! What a shard tells the ledger: the few things that need the order of the whole capture, packet by packet.

use super::exchange::Exchange;
use super::seen::{ConnectionSeen, End};
use crate::flow::Protocol;
use crate::packet::Endpoint;

/// One thing that happened; slots are those of the shard.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A connection was seen first.
    Open { slot: u32 },
    /// A port of the shard has the number `local` from now on.
    Tier { local: u16, port: u16 },
    /// Something listens at this address.
    Server(u128),
    /// A request's first byte.
    Begin { slot: u32, tier: u16, ts: i64 },
    /// What the request asks for is known: the next of [`Out::asks`].
    Ask,
    /// The response is whole.
    Answered { slot: u32, answered: [i64; 2], think_ns: i64 },
    /// A request is over: the next of [`Out::dones`].
    Done,
    /// A connection is over: the next of [`Out::closed`].
    Closed,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) slot: u32,
    /// Path without query: where it stands in [`Out::text`], and its hash.
    pub(crate) path: (u32, u32),
    pub(crate) hash: u64,
    /// Hashes of the id in its head and of what it asks for; 0 for none.
    pub(crate) keys: [u64; 2],
    pub(crate) client: u128,
    pub(crate) server: u128,
}

/// A request that is over.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) slot: u32,
    pub(crate) connection: u32,
    pub(crate) exchange: Exchange,
    /// Client and server; only when somebody wants rows.
    pub(crate) ends: Option<Box<[Endpoint; 2]>>,
    pub(crate) protocol: Protocol,
    pub(crate) end: End,
    pub(crate) acknowledged: Option<i64>,
}

/// A connection that is over; its number is the ledger's to give.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) slot: u32,
    pub(crate) seen: ConnectionSeen,
}

/// An event, the place of its packet in the block, and the slice of this.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) at: u32,
    pub(crate) slice: u32,
    pub(crate) event: Event,
}

/// Events of one shard in order, and what belongs to them.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) events: Vec<Told>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) dones: Vec<Done>,
    pub(crate) closed: Vec<Closed>,
    pub(crate) text: Vec<u8>,
}
