//! Link layers: finds IP in a frame, behind any tags, labels and PPP headers.
//!
//! Sources: <https://www.tcpdump.org/linktypes.html>, IEEE 802.1Q and 802.1ah, RFC 3032 (MPLS), RFC
//! 4385 (the control word of pseudowires), RFC 2516 (PPPoE), RFC 1661 (PPP), RFC 1042 (SNAP), RFC
//! 6325 (TRILL), RFC 8300 (NSH), IEC 62439-3 (HSR). One surprise: MPLS does not say what it carries, so the first bits behind the labels decide.

use super::{FrameSlice, OuterLayers, wireless};
use crate::frame::{DescribedBy, LinkType};
use crate::packet::Direction;
use crate::skip::SkipReason;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const MPLS: u16 = 0x8847;
pub(super) const ETHERNET_BRIDGED: u16 = 0x6558;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
const PROVIDER_BACKBONE: u16 = 0x88e7;
const MACSEC: u16 = 0x88e5;
const CISCO_METADATA: u16 = 0x8909;
const VN_TAG: u16 = 0x8926;
const E_TAG: u16 = 0x893f;
const HSR: u16 = 0x892f;
const FABRIC_PATH: u16 = 0x8903;
const TRILL: u16 = 0x22f3;
const SERVICE_HEADER: u16 = 0x894f;
const VLAN: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// Smaller values of an EtherType are the length of an IEEE 802.3 frame.
const ETHERTYPE_MIN: u16 = 0x0600;
/// Nested tags, labels and headers: QinQ has two, a pseudowire of a carrier a few more.
const LAYERS_MAX: usize = 8;
/// Labels of one stack.
const LABELS_MAX: usize = 16;
/// `sll_pkttype` of packets sent by the host.
const OUTGOING: u8 = 4;

fn direction(kind: u8) -> Direction {
    if kind == OUTGOING { Direction::Out } else { Direction::In }
}

/// The IP datagram in a frame.
#[inline]
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
            by_ethertype(protocol, cut(frame, 16)?)
        }
        LinkType::Sll2 => {
            let head = frame.bytes.first_chunk::<20>().ok_or(SkipReason::HeaderCut)?;
            outer.interface = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            outer.direction = direction(head[10]);
            let protocol = u16::from_be_bytes([head[0], head[1]]);
            by_ethertype(protocol, cut(frame, 20)?)
        }
        LinkType::Loopback => loopback(frame),
        LinkType::Ppp => ppp(frame),
        LinkType::PppoeSession => pppoe(frame),
        LinkType::CiscoHdlc => {
            let protocol = frame.u16(2).ok_or(SkipReason::HeaderCut)?;
            by_ethertype(protocol, cut(frame, 4)?)
        }
        LinkType::Nflog => nflog(frame),
        other => open_rare(other, frame, outer),
    }
}

#[inline(never)]
fn open_rare<'a>(
    link: LinkType,
    frame: FrameSlice<'a>,
    outer: &mut OuterLayers,
) -> Result<FrameSlice<'a>, SkipReason> {
    match link {
        LinkType::Wireless => wireless::open(frame),
        LinkType::Radiotap => wireless::behind_radiotap(frame),
        LinkType::Ipsec => cut(frame, 12),
        LinkType::Pflog => {
            let length = usize::from(frame.u8(0).ok_or(SkipReason::HeaderCut)?);
            cut(frame, length.next_multiple_of(4))
        }
        LinkType::Juniper => juniper(frame),
        LinkType::SwitchTag(bytes) => {
            let tag = usize::from(bytes);
            let protocol = frame.u16(12 + tag).ok_or(SkipReason::HeaderCut)?;
            by_ethertype(protocol, cut(frame, 14 + tag)?)
        }
        LinkType::SwitchTagFirst => ethernet(cut(frame, 4)?),
        LinkType::Described(by) => {
            let (inner, part) = described(by, frame)?;
            match inner {
                // A header names a link type, never another header.
                LinkType::Described(_) => Err(SkipReason::Nesting),
                inner => open(inner, part, outer),
            }
        }
        _ => Err(SkipReason::LinkType),
    }
}

