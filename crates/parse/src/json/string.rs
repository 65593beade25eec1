//! Strings of JSON text: found without a copy, decoded when they hold escapes.

use memchr::memchr2;

use super::JsonScanner;
use crate::record::LineFault;
use crate::text;

impl<'a> JsonScanner<'a> {
    /// A string whose first quote is taken.
    #[inline]
    pub(super) fn string(&mut self) -> Result<&'a str, LineFault> {
        let start = self.at;
        match find_string_mark(self.rest()) {
            Some(length) if self.rest()[length] == b'"' => {
                self.at = start + length + 1;
                Ok(&self.text[start..start + length])
            }
            Some(_) => self.escaped_string(),
            None => Err(self.unended(start)),
        }
    }

    fn unended(&mut self, start: usize) -> LineFault {
        self.at = start.saturating_sub(1);
        self.fault("a string without end begins")
    }

    #[cold]
    fn escaped_string(&mut self) -> Result<&'a str, LineFault> {
        let start = self.at;
        let mut out = Vec::new();
        let mut has_hex = false;
        loop {
            let Some(length) = memchr2(b'"', b'\\', self.rest()) else {
                return Err(self.unended(start));
            };
            out.extend_from_slice(&self.rest()[..length]);
            let is_end = self.rest()[length] == b'"';
            self.at += length + 1;
            if is_end {
                break;
            }
            has_hex |= self.escape(&mut out)?;
        }
        self.repair.hex_escape |= has_hex;
        let (decoded, is_mended) =
            text::lossless(self.arena.alloc_slice_copy(&out), "\\x", self.arena);
        self.repair.invalid_utf8 |= is_mended;
        Ok(decoded)
    }

    /// Decodes what follows a backslash; true when it was nginx's `xNN`.
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<bool, LineFault> {
        let Some(mark) = self.rest().first().copied() else {
            return Err(self.fault("an escape is cut off"));
        };
        self.at += 1;
        out.push(match mark {
            b'"' | b'\\' | b'/' => mark,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(out).map(|()| false),
            b'x' => match text::hex_byte(self.rest()) {
                Some(byte) => {
                    self.at += 2;
                    out.push(byte);
                    return Ok(true);
                }
                None => return Err(self.fault("`\\x` without two hex digits")),
            },
            _ => {
                self.at -= 1;
                return Err(self.fault("an unknown escape"));
            }
        });
        Ok(false)
    }

    /// `\u` and four hexadecimal digits; half a surrogate pair becomes U+FFFD.
    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), LineFault> {
        let mut code = self.four_hex()?;
        if (0xd800..0xdc00).contains(&code) && self.rest().starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.four_hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            } else {
                self.at = back;
            }
        }
        let character = char::from_u32(code).unwrap_or_else(|| {
            self.repair.invalid_utf8 = true;
            char::REPLACEMENT_CHARACTER
        });
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn four_hex(&mut self) -> Result<u32, LineFault> {
        let high = text::hex_byte(self.rest());
        let low = self.rest().get(2..).and_then(text::hex_byte);
        match (high, low) {
            (Some(high), Some(low)) => {
                self.at += 4;
                Ok(u32::from(high) << 8 | u32::from(low))
            }
            _ => Err(self.fault("`\\u` without four hex digits")),
        }
    }

    pub(super) fn skip_string(&mut self) -> Result<(), LineFault> {
        let start = self.at;
        loop {
            let Some(length) = memchr2(b'"', b'\\', self.rest()) else {
                return Err(self.unended(start));
            };
            let is_end = self.rest()[length] == b'"';
            self.at += length + 1;
            if is_end {
                return Ok(());
            }
            self.at += usize::from(!self.rest().is_empty());
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
        }
    }
}

/// The place of the first `"` or `\`.
///
/// Most strings of logs are shorter than what a call of a vector search costs, so the first bytes
/// are checked eight at a time: a byte that equals the mark is zero after xor, and borrows in the
/// subtraction.
#[inline]
fn find_string_mark(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(word) = bytes.get(at..at + 8).filter(|_| at < 32) {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let (quote, slash) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
        let marks = zeros(quote) | zeros(slash);
        if marks != 0 {
            return Some(at + (marks.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', &bytes[at..]).map(|length| at + length)
}
