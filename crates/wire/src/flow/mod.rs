//! Connections: which packets belong together, and TCP's own behaviour.

mod arena;
mod clock;
mod connection;
mod half;

pub(crate) use arena::ConnectionArena;
pub(crate) use clock::SenderClock;
pub use connection::Protocol;
pub(crate) use connection::{Connection, LINGER_NS, NONE, Side};
pub(crate) use half::{HalfConnection, OrderedChunk, SegmentArrival};
