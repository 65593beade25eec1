//! A host's files, kernel, sockets and logs to rows.
//!
//! Everything is read below a root path and takes the time as an argument, so a recorded host
//! replays. No failure stops a caller: it becomes an `error` in a row of `collector_run`.

mod error;
pub mod host;
pub mod logs;
pub mod recording;

pub use error::CollectError;
pub use host::{HostOptions, HostSampler, KernelMessage, ListenerSummary};
