//! Keys of the Bloom filters: whole values, words and trigrams. Everything here is part of the file
//! format; another hash function requires another index version.
//!
//! ASCII letters are folded to lower case, so that the index serves case-sensitive and
//! case-insensitive queries. Numbers of up to three digits and trigrams with a digit are left out:
//! they occur in every block.

/// Part of a value that a key covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// Whole value.
    Whole,
    /// Word, in lower case.
    Word,
    /// Trigram (three consecutive bytes), in lower case.
    Part,
}

/// Filter key of the column with field id `column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterKey {
    /// Field id of the column.
    pub column: i32,
    /// Part of the value that was hashed.
    pub kind: KeyKind,
    /// Hash, seeded by column and kind.
    pub hash: u64,
}

/// Longer words are indexed by their prefix of this length.
const WORD_BYTES_MAX: usize = 64;
const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];
/// Salts of Parquet's split-block Bloom filter (BloomFilter.md).
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

impl FilterKey {
    /// Key of a whole value.
    pub fn whole(column: i32, value: &str) -> Self {
        Self::new(column, KeyKind::Whole, hash(seed(column, KeyKind::Whole), value.as_bytes()))
    }

    /// Key of a word, which must be in lower case.
    pub fn word(column: i32, word: &[u8]) -> Self {
        Self::new(column, KeyKind::Word, word_hash(seed(column, KeyKind::Word), word))
    }

    /// Key of a trigram.
    pub fn part(column: i32, bucket: u16) -> Self {
        Self::new(column, KeyKind::Part, part_hash(seed(column, KeyKind::Part), bucket))
    }

    fn new(column: i32, kind: KeyKind, hash: u64) -> Self {
        Self { column, kind, hash }
    }
}

/// Hash seed of a column and key kind.
pub(crate) fn seed(column: i32, kind: KeyKind) -> u64 {
    let kind = match kind {
        KeyKind::Whole => 1,
        KeyKind::Word => 2,
        KeyKind::Part => 3,
    };
    fold(MULTIPLIERS[2] ^ (u64::from(column.cast_unsigned()) << 2 | kind), MULTIPLIERS[0])
}

/// 64-bit hash of `bytes`.
#[inline]
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIERS[1]);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        state = fold(state ^ u64::from_le_bytes(*chunk), MULTIPLIERS[0]);
    }
    state = fold(state ^ filled(rest), MULTIPLIERS[1]);
    fold(state ^ (state >> 32), MULTIPLIERS[2])
}

/// Up to seven bytes as a zero-padded number. Wide loads avoid the store-forwarding stall of
/// copying single bytes and then reading them as one word.
#[inline]
fn filled(bytes: &[u8]) -> u64 {
    let shift = |length: usize| (bytes.len() - length) * 8;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first))
            | u64::from(u32::from_le_bytes(*last)) << shift(4);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u16::from_le_bytes(*first))
            | u64::from(u16::from_le_bytes(*last)) << shift(2);
    }
    bytes.first().copied().map_or(0, u64::from)
}

#[inline]
pub(crate) fn word_hash(seed: u64, word: &[u8]) -> u64 {
    hash(seed, &word[..word.len().min(WORD_BYTES_MAX)])
}

#[inline]
pub(crate) fn part_hash(seed: u64, bucket: u16) -> u64 {
    let state = fold(seed ^ u64::from(bucket), MULTIPLIERS[1]);
    fold(state ^ (state >> 32), MULTIPLIERS[2])
}

/// Folded 128-bit product: XOR of both halves.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a product")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// Slot (32 bytes) of the key in a filter with `slots` slots.
#[inline]
pub(crate) fn slot(key: u64, slots: usize) -> usize {
    (((key >> 32) * slots as u64) >> 32) as usize
}

/// Bits per key in its slot, at most one in each of the eight words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBits {
    /// Best at about ten filter bits per key.
    Eight,
    /// Best at about five filter bits per key. The bits go to consecutive words, wrapping around.
    Four,
}

/// For each first word, the words that get a bit.
const FOUR: [[u32; 8]; 8] = {
    let mut words = [[0; 8]; 8];
    let mut at = 0;
    while at < 32 {
        words[at / 4][(at / 4 + at % 4) % 8] = u32::MAX;
        at += 1;
    }
    words
};

