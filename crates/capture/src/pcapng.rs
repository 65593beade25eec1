//! Writes a tap's packets as pcapng, readable by tcpdump, tshark and `weir wire`.
//!
//! Layout: draft-ietf-opsawg-pcapng. Packets begin at their IP header (link type 101, raw IP),
//! which is common to all links; each interface is described by name at its first packet. Times are
//! nanoseconds. The tap's losses are in the statistics at the end.

use std::io::{self, Write};

use crate::packet::Direction;

/// One captured packet.
#[derive(Debug, Clone, Copy)]
pub struct TapFrame<'a> {
    /// Nanoseconds since 1970, UTC.
    pub ts_ns: i64,
    /// The interface's index.
    pub interface: u32,
    /// Whether this host received or sent it.
    pub direction: Direction,
    /// Bytes from the IP header on: at most the snap length.
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub wire_length: u32,
}

/// Kernel counters since the last call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Packets that passed the filter, lost ones included.
    pub packets: u64,
    /// Packets lost because the ring was full.
    pub drops: u64,
    /// Times the ring was full.
    pub freezes: u64,
}

/// How much of a packet is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameTruncation {
    /// The IP and TCP headers, without payload.
    Headers,
    /// Everything captured.
    Nothing,
}

/// Writes blocks up to a size limit.
pub struct PcapngWriter<W: Write> {
    out: W,
    cut: FrameTruncation,
    left: u64,
    /// Indexes of described interfaces, in file order.
    interfaces: Vec<u32>,
    packets: u64,
    block: Vec<u8>,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const RAW_IP: u16 = 101;
/// Packets of further interfaces are not written.
const INTERFACES_MAX: usize = 256;

impl<W: Write> PcapngWriter<W> {
    /// Begins a file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, cut: FrameTruncation, bytes_max: u64) -> io::Result<Self> {
        let (interfaces, block) = (Vec::new(), Vec::new());
        let mut writer = Self { out, cut, left: bytes_max, interfaces, packets: 0, block };
        writer.put(&0x1a2b_3c4d_u32.to_le_bytes());
        writer.put(&[1, 0, 0, 0]);
        writer.put(&u64::MAX.to_le_bytes());
        writer.option(4, b"weir");
        writer.put(&[0; 4]);
        writer.finish_block(SECTION)?;
        Ok(writer)
    }

    /// Writes one packet; `name` returns an interface's name. False once the file is full.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn frame(
        &mut self,
        frame: &TapFrame<'_>,
        name: impl Fn(u32) -> String,
    ) -> io::Result<bool> {
        let Some(interface) = self.interface(frame.interface, name)? else { return Ok(true) };
        let kept = match self.cut {
            FrameTruncation::Headers => header_length(frame.bytes),
            FrameTruncation::Nothing => frame.bytes.len(),
        };
        let bytes = &frame.bytes[..kept];
        if self.left < bytes.len() as u64 + RESERVE_BYTES {
            return Ok(false);
        }
        let ticks = frame.ts_ns.cast_unsigned();
        self.put(&interface.to_le_bytes());
        self.put(&high(ticks).to_le_bytes());
        self.put(&low(ticks).to_le_bytes());
        self.put(&low(bytes.len() as u64).to_le_bytes());
        self.put(&frame.wire_length.to_le_bytes());
        self.put(bytes);
        self.pad();
        let way: u32 = match frame.direction {
            Direction::Unknown => 0,
            Direction::In => 1,
            Direction::Out => 2,
        };
        self.option(2, &way.to_le_bytes());
        self.put(&[0; 4]);
        self.packets += 1;
        self.finish_block(PACKET)?;
        Ok(true)
    }

    /// Writes the tap's counters, flushes, and returns the number of packets.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, ts_ns: i64, counts: &TapCounts) -> io::Result<u64> {
        // A socket counts for all its interfaces together.
        if !self.interfaces.is_empty() {
            self.put(&0_u32.to_le_bytes());
            self.put(&high(ts_ns.cast_unsigned()).to_le_bytes());
            self.put(&low(ts_ns.cast_unsigned()).to_le_bytes());
            self.option(4, &counts.packets.to_le_bytes());
            self.option(5, &counts.drops.to_le_bytes());
            self.put(&[0; 4]);
            self.finish_block(STATISTICS)?;
        }
        self.out.flush()?;
        Ok(self.packets)
    }

    /// Number of an interface in the file, described when new.
    fn interface(&mut self, index: u32, name: impl Fn(u32) -> String) -> io::Result<Option<u32>> {
        let known = self.interfaces.iter().position(|known| *known == index);
        if let Some(known) = known {
            return Ok(u32::try_from(known).ok());
        }
        if self.interfaces.len() >= INTERFACES_MAX {
            return Ok(None);
        }
        self.interfaces.push(index);
        self.put(&RAW_IP.to_le_bytes());
        self.put(&[0, 0]);
        self.put(&SNAP_BYTES.to_le_bytes());
        self.option(2, name(index).as_bytes());
        self.option(9, &[9]);
        self.put(&[0; 4]);
        self.finish_block(INTERFACE)?;
        Ok(u32::try_from(self.interfaces.len() - 1).ok())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(0);
        self.put(&code.to_le_bytes());
        self.put(&length.to_le_bytes());
        self.put(&value[..usize::from(length)]);
        self.pad();
    }

    fn finish_block(&mut self, kind: u32) -> io::Result<()> {
        let length = low(self.block.len() as u64 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&length)?;
        self.left = self.left.saturating_sub(self.block.len() as u64 + 12);
        self.block.clear();
        Ok(())
    }
}

