//! pcapng files: sections of blocks. A section has a byte order and interfaces, each with a link
//! type and a clock resolution.
//!
//! ```text
//! block: type u32 · total length u32 · body, padded to 4 · total length u32 again
//! ```
//! Blocks not about packets (names, secrets, custom ones) are skipped, as the format requires.

use super::{RECORD_BYTES_MAX, WalkOutcome, u16_at, u32_at};
use crate::frame::{LinkType, Record};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// A section that describes more interfaces is hostile.
const INTERFACES_MAX: usize = 65_536;

#[derive(Default)]
pub(super) struct PcapngWalker {
    is_big: bool,
    interfaces: Vec<Interface>,
    /// Time of the newest packet, used for simple packets, which carry none.
    last_ts_ns: i64,
    unknown: u64,
    drops: Option<u64>,
    /// Drops of earlier sections. Statistics are totals, so only the newest of each interface
    /// counts.
    drops_before: u64,
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    snap_length: u32,
    unit: ClockResolution,
    offset_ns: i64,
    drops: u64,
}

/// Tick of an interface's clock.
#[derive(Clone, Copy)]
enum ClockResolution {
    Nanoseconds(u64),
    PerNanosecond(u64),
    /// One tick is 2^-n seconds.
    PowerOfTwo(u32),
}

impl ClockResolution {
    fn from_option(value: u8) -> Self {
        let exponent = u32::from(value & 0x7f);
        match value & 0x80 {
            0 if exponent <= 9 => Self::Nanoseconds(10_u64.pow(9 - exponent)),
            0 => Self::PerNanosecond(10_u64.checked_pow(exponent - 9).unwrap_or(u64::MAX)),
            _ => Self::PowerOfTwo(exponent),
        }
    }

