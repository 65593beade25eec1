//! A host's files, kernel, sockets and logs to rows.
//!
//! Everything is read below a root path and the time is handed in, so a recorded host replays. Nothing here stops
//! a caller: what cannot be read is an `error` in a row of `collector_run`, and the rest goes on.

mod error;
pub mod host;
pub mod logs;
pub mod probe;
pub mod recording;

pub use error::CollectError;
pub use host::{HostOptions, HostSampler, ListenerSummary};
