//! What every program of weir needs of its process: the clock, limits, memory, signals, the
//! terminal, and its failures.
//!
//! Nothing here knows a table's rows or the configuration; what a limit is comes as an argument.

pub mod clock;
pub mod failure;
pub mod log;
pub mod meter;
pub mod own_limits;
pub mod own_memory;
pub mod privacy;
mod scheduling;
pub mod service;
pub mod signals;
pub mod socket_owner;
pub mod terminal;
pub mod time_args;

/// What weir calls itself to others: on the link, and in the answers of its protocols.
pub const PROGRAM: &str = concat!("weir ", env!("CARGO_PKG_VERSION"));
