//! Logs in UTF-16, as SQL Server and other programs of Windows write them.
//!
//! Lines are cut at the byte of a newline, so the other byte of that character is in the next line
//! (little endian) or at the end of this one:
//!
//! ```text
//! little endian  a 0 \r 0 \n │ 0 b 0 \r 0 \n │ 0
//! big endian     0 a 0 \r 0 \n │ 0 b 0 \r 0 \n │
//! ```

use bumpalo::Bump;

/// Bytes that are checked.
const CHECKED_BYTES: usize = 64;

/// The line as UTF-8, without its line end; `None` if it is not UTF-16.
pub(crate) fn decoded<'a>(line: &[u8], arena: &'a Bump) -> Option<&'a [u8]> {
    let (bytes, is_little) = match line {
        [0xff, 0xfe, rest @ ..] => (rest, true),
        [0xfe, 0xff, rest @ ..] => (rest, false),
        [0, rest @ ..] if is_alternating(rest, 1) => (rest, true),
        [0, ..] if is_alternating(line, 0) => (line, false),
        _ => return None,
    };
    let units = bytes.chunks_exact(2).map(|pair| match (pair, is_little) {
        ([low, high], true) | ([high, low], false) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    });
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
