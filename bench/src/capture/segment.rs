//! A simulated TCP segment.

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
pub(super) type Endpoint = (u32, u16);

/// Part of a message: its head, then padding up to its length.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload {
    pub(super) head: Rc<[u8]>,
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl Payload {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (from, end) = (self.offset as usize, (self.offset + self.length) as usize);
        let head = self.head.get(from..).unwrap_or_default();
        out.extend_from_slice(&head[..head.len().min(end - from)]);
        let letters = (end - from).saturating_sub(head.len());
        out.resize(out.len() + letters, b'x');
    }
}

/// A segment that passes the tap.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// When it passes the tap, in nanoseconds since 1970.
    pub(super) at_ns: i64,
    /// Order of segments at the same time.
    pub(super) order: u64,
    pub(super) is_from_client: bool,
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
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
    pub(super) payload: Payload,
}

impl Segment {
    /// Source and destination.
    pub(super) fn ends(&self) -> (Endpoint, Endpoint) {
        if self.is_from_client { (self.client, self.server) } else { (self.server, self.client) }
    }

    /// Whether the host with the tap is the sender.
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
