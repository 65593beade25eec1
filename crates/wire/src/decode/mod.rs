//! Frames to TCP segments: link layer, VLAN tags, IP with options and extension headers, fragments, tunnels, TCP.
//!
//! Written by hand, since this is what every packet goes through; etherparse is the oracle in tests. Lengths are
//! believed only as far as the bytes reach. Sources: RFC 791, 8200, 9293, 2784, 7348, <https://www.tcpdump.org/linktypes.html>.

mod fragment;
mod ip;
mod link;
mod tcp;

pub use link::LinkType;

use crate::capture::Record;
use crate::packet::{Direction, Packet};
use crate::skip::{Skip, Skipped};
use fragment::Fragments;
use ip::Datagram;

/// Turns frames into packets; remembers only fragments.
#[derive(Default)]
pub struct Decoder {
    fragments: Fragments,
}

/// A stretch of a frame that some protocol begins: what is there, and how long it was on the wire.
#[derive(Clone, Copy)]
struct Part<'a> {
    bytes: &'a [u8],
    wire_length: usize,
}

impl<'a> Part<'a> {
    /// Without its first bytes, or `None` when the capture does not hold them.
    fn skip(self, count: usize) -> Option<Self> {
        let bytes = self.bytes.get(count..)?;
        Some(Self { bytes, wire_length: self.wire_length.checked_sub(count)? })
    }

    /// At most so many bytes: what is behind is padding.
    fn limit(self, length: usize) -> Self {
        let bytes = &self.bytes[..self.bytes.len().min(length)];
        Self { bytes, wire_length: self.wire_length.min(length) }
    }

    fn u8(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }
}

/// What a frame's outer layers say.
#[derive(Clone, Copy)]
struct Outside {
    ts_ns: i64,
    interface: u32,
    direction: Direction,
}

/// Tunnels in each other that are followed.
const NESTING_MAX: usize = 4;

impl Decoder {
    /// Hands the TCP segment in a frame to `sink`.
    ///
    /// # Errors
    /// Why there is none; `None` for a fragment that waits for its siblings.
    #[inline]
    pub fn decode(
        &mut self,
        record: &Record<'_>,
        skipped: &mut Skipped,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Option<Skip>> {
        self.decode_on_its_way(record, Direction::Unknown, skipped, sink)
    }

    /// The same, where the tap knows which way the frame went although the frame does not say it.
    #[inline(always)]
    pub(crate) fn decode_on_its_way(
        &mut self,
        record: &Record<'_>,
        direction: Direction,
        skipped: &mut Skipped,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Option<Skip>> {
        let mut outside = Outside { ts_ns: record.ts_ns, interface: record.interface, direction };
        let frame = Part { bytes: record.bytes, wire_length: record.wire_length as usize };
        let part = link::open(record.link, frame, &mut outside)?;
        match ip::open(part)? {
            // Nearly always.
            (datagram, None) if datagram.protocol == ip::TCP => {
                tcp::open(datagram, outside, sink).map_err(Some)
            }
            _ => self.decode_rest(part, outside, skipped, sink),
        }
    }

    /// Fragments and tunnels.
    #[inline(never)]
    fn decode_rest(
        &mut self,
        mut part: Part<'_>,
        outside: Outside,
        skipped: &mut Skipped,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Option<Skip>> {
        for _ in 0..NESTING_MAX {
            let (datagram, fragment) = ip::open(part)?;
            if let Some(fragment) = fragment {
                let dropped = self.fragments.add(&datagram, fragment);
                skipped.add_many(Skip::Fragment, dropped.count);
                if !dropped.is_whole {
                    return Err(None);
                }
                let whole = self.fragments.whole(&datagram)?;
                return tcp::open(whole, outside, sink).map_err(Some);
            }
            if datagram.protocol == ip::TCP {
                return tcp::open(datagram, outside, sink).map_err(Some);
            }
            part = inner(datagram)?;
        }
        Err(Some(Skip::Nesting))
    }

    /// Fragments that still wait for siblings.
    pub fn waiting_fragments(&self) -> u64 {
        self.fragments.waiting()
    }
}

const VXLAN_PORTS: [u16; 2] = [4789, 8472];

/// The IP datagram inside of a tunnel.
fn inner(datagram: Datagram<'_>) -> Result<Part<'_>, Skip> {
    let body = datagram.body;
    match datagram.protocol {
        ip::IPV4 | ip::IPV6 => Ok(body),
        ip::GRE => {
            let flags = body.u16(0).ok_or(Skip::HeaderCut)?;
            let protocol = body.u16(2).ok_or(Skip::HeaderCut)?;
            if flags & 0x4007 != 0 {
                return Err(Skip::NotTcp);
            }
            let optional = 4 * (flags & 0xb000).count_ones() as usize;
            link::by_ethertype(protocol, body.skip(4 + optional).ok_or(Skip::HeaderCut)?)
        }
        ip::UDP if body.u16(2).is_some_and(|port| VXLAN_PORTS.contains(&port)) => {
            // The flag says that the network's number is valid: without it this is some other UDP.
            if body.u8(8).ok_or(Skip::HeaderCut)? & 0x08 == 0 {
                return Err(Skip::NotTcp);
            }
            link::ethernet(body.skip(16).ok_or(Skip::HeaderCut)?)
        }
        _ => Err(Skip::NotTcp),
    }
}
