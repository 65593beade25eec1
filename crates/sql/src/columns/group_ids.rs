//! Assigns ids to values in order of first occurrence.

use arrow_array::StringArray;
use arrow_array::builder::StringBuilder;

/// Ids of texts and of NULL.
#[derive(Debug, Default)]
pub(crate) struct NumberedTexts {
    /// End offset of each text in `bytes`; NULL is an empty range.
    ends: Vec<u32>,
    bytes: Vec<u8>,
    hashes: Vec<u64>,
    null: Option<u32>,
    slots: HashSlots,
}

/// Ids by hash: open addressing, load factor at most one half.
#[derive(Debug, Default)]
struct HashSlots(Vec<u32>);

const FREE: u32 = u32::MAX;

impl HashSlots {
    /// The id for which `is_it` holds, or the free slot to insert it at.
    #[inline]
    fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Result<u32, usize> {
        let mask = self.0.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "cut to the table's size anyway")]
        let mut at = hash as usize & mask;
        loop {
            match self.0[at] {
                FREE => return Err(at),
                number if is_it(number) => return Ok(number),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Grows the table for one more id; `hashes` are those of the ids already in it.
    fn reserve(&mut self, hashes: &[u64]) {
        if hashes.len() * 2 < self.0.len() {
            return;
        }
        let mut grown = Self(vec![FREE; (self.0.len() * 2).max(1024)]);
        for (number, hash) in hashes.iter().enumerate() {
            if let (Err(at), Ok(number)) = (grown.find(*hash, |_| false), u32::try_from(number)) {
                grown.0[at] = number;
            }
        }
        *self = grown;
    }
}

impl NumberedTexts {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Id of a text.
    pub(crate) fn number(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return self.number_of_null() };
        self.slots.reserve(&self.hashes);
        let text = text.as_bytes();
        let hash = text_hash(text);
        let known = self.slots.find(hash, |number| {
            let at = number as usize;
            self.hashes[at] == hash && self.null != Some(number) && self.bytes_of(at) == text
        });
        match known {
            Ok(number) => number,
            Err(at) => {
                let number = self.next();
                self.slots.0[at] = number;
                self.bytes.extend_from_slice(text);
                self.push(hash);
                number
            }
        }
    }

    fn number_of_null(&mut self) -> u32 {
        if let Some(number) = self.null {
            return number;
        }
        let number = self.next();
        self.null = Some(number);
        self.push(0);
        number
    }

    /// The next id. Distinct values never exceed rows, and rows of a query fit into 32 bits.
    fn next(&self) -> u32 {
        u32::try_from(self.ends.len()).expect("fewer texts than 2^32")
    }

    fn push(&mut self, hash: u64) {
        self.ends.push(u32::try_from(self.bytes.len()).expect("less than 4 GiB of texts"));
        self.hashes.push(hash);
        // NULL's id counts toward the load factor without occupying a slot, which is harmless.
        self.slots.reserve(&self.hashes);
    }

    fn bytes_of(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * 4
            + self.hashes.capacity() * 8
            + self.slots.0.capacity() * 4
    }

    /// The texts in order of their ids.
    pub(crate) fn finish(&self) -> StringArray {
        let mut texts = StringBuilder::with_capacity(self.len(), self.bytes.len());
        for at in 0..self.len() {
            if self.null.is_some_and(|null| null as usize == at) {
                texts.append_null();
            } else {
                texts
                    .append_value(std::str::from_utf8(self.bytes_of(at)).expect("it came as text"));
            }
        }
        texts.finish()
    }

    /// Text of an id.
    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        let is_null = self.null == Some(number);
        (!is_null)
            .then(|| std::str::from_utf8(self.bytes_of(number as usize)).expect("it came as text"))
    }
}

/// Ids of 64-bit integers and of NULL.
#[derive(Debug, Default)]
pub(crate) struct NumberedInts {
    values: Vec<Option<i64>>,
    hashes: Vec<u64>,
    slots: HashSlots,
}

impl NumberedInts {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Id of a value.
    #[inline]
    pub(crate) fn number(&mut self, value: Option<i64>) -> u32 {
        self.slots.reserve(&self.hashes);
        let hash = value.map_or(u64::MAX, |value| spread(value.cast_unsigned()));
        let values = &self.values;
        match self.slots.find(hash, |number| values[number as usize] == value) {
            Ok(number) => number,
            Err(at) => {
                let number = u32::try_from(values.len()).expect("fewer values than 2^32");
                self.slots.0[at] = number;
                self.values.push(value);
                self.hashes.push(hash);
                number
            }
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<i64> {
        self.values[number as usize]
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.values.capacity() * 16 + self.hashes.capacity() * 8 + self.slots.0.capacity() * 4
    }
}

const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// 64-bit hash of an integer.
#[inline]
pub(crate) fn spread(number: u64) -> u64 {
    let product = u128::from(number ^ MULTIPLIERS[1]) * u128::from(MULTIPLIERS[0]);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a product")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// 64-bit hash of a text.
#[inline]
fn text_hash(bytes: &[u8]) -> u64 {
    let mut state = (bytes.len() as u64).wrapping_mul(MULTIPLIERS[1]);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        state = spread(state ^ u64::from_le_bytes(*chunk));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    spread(state ^ u64::from_le_bytes(last)) ^ (state >> 29)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn values_get_numbers_in_order_and_keep_them() {
        let (mut texts, mut ints) = (NumberedTexts::default(), NumberedInts::default());
        for round in 0..2 {
            for number in 0..5000_u32 {
                let text = (number % 1000 != 17).then(|| format!("value {number}"));
                let expected = match number {
                    0..=17 => number,
                    _ if text.is_none() => 17,
                    _ => number - (number - 18) / 1000,
                };
                assert_eq!(texts.number(text.as_deref()), expected, "{round} {number}");
                assert_eq!(texts.get(expected), text.as_deref());
                let value = (number != 3).then(|| i64::from(number) - 100);
                assert_eq!(ints.number(value), number);
                assert_eq!(ints.get(number), value);
            }
        }
        assert_eq!((texts.len(), ints.len()), (4996, 5000));
        let texts = texts.finish();
        assert_eq!((texts.len(), texts.null_count()), (4996, 1));
    }
}
