//! Tunnels: finds the inner IP datagram.
//!
//! Sources: RFC 2784 and 2890 (GRE), RFC 2637 (PPTP), draft-foschiano-erspan, RFC 7348 (VXLAN), RFC
//! 8926 (GENEVE), RFC 7510 (MPLS in UDP), RFC 4023 (MPLS in IP), RFC 3378 (EtherIP), 3GPP TS 29.281
//! (GTP-U), RFC 4380 (Teredo), RFC 2661 (L2TP), RFC 5415 (CAPWAP), RFC 9300 (LISP), RFC 8986 (Ethernet
//! in SRv6), draft-ietf-intarea-gue. ERSPAN type I has no header; it
//! differs from type II only in the GRE header, which has no sequence number.

use super::FrameSlice;
use super::ip::{self, Datagram};
use super::link::{self, cut};
use super::wireless;
use crate::skip::SkipReason;

/// A UDP header.
const UDP_BYTES: usize = 8;
/// Extension headers or tags of one tunnel header.
const EXTENSIONS_MAX: usize = 16;

/// The IP datagram inside a tunnel.
pub(super) fn inner(datagram: Datagram<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const KA9Q: u8 = 94;
    const ETHER_IP: u8 = 97;
    const MPLS_IN_IP: u8 = 137;
    const ENCRYPTED: u8 = 50;
    const L2TP: u8 = 115;
    const ETHERNET: u8 = 143;
    let body = datagram.body;
    match datagram.protocol {
        ip::IPV4 | ip::IPV6 | KA9Q => Ok(body),
        ip::GRE => gre(body),
        ip::UDP => udp(body),
        ETHER_IP => link::ethernet(cut(body, 2)?),
        ETHERNET => link::ethernet(body),
        MPLS_IN_IP => link::by_ethertype(link::MPLS, body),
        ENCRYPTED | L2TP => Err(SkipReason::Tunnel),
        _ => Err(SkipReason::NotTcp),
    }
}

fn gre(body: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const ERSPAN: u16 = 0x88be;
    const ERSPAN_3: u16 = 0x22eb;
    const CACHE_REDIRECT: u16 = 0x883e;
    const PPP: u16 = 0x880b;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGEMENT: u16 = 0x0080;
    let flags = body.u16(0).ok_or(SkipReason::HeaderCut)?;
    let protocol = body.u16(2).ok_or(SkipReason::HeaderCut)?;
    let fields = match flags & 7 {
        // Bits of checksum, key and sequence number; routing is obsolete.
        0 if flags & 0x4000 == 0 => flags & 0xb000,
        // PPTP: the key is always there.
        1 => 0x2000 | flags & (SEQUENCE | ACKNOWLEDGEMENT),
        _ => return Err(SkipReason::Tunnel),
    };
    let part = cut(body, 4 + 4 * fields.count_ones() as usize)?;
    match protocol {
        ERSPAN if flags & SEQUENCE == 0 => link::ethernet(part),
        ERSPAN | ERSPAN_3 => erspan(part),
        PPP => link::ppp(part),
        CACHE_REDIRECT => match part.u8(0).ok_or(SkipReason::HeaderCut)? >> 4 {
            4 | 6 => Ok(part),
            _ => cut(part, 4),
        },
        _ => link::by_ethertype(protocol, part).map_err(|reason| match reason {
            SkipReason::NotIp => SkipReason::Tunnel,
            other => other,
        }),
    }
}

/// ERSPAN: 8 bytes in type II; 12, and 8 more if a bit says so, in type III.
fn erspan(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const IP_FRAME: u16 = 2;
    match part.u8(0).ok_or(SkipReason::HeaderCut)? >> 4 {
        1 => link::ethernet(cut(part, 8)?),
        2 => {
            let last = part.u16(10).ok_or(SkipReason::HeaderCut)?;
            let frame = cut(part, if last & 1 == 1 { 20 } else { 12 })?;
            if last >> 10 & 0x1f == IP_FRAME { Ok(frame) } else { link::ethernet(frame) }
        }
        _ => link::ethernet(part),
    }
}

