//! Frames to TCP segments: link layer, VLAN tags, IP with options and extension headers, fragments,
//! tunnels, TCP.
//!
//! Hand-written, since every packet passes it; etherparse is the oracle in tests. Lengths are never
//! trusted beyond the captured bytes. Sources: RFC 791, 8200, 9293.

mod fragment;
mod ip;
mod link;
mod tcp;
mod tunnel;
mod wireless;

use crate::frame::Record;
use crate::packet::{Direction, Packet};
use crate::skip::{SkipCounts, SkipReason};
use fragment::Reassembler;

/// Decodes frames into packets; its only state is fragments.
#[derive(Default)]
pub struct Decoder {
    fragments: Reassembler,
}

/// A stretch of a frame: captured bytes and length on the wire.
#[derive(Clone, Copy)]
struct FrameSlice<'a> {
    bytes: &'a [u8],
    wire_length: usize,
}

impl<'a> FrameSlice<'a> {
    /// Skips the first bytes; `None` when they were not captured.
    fn skip(self, count: usize) -> Option<Self> {
        let bytes = self.bytes.get(count..)?;
        Some(Self { bytes, wire_length: self.wire_length.checked_sub(count)? })
    }

    /// Limits the length: the rest is padding.
    fn limit(self, length: usize) -> Self {
        let bytes = &self.bytes[..self.bytes.len().min(length)];
        Self { bytes, wire_length: self.wire_length.min(length) }
    }

    /// Sets the length to what a header states: beyond it is padding, and what is missing was cut.
    #[inline]
    fn resize(self, length: usize) -> Self {
        let bytes = &self.bytes[..self.bytes.len().min(length)];
        Self { bytes, wire_length: length }
    }

    fn u8(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }
}

#[derive(Clone, Copy)]
struct OuterLayers {
    ts_ns: i64,
    interface: u32,
    direction: Direction,
}

/// Nested tunnels that are followed.
const NESTING_MAX: usize = 6;

impl Decoder {
    /// Passes the TCP segment in a frame to `sink`.
    ///
    /// # Errors
    /// The reason why there is none; `None` for a fragment of an incomplete datagram.
    #[inline]
    pub fn decode(
        &mut self,
        record: &Record<'_>,
        skipped: &mut SkipCounts,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Option<SkipReason>> {
        self.decode_directed(record, Direction::Unknown, skipped, sink)
    }

    /// Decodes a frame whose direction the tap knows.
    ///
    /// # Errors
    /// As [`Self::decode`].
    #[inline(always)]
    pub fn decode_directed(
        &mut self,
        record: &Record<'_>,
        direction: Direction,
        skipped: &mut SkipCounts,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Option<SkipReason>> {
        let mut outer = OuterLayers { ts_ns: record.ts_ns, interface: record.interface, direction };
        let frame = FrameSlice { bytes: record.bytes, wire_length: record.wire_length as usize };
        let part = link::open(record.link, frame, &mut outer)?;
        match ip::open(part)? {
            // The common case.
            (datagram, None) if datagram.protocol == ip::TCP => {
                tcp::open(datagram, outer, sink).map_err(Some)
            }
            _ => self.decode_rest(part, outer, skipped, sink),
        }
    }

    #[inline(never)]
    fn decode_rest(
        &mut self,
        mut part: FrameSlice<'_>,
        outer: OuterLayers,
        skipped: &mut SkipCounts,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Option<SkipReason>> {
        for _ in 0..NESTING_MAX {
            let (datagram, fragment) = ip::open(part)?;
            let datagram = ip::behind_authentication(datagram, fragment.is_some())?;
            if let Some(fragment) = fragment {
                let dropped = self.fragments.add(&datagram, fragment);
                skipped.add_many(SkipReason::Fragment, dropped.count);
                if !dropped.is_whole {
                    return Err(None);
                }
                let whole = self.fragments.whole(&datagram)?;
                return tcp::open(whole, outer, sink).map_err(Some);
            }
            if datagram.protocol == ip::TCP {
                return tcp::open(datagram, outer, sink).map_err(Some);
            }
            part = tunnel::inner(datagram)?;
        }
        Err(Some(SkipReason::Nesting))
    }

    /// Fragments of incomplete datagrams.
    pub fn waiting_fragments(&self) -> u64 {
        self.fragments.waiting()
    }
}
