//! Files in UTF-16, as programs of Windows write them: where their lines end.
//!
//! From the Unicode Standard, §23.8. A newline is a unit of two bytes at an even offset. The
//! surprising thing: other letters have a byte of a newline (`上` is U+4E0A), and the zero bytes
//! are no hole.

/// Letters without a mark that show the order of the bytes.
const SHOWN_UNITS: usize = 4;

/// Order of the two bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The order in a file that begins with these bytes: by its mark, or by zeros in ASCII letters.
    pub(super) fn of_head(head: &[u8]) -> Option<Self> {
        match head {
            // UTF-32 has the same mark with two zeros behind it.
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some(Self::Little),
            [0xfe, 0xff, ..] => Some(Self::Big),
            _ => {
                let mut units = head.chunks_exact(2).take(SHOWN_UNITS);
                let is_little = head.len() >= 2 * SHOWN_UNITS
                    && units.all(|unit| unit[0].is_ascii() && unit[0] != 0 && unit[1] == 0);
                is_little.then_some(Self::Little)
            }
        }
    }

    /// Length of the whole lines in `bytes`, which are at `offset` of the file.
    pub(super) fn whole_lines(self, offset: u64, bytes: &[u8]) -> Option<usize> {
        let first = usize::from(offset % 2 == 1);
        let newline = match self {
            Self::Little => [b'\n', 0],
            Self::Big => [0, b'\n'],
        };
        let mut units = bytes.get(first..)?.chunks_exact(2);
        let last = units.rposition(|unit| *unit == newline)?;
        Some(first + 2 * (last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_whole_units() {
        let little: Vec<u8> = "上\nb".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(ByteOrder::Little.whole_lines(0, &little), Some(4));
        assert_eq!(ByteOrder::Little.whole_lines(1, &little[1..]), Some(3));
        assert_eq!(ByteOrder::Little.whole_lines(0, &little[..3]), None);
        let big: Vec<u8> = "਀\n\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(ByteOrder::Big.whole_lines(0, &big), Some(6));
        assert_eq!(ByteOrder::Big.whole_lines(0, &big[..2]), None);
        assert_eq!(ByteOrder::of_head(b"\xff\xfea\0"), Some(ByteOrder::Little));
        assert_eq!(ByteOrder::of_head(b"\xfe\xff\0a"), Some(ByteOrder::Big));
        assert_eq!(ByteOrder::of_head(b"2\x000\x002\x006\0"), Some(ByteOrder::Little));
        assert_eq!(ByteOrder::of_head(b"\xff\xfe\0\0a\0\0\0"), None);
        assert_eq!(ByteOrder::of_head(b"plain text\n"), None);
    }
}