/// What Juniper's routers write: a magic, flags, and maybe extensions before the Ethernet frame. Packets
/// that the router itself sends have no Ethernet header but an address family.
fn juniper(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const HAS_NO_ETHERNET: u8 = 0x02;
    const HAS_EXTENSIONS: u8 = 0x80;
    let head = frame.bytes.first_chunk::<6>().ok_or(SkipReason::HeaderCut)?;
    if head[..3] != *b"MGC" {
        return Err(SkipReason::Malformed);
    }
    let flags = head[3];
    let extensions = match flags & HAS_EXTENSIONS {
        0 => 0,
        _ => 2 + usize::from(u16::from_be_bytes([head[4], head[5]])),
    };
    let part = cut(frame, 4 + extensions)?;
    if flags & HAS_NO_ETHERNET == 0 { ethernet(part) } else { cut(part, 4) }
}

/// The link type that a header names, and what follows the header. All numbers are little-endian.
fn described(
    by: DescribedBy,
    frame: FrameSlice<'_>,
) -> Result<(LinkType, FrameSlice<'_>), SkipReason> {
    let head = frame.bytes.first_chunk::<12>().ok_or(SkipReason::HeaderCut)?;
    let [first, second, third] = [0, 4, 8]
        .map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let (length, link) = match by {
        DescribedBy::Ppi => (first >> 16, second),
        DescribedBy::Pktap => (first, third),
    };
    let length = usize::try_from(length).map_err(|_| SkipReason::Malformed)?;
    Ok((LinkType::from_number(link), cut(frame, length)?))
}

/// The part behind the first `count` bytes.
#[inline]
pub(super) fn cut(part: FrameSlice<'_>, count: usize) -> Result<FrameSlice<'_>, SkipReason> {
    part.skip(count).ok_or(SkipReason::HeaderCut)
}

fn loopback(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let family = frame.bytes.first_chunk::<4>().ok_or(SkipReason::HeaderCut)?;
    let number = u32::from_be_bytes(*family).min(u32::from_le_bytes(*family));
    // 2 is IPv4 everywhere; the number of IPv6 differs per system.
    match number {
        2 | 10 | 24 | 28 | 30 => cut(frame, 4),
        _ => Err(SkipReason::NotIp),
    }
}

/// The IP datagram in an Ethernet frame.
#[inline]
pub(super) fn ethernet(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let protocol = frame.u16(12).ok_or(SkipReason::HeaderCut)?;
    by_ethertype(protocol, cut(frame, 14)?)
}

/// The IP datagram in the payload of an EtherType.
#[inline]
pub(super) fn by_ethertype(
    protocol: u16,
    part: FrameSlice<'_>,
) -> Result<FrameSlice<'_>, SkipReason> {
    match protocol {
        IPV4 | IPV6 => Ok(part),
        _ => behind_layers(protocol, part),
    }
}

#[inline(never)]
fn behind_layers(
    mut protocol: u16,
    mut part: FrameSlice<'_>,
) -> Result<FrameSlice<'_>, SkipReason> {
    for _ in 0..=LAYERS_MAX {
        (protocol, part) = match protocol {
            IPV4 | IPV6 => return Ok(part),
            PPPOE_SESSION => return pppoe(part),
            MPLS | MPLS_MULTICAST => behind_labels(part)?,
            MACSEC => return Err(SkipReason::Tunnel),
            SERVICE_HEADER => behind_service_header(part)?,
            TRILL => {
                let options = part.u16(0).ok_or(SkipReason::HeaderCut)? >> 6 & 0x1f;
                (ETHERNET_BRIDGED, cut(part, 6 + 4 * usize::from(options))?)
            }
            length if length < ETHERTYPE_MIN => behind_snap(part)?,
            layer => {
                let [type_at, length] = tag(layer).ok_or(SkipReason::NotIp)?;
                (part.u16(type_at).ok_or(SkipReason::HeaderCut)?, cut(part, length)?)
            }
        };
    }
    Err(SkipReason::Nesting)
}

/// Place of the next EtherType in a tag, and the length of the tag.
fn tag(protocol: u16) -> Option<[usize; 2]> {
    match protocol {
        ETHERNET_BRIDGED => Some([12, 14]),
        // The service tag, then the customer's addresses.
        PROVIDER_BACKBONE => Some([16, 18]),
        // Two bytes of tree and hop count, then a frame.
        FABRIC_PATH => Some([14, 16]),
        VN_TAG | HSR => Some([4, 6]),
        CISCO_METADATA | E_TAG => Some([6, 8]),
        tag if VLAN.contains(&tag) => Some([2, 4]),
        _ => None,
    }
}

