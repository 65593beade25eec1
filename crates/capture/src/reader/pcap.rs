//! pcap files: a header of 24 bytes, then records of 16 bytes plus the captured bytes.
//!
//! ```text
//! magic u32 · version u16 u16 · zone i32 · accuracy u32 · snap length u32 · link type u32
//! per record: seconds u32 · fraction u32 · captured length u32 · wire length u32 · bytes
//! ```
//! The magic gives byte order and unit: a1b2c3d4 µs, a1b23c4d ns, a1b2cd34 µs with 8 more bytes in
//! each record. Some programs write nanoseconds behind the magic of microseconds: fractions of more than
//! a second show it.

use super::{RECORD_BYTES_MAX, WalkOutcome, u32_at};
use crate::frame::{LinkType, Record};

/// Byte order, unit and link type, once the header is read.
#[derive(Default)]
pub(super) struct PcapWalker {
    header: Option<FileHeader>,
}

#[derive(Clone, Copy)]
struct FileHeader {
    is_big: bool,
    ns_per_fraction: i64,
    record_bytes: usize,
    link: LinkType,
}

const HEADER_BYTES: usize = 24;
/// Records that tell the unit of a file. Of nanoseconds, one fraction in a thousand is below a million.
const FIRST_RECORDS: usize = 64;

/// Whether these first four bytes are a pcap magic.
pub(super) fn is_magic(first: [u8; 4]) -> bool {
    magic(first).is_some()
}

/// Whether big-endian, nanoseconds per unit of the fraction, and bytes of a record's header.
fn magic(first: [u8; 4]) -> Option<(bool, i64, usize)> {
    let little = unit_and_header(u32::from_le_bytes(first)).map(|(ns, bytes)| (false, ns, bytes));
    let big = || unit_and_header(u32::from_be_bytes(first)).map(|(ns, bytes)| (true, ns, bytes));
    little.or_else(big)
}

fn unit_and_header(magic: u32) -> Option<(i64, usize)> {
    match magic {
        0xa1b2_c3d4 => Some((1000, 16)),
        0xa1b2_3c4d => Some((1, 16)),
        0xa1b2_cd34 => Some((1000, 24)),
        _ => None,
    }
}

impl PcapWalker {
    /// Passes each complete record of `bytes` to `each`.
    pub(super) fn walk(&mut self, bytes: &[u8], each: &mut impl FnMut(&Record<'_>)) -> WalkOutcome {
        let mut at = 0;
        let header = match self.header {
            Some(header) => header,
            None if bytes.len() < HEADER_BYTES => return WalkOutcome::More(0),
            None => {
                let Some(mut header) = read_header(bytes) else { return WalkOutcome::Bad(0) };
                at = HEADER_BYTES;
                if header.has_nanoseconds(&bytes[at..]) {
                    header.ns_per_fraction = 1;
                }
                *self.header.insert(header)
            }
        };
        while let Some(head) = bytes.get(at..at + header.record_bytes) {
            let captured = u32_at(head, 8, header.is_big);
            let length = captured as usize;
            if length > RECORD_BYTES_MAX - header.record_bytes {
                return WalkOutcome::Bad(at);
            }
            let body = at + header.record_bytes;
            let Some(frame) = bytes.get(body..body + length) else { break };
            let seconds = i64::from(u32_at(head, 0, header.is_big));
            let fraction = i64::from(u32_at(head, 4, header.is_big));
            each(&Record {
                ts_ns: seconds * 1_000_000_000 + fraction * header.ns_per_fraction,
                link: header.link,
                interface: 0,
                wire_length: u32_at(head, 12, header.is_big).max(captured),
                bytes: frame,
            });
            at = body + length;
        }
        WalkOutcome::More(at)
    }
}

impl FileHeader {
    /// Whether most of the first records, which `bytes` begin with, have a fraction that is more than a
    /// second of microseconds. A single one is damage.
    fn has_nanoseconds(&self, mut bytes: &[u8]) -> bool {
        let (mut total, mut beyond) = (0, 0);
        while total < FIRST_RECORDS
            && let Some(head) = bytes.get(..self.record_bytes)
        {
            let fraction = u32_at(head, 4, self.is_big);
            total += 1;
            beyond += usize::from((1_000_000..1_000_000_000).contains(&fraction));
            let length = u32_at(head, 8, self.is_big) as usize;
            bytes = bytes.get(self.record_bytes + length..).unwrap_or_default();
        }
        beyond * 2 > total
    }
}

fn read_header(bytes: &[u8]) -> Option<FileHeader> {
    let (is_big, ns_per_fraction, record_bytes) = magic(*bytes.first_chunk()?)?;
    // The upper bits hold the length of a frame check sequence, which follows the IP packet.
    let link = LinkType::from_number(u32_at(bytes, 20, is_big) & 0x0fff_ffff);
    Some(FileHeader { is_big, ns_per_fraction, record_bytes, link })
}
