//! A packet passed to another thread, without its payload: one cache line, since fetching a line
//! from another core costs a good part of the work on a packet.
//!
//! Fields of few packets, and those of IPv6, are in a list beside it ([`RareFields`]).

use super::admission::PacketHints;
use weir_capture::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};

/// A packet with its admission context.
#[repr(align(64))]
pub(crate) struct PacketEntry {
    ts_ns: i64,
    /// IPv4 only.
    addresses: [u32; 2],
    ports: [u16; 2],
    seq: u32,
    ack: u32,
    timestamps: [u32; 2],
    payload_length: u32,
    captured: u32,
    /// Offset of the payload in `buffer`, an index into the group's buffers.
    pub(crate) offset: u32,
    pub(crate) buffer: u16,
    interface: u16,
    ip_id: u16,
    window: u16,
    bits: u16,
    at: u16,
    /// Index of its [`RareFields`] plus one; 0 for none.
    rare: u16,
    flags: u8,
    shard: u8,
}

/// Fields that do not fit or are rarely set.
pub(crate) struct RareFields {
    addresses: [u128; 2],
    dsack: [u32; 2],
    interface: u32,
    slice: u32,
    window_scale: u8,
    sack_blocks: u8,
    segment_bytes_max: u16,
}

/// Position of a packet, with what all packets of its block share.
#[derive(Clone, Copy)]
pub(crate) struct PacketPosition {
    pub(crate) at: u32,
    pub(crate) shard: u8,
    /// Slice of the block's first packet.
    pub(crate) slice: u32,
}

const HAS_TIMESTAMPS: u16 = 1;
const HAS_DSACK: u16 = 2;
const HAS_ID: u16 = 4;
const HAS_SCALE: u16 = 8;
const HAS_SEQUENCE: u16 = 16;
const IS_FROM_SERVER: u16 = 32;
const SENDER_READABLE: u16 = 64;
const RECEIVER_READABLE: u16 = 128;
const IS_IN: u16 = 256;
const IS_OUT: u16 = 512;
const IS_MUTE: u16 = 1024;
const HAS_SEGMENT_BYTES: u16 = 2048;
const IS_JOIN: u16 = 4096;

/// Upper bits of an IPv4-mapped IPv6 address.
const MAPPED: u128 = 0xffff_0000_0000;

#[inline]
fn bit_if(is_set: bool, bit: u16) -> u16 {
    if is_set { bit } else { 0 }
}

impl PacketEntry {
    #[inline]
    pub(crate) fn new(
        packet: &Packet<'_>,
        hints: PacketHints,
        spot: PacketPosition,
        rares: &mut Vec<RareFields>,
    ) -> Self {
        let Timestamps { value, echo } =
            packet.timestamps.unwrap_or(Timestamps { value: 0, echo: 0 });
        let addresses = [packet.from.address, packet.to.address];
        let mapped = addresses.map(|address| u32::try_from(address ^ MAPPED));
        let (addresses, interface, rare) = match (mapped, u16::try_from(packet.interface)) {
            ([Ok(from), Ok(to)], Ok(interface))
                if hints.slice == spot.slice
                    && packet.sack_blocks == 0
                    && packet.dsack.is_none()
                    && packet.window_scale.is_none()
                    && packet.segment_bytes_max.is_none() =>
            {
                ([from, to], interface, 0)
            }
            _ => ([0; 2], 0, RareFields::push(packet, hints, rares)),
        };
        Self {
            ts_ns: packet.ts_ns,
            addresses,
            ports: [packet.from.port, packet.to.port],
            seq: packet.seq,
            ack: packet.ack,
            timestamps: [value, echo],
            payload_length: packet.payload_length,
            captured: u32::try_from(packet.payload.len()).expect("records are smaller"),
            offset: 0,
            buffer: 0,
            interface,
            ip_id: packet.ip_id.unwrap_or(0),
            window: packet.window,
            bits: bit_if(packet.timestamps.is_some(), HAS_TIMESTAMPS)
                | bit_if(packet.dsack.is_some(), HAS_DSACK)
                | bit_if(packet.ip_id.is_some(), HAS_ID)
                | bit_if(packet.window_scale.is_some(), HAS_SCALE)
                | bit_if(packet.segment_bytes_max.is_some(), HAS_SEGMENT_BYTES)
                | bit_if(packet.is_sequence_known, HAS_SEQUENCE)
                | bit_if(packet.is_join, IS_JOIN)
                | bit_if(hints.is_from_server, IS_FROM_SERVER)
                | bit_if(hints.is_readable[0], SENDER_READABLE)
                | bit_if(hints.is_readable[1], RECEIVER_READABLE)
                | bit_if(hints.is_mute, IS_MUTE)
                | bit_if(packet.direction == Direction::In, IS_IN)
                | bit_if(packet.direction == Direction::Out, IS_OUT),
            at: u16::try_from(spot.at).expect("blocks are smaller"),
            rare,
            flags: packet.flags.0,
            shard: spot.shard,
        }
    }

    #[inline]
    pub(crate) fn captured(&self) -> usize {
        self.captured as usize
    }

    #[inline]
    pub(crate) fn shard(&self) -> usize {
        usize::from(self.shard)
    }

    #[inline]
    pub(crate) fn at(&self) -> u32 {
        u32::from(self.at)
    }