/// The key's bit mask for the eight words of its slot; with four bits, some words are zero.
#[inline]
pub fn mask(key: u64, bits: KeyBits) -> [u32; 8] {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half says which bits")]
    let low = key as u32;
    let mask = SALTS.map(|salt| 1 << (low.wrapping_mul(salt) >> 27));
    match bits {
        KeyBits::Eight => mask,
        KeyBits::Four => {
            let words = &FOUR[(key >> 32 & 7) as usize];
            std::array::from_fn(|at| mask[at] & words[at])
        }
    }
}

/// Whether the byte belongs to a word: ASCII letters, digits, `_`, and non-ASCII bytes.
#[inline]
pub fn is_word(byte: u8) -> bool {
    WORD_BYTES[usize::from(byte)]
}

const WORD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let byte = at as u8;
        table[at] = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        at += 1;
    }
    table
};

/// Byte ranges of the words in `text`.
pub fn words(text: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].iter().position(|byte| is_word(*byte))?;
        let length = text[start..].iter().position(|byte| !is_word(*byte));
        at = length.map_or(text.len(), |length| start + length);
        Some(start..at)
    })
}

/// Whether a word is selective: short numbers occur in every block.
#[inline]
pub fn is_telling(word: &[u8]) -> bool {
    word.len() > 3 || !word.iter().all(u8::is_ascii_digit)
}

/// Hashes a trigram to one of 65,536 buckets; `None` if it contains a digit.
#[inline]
pub fn bucket(bytes: [u8; 3]) -> Option<u16> {
    if bytes.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    let bucket = (number.wrapping_mul(0x9e37_79b1) >> 16) as u16;
    Some(bucket)
}

/// Lower case, ASCII only.
pub fn folded(text: &str) -> String {
    text.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_format() {
        // Files depend on these values: change them only together with the index version.
        assert_eq!(
            FilterKey::whole(8, "4bf92f3577b34da6a3ce929d0e0e4736").hash,
            0xdfa0_f48f_2c62_3343
        );
        assert_eq!(FilterKey::word(15, b"cart").hash, 0xde58_f9e5_83fe_0e3e);
        let part = bucket(*b"art").map(|bucket| FilterKey::part(15, bucket).hash);
        assert_eq!(part, Some(0xf6d5_0193_e96a_1ce8));
        let of_word = mask(0xde58_f9e5_83fe_0e3e, KeyBits::Four);
        assert_eq!(of_word, [1 << 19, 0, 0, 0, 0, 1 << 15, 1 << 10, 1 << 18]);
    }

    #[test]
    fn missing_bytes_are_zeros() {
        for length in 0..8 {
            let bytes = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0];
            let mut padded = [0; 8];
            padded[..length].copy_from_slice(&bytes[..length]);
            assert_eq!(filled(&bytes[..length]), u64::from_le_bytes(padded), "{length}");
        }
    }

    #[test]
    fn words_are_found_and_case_and_digits_are_as_stated() {
        let text = "GET /Cart?id=4711&q=\u{e4}pfel ";
        let found: Vec<&str> = words(text.as_bytes()).map(|word| &text[word]).collect();
        assert_eq!(found, ["GET", "Cart", "id", "4711", "q", "\u{e4}pfel"]);
        assert_eq!(bucket(*b"a1b"), None);
        assert_ne!(bucket(*b"abc"), bucket(*b"abd"));
        assert_eq!(folded("\u{c4}B"), "\u{c4}b", "beyond ASCII letters stay as they are");
    }

    #[test]
    fn keys_spread_over_slots_and_bits() {
        let mut counts = [0_u32; 100];
        let (mut bits, mut words) = ([0_u32; 32], [0_u32; 8]);
        for number in 0..100_000 {
            let key = FilterKey::whole(8, &format!("{number:032x}")).hash;
            counts[slot(key, 100)] += 1;
            let mask_of_eight = mask(key, KeyBits::Eight);
            bits[mask_of_eight[3].trailing_zeros() as usize] += 1;
            let mask_of_four = mask(key, KeyBits::Four);
            assert_eq!(mask_of_four.iter().filter(|word| **word != 0).count(), 4);
            for (at, (four, eight)) in mask_of_four.into_iter().zip(mask_of_eight).enumerate() {
                assert!(four == 0 || four == eight);
                words[at] += u32::from(four != 0);
            }
        }
        assert!(words.iter().all(|count| (49_000..51_000).contains(count)), "{words:?}");
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        assert!(bits.iter().all(|count| (2700..3600).contains(count)), "{bits:?}");
    }
}
