//! Text lengths in Parquet's delta encoding (Encodings.md, DELTA_BINARY_PACKED).

use super::runs::{push_bits, push_varint};

/// Deltas per block; a block has one minimum delta.
const BLOCK: usize = 128;
/// Deltas per miniblock; a miniblock has one bit width.
const PART: usize = 32;

/// Appends `lengths`.
pub(super) fn push_lengths(lengths: &[u32], out: &mut Vec<u8>) {
    push_varint(BLOCK as u64, out);
    push_varint((BLOCK / PART) as u64, out);
    push_varint(lengths.len() as u64, out);
    push_varint(zigzag(lengths.first().copied().map_or(0, i64::from)), out);
    let pairs = lengths.windows(2);
    let differences: Vec<i64> = pairs.map(|pair| i64::from(pair[1]) - i64::from(pair[0])).collect();
    for block in differences.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or_default();
        push_varint(zigzag(least), out);
        let parts: Vec<Vec<u32>> = block
            .chunks(PART)
            .map(|part| {
                part.iter()
                    .map(|difference| u32::try_from(difference - least).expect("both are lengths"))
                    .collect()
            })
            .collect();
        let of_parts = parts.iter().map(|part| bits_of(part).to_le_bytes()[0]);
        out.extend(of_parts.chain([0; BLOCK / PART]).take(BLOCK / PART));
        for mut part in parts {
            let bits = bits_of(&part);
            part.resize(PART, 0);
            push_bits(&part, bits, out);
        }
    }
}

fn bits_of(part: &[u32]) -> u32 {
    part.iter().fold(0, |bits, number| bits.max(u32::BITS - number.leading_zeros()))
}

/// Zigzag code: maps numbers near zero to small unsigned numbers.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::push_lengths;

    /// Decodes as the specification describes, independently of the encoder above.
    fn read(bytes: &[u8]) -> Vec<i64> {
        let mut at = 0;
        let varint = |at: &mut usize| {
            let (mut number, mut shift) = (0_u64, 0);
            loop {
                number |= u64::from(bytes[*at] & 0x7f) << shift;
                (*at, shift) = (*at + 1, shift + 7);
                if bytes[*at - 1] < 0x80 {
                    return number;
                }
            }
        };
        let (block, parts) = (varint(&mut at), varint(&mut at));
        let count = usize::try_from(varint(&mut at)).unwrap();
        let mut numbers = vec![signed(varint(&mut at))];
        while numbers.len() < count {
            let least = signed(varint(&mut at));
            let widths_at = at;
            at += usize::try_from(parts).unwrap();
            for part in 0..usize::try_from(parts).unwrap() {
                let width = usize::from(bytes[widths_at + part]);
                if numbers.len() >= count {
                    assert_eq!(width, 0);
                    continue;
                }
                let size = usize::try_from(block / parts).unwrap();
                for number in 0..size {
                    let bit = |bit: usize| i64::from(bytes[at + bit / 8] >> (bit % 8) & 1);
                    let above: i64 =
                        (0..width).map(|place| bit(number * width + place) << place).sum();
                    let last = numbers[numbers.len() - 1];
                    numbers.push(last + least + above);
                }
                at += size * width / 8;
            }
        }
        assert_eq!(at, bytes.len());
        numbers.truncate(count);
        numbers
    }

    fn signed(number: u64) -> i64 {
        (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
    }

    #[test]
    fn what_is_written_is_read_as_the_specification_says() {
        arbtest::arbtest(|u| {
            let most = *u.choose(&[0_u32, 1, 32, 300, 1 << 20])?;
            let count = u.int_in_range(0..=600)?;
            let mut lengths = Vec::new();
            for _ in 0..count {
                lengths.push(u.int_in_range(0..=most)?);
            }
            let mut bytes = Vec::new();
            push_lengths(&lengths, &mut bytes);
            let lengths: Vec<i64> = lengths.into_iter().map(i64::from).collect();
            assert_eq!(read(&bytes), lengths);
            Ok(())
        });
    }
}
