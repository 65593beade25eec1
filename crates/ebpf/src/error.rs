//! Why sockets are not counted: what failed, why, and what to do about it.

use std::fmt;

use crate::Options;

/// Listeners, and ports of either side, that are told apart within a second.
pub(crate) const PORTS: u32 = 8192;
/// Listeners with accepts that are told apart within a second; 1.7 kB of the kernel's memory each.
pub(crate) const LISTENERS: u32 = 1024;

/// What went wrong. Displays as two lines, `cannot …: why` and `hint: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EbpfError {
    message: String,
    hint: &'static str,
}

impl EbpfError {
    pub(crate) fn new(message: String, hint: &'static str) -> Self {
        Self { message, hint }
    }

    /// Events that found no room: of states, peers, listeners, and connections that wait; `None` when all are 0.
    pub(crate) fn of_full_maps(lost: [u64; 4], options: &Options) -> Option<Self> {
        let [states, peers, listeners, queued] = lost;
        let full = [
            (queued, "connections in accept queues", options.queued, "raise `ebpf.queued`"),
            (peers, "peers", options.peers, "raise `ebpf.peers`"),
            (listeners, "listeners", LISTENERS, "turn `ebpf.accept_wait` off"),
            (
                states,
                "ports",
                PORTS,
                "ports that are connected to once only, such as a scan's, do that",
            ),
        ];
        let (count, what, limit, hint) = full.into_iter().find(|(count, ..)| *count > 0)?;
        let message =
            format!("cannot count {count} events of sockets: more than {limit} {what} at a time");
        Some(Self::new(message, hint))
    }
}

impl fmt::Display for EbpfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl std::error::Error for EbpfError {}