/// What follows the header of a service chain, and its EtherType.
pub(super) fn behind_service_header(
    part: FrameSlice<'_>,
) -> Result<(u16, FrameSlice<'_>), SkipReason> {
    let words = part.u16(0).ok_or(SkipReason::HeaderCut)? & 0x3f;
    let protocol = match part.u8(3).ok_or(SkipReason::HeaderCut)? {
        1 => IPV4,
        2 => IPV6,
        3 => ETHERNET_BRIDGED,
        4 => SERVICE_HEADER,
        5 => MPLS,
        _ => return Err(SkipReason::Tunnel),
    };
    Ok((protocol, cut(part, 4 * usize::from(words.max(1)))?))
}

/// IEEE 802.3 with LLC and SNAP carries an EtherType behind eight bytes.
pub(super) fn behind_snap(part: FrameSlice<'_>) -> Result<(u16, FrameSlice<'_>), SkipReason> {
    match part.bytes {
        [0xaa, 0xaa, 3, 0, 0, 0, high, low, ..] => {
            Ok((u16::from_be_bytes([*high, *low]), cut(part, 8)?))
        }
        _ => Err(SkipReason::NotIp),
    }
}

/// What follows the label at the bottom of the stack: IP, or the Ethernet frame of a pseudowire
/// with or without its control word.
pub(super) fn behind_labels(mut part: FrameSlice<'_>) -> Result<(u16, FrameSlice<'_>), SkipReason> {
    for _ in 0..LABELS_MAX {
        let is_bottom = part.u8(2).ok_or(SkipReason::HeaderCut)? & 1 == 1;
        part = cut(part, 4)?;
        if !is_bottom {
            continue;
        }
        let is_frame = has_known_ethertype(part);
        return match part.u8(0).ok_or(SkipReason::HeaderCut)? >> 4 {
            4 if !is_frame => Ok((IPV4, part)),
            6 if !is_frame => Ok((IPV6, part)),
            0 if !is_frame => Ok((ETHERNET_BRIDGED, cut(part, 4)?)),
            _ if is_frame => Ok((ETHERNET_BRIDGED, part)),
            _ => Err(SkipReason::NotIp),
        };
    }
    Err(SkipReason::Nesting)
}

/// Whether bytes are an Ethernet frame of IP: an EtherType that fits the first nibble behind it. An
/// IPv4 header has its source address there, which fits hardly ever.
fn has_known_ethertype(part: FrameSlice<'_>) -> bool {
    let version = part.u8(14).map(|byte| byte >> 4);
    match part.u16(12) {
        Some(IPV4) => version == Some(4),
        Some(IPV6) => version == Some(6),
        Some(other) => VLAN.contains(&other),
        None => false,
    }
}

/// A PPPoE session: RFC 2516 §4.
fn pppoe(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let head = part.bytes.first_chunk::<6>().ok_or(SkipReason::HeaderCut)?;
    if head[0] != 0x11 || head[1] != 0 {
        return Err(SkipReason::NotIp);
    }
    let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    ppp(cut(part, 6)?.limit(length))
}

/// PPP, with or without the address and control bytes of HDLC, and with protocol numbers of one or
/// two bytes.
pub(super) fn ppp(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let part = if part.bytes.starts_with(&[0xff, 3]) { cut(part, 2)? } else { part };
    match part.bytes {
        [0x21 | 0x57, ..] => cut(part, 1),
        [0, 0x21 | 0x57, ..] => cut(part, 2),
        [2, 0x81 | 0x83, ..] => {
            let (protocol, part) = behind_labels(cut(part, 2)?)?;
            by_ethertype(protocol, part)
        }
        [] | [_] => Err(SkipReason::HeaderCut),
        _ => Err(SkipReason::NotIp),
    }
}

/// Linux' netfilter log: attributes of length, type and value, in the host's byte order.
fn nflog(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const PAYLOAD: u16 = 9;
    let mut part = cut(frame, 4)?;
    for _ in 0..64 {
        let head = part.bytes.first_chunk::<4>().ok_or(SkipReason::HeaderCut)?;
        let [length, kind] = [0, 2].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
        let length = usize::from(length);
        if length < 4 {
            return Err(SkipReason::Malformed);
        }
        if kind == PAYLOAD {
            return cut(part.limit(length), 4);
        }
        part = cut(part, length.next_multiple_of(4))?;
    }
    Err(SkipReason::Malformed)
}