    fn has(&self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    fn rare<'a>(&self, rares: &'a [RareFields]) -> Option<&'a RareFields> {
        rares.get(usize::from(self.rare).checked_sub(1)?)
    }

    #[inline]
    pub(crate) fn ends(&self, rares: &[RareFields]) -> [Endpoint; 2] {
        let addresses = match self.rare(rares) {
            Some(rare) => rare.addresses,
            None => self.addresses.map(|address| MAPPED | u128::from(address)),
        };
        [0, 1].map(|at| Endpoint { address: addresses[at], port: self.ports[at] })
    }

    #[inline]
    pub(crate) fn packet<'a>(&self, payload: &'a [u8], rares: &[RareFields]) -> Packet<'a> {
        let ([from, to], [value, echo]) = (self.ends(rares), self.timestamps);
        let direction = match (self.has(IS_IN), self.has(IS_OUT)) {
            (true, _) => Direction::In,
            (_, true) => Direction::Out,
            _ => Direction::Unknown,
        };
        let mut packet = Packet {
            ts_ns: self.ts_ns,
            from,
            to,
            seq: self.seq,
            ack: self.ack,
            is_sequence_known: self.has(HAS_SEQUENCE),
            flags: Flags(self.flags),
            window: self.window,
            window_scale: None,
            segment_bytes_max: None,
            is_join: self.has(IS_JOIN),
            timestamps: self.has(HAS_TIMESTAMPS).then_some(Timestamps { value, echo }),
            sack_blocks: 0,
            dsack: None,
            ip_id: self.has(HAS_ID).then_some(self.ip_id),
            payload_length: self.payload_length,
            payload,
            interface: u32::from(self.interface),
            direction,
        };
        if let Some(rare) = self.rare(rares) {
            let [left, right] = rare.dsack;
            packet.window_scale = self.has(HAS_SCALE).then_some(rare.window_scale);
            packet.segment_bytes_max =
                self.has(HAS_SEGMENT_BYTES).then_some(rare.segment_bytes_max);
            packet.sack_blocks = rare.sack_blocks;
            packet.dsack = self.has(HAS_DSACK).then_some(SackBlock { left, right });
            packet.interface = rare.interface;
        }
        packet
    }

    /// Restores the admission context; `slice` is that of the block's first packet.
    #[inline]
    pub(crate) fn hints(&self, slice: u32, rares: &[RareFields]) -> PacketHints {
        PacketHints {
            slice: self.rare(rares).map_or(slice, |rare| rare.slice),
            is_from_server: self.has(IS_FROM_SERVER),
            is_readable: [self.has(SENDER_READABLE), self.has(RECEIVER_READABLE)],
            is_mute: self.has(IS_MUTE),
        }
    }
}

impl RareFields {
    /// Adds the rare fields and returns their index plus one.
    fn push(packet: &Packet<'_>, hints: PacketHints, rares: &mut Vec<RareFields>) -> u16 {
        let SackBlock { left, right } = packet.dsack.unwrap_or(SackBlock { left: 0, right: 0 });
        rares.push(Self {
            addresses: [packet.from.address, packet.to.address],
            dsack: [left, right],
            interface: packet.interface,
            slice: hints.slice,
            window_scale: packet.window_scale.unwrap_or(0),
            sack_blocks: packet.sack_blocks,
            segment_bytes_max: packet.segment_bytes_max.unwrap_or(0),
        });
        u16::try_from(rares.len()).expect("blocks are smaller")
    }
}

#[cfg(test)]
mod tests {
    use super::{MAPPED, PacketEntry, PacketHints, PacketPosition};
    use weir_capture::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};

    /// An endpoint of either address family.
    fn end(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<Endpoint> {
        let four: Option<u32> = u.arbitrary()?;
        let address = match four {
            Some(four) => MAPPED | u128::from(four),
            None => u.arbitrary()?,
        };
        Ok(Endpoint { address, port: u.arbitrary()? })
    }

    #[test]
    fn a_packet_comes_out_as_it_went_in() {
        arbtest::arbtest(|u| {
            let payload: Vec<u8> = u.arbitrary()?;
            let packet = Packet {
                ts_ns: u.arbitrary()?,
                from: end(u)?,
                to: end(u)?,
                seq: u.arbitrary()?,
                ack: u.arbitrary()?,
                is_sequence_known: u.arbitrary()?,
                flags: Flags(u.arbitrary()?),
                window: u.arbitrary()?,
                window_scale: u.arbitrary()?,
                segment_bytes_max: u.arbitrary()?,
                is_join: u.arbitrary()?,
                timestamps: u
                    .arbitrary::<Option<(u32, u32)>>()?
                    .map(|(value, echo)| Timestamps { value, echo }),
                sack_blocks: u.arbitrary()?,
                dsack: u
                    .arbitrary::<Option<(u32, u32)>>()?
                    .map(|(left, right)| SackBlock { left, right }),
                ip_id: u.arbitrary()?,
                payload_length: u.arbitrary()?,
                payload: &payload,
                interface: u.arbitrary()?,
                direction: *u.choose(&[Direction::Unknown, Direction::In, Direction::Out])?,
            };
            let hints = PacketHints {
                slice: u.arbitrary()?,
                is_from_server: u.arbitrary()?,
                is_readable: u.arbitrary()?,
                is_mute: u.arbitrary()?,
            };
            let slice = if u.arbitrary()? { hints.slice } else { u.arbitrary()? };
            let mut rares = Vec::new();
            let spot = PacketPosition { at: 5, shard: 3, slice };
            PacketEntry::new(&packet, hints, spot, &mut rares);
            let entry = PacketEntry::new(&packet, hints, spot, &mut rares);
            assert_eq!((entry.captured(), entry.at(), entry.shard()), (payload.len(), 5, 3));
            assert_eq!(entry.ends(&rares), [packet.from, packet.to]);
            assert_eq!(entry.packet(&payload, &rares), packet);
            assert_eq!(entry.hints(slice, &rares), hints);
            Ok(())
        });
    }

    #[test]
    fn an_entry_takes_one_cache_line() {
        assert_eq!(size_of::<PacketEntry>(), 64);
    }
}