    fn nanoseconds(self, ticks: u64) -> i64 {
        let ns = match self {
            Self::Nanoseconds(each) => ticks.saturating_mul(each),
            Self::PerNanosecond(each) => ticks / each,
            Self::PowerOfTwo(exponent) => {
                let ns = (u128::from(ticks) * 1_000_000_000).checked_shr(exponent).unwrap_or(0);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        };
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// Whether these first four bytes open a section.
pub(super) fn is_magic(first: [u8; 4]) -> bool {
    u32::from_be_bytes(first) == SECTION
}

impl PcapngWalker {
    /// Passes each complete packet of `bytes` to `each`.
    pub(super) fn walk(&mut self, bytes: &[u8], each: &mut impl FnMut(&Record<'_>)) -> WalkOutcome {
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 12) {
            let is_section = u32_at(head, 0, true) == SECTION;
            if is_section {
                match u32_at(head, 8, false) {
                    BYTE_ORDER => self.open_section(false),
                    other if other.swap_bytes() == BYTE_ORDER => self.open_section(true),
                    _ => return WalkOutcome::Bad(at),
                }
            }
            let length = u32_at(head, 4, self.is_big) as usize;
            if length < 12 || !length.is_multiple_of(4) || length > RECORD_BYTES_MAX {
                return WalkOutcome::Bad(at);
            }
            let Some(block) = bytes.get(at..at + length) else { break };
            if !is_section {
                let kind = u32_at(head, 0, self.is_big);
                self.block(kind, &block[8..length - 4], each);
            }
            at += length;
        }
        WalkOutcome::More(at)
    }

    /// Packets of unknown interfaces, or with lengths beyond their block, since the last call.
    pub(super) fn take_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown)
    }

    /// Packets that the tap lost, if the file has statistics.
    pub(super) fn drops(&self) -> Option<u64> {
        let now: u64 = self.interfaces.iter().map(|interface| interface.drops).sum();
        self.drops.map(|_| self.drops_before + now)
    }

    fn open_section(&mut self, is_big: bool) {
        self.drops_before = self.drops().unwrap_or(0);
        self.is_big = is_big;
        self.interfaces.clear();
    }

    fn block(&mut self, kind: u32, body: &[u8], each: &mut impl FnMut(&Record<'_>)) {
        match kind {
            PACKET => self.packet(body, each),
            INTERFACE => self.describe(body),
            STATISTICS => self.statistics(body),
            SIMPLE_PACKET => self.simple_packet(body, each),
            OLD_PACKET if body.len() >= 20 => {
                // Interface and drops are two bytes each here; the rest is as in a packet.
                let interface = u32::from(u16_at(body, 0, self.is_big));
                self.timed_packet(interface, body, each);
            }
            _ => {}
        }
    }

    fn describe(&mut self, body: &[u8]) {
        if body.len() < 8 || self.interfaces.len() >= INTERFACES_MAX {
            return;
        }
        let mut interface = Interface {
            link: LinkType::from_number(u32::from(u16_at(body, 0, self.is_big))),
            snap_length: u32_at(body, 4, self.is_big),
            unit: ClockResolution::Nanoseconds(1000),
            offset_ns: 0,
            drops: 0,
        };
        for (code, value) in self.options(&body[8..]) {
            match (code, value) {
                (9, [unit, ..]) => interface.unit = ClockResolution::from_option(*unit),
                (14, seconds) if seconds.len() >= 8 => {
                    let seconds = self.u64_at(seconds).cast_signed();
                    interface.offset_ns = seconds.saturating_mul(1_000_000_000);
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
    }

    /// Reads `isb_ifdrop` and `isb_osdrop`: totals since the capture began.
    fn statistics(&mut self, body: &[u8]) {
        let Some(options) = body.get(12..) else { return };
        let number = u32_at(body, 0, self.is_big) as usize;
        let drops = self
            .options(options)
            .filter(|(code, value)| matches!(code, 5 | 7) && value.len() >= 8)
            .map(|(_, value)| self.u64_at(value))
            .reduce(u64::saturating_add);
        let Some(drops) = drops else { return };
        if let Some(interface) = self.interfaces.get_mut(number) {
            self.drops = Some(drops);
            interface.drops = drops;
        }
    }

    fn packet(&mut self, body: &[u8], each: &mut impl FnMut(&Record<'_>)) {
        if body.len() < 20 {
            self.unknown += 1;
            return;
        }
        self.timed_packet(u32_at(body, 0, self.is_big), body, each);
    }

    fn timed_packet(&mut self, number: u32, body: &[u8], each: &mut impl FnMut(&Record<'_>)) {
        let [high, low, captured, wire] = [4, 8, 12, 16].map(|at| u32_at(body, at, self.is_big));
        let frame = body.get(20..).and_then(|rest| rest.get(..captured as usize));
        let (Some(interface), Some(bytes)) = (self.interfaces.get(number as usize), frame) else {
            self.unknown += 1;
            return;
        };
        let ticks = u64::from(high) << 32 | u64::from(low);
        let ts_ns = interface.unit.nanoseconds(ticks).saturating_add(interface.offset_ns);
        let wire_length = wire.max(captured);
        each(&Record { ts_ns, link: interface.link, interface: number, wire_length, bytes });
        self.last_ts_ns = ts_ns;
    }

    /// Reads a packet that has only a wire length; it is captured up to the first interface's snap
    /// length.
    fn simple_packet(&mut self, body: &[u8], each: &mut impl FnMut(&Record<'_>)) {
        let (Some(interface), true) = (self.interfaces.first(), body.len() >= 4) else {
            self.unknown += 1;
            return;
        };
        let wire_length = u32_at(body, 0, self.is_big);
        let limit = match interface.snap_length {
            0 => wire_length,
            snap => wire_length.min(snap),
        };
        let bytes = &body[4..];
        let bytes = &bytes[..bytes.len().min(limit as usize)];
        let (ts_ns, link) = (self.last_ts_ns, interface.link);
        each(&Record { ts_ns, link, interface: 0, wire_length, bytes });
    }

    fn u64_at(&self, bytes: &[u8]) -> u64 {
        let (first, second) = (u32_at(bytes, 0, self.is_big), u32_at(bytes, 4, self.is_big));
        let (high, low) = if self.is_big { (first, second) } else { (second, first) };
        u64::from(high) << 32 | u64::from(low)
    }

    /// Codes and values of a block's options, until one does not fit.
    fn options<'b>(&self, mut rest: &'b [u8]) -> impl Iterator<Item = (u16, &'b [u8])> + use<'b> {
        let is_big = self.is_big;
        std::iter::from_fn(move || {
            let head = rest.get(..4)?;
            let (code, length) = (u16_at(head, 0, is_big), usize::from(u16_at(head, 2, is_big)));
            let value = rest.get(4..4 + length)?;
            rest = rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
            (code != 0).then_some((code, value))
        })
    }
}
