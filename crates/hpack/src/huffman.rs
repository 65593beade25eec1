//! HPACK's Huffman code (RFC 7541 §5.2 and appendix B).
//!
//! The code is canonical: the lengths of the symbols' codes determine the codes, since codes of one
//! length are consecutive in the order of their symbols.

/// Length of each byte's code, bits.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const LENGTH_MAX: usize = 30;

/// Codes of one length: the first code, their number, and the index of the first one's symbol.
#[derive(Clone, Copy)]
struct CodeGroup {
    first: u32,
    count: u32,
    at: usize,
}

struct CodeTable {
    /// By length.
    groups: [CodeGroup; LENGTH_MAX + 1],
    /// By code.
    symbols: [u8; 256],
}

static TABLE: CodeTable = code_table();

#[expect(clippy::cast_possible_truncation, reason = "symbols are below 256")]
const fn code_table() -> CodeTable {
    let mut groups = [CodeGroup { first: 0, count: 0, at: 0 }; LENGTH_MAX + 1];
    let mut symbols = [0; 256];
    let (mut length, mut code, mut at) = (1, 0_u32, 0);
    while length <= LENGTH_MAX {
        code <<= 1;
        groups[length].first = code;
        groups[length].at = at;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                symbols[at] = symbol as u8;
                (at, code) = (at + 1, code + 1);
                groups[length].count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    CodeTable { groups, symbols }
}

/// Decodes a string; `None` for one that ends within a code or contains the end-of-string symbol.
pub(crate) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut code, mut length) = (0_u32, 0);
    for byte in bytes {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            length += 1;
            let CodeGroup { first, count, at } = *TABLE.groups.get(length)?;
            if let Some(place) = code.checked_sub(first).filter(|place| *place < count) {
                out.push(*TABLE.symbols.get(at + place as usize)?);
                (code, length) = (0, 0);
            }
        }
    }
    // The padding is the beginning of the end-of-string symbol: ones, less than a byte.
    (length < 8 && code == (1 << length) - 1).then_some(())
}

#[cfg(test)]
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u64, 0);
    for byte in bytes {
        let length = usize::from(LENGTHS[usize::from(*byte)]);
        let group = TABLE.groups[length];
        let symbols = &TABLE.symbols[group.at..];
        let place = symbols.iter().position(|symbol| symbol == byte).expect("each has a code");
        let code = group.first + u32::try_from(place).expect("small");
        bits = bits << length | u64::from(code);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).expect("masked"));
        }
    }
    if count > 0 {
        out.push(u8::try_from((bits << (8 - count) | (0xff >> count)) & 0xff).expect("masked"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| out)
    }

    /// RFC 7541 C.4.1, C.4.2 and C.6.1.
    #[test]
    fn strings_of_the_standard_decode() {
        let site = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&site).as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(
            decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(),
            Some(&b"no-cache"[..])
        );
        assert_eq!(decoded(&[0x64, 0x02]).as_deref(), Some(&b"302"[..]));
    }

    #[test]
    fn what_was_encoded_decodes_and_other_padding_does_not() {
        arbtest::arbtest(|u| {
            let text: Vec<u8> = u.arbitrary()?;
            let code = encode(&text);
            assert_eq!(decoded(&code), Some(text));
            let garbage: Vec<u8> = u.arbitrary()?;
            if let Some(found) = decoded(&garbage) {
                assert_eq!(encode(&found), garbage);
            }
            Ok(())
        });
        // Eight bits of padding, padding of zeros, and the end-of-string symbol.
        assert_eq!(decoded(&[0x1f, 0xff]), None);
        assert_eq!(decoded(&[0x18]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
    }
}
