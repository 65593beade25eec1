//! Text in Latin-1 or Windows-1252, where a pipeline names it: `encoding = "latin1"`.
//!
//! From the WHATWG's Encoding Standard, which reads both as Windows-1252. The surprising thing: a
//! log often has lines of both encodings, so a line that is valid UTF-8 stays as it is.

use bumpalo::Bump;

/// Names of the encoding.
pub(crate) const NAMES: [&str; 4] = ["latin1", "iso-8859-1", "windows-1252", "cp1252"];

/// Letters of the bytes 0x80 to 0x9f.
const LETTERS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The line as UTF-8.
pub(crate) fn decoded<'a>(line: &[u8], arena: &'a Bump) -> &'a str {
    let text: String = line.iter().map(|byte| letter(*byte)).collect();
    arena.alloc_str(&text)
}

fn letter(byte: u8) -> char {
    match byte {
        0x80..=0x9f => LETTERS[usize::from(byte - 0x80)],
        other => char::from(other),
    }
}
