//! Link layers: finds IP in a frame.

use super::{FrameSlice, OuterLayers};
use crate::packet::Direction;
use crate::skip::SkipReason;

/// Link type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet.
    Ethernet,
    /// Linux cooked: `tcpdump -i any` before libpcap 1.10.
    Sll,
    /// Linux cooked version 2: `tcpdump -i any` today.
    Sll2,
    /// Raw IP.
    Raw,
    /// BSD loopback: four bytes of address family in either order.
    Loopback,
    /// Any other.
    Other(u32),
}

impl LinkType {
    /// Converts the number in the file; some systems use 12 and 14 for raw IP.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Ethernet,
            113 => Self::Sll,
            276 => Self::Sll2,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            0 | 108 => Self::Loopback,
            other => Self::Other(other),
        }
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ETHERNET_BRIDGED: u16 = 0x6558;
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Nested tags: QinQ has two.
const VLAN_TAGS_MAX: usize = 4;
/// `sll_pkttype` of packets sent by the host.
const OUTGOING: u8 = 4;

fn direction(kind: u8) -> Direction {
    if kind == OUTGOING { Direction::Out } else { Direction::In }
}

/// The IP datagram in a frame.
pub(super) fn open<'a>(
    link: LinkType,
    frame: FrameSlice<'a>,
    outer: &mut OuterLayers,
) -> Result<FrameSlice<'a>, SkipReason> {
    match link {
        LinkType::Ethernet => ethernet(frame),
        LinkType::Raw => Ok(frame),
        LinkType::Sll => {
            outer.direction = direction(frame.u8(1).ok_or(SkipReason::HeaderCut)?);
            let protocol = frame.u16(14).ok_or(SkipReason::HeaderCut)?;
            by_ethertype(protocol, frame.skip(16).ok_or(SkipReason::HeaderCut)?)
        }
        LinkType::Sll2 => {
            let head = frame.bytes.first_chunk::<20>().ok_or(SkipReason::HeaderCut)?;
            outer.interface = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            outer.direction = direction(head[10]);
            let protocol = u16::from_be_bytes([head[0], head[1]]);
            by_ethertype(protocol, frame.skip(20).ok_or(SkipReason::HeaderCut)?)
        }
        LinkType::Loopback => {
            let family = frame.bytes.first_chunk::<4>().ok_or(SkipReason::HeaderCut)?;
            let number = u32::from_be_bytes(*family).min(u32::from_le_bytes(*family));
            // 2 is IPv4 everywhere; the number of IPv6 differs per system.
            match number {
                2 | 10 | 24 | 28 | 30 => frame.skip(4).ok_or(SkipReason::HeaderCut),
                _ => Err(SkipReason::NotIp),
            }
        }
        LinkType::Other(_) => Err(SkipReason::LinkType),
    }
}

/// The IP datagram in an Ethernet frame.
pub(super) fn ethernet(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let protocol = frame.u16(12).ok_or(SkipReason::HeaderCut)?;
    by_ethertype(protocol, frame.skip(14).ok_or(SkipReason::HeaderCut)?)
}

/// Payload of an EtherType, without VLAN tags.
pub(super) fn by_ethertype(
    mut protocol: u16,
    mut part: FrameSlice<'_>,
) -> Result<FrameSlice<'_>, SkipReason> {
    for _ in 0..=VLAN_TAGS_MAX {
        match protocol {
            IPV4 | IPV6 => return Ok(part),
            ETHERNET_BRIDGED => {
                protocol = part.u16(12).ok_or(SkipReason::HeaderCut)?;
                part = part.skip(14).ok_or(SkipReason::HeaderCut)?;
            }
            tag if VLAN.contains(&tag) => {
                protocol = part.u16(2).ok_or(SkipReason::HeaderCut)?;
                part = part.skip(4).ok_or(SkipReason::HeaderCut)?;
            }
            _ => return Err(SkipReason::NotIp),
        }
    }
    Err(SkipReason::Nesting)
}
