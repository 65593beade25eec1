//! Error of the socket counter, with a hint.

use std::fmt;

use crate::CounterOptions;

/// Maximum number of server ports counted separately per second.
pub(crate) const PORTS: u32 = 8192;
/// Maximum number of listeners counted separately per second; 1.7 kB of kernel memory each.
pub(crate) const LISTENERS: u32 = 1024;

/// Error with a hint. Displays as two lines: `cannot …: why` and `hint: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EbpfError {
    message: String,
    hint: &'static str,
}

impl EbpfError {
    pub(crate) fn new(message: String, hint: &'static str) -> Self {
        Self { message, hint }
    }

    /// Error for events that full maps dropped, by map; `None` when no map was full.
    pub(crate) fn of_full_maps(lost: [u64; 4], options: &CounterOptions) -> Option<Self> {
        let [states, peers, listeners, queued] = lost;
        let full = [
            (queued, "connections in accept queues", options.queued, "raise `ebpf.queued`"),
            (peers, "peers", options.peers, "raise `ebpf.peers`"),
            (listeners, "listeners", LISTENERS, "turn `ebpf.accept_wait` off"),
            (states, "ports", PORTS, "a port scan fills this map"),
        ];
        let (count, what, limit, hint) = full.into_iter().find(|(count, ..)| *count > 0)?;
        let message =
            format!("cannot count {count} socket events: more than {limit} {what} at a time");
        Some(Self::new(message, hint))
    }
}

impl fmt::Display for EbpfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl std::error::Error for EbpfError {}
