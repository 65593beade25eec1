//! Caches both endpoints of a packet by their text: nearly every line repeats an earlier pair.
//!
//! ```text
//! 10.1.0.1.1024 > 10.9.0.1.80: Flags [.], …
//! |—— 8 ——||—— 8 ——||—— 8 ——||– 5 –|          up to the third space, eight bytes at a time
//! ```
//! The cache is direct-mapped: on a collision the newer text replaces the older, and the line costs
//! a full parse.

use super::TextSkip;
use super::cursor::Cursor;
use super::segment::addresses;
use super::sequence::ConversationSlot;
use crate::packet::Endpoint;

/// Words of eight bytes per text: IPv4 has at most 46 bytes, and IPv6 is often shorter.
const EIGHTS: usize = 6;
/// Cached texts, 128 bytes each.
const TEXTS: usize = 4096;

#[derive(Clone)]
pub(super) struct PacketEnds {
    text: [u64; EIGHTS],
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) place: ConversationSlot,
}

pub(super) struct KnownEnds {
    known: Box<[PacketEnds]>,
    /// An uncacheable text, until the next line.
    other: PacketEnds,
}

impl KnownEnds {
    pub(super) fn new() -> Self {
        let nowhere = Endpoint { address: 0, port: 0 };
        let place = ConversationSlot::default();
        let other = PacketEnds { text: [0; EIGHTS], from: nowhere, to: nowhere, place };
        Self { known: vec![other.clone(); TEXTS].into_boxed_slice(), other }
    }

    /// Consumes `SRC > DST: `.
    #[inline]
    pub(super) fn read(&mut self, line: &mut Cursor<'_>) -> Result<&mut PacketEnds, TextSkip> {
        let Some((text, length, at)) = up_to_third_space(line.0) else {
            (self.other.from, self.other.to) = addresses(line)?;
            self.other.place = ConversationSlot::default();
            return Ok(&mut self.other);
        };
        let ends = &mut self.known[at];
        // A single expression: a call costs as much as all of this.
        let difference = ends.text.iter().zip(&text).fold(0, |sum, (a, b)| sum | (a ^ b));
        if difference == 0 {
            line.0 = &line.0[length..];
            return Ok(ends);
        }
        let before = line.0.len();
        let (from, to) = addresses(line)?;
        let found = PacketEnds { text, from, to, place: ConversationSlot::default() };
        if before - line.0.len() != length {
            self.other = found;
            return Ok(&mut self.other);
        }
        *ends = found;
        Ok(ends)
    }
}

/// The text up to and including the third space, its length, and its cache slot; `None` when it is
/// too long or the line ends soon after it.
#[inline(always)]
fn up_to_third_space(line: &[u8]) -> Option<([u64; EIGHTS], usize, usize)> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (mut text, mut hash, mut spaces) = ([0; EIGHTS], 0_u64, 0);
    let (eights, _) = line.as_chunks::<8>();
    for (at, (to, eight)) in text.iter_mut().zip(eights).enumerate() {
        let eight = u64::from_le_bytes(*eight);
        let mut found = spaces_of(eight);
        let count = found.count_ones();
        if spaces + count < 3 {
            spaces += count;
            *to = eight;
            hash = (hash.rotate_left(23) ^ eight).wrapping_mul(FACTOR);
            continue;
        }
        for _ in spaces..2 {
            found &= found - 1;
        }
        // The mark is the highest bit of the third space's byte.
        *to = eight & (found ^ (found - 1));
        hash = (hash.rotate_left(23) ^ *to).wrapping_mul(FACTOR);
        let length = 8 * at + found.trailing_zeros() as usize / 8 + 1;
        // The top bits depend on all others.
        let place = usize::try_from(hash >> 52).expect("twelve bits");
        return Some((text, length, place % TEXTS));
    }
    None
}

/// The highest bit of each byte that is a space.
#[inline(always)]
fn spaces_of(eight: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zero_where_space = eight ^ 0x2020_2020_2020_2020;
    !(((zero_where_space & LOW) + LOW) | zero_where_space | LOW)
}

#[cfg(test)]
mod tests {
    use super::{Cursor, KnownEnds, up_to_third_space};
    use crate::text::segment::addresses;

    #[test]
    fn the_text_ends_at_the_third_space() {
        let length = |line: &str| up_to_third_space(line.as_bytes()).map(|(_, length, _)| length);
        assert_eq!(length("10.1.0.1.1024 > 10.9.0.1.80: Flags [.]"), Some(29));
        assert_eq!(length("a > b: 12345678"), Some(7));
        assert_eq!(length("a > bcd: 12345678"), Some(9));
        assert_eq!(length("   12345"), Some(3));
        assert_eq!(length("a > b: "), None);
        assert_eq!(length(&"1".repeat(100)), None);
        let of = |line: &str| up_to_third_space(line.as_bytes()).map(|(text, _, at)| (text, at));
        assert_eq!(of("a > b: tcp 5 "), of("a > b: Flags"));
        assert_ne!(of("a > b: tcp 5 "), of("a > c: tcp 5 "));
    }

    #[test]
    fn what_is_remembered_is_what_the_text_says() {
        let mut known = KnownEnds::new();
        let texts = [
            "10.1.0.1.1024 > 10.9.0.1.80: Flags [.], ack 1",
            "10.9.0.1.80 > 10.1.0.1.1024: Flags [.], ack 1",
            "2001:db8::1.80 > 2001:db8::2.9: Flags [.], ack 1",
            "10.9.0.1.80 > 10.1.0.1.http: Flags [.], ack 1",
            "100.100.100.100.10000 > 200.200.200.200.20000: tcp 7",
            "10.9.0.1.80 > 10.1.0.1.1024: tcp 7",
            "10.9.0.1.80 > host.1: Flags [.]",
            "10.9.0.1.80 < 10.9.0.1.80: Flags [.]",
            "10.9.0.1.80 >",
            "",
        ];
        for text in texts.iter().cycle().take(3 * texts.len()) {
            let (mut line, mut expected) = (Cursor(text.as_bytes()), Cursor(text.as_bytes()));
            let found = known.read(&mut line).map(|ends| (ends.from, ends.to));
            let ends = addresses(&mut expected);
            assert_eq!(found, ends, "{text}");
            if ends.is_ok() {
                assert_eq!(line.0, expected.0, "{text}");
            }
        }
    }
}