/// Tunnels in UDP, by the port of their receiver.
fn udp(body: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    match body.u16(2).ok_or(SkipReason::HeaderCut)? {
        4789 | 8472 => vxlan(cut(body, UDP_BYTES)?),
        4790 => generic_vxlan(cut(body, UDP_BYTES)?),
        6081 => geneve(cut(body, UDP_BYTES)?),
        6635 => link::by_ethertype(link::MPLS, cut(body, UDP_BYTES)?),
        2152 => gtp(cut(body, UDP_BYTES)?),
        3544 => teredo(cut(body, UDP_BYTES)?),
        37_008 => tazmen(cut(body, UDP_BYTES)?),
        _ => udp_of_either_port(body),
    }
}

/// Tunnels in UDP whose server answers from its port.
#[inline(never)]
fn udp_of_either_port(body: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let ports = [body.u16(0), body.u16(2)];
    let is_of = |port| ports.contains(&Some(port));
    if is_of(1701) {
        l2tp(cut(body, UDP_BYTES)?)
    } else if is_of(5247) {
        wireless_controller(cut(body, UDP_BYTES)?)
    } else if is_of(4500) {
        // IPsec behind an address translation.
        Err(SkipReason::Tunnel)
    } else {
        of_any_port(cut(body, UDP_BYTES)?).ok_or(SkipReason::NotTcp)
    }
}

