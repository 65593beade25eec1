//! Logs in UTF-16, as SQL Server and other programs of Windows write them.
//!
//! The order of the bytes is that of the mark at the start of the file, or of the zero bytes in its
//! first letters. With it, lines end at whole newlines: a letter such as `上` (U+4E0A) has a byte of
//! a newline. Without it, as for single lines, lines are cut at that byte, so the other byte of the
//! newline is in the next line (little endian) or at the end of this one:
//!
//! ```text
//! little endian  a 0 \r 0 \n │ 0 b 0 \r 0 \n │ 0
//! big endian     0 a 0 \r 0 \n │ 0 b 0 \r 0 \n │
//! ```

use bumpalo::Bump;

/// Bytes that are checked.
const CHECKED_BYTES: usize = 64;

/// Order of the two bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn unit(self, pair: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(pair),
            Self::Big => u16::from_be_bytes(pair),
        }
    }
}

/// The order in a file that begins with these bytes; `None` if it is not UTF-16.
pub(crate) fn order_of_file(head: &[u8]) -> Option<ByteOrder> {
    match head {
        // UTF-32 has the same mark with two zeros behind it.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(ByteOrder::Little),
        [0xfe, 0xff, ..] => Some(ByteOrder::Big),
        _ if head.len() < 8 => None,
        _ if is_alternating(head, 1) => Some(ByteOrder::Little),
        _ if is_alternating(head, 0) => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The lines of a stretch that begins at `offset` in its file, as UTF-8, each with its offset in the
/// stretch.
pub(crate) fn lines<'a>(
    bytes: &[u8],
    (offset, order): (u64, ByteOrder),
    arena: &'a Bump,
) -> Vec<(usize, &'a [u8])> {
    // A stretch that begins within a unit begins with the rest of a newline.
    let first = usize::from(offset % 2 == 1).min(bytes.len());
    let mut lines = Vec::new();
    let (mut start, mut units) = (first, Vec::new());
    for (index, pair) in bytes[first..].chunks_exact(2).enumerate() {
        let unit = order.unit([pair[0], pair[1]]);
        if unit == u16::from(b'\n') {
            lines.push((start, text(&units, arena)));
            units.clear();
            start = first + 2 * (index + 1);
        } else {
            units.push(unit);
        }
    }
    if !units.is_empty() {
        lines.push((start, text(&units, arena)));
    }
    lines
}

fn text<'a>(units: &[u16], arena: &'a Bump) -> &'a [u8] {
    let units = units.strip_prefix(&[0xfeff]).unwrap_or(units);
    let letters = char::decode_utf16(units.iter().copied());
    let text: String = letters.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    arena.alloc_str(text.trim_end_matches('\r')).as_bytes()
}

/// The line as UTF-8, without its line end; `None` if it is not UTF-16: behind a mark alone, or with a
/// byte left over that is no half of a newline, it is other bytes.
pub(crate) fn decoded<'a>(line: &[u8], arena: &'a Bump) -> Option<&'a [u8]> {
    let (bytes, order) = match line {
        [0xff, 0xfe, rest @ ..] => (rest, ByteOrder::Little),
        [0xfe, 0xff, rest @ ..] => (rest, ByteOrder::Big),
        [0, rest @ ..] if is_alternating(rest, 1) => (rest, ByteOrder::Little),
        [0, ..] if is_alternating(line, 0) => (line, ByteOrder::Big),
        _ => return None,
    };
    let pairs = bytes.chunks_exact(2);
    if bytes.is_empty() || pairs.remainder().first().is_some_and(|byte| *byte != 0) {
        return None;
    }
    let units = pairs.map(|pair| order.unit([pair[0], pair[1]]));
    let text: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Some(arena.alloc_str(text.trim_end_matches(['\r', '\n'])).as_bytes())
}

/// Whether the bytes at one of the two places of each pair are zero, and the others are not.
fn is_alternating(bytes: &[u8], zeros: usize) -> bool {
    let head = &bytes[..bytes.len().min(CHECKED_BYTES)];
    let pairs = || head.chunks_exact(2);
    let own = pairs().filter(|pair| pair[zeros] == 0 && pair[1 - zeros] != 0).count();
    own > 0 && own * 4 >= pairs().count() * 3
}
