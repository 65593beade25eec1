//! tcpdump's text output to packets, as far as the text allows.
//!
//! Supports every style since 4.0: plain, `-n`, `-nn`, `-q`, `-t` variants, `-e`, `-v`, `-S`, `-i
//! any` with interface and direction, VLAN; and tcpdump 3's `(N)` sizes. Text has no payload but
//! the first line of an HTTP message, and host names are not addresses: lines without a usable
//! packet are counted by reason.

mod clock;
mod cursor;
mod ends;
mod lines;
mod link;
mod port_name;
mod segment;
mod sequence;
#[cfg(test)]
mod tests;

pub use clock::{LocalMinute, MINUTE, Zone};
pub use lines::{LINE_BYTES_MAX, LineReader};

use clock::{NoTime, StampClock};
use cursor::Cursor;
use ends::{KnownEnds, PacketEnds};
use link::LineHead;
use segment::TextSegment;
use sequence::{SequenceTable, WireNumbers};

use crate::packet::{Flags, Packet, SackBlock};
use crate::{CaptureInput, PacketSink, SequenceNumber, SkipCounts, SkipReason};

/// Lines processed before control returns to the caller.
const LINES_AT_ONCE: usize = 10_000;
/// Nested tunnels that are followed.
const TUNNELS_MAX: usize = 4;

/// Why a line has no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSkip {
    /// No timestamp: payload of `-x` and `-A`, tcpdump's own messages.
    NoStamp,
    /// The time is invalid.
    NoSuchTime,
    /// ARP and other protocols.
    NotIp,
    /// UDP, ICMP and other protocols.
    NotTcp,
    /// A fragment after the first: it has no TCP header.
    Fragment,
    /// The snap length cut its TCP header.
    Cut,
    /// Host names; `tcpdump -n` prints addresses.
    HostName,
    /// An unknown port name; `tcpdump -nn` prints numbers.
    PortName,
    /// A malformed packet line.
    Malformed,
}

impl TextSkip {
    /// All reasons, in the order of [`TextReader::skipped`].
    pub const ALL: [TextSkip; 9] = [
        TextSkip::NoStamp,
        TextSkip::NoSuchTime,
        TextSkip::NotIp,
        TextSkip::NotTcp,
        TextSkip::Fragment,
        TextSkip::Cut,
        TextSkip::HostName,
        TextSkip::PortName,
        TextSkip::Malformed,
    ];

    /// Name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            TextSkip::NoStamp => "no_stamp",
            TextSkip::NoSuchTime => "no_such_time",
            TextSkip::NotIp => "not_ip",
            TextSkip::NotTcp => "not_tcp",
            TextSkip::Fragment => "fragment",
            TextSkip::Cut => "cut",
            TextSkip::HostName => "host_name",
            TextSkip::PortName => "port_name",
            TextSkip::Malformed => "malformed",
        }
    }

    /// The corresponding reason of binary captures.
    fn reason(self) -> SkipReason {
        match self {
            TextSkip::NoStamp | TextSkip::NoSuchTime | TextSkip::HostName | TextSkip::PortName => {
                SkipReason::Text
            }
            TextSkip::NotIp => SkipReason::NotIp,
            TextSkip::NotTcp => SkipReason::NotTcp,
            TextSkip::Fragment => SkipReason::Fragment,
            TextSkip::Cut => SkipReason::HeaderCut,
            TextSkip::Malformed => SkipReason::Malformed,
        }
    }
}

/// Interface names, numbered from 1 in order of appearance.
#[derive(Default)]
struct InterfaceNames(Vec<Box<[u8]>>);

/// Distinct interfaces; others are 0.
const INTERFACES_MAX: usize = 4096;

impl InterfaceNames {
    fn number(&mut self, name: &[u8]) -> u32 {
        let place = self.0.iter().position(|known| **known == *name).or_else(|| {
            (self.0.len() < INTERFACES_MAX).then(|| {
                self.0.push(name.into());
                self.0.len() - 1
            })
        });
        place.map_or(0, |place| u32::try_from(place + 1).unwrap_or(0))
    }
}

/// Reads lines in order.
pub struct TextReader {
    clock: StampClock,
    names: InterfaceNames,
    ends: KnownEnds,
    sequences: SequenceTable,
    /// First line of a packet printed by `-v`; its addresses are on the next line.
    begun: Option<(i64, LineHead)>,
    skipped: [u64; TextSkip::ALL.len()],
}

impl TextReader {
    /// Creates a reader; `day` is the start of the day of times without a date, in seconds since
    /// 1970. `seed` seeds the conversation table's hash; results do not depend on it.
    pub fn new(zone: Zone, day: i64, seed: usize) -> Self {
        Self {
            clock: StampClock::new(zone, day),
            names: InterfaceNames::default(),
            ends: KnownEnds::new(),
            sequences: SequenceTable::new(seed),
            begun: None,
            skipped: [0; TextSkip::ALL.len()],
        }
    }

    /// Whether `text`, the start of a file, has a line that begins with a tcpdump timestamp.
    pub fn is_text(text: &[u8]) -> bool {
        let mut clock = StampClock::new(Box::new(|_| Some(0)), 0);
        text.split(|byte| *byte == b'\n').take(50).any(|line| clock.read(line).is_ok())
    }