/// A tunnel to a port that is configured, recognised by what it holds: an IP header whose length and checksum
/// are right, at once, behind the headers of GUE and LISP, or in a frame behind those of VXLAN and GENEVE.
fn of_any_port(part: FrameSlice<'_>) -> Option<FrameSlice<'_>> {
    const VXLAN: u8 = 0x08;
    const FRAME: u16 = 0x6558;
    const LISP_BYTES: usize = 8;
    let first = part.u8(0)?;
    let direct = [0, 4 + 4 * usize::from(first & 0x1f), LISP_BYTES];
    if let Some(packet) = direct.iter().filter_map(|at| part.skip(*at)).find(is_packet) {
        return Some(packet);
    }
    let head = match first {
        VXLAN if part.bytes.get(1..4) == Some(&[0; 3]) => LISP_BYTES,
        0..0x40 if part.u16(2) == Some(FRAME) => 8 + 4 * usize::from(first),
        _ => return None,
    };
    link::ethernet(part.skip(head)?).ok().filter(is_packet)
}

/// Whether bytes are an IP packet: an IPv4 header with the right checksum, or one of IPv6 with TCP, neither
/// longer than what is there.
fn is_packet(part: &FrameSlice<'_>) -> bool {
    const IPV4_BYTES: usize = 20;
    let length = |at| part.u16(at).map_or(usize::MAX, usize::from);
    match part.u8(0) {
        Some(0x45) => {
            let Some(head) = part.bytes.get(..IPV4_BYTES) else { return false };
            let words = head.chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
            let sum: u32 = words.sum();
            (sum & 0xffff) + (sum >> 16) == 0xffff
                && (IPV4_BYTES..=part.wire_length).contains(&length(2))
        }
        Some(0x60..=0x6f) => {
            part.u8(6) == Some(ip::TCP) && length(4).saturating_add(40) <= part.wire_length
        }
        _ => false,
    }
}

/// L2TP of version 2: data messages hold PPP.
fn l2tp(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const CONTROL: u16 = 0x8000;
    const LENGTH: u16 = 0x4000;
    const SEQUENCE: u16 = 0x0800;
    const OFFSET: u16 = 0x0200;
    const RESERVED: u16 = 0x34f0;
    let flags = part.u16(0).ok_or(SkipReason::HeaderCut)?;
    if flags & CONTROL != 0 || flags & RESERVED != 0 || flags & 0xf != 2 {
        return Err(SkipReason::NotTcp);
    }
    let has = |flag: u16, size: usize| if flags & flag != 0 { size } else { 0 };
    let at = 6 + has(LENGTH, 2) + has(SEQUENCE, 4);
    let padding = match flags & OFFSET {
        0 => 0,
        _ => 2 + usize::from(part.u16(at).ok_or(SkipReason::HeaderCut)?),
    };
    link::ppp(cut(part, at + padding)?)
}

/// CAPWAP: a controller gets the frames of its access points.
fn wireless_controller(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const WIRELESS_BINDING: u8 = 1;
    const FRAGMENT: u8 = 0x80;
    let head = part.bytes.first_chunk::<4>().ok_or(SkipReason::HeaderCut)?;
    match head[0] {
        0 if head[3] & FRAGMENT == 0 => {}
        // The latter is encrypted.
        0 | 1 => return Err(SkipReason::Tunnel),
        _ => return Err(SkipReason::NotTcp),
    }
    let frame = cut(part, 4 * usize::from(head[1] >> 3))?;
    let binding = head[2] >> 1 & 0x1f;
    match (head[2] & 1, binding) {
        (0, _) => link::ethernet(frame),
        (_, WIRELESS_BINDING) => wireless::open(frame),
        _ => Err(SkipReason::Tunnel),
    }
}

fn vxlan(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    // Without the flag for a valid network id, this is some other UDP.
    if part.u8(0).ok_or(SkipReason::HeaderCut)? & 0x08 == 0 {
        return Err(SkipReason::NotTcp);
    }
    link::ethernet(cut(part, 8)?)
}

/// VXLAN with a field for the kind of payload.
fn generic_vxlan(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let kind = part.u8(3).ok_or(SkipReason::HeaderCut)?;
    let payload = cut(part, 8)?;
    match kind {
        0 => vxlan(part),
        1 | 2 => Ok(payload),
        3 => link::ethernet(payload),
        4 => {
            let (protocol, payload) = link::behind_service_header(payload)?;
            link::by_ethertype(protocol, payload)
        }
        5 => link::by_ethertype(link::MPLS, payload),
        _ => Err(SkipReason::Tunnel),
    }
}

fn geneve(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let first = part.u8(0).ok_or(SkipReason::HeaderCut)?;
    if first >> 6 != 0 {
        return Err(SkipReason::Tunnel);
    }
    let protocol = part.u16(2).ok_or(SkipReason::HeaderCut)?;
    link::by_ethertype(protocol, cut(part, 8 + 4 * usize::from(first & 0x3f))?)
}

/// User data of a mobile network: version 1, message 255.
fn gtp(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let [flags, kind, ..] = *part.bytes else { return Err(SkipReason::HeaderCut) };
    if flags >> 4 != 3 || kind != 0xff {
        return Err(SkipReason::NotTcp);
    }
    let mut at = if flags & 7 == 0 { 8 } else { 12 };
    if flags & 4 != 0 {
        for _ in 0..EXTENSIONS_MAX {
            if part.u8(at - 1).ok_or(SkipReason::HeaderCut)? == 0 {
                break;
            }
            let units = usize::from(part.u8(at).ok_or(SkipReason::HeaderCut)?);
            at += 4 * units.max(1);
        }
    }
    cut(part, at)
}

/// IPv6 behind optional indications.
fn teredo(mut part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    for _ in 0..2 {
        part = match *part.bytes {
            [0, 0, ..] => cut(part, 8)?,
            [0, 1, client, authentication, ..] => {
                cut(part, 13 + usize::from(client) + usize::from(authentication))?
            }
            _ => break,
        };
    }
    if part.u8(0).ok_or(SkipReason::HeaderCut)? >> 4 == 6 {
        Ok(part)
    } else {
        Err(SkipReason::NotTcp)
    }
}

/// TZSP, which routers use to mirror packets: a header and tags, then a frame.
fn tazmen(part: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    const ETHERNET: u16 = 1;
    if part.u8(0) != Some(1) || part.u16(2) != Some(ETHERNET) {
        return Err(SkipReason::NotTcp);
    }
    let mut at = 4;
    for _ in 0..EXTENSIONS_MAX {
        match part.u8(at).ok_or(SkipReason::HeaderCut)? {
            1 => return link::ethernet(cut(part, at + 1)?),
            0 => at += 1,
            _ => at += 2 + usize::from(part.u8(at + 1).ok_or(SkipReason::HeaderCut)?),
        }
    }
    Err(SkipReason::Malformed)
}
