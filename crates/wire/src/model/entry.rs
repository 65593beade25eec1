//! A packet on its way to another thread, without its payload: small, since writing it costs as much as reading it.

use super::gate::Pass;
use crate::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};

/// A packet and what the gate knows of it.
pub(crate) struct Entry {
    addresses: [u128; 2],
    ts_ns: i64,
    ports: [u16; 2],
    seq: u32,
    ack: u32,
    payload_length: u32,
    captured: u32,
    interface: u32,
    slice: u32,
    /// Its place in the block.
    pub(crate) at: u32,
    /// Where its payload is: which of the group's buffers, and at which byte.
    pub(crate) buffer: u16,
    pub(crate) offset: u32,
    timestamps: [u32; 2],
    dsack: [u32; 2],
    ip_id: u16,
    window: u16,
    bits: u16,
    flags: u8,
    window_scale: u8,
    sack_blocks: u8,
    shard: u8,
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

impl Entry {
    #[inline]
    pub(crate) fn new(packet: &Packet<'_>, pass: Pass, at: u32, shard: u8) -> Self {
        let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        let stamps = packet.timestamps.unwrap_or(Timestamps { value: 0, echo: 0 });
        let dsack = packet.dsack.unwrap_or(SackBlock { left: 0, right: 0 });
        Self {
            addresses: [packet.from.address, packet.to.address],
            ts_ns: packet.ts_ns,
            ports: [packet.from.port, packet.to.port],
            seq: packet.seq,
            ack: packet.ack,
            payload_length: packet.payload_length,
            captured: u32::try_from(packet.payload.len()).expect("records are smaller"),
            interface: packet.interface,
            slice: pass.slice,
            at,
            buffer: 0,
            offset: 0,
            timestamps: [stamps.value, stamps.echo],
            dsack: [dsack.left, dsack.right],
            ip_id: packet.ip_id.unwrap_or(0),
            window: packet.window,
            bits: bit(packet.timestamps.is_some(), HAS_TIMESTAMPS)
                | bit(packet.dsack.is_some(), HAS_DSACK)
                | bit(packet.ip_id.is_some(), HAS_ID)
                | bit(packet.window_scale.is_some(), HAS_SCALE)
                | bit(packet.is_sequence_known, HAS_SEQUENCE)
                | bit(pass.is_from_server, IS_FROM_SERVER)
                | bit(pass.is_readable[0], SENDER_READABLE)
                | bit(pass.is_readable[1], RECEIVER_READABLE)
                | bit(packet.direction == Direction::In, IS_IN)
                | bit(packet.direction == Direction::Out, IS_OUT),
            flags: packet.flags.0,
            window_scale: packet.window_scale.unwrap_or(0),
            sack_blocks: packet.sack_blocks,
            shard,
        }
    }

    /// How many bytes of payload were captured.
    #[inline]
    pub(crate) fn captured(&self) -> usize {
        self.captured as usize
    }

    #[inline]
    pub(crate) fn shard(&self) -> usize {
        usize::from(self.shard)
    }

    fn has(&self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    #[inline]
    pub(crate) fn packet<'a>(&self, payload: &'a [u8]) -> Packet<'a> {
        let end = |at: usize| Endpoint { address: self.addresses[at], port: self.ports[at] };
        let ([value, echo], [left, right]) = (self.timestamps, self.dsack);
        let direction = match (self.has(IS_IN), self.has(IS_OUT)) {
            (true, _) => Direction::In,
            (_, true) => Direction::Out,
            _ => Direction::Unknown,
        };
        Packet {
            ts_ns: self.ts_ns,
            from: end(0),
            to: end(1),
            seq: self.seq,
            ack: self.ack,
            is_sequence_known: self.has(HAS_SEQUENCE),
            flags: Flags(self.flags),
            window: self.window,
            window_scale: self.has(HAS_SCALE).then_some(self.window_scale),
            timestamps: self.has(HAS_TIMESTAMPS).then_some(Timestamps { value, echo }),
            sack_blocks: self.sack_blocks,
            dsack: self.has(HAS_DSACK).then_some(SackBlock { left, right }),
            ip_id: self.has(HAS_ID).then_some(self.ip_id),
            payload_length: self.payload_length,
            payload,
            interface: self.interface,
            direction,
        }
    }

    /// What the gate said.
    #[inline]
    pub(crate) fn pass(&self) -> Pass {
        Pass {
            slice: self.slice,
            is_from_server: self.has(IS_FROM_SERVER),
            is_readable: [self.has(SENDER_READABLE), self.has(RECEIVER_READABLE)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Pass};
    use crate::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};

    #[test]
    fn a_packet_comes_out_as_it_went_in() {
        arbtest::arbtest(|u| {
            let payload: Vec<u8> = u.arbitrary()?;
            let packet = Packet {
                ts_ns: u.arbitrary()?,
                from: Endpoint { address: u.arbitrary()?, port: u.arbitrary()? },
                to: Endpoint { address: u.arbitrary()?, port: u.arbitrary()? },
                seq: u.arbitrary()?,
                ack: u.arbitrary()?,
                is_sequence_known: u.arbitrary()?,
                flags: Flags(u.arbitrary()?),
                window: u.arbitrary()?,
                window_scale: u.arbitrary()?,
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
            let pass = Pass {
                slice: u.arbitrary()?,
                is_from_server: u.arbitrary()?,
                is_readable: u.arbitrary()?,
            };
            let entry = Entry::new(&packet, pass, 5, 3);
            assert_eq!((entry.captured(), entry.at, entry.shard()), (payload.len(), 5, 3));
            assert_eq!(entry.packet(&payload), packet);
            assert_eq!(entry.pass(), pass);
            Ok(())
        });
    }

    #[test]
    fn an_entry_takes_less_than_two_cache_lines() {
        let size = size_of::<Entry>();
        assert!(size <= 112, "{size}");
    }
}