    /// Parses the packet of a line without its end; `None`, and counted, when it has none.
    pub fn line<'a>(&mut self, line: &'a [u8]) -> Option<Packet<'a>> {
        let mut found = None;
        self.take(line, &mut |packet| found = Some(*packet));
        found
    }

    /// Passes the packet of a line to `sink`: a packet is too large to return.
    #[inline]
    fn take<'a>(&mut self, line: &'a [u8], sink: &mut impl FnMut(&Packet<'a>)) {
        if let Err(skip) = self.read(line, sink) {
            self.skipped[skip as usize] += 1;
        }
    }

    /// Reads some lines, passes their packets to `sink` and returns the number of packets;
    /// `None` at the end.
    ///
    /// # Errors
    /// When the lines cannot be read.
    pub fn feed(
        &mut self,
        lines: &mut LineReader<CaptureInput>,
        sink: &mut impl PacketSink,
    ) -> std::io::Result<Option<u64>> {
        let mut packets = 0;
        for _ in 0..LINES_AT_ONCE {
            let Some(line) = lines.next_line()? else {
                return Ok((packets > 0).then_some(packets));
            };
            self.take(line, &mut |packet| {
                sink.packet(packet);
                packets += 1;
            });
        }
        Ok(Some(packets))
    }

    /// Lines without a packet, by reason; reasons that did not occur are omitted.
    pub fn skipped(&self) -> impl Iterator<Item = (TextSkip, u64)> + '_ {
        TextSkip::ALL.into_iter().zip(self.skipped).filter(|(_, count)| *count > 0)
    }

    /// Lines without a packet, by the reasons of binary captures.
    pub fn skipped_as_captures_do(&self) -> SkipCounts {
        let mut all = SkipCounts::default();
        self.skipped().for_each(|(skip, count)| all.add_many(skip.reason(), count));
        all
    }

    /// Name of an interface number.
    pub fn interface(&self, number: u32) -> Option<&[u8]> {
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        self.names.0.get(place).map(|name| &**name)
    }

    #[inline]
    fn read<'a>(
        &mut self,
        line: &'a [u8],
        sink: &mut impl FnMut(&Packet<'a>),
    ) -> Result<(), TextSkip> {
        let begun = if self.begun.is_some() { self.begun.take() } else { None };
        if let Some((ts_ns, head)) = begun
            && line.starts_with(b"    ")
        {
            return self.packet(ts_ns, head, Cursor(line.trim_ascii_start()), sink);
        }
        let (ts_ns, rest) = self.clock.read(line).map_err(|none| match none {
            NoTime::NoStamp => TextSkip::NoStamp,
            NoTime::NoSuchTime => TextSkip::NoSuchTime,
        })?;
        let mut rest = Cursor(rest);
        let head = link::read(&mut rest, &mut self.names)?;
        if rest.0.is_empty() {
            self.begun = Some((ts_ns, head));
            return Ok(());
        }
        self.packet(ts_ns, head, rest, sink)
    }

    #[inline]
    fn packet<'a>(
        &mut self,
        ts_ns: i64,
        head: LineHead,
        mut line: Cursor<'a>,
        sink: &mut impl FnMut(&Packet<'a>),
    ) -> Result<(), TextSkip> {
        let mut inside = 0;
        let ends = loop {
            let ends = self.ends.read(&mut line);
            let is_tunnel = line.0.starts_with(b"IP ") || line.0.starts_with(b"GREv");
            if !is_tunnel || inside == TUNNELS_MAX {
                break ends?;
            }
            line.past(b"IP ").ok_or(TextSkip::NotTcp)?;
            inside += 1;
        };
        let segment = segment::read(line)?;
        let PacketEnds { from, to, place, .. } = ends;
        let (from, to) = (*from, *to);
        let numbers = self.sequences.of(from, to, place, segment.printed);
        let known = numbers.unwrap_or(WireNumbers { seq: 0, ack: 0, ack_base: 0 });
        let TextSegment { printed, window, timestamps, sack_blocks, sack, payload, .. } = segment;
        let is_syn = printed.flags.has(Flags::SYN);
        sink(&Packet {
            ts_ns,
            from,
            to,
            seq: known.seq,
            ack: known.ack,
            is_sequence_known: numbers.is_some(),
            flags: printed.flags,
            window,
            window_scale: segment.window_scale.filter(|_| is_syn),
            segment_bytes_max: segment.segment_bytes_max.filter(|_| is_syn),
            is_join: is_syn && segment.is_join,
            timestamps,
            sack_blocks,
            dsack: dsack(sack, known),
            ip_id: head.ip_id,
            payload_length: printed.length,
            payload: &payload[..payload.len().min(printed.length as usize)],
            interface: head.interface,
            direction: head.direction,
        });
        Ok(())
    }
}

/// The first block, if it ends at or before `known.ack` or lies in the second (RFC 2883 §4).
fn dsack(sack: [Option<(u32, u32)>; 2], known: WireNumbers) -> Option<SackBlock> {
    let [first, second] = sack.map(|block| {
        block.map(|(left, right)| SackBlock {
            left: left.wrapping_add(known.ack_base),
            right: right.wrapping_add(known.ack_base),
        })
    });
    let first = first?;
    let is_inside = second.is_some_and(|second| {
        second.left.is_at_most(first.left) && first.right.is_at_most(second.right)
    });
    (first.right.is_at_most(known.ack) || is_inside).then_some(first)
}
