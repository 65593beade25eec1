//! Capture files, pcap and pcapng, and their frames.
//!
//! Layouts follow the IETF drafts (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng), link headers
//! <https://www.tcpdump.org/linktypes.html>. All checksums are valid.

use std::io::{self, Write};

use super::segment::{Segment, flag};

/// Format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// pcapng instead of pcap.
    pub is_pcapng: bool,
    /// Nanoseconds instead of microseconds.
    pub is_nanosecond: bool,
    /// Link layer before the IP header.
    pub link: Link,
    /// IPv6 instead of IPv4.
    pub is_ipv6: bool,
    /// Snapshot length: bytes captured per frame.
    pub snap_bytes: u32,
    /// Packets missed by the tap, per thousand.
    pub missing_per_mille: u32,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            is_pcapng: false,
            is_nanosecond: false,
            link: Link::Ethernet,
            is_ipv6: false,
            snap_bytes: 262_144,
            missing_per_mille: 0,
        }
    }
}

/// Link layer before the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet.
    Ethernet,
    /// Ethernet with a VLAN tag.
    Vlan,
    /// Linux's `any` device, version 2.
    Sll2,
}

/// Writes packets in chronological order.
pub(super) struct CaptureFile<W> {
    out: W,
    format: Format,
    frame: Vec<u8>,
    /// Bytes written.
    pub(super) bytes: u64,
}

impl<W: Write> CaptureFile<W> {
    pub(super) fn new(mut out: W, format: Format) -> io::Result<Self> {
        let link: u32 = if format.link == Link::Sll2 { 276 } else { 1 };
        let mut head = Vec::new();
        if format.is_pcapng {
            block(&mut head, 0x0a0d_0d0a, |body| {
                push(body, &[&0x1a2b_3c4d_u32.to_le_bytes(), &[1, 0, 0, 0], &[0xff; 8]]);
            });
            block(&mut head, 1, |body| {
                push(body, &[&link.to_le_bytes(), &format.snap_bytes.to_le_bytes()]);
                if format.is_nanosecond {
                    // if_tsresol 9, then the end of options.
                    push(body, &[&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]]);
                }
            });
        } else {
            let magic: u32 = if format.is_nanosecond { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
            push(&mut head, &[&magic.to_le_bytes(), &[2, 0, 4, 0], &[0; 8]]);
            push(&mut head, &[&format.snap_bytes.to_le_bytes(), &link.to_le_bytes()]);
        }
        out.write_all(&head)?;
        Ok(Self { out, format, frame: Vec::new(), bytes: head.len() as u64 })
    }

    pub(super) fn packet(&mut self, segment: &Segment) -> io::Result<()> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        self.link(segment, &mut frame);
        if self.format.is_ipv6 {
            ipv6(segment, &mut frame)
        } else {
            ipv4(segment, &mut frame)
        }
        let length = u32::try_from(frame.len()).expect("frames are small");
        frame.truncate(self.format.snap_bytes as usize);
        let kept = u32::try_from(frame.len()).expect("frames are small");
        let mut head = Vec::with_capacity(32);
        let at = segment.at_ns;
        if self.format.is_pcapng {
            let ticks = if self.format.is_nanosecond { at } else { at / 1000 }.cast_unsigned();
            let padding = kept.next_multiple_of(4) - kept;
            let total = 32 + kept + padding;
            let (high, low) = (ticks >> 32, ticks & 0xffff_ffff);
            for word in [6, u64::from(total), 0, high, low, u64::from(kept), u64::from(length)] {
                head.extend_from_slice(&u32::try_from(word).expect("32 bits").to_le_bytes());
            }
            frame.resize(frame.len() + padding as usize, 0);
            frame.extend_from_slice(&total.to_le_bytes());
        } else {
            let part = at % 1_000_000_000 / if self.format.is_nanosecond { 1 } else { 1000 };
            let seconds = u32::try_from(at / 1_000_000_000).expect("before 2106");
            let part = u32::try_from(part).expect("below a second");
            for word in [seconds, part, kept, length] {
                head.extend_from_slice(&word.to_le_bytes());
            }
        }
        self.out.write_all(&head)?;
        self.out.write_all(&frame)?;
        self.bytes += (head.len() + frame.len()) as u64;
        self.frame = frame;
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }

    fn link(&self, segment: &Segment, frame: &mut Vec<u8>) {
        let protocol: [u8; 2] = if self.format.is_ipv6 { [0x86, 0xdd] } else { [8, 0] };
        let (ours, theirs) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let is_sent_here = segment.is_from_tap();
        let (from, to) = if is_sent_here { (ours, theirs) } else { (theirs, ours) };
        match self.format.link {
            Link::Ethernet => push(frame, &[&to, &from, &protocol]),
            Link::Vlan => push(frame, &[&to, &from, &[0x81, 0, 0, 5], &protocol]),
            Link::Sll2 => {
                let kind = if is_sent_here { 4 } else { 0 };
                push(frame, &[&protocol, &[0, 0, 0, 0, 0, 2, 0, 1, kind, 6], &from, &[0, 0]]);
            }
        }
    }
}

