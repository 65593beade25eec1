//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, with options and extension headers.
//!
//! The header's length counts, not the frame's: frames are padded to 60 bytes, and files that were
//! cut later state the cut length. A length of 0, or of the header alone, is valid: with
//! segmentation offload (TSO), packets are captured before the NIC sets it.

use std::net::Ipv4Addr;

use super::FrameSlice;
use crate::skip::SkipReason;

pub(super) const IPV4: u8 = 4;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const IPV6: u8 = 41;
pub(super) const GRE: u8 = 47;

#[derive(Clone, Copy)]
pub(super) struct Datagram<'a> {
    pub(super) from: u128,
    pub(super) to: u128,
    pub(super) ip_id: Option<u16>,
    pub(super) protocol: u8,
    pub(super) body: FrameSlice<'a>,
}

#[derive(Clone, Copy)]
pub(super) struct Fragment {
    pub(super) id: u32,
    pub(super) offset: usize,
    pub(super) is_last: bool,
}

/// Parses the header of either version.
#[inline(always)]
pub(super) fn open(part: FrameSlice<'_>) -> Result<(Datagram<'_>, Option<Fragment>), SkipReason> {
    match part.u8(0).ok_or(SkipReason::HeaderCut)? >> 4 {
        4 => four(part),
        6 => six(part),
        _ => Err(SkipReason::NotIp),
    }
}

#[inline(always)]
fn four(part: FrameSlice<'_>) -> Result<(Datagram<'_>, Option<Fragment>), SkipReason> {
    let head = part.bytes.first_chunk::<20>().ok_or(SkipReason::HeaderCut)?;
    let header_length = usize::from(head[0] & 0x0f) * 4;
    let total_length = match usize::from(u16::from_be_bytes([head[2], head[3]])) {
        length if length == 0 || length == header_length => part.wire_length,
        length => length,
    };
    if header_length < 20 || total_length < header_length {
        return Err(SkipReason::Malformed);
    }
    let body = part.resize(total_length).skip(header_length).ok_or(SkipReason::HeaderCut)?;
    let id = u16::from_be_bytes([head[4], head[5]]);
    let offset = u16::from_be_bytes([head[6], head[7]]);
    let has_more = offset & 0x2000 != 0;
    let offset = usize::from(offset & 0x1fff) * 8;
    let fragment = (has_more || offset > 0).then(|| Fragment {
        id: u32::from(id),
        offset,
        is_last: !has_more,
    });
    let [from, to] = [12, 16].map(|at| {
        Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]).to_ipv6_mapped().to_bits()
    });
    Ok((Datagram { from, to, ip_id: Some(id), protocol: head[9], body }, fragment))
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
/// Extension headers in one datagram; the standard has at most seven.
const EXTENSIONS_MAX: usize = 8;

/// The datagram without the authentication header that IPv4 has as a payload (RFC 4302); in IPv6, it is
/// an extension header, and already behind. A fragment is left alone.
pub(super) fn behind_authentication(
    datagram: Datagram<'_>,
    is_fragment: bool,
) -> Result<Datagram<'_>, SkipReason> {
    if datagram.protocol != AUTHENTICATION || is_fragment {
        return Ok(datagram);
    }
    let Datagram { body, .. } = datagram;
    let head = body.bytes.first_chunk::<2>().ok_or(SkipReason::HeaderCut)?;
    let size = 8 + 4 * usize::from(head[1]);
    let body = body.skip(size).ok_or(SkipReason::HeaderCut)?;
    Ok(Datagram { protocol: head[0], body, ..datagram })
}

fn six(part: FrameSlice<'_>) -> Result<(Datagram<'_>, Option<Fragment>), SkipReason> {
    let head = part.bytes.first_chunk::<40>().ok_or(SkipReason::HeaderCut)?;
    let length = match u16::from_be_bytes([head[4], head[5]]) {
        0 => part.wire_length.saturating_sub(40),
        length => usize::from(length),
    };
    let [from, to] = [8, 24].map(|at| {
        u128::from_be_bytes(head[at..at + 16].try_into().expect("sixteen bytes are sixteen"))
    });
    let mut body = part.resize(40 + length).skip(40).ok_or(SkipReason::HeaderCut)?;
    let (mut protocol, mut fragment) = (head[6], None);
    for _ in 0..EXTENSIONS_MAX {
        let size = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => {
                8 + 8 * usize::from(body.u8(1).ok_or(SkipReason::HeaderCut)?)
            }
            AUTHENTICATION => 8 + 4 * usize::from(body.u8(1).ok_or(SkipReason::HeaderCut)?),
            FRAGMENT => {
                let field = body.u16(2).ok_or(SkipReason::HeaderCut)?;
                let id = body.bytes.get(4..8).ok_or(SkipReason::HeaderCut)?;
                let id = u32::from_be_bytes([id[0], id[1], id[2], id[3]]);
                let offset = usize::from(field & 0xfff8);
                let is_last = field & 1 == 0;
                if offset > 0 || !is_last {
                    fragment = Some(Fragment { id, offset, is_last });
                }
                8
            }
            _ => break,
        };
        protocol = body.u8(0).ok_or(SkipReason::HeaderCut)?;
        body = body.skip(size).ok_or(SkipReason::HeaderCut)?;
        if fragment.is_some() {
            // What follows belongs to the reassembled datagram.
            break;
        }
    }
    Ok((Datagram { from, to, ip_id: None, protocol, body }, fragment))
}
