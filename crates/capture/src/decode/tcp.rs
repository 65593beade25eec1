//! The TCP header and its options: RFC 9293 (segment size), 7323 (timestamps, window scale), 2018 and
//! 2883 (SACK, DSACK), 8684 (Multipath TCP).

use super::OuterLayers;
use super::ip::Datagram;
use crate::packet::{Endpoint, Flags, Packet, SackBlock, Timestamps};
use crate::sequence::SequenceNumber;
use crate::skip::SkipReason;

/// Subtype of Multipath TCP's option on a further path.
const MP_JOIN: u8 = 1;

/// Parses the segment in a datagram and passes it to `sink`: a packet is too large to return.
#[inline(always)]
pub(super) fn open<'a>(
    datagram: Datagram<'a>,
    outer: OuterLayers,
    sink: &mut impl FnMut(&Packet<'a>),
) -> Result<(), SkipReason> {
    let Datagram { from, to, ip_id, body, .. } = datagram;
    let head = body.bytes.first_chunk::<20>().ok_or(SkipReason::HeaderCut)?;
    let header_length = usize::from(head[12] >> 4) * 4;
    if header_length < 20 || header_length > body.wire_length {
        return Err(SkipReason::Malformed);
    }
    let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let u32_at =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let payload_length =
        u32::try_from(body.wire_length - header_length).map_err(|_| SkipReason::Malformed)?;
    let mut packet = Packet {
        ts_ns: outer.ts_ns,
        from: Endpoint { address: from, port: u16_at(0) },
        to: Endpoint { address: to, port: u16_at(2) },
        seq: u32_at(4),
        ack: u32_at(8),
        is_sequence_known: true,
        flags: Flags(head[13]),
        window: u16_at(14),
        window_scale: None,
        segment_bytes_max: None,
        is_join: false,
        timestamps: None,
        sack_blocks: 0,
        dsack: None,
        ip_id,
        payload_length,
        payload: body.bytes.get(header_length..).unwrap_or_default(),
        interface: outer.interface,
        direction: outer.direction,
    };
    let options = &body.bytes[20..header_length.min(body.bytes.len())];
    match options.first_chunk::<12>() {
        // Options of every established connection of Linux, macOS and the BSDs.
        Some([1, 1, 8, 10, stamps @ ..]) if options.len() == 12 => {
            packet.timestamps = Some(timestamps(stamps));
        }
        _ => read_options(options, &mut packet),
    }
    sink(&packet);
    Ok(())
}

fn timestamps(bytes: &[u8; 8]) -> Timestamps {
    let (value, echo) = pair(bytes);
    Timestamps { value, echo }
}

fn pair(bytes: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = *bytes;
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

fn read_options(mut rest: &[u8], packet: &mut Packet<'_>) {
    while let [kind, after @ ..] = rest {
        match kind {
            0 => return,
            1 => {
                rest = after;
                continue;
            }
            _ => {}
        }
        let Some(length) = after.first().map(|length| usize::from(*length)) else { return };
        let (Some(value), true) = (rest.get(2..length), length >= 2) else { return };
        match (kind, value) {
            (2, [high, low]) if packet.flags.has(Flags::SYN) => {
                packet.segment_bytes_max = Some(u16::from_be_bytes([*high, *low]));
            }
            (3, [scale]) => packet.window_scale = Some((*scale).min(14)),
            (5, blocks) => read_sack(blocks, packet),
            (30, [subtype, ..]) if packet.flags.has(Flags::SYN) => {
                packet.is_join = subtype >> 4 == MP_JOIN;
            }
            (8, stamps) => packet.timestamps = stamps.first_chunk().map(timestamps),
            _ => {}
        }
        rest = &rest[length..];
    }
}

/// RFC 2883: the first block reports a duplicate if it lies below the acknowledgement number or
/// inside the second block.
fn read_sack(bytes: &[u8], packet: &mut Packet<'_>) {
    let blocks = bytes.as_chunks::<8>().0;
    packet.sack_blocks = u8::try_from(blocks.len()).unwrap_or(u8::MAX);
    let mut blocks = blocks.iter().map(|block| {
        let (left, right) = pair(block);
        SackBlock { left, right }
    });
    if let Some(first) = blocks.next() {
        let is_below = first.right.is_at_most(packet.ack);
        let is_inside = blocks.next().is_some_and(|second| {
            second.left.is_at_most(first.left) && first.right.is_at_most(second.right)
        });
        packet.dsack = (is_below || is_inside).then_some(first);
    }
}