/// A block of pcapng: type, length, body, length.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    fill(&mut body);
    let total = u32::try_from(body.len() + 12).expect("blocks are small").to_le_bytes();
    push(out, &[&kind.to_le_bytes(), &total, &body, &total]);
}

fn push(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn ipv4(segment: &Segment, frame: &mut Vec<u8>) {
    let begin = frame.len();
    let length = u16::try_from(20 + tcp_bytes(segment)).expect("a segment fits");
    push(frame, &[&[0x45, 0], &length.to_be_bytes(), &segment.ip_id.to_be_bytes()]);
    push(frame, &[&[0x40, 0, 64, 6, 0, 0]]);
    let (from, to) = segment.ends();
    push(frame, &[&from.0.to_be_bytes(), &to.0.to_be_bytes()]);
    let sum = folded(added(0, &frame[begin..]));
    frame[begin + 10..begin + 12].copy_from_slice(&sum.to_be_bytes());
    let addresses = added(added(0, &from.0.to_be_bytes()), &to.0.to_be_bytes());
    tcp(segment, frame, addresses);
}

/// Appends headers with addresses below 2001:db8::, which end in the IPv4 address.
fn ipv6(segment: &Segment, frame: &mut Vec<u8>) {
    let length = u16::try_from(tcp_bytes(segment)).expect("a segment fits");
    push(frame, &[&[0x60, 0, 0, 0], &length.to_be_bytes(), &[6, 64]]);
    let (from, to) = segment.ends();
    let mut addresses = 0;
    for address in [from.0, to.0] {
        let begin = frame.len();
        push(frame, &[&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], &address.to_be_bytes()]);
        addresses = added(addresses, &frame[begin..]);
    }
    tcp(segment, frame, addresses);
}

/// Size of TCP options: MSS, SACK, timestamps and window scale on a SYN, else timestamps and SACK.
fn option_bytes(segment: &Segment) -> usize {
    match (segment.flags & flag::SYN != 0, segment.sack.is_some()) {
        (true, _) => 20,
        (false, true) => 24,
        (false, false) => 12,
    }
}

fn tcp_bytes(segment: &Segment) -> usize {
    20 + option_bytes(segment) + segment.payload.length as usize
}

fn tcp(segment: &Segment, frame: &mut Vec<u8>, addresses: u64) {
    let begin = frame.len();
    let (from, to) = segment.ends();
    let words = u8::try_from((20 + option_bytes(segment)) / 4).expect("at most 15");
    push(frame, &[&from.1.to_be_bytes(), &to.1.to_be_bytes()]);
    push(frame, &[&segment.seq.to_be_bytes(), &segment.ack.to_be_bytes()]);
    push(frame, &[&[words << 4, segment.flags], &segment.window.to_be_bytes(), &[0; 4]]);
    let (value, echo) = (segment.ts_value.to_be_bytes(), segment.ts_echo.to_be_bytes());
    if segment.flags & flag::SYN != 0 {
        push(frame, &[&[2, 4, 5, 180, 4, 2, 8, 10], &value, &echo, &[1, 3, 3, 7]]);
    } else {
        push(frame, &[&[1, 1, 8, 10], &value, &echo]);
        if let Some((left, right)) = segment.sack {
            push(frame, &[&[1, 1, 5, 10], &left.to_be_bytes(), &right.to_be_bytes()]);
        }
    }
    segment.payload.write(frame);
    let length = (frame.len() - begin) as u64;
    let sum = folded(added(addresses + 6 + length, &frame[begin..]));
    frame[begin + 16..begin + 18].copy_from_slice(&sum.to_be_bytes());
}

/// Adds bytes to an Internet checksum (RFC 1071), four at a time.
fn added(sum: u64, bytes: &[u8]) -> u64 {
    let (whole, rest) = bytes.as_chunks::<4>();
    let sum = whole.iter().fold(sum, |sum, four| sum + u64::from(u32::from_be_bytes(*four)));
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("the sum is folded")
}