/// Maximum length of a tap's packet.
const SNAP_BYTES: u32 = 262_144;
/// Space for a packet's block header and the final statistics.
const RESERVE_BYTES: u64 = 256;

fn high(ticks: u64) -> u32 {
    low(ticks >> 32)
}

fn low(ticks: u64) -> u32 {
    u32::try_from(ticks & 0xffff_ffff).expect("32 bits")
}

/// Length of the IP and TCP headers.
fn header_length(bytes: &[u8]) -> usize {
    let ip = match bytes.first().map(|first| first >> 4) {
        Some(4) => usize::from(bytes[0] & 15) * 4,
        _ => 40,
    };
    let tcp = bytes.get(ip + 12).map_or(20, |offset| usize::from(offset >> 4) * 4);
    (ip + tcp).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, CaptureInput};

    /// An IPv4 TCP packet with `payload`.
    fn packet(payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(40 + payload.len()).unwrap().to_be_bytes();
        let mut bytes = vec![0x45, 0, length[0], length[1], 0, 1, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        bytes.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.extend(payload);
        bytes
    }

    fn written(cut: FrameTruncation, bytes_max: u64, count: i64) -> (Vec<u8>, u64) {
        let mut out = Vec::new();
        let mut writer = PcapngWriter::new(&mut out, cut, bytes_max).unwrap();
        let bytes = packet(b"GET /secret HTTP/1.1\r\n\r\n");
        for number in 0..count {
            let frame = TapFrame {
                ts_ns: 1_700_000_000_000_000_000 + number,
                interface: 7,
                direction: Direction::In,
                bytes: &bytes,
                wire_length: 64,
            };
            if !writer.frame(&frame, |index| format!("eth{index}")).unwrap() {
                break;
            }
        }
        let packets = writer
            .finish(1_700_000_000_000_000_000, &TapCounts { packets: 9, drops: 3, freezes: 0 })
            .unwrap();
        (out, packets)
    }

    fn read(bytes: Vec<u8>) -> (Vec<(i64, u32, usize)>, Option<u64>) {
        let input = CaptureInput::from_stream("test", Box::new(io::Cursor::new(bytes))).unwrap();
        let mut capture = Capture::new(input).unwrap();
        let mut found = Vec::new();
        let mut each = |packet: &crate::packet::Packet<'_>| {
            found.push((packet.ts_ns, packet.payload_length, packet.payload.len()));
        };
        while capture.step(&mut each).unwrap() {}
        assert_eq!(capture.skipped().total(), 0);
        (found, capture.tap_drops())
    }

    #[test]
    fn what_is_written_is_read_again_and_says_what_was_lost() {
        let (bytes, packets) = written(FrameTruncation::Nothing, 1 << 20, 2);
        assert_eq!(packets, 2);
        assert!(memchr::memmem::find(&bytes, b"secret").is_some());
        let (found, drops) = read(bytes);
        let first = 1_700_000_000_000_000_000;
        assert_eq!(found, [(first, 24, 24), (first + 1, 24, 24)]);
        assert_eq!(drops, Some(3));
    }

    #[test]
    fn headers_alone_hold_nothing_of_what_was_said_but_its_length() {
        let (bytes, _) = written(FrameTruncation::Headers, 1 << 20, 1);
        assert!(memchr::memmem::find(&bytes, b"GET").is_none());
        assert_eq!(read(bytes).0, [(1_700_000_000_000_000_000, 24, 0)]);
    }

    #[test]
    fn a_file_stays_below_its_limit_and_is_whole() {
        let (bytes, packets) = written(FrameTruncation::Nothing, 2_000, 1_000);
        assert!(bytes.len() <= 2_000 && packets > 5, "{packets} in {} bytes", bytes.len());
        assert_eq!(read(bytes).0.len() as u64, packets);
    }
}
