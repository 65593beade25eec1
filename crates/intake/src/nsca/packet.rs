//! A packet of NSCA, version 3, in the length of today and in that before NSCA 2.9.
//!
//! ```text
//!   0  version  i16    4  CRC-32  u32     8  time  u32    12  code  i16
//!  14  host  64 bytes    78  service  128    206  output  4096 or 512, padded to 4304 or 720 in all
//! ```
//!
//! Numbers are big-endian; texts end with a zero, behind which random bytes may follow.

/// Lengths, the shorter one first.
pub(super) const PACKET_SIZES: [usize; 2] = [720, 4304];
const VERSION: [u8; 2] = [0, 3];
const PADDING: usize = 2;

/// The content of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResultPacket {
    /// All bytes in the clear: its identity.
    pub(super) bytes: Vec<u8>,
    /// Seconds since 1970.
    pub(super) time: u32,
    pub(super) code: i16,
    pub(super) host: String,
    /// Empty for the host itself.
    pub(super) check: String,
    pub(super) output: String,
}

impl ResultPacket {
    /// A packet whose version and checksum are right.
    pub(super) fn open(mut bytes: Vec<u8>) -> Option<Self> {
        let sum = word(&bytes, 4)?;
        if bytes.get(..2) != Some(&VERSION) {
            return None;
        }
        bytes[4..8].fill(0);
        if crc32fast::hash(&bytes) != sum {
            return None;
        }
        let end = bytes.len() - PADDING;
        Some(Self {
            time: word(&bytes, 8)?,
            code: i16::from_be_bytes([bytes[12], bytes[13]]),
            host: text(&bytes[14..78]),
            check: text(&bytes[78..206]),
            output: text(&bytes[206..end]),
            bytes,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().expect("four bytes")))
}

/// The text up to the first zero. Clients of Windows send Latin-1.
fn text(field: &[u8]) -> String {
    let end = memchr::memchr(0, field).unwrap_or(field.len());
    match std::str::from_utf8(&field[..end]) {
        Ok(text) => text.to_owned(),
        // A text that is cut within a character is UTF-8 all the same.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&field[..error.valid_up_to()]).into_owned()
        }
        Err(_) => field[..end].iter().copied().map(char::from).collect(),
    }
}

/// A packet of one of the lengths, with its checksum.
#[cfg(test)]
pub(super) fn packet_of(size: usize, time: u32, texts: [&str; 3], code: i16) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..2].copy_from_slice(&VERSION);
    bytes[8..12].copy_from_slice(&time.to_be_bytes());
    bytes[12..14].copy_from_slice(&code.to_be_bytes());
    for (start, text) in [14, 78, 206].into_iter().zip(texts) {
        bytes[start..start + text.len()].copy_from_slice(text.as_bytes());
    }
    let sum = crc32fast::hash(&bytes);
    bytes[4..8].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn texts_of_windows_and_cut_ones_are_read() {
        assert_eq!(text(b"caf\xe9 voll\0random"), "café voll");
        assert_eq!(text("café".as_bytes()), "café");
        assert_eq!(text("café".as_bytes().split_last().expect("bytes").1), "caf");
    }
}
