//! One TCP segment of the simulation, and the two hosts' state that it is made of.

use std::cmp::Ordering;
use std::rc::Rc;

/// Control bits.
pub(super) mod flag {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;
}

/// An IPv4 address and a port.
pub(super) type End = (u32, u16);

/// A part of a message: its head, then letters up to its length.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) head: Rc<[u8]>,
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl Part {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (from, end) = (self.offset as usize, (self.offset + self.length) as usize);
        let head = self.head.get(from..).unwrap_or_default();
        out.extend_from_slice(&head[..head.len().min(end - from)]);
        let letters = (end - from).saturating_sub(head.len());
        out.resize(out.len() + letters, b'x');
    }
}

/// What passes the tap.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// When it passes: nanoseconds since 1970.
    pub(super) at_ns: i64,
    /// Of two at the same time the one that was made first passes first.
    pub(super) order: u64,
    pub(super) is_from_client: bool,
    pub(super) client: End,
    pub(super) server: End,
    /// Whether the tap is at the server's host, or at the client's.
    pub(super) is_tap_at_server: bool,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) ts_value: u32,
    pub(super) ts_echo: u32,
    pub(super) sack: Option<(u32, u32)>,
    pub(super) ip_id: u16,
    pub(super) payload: Part,
}

impl Segment {
    /// From and to.
    pub(super) fn ends(&self) -> (End, End) {
        if self.is_from_client { (self.client, self.server) } else { (self.server, self.client) }
    }

    /// Whether the host with the tap sends it.
    pub(super) fn is_from_tap(&self) -> bool {
        self.is_from_client != self.is_tap_at_server
    }
}

impl Ord for Segment {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

impl PartialOrd for Segment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Segment {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Segment {}
