//! Parquet's hybrid of run-length and bit-packed encoding (Encodings.md, RLE).
//!
//! Example: with 3 bits per number, a hundred times 5 becomes one run: the varint 200 (`100 << 1`)
//! and the byte 5. The numbers 0 to 7 become one bit-packed group: the varint 3 (`1 << 1
//! 1`) and three bytes.

/// Shorter runs are larger than their bit-packed form.
const RUN_MIN: usize = 8;

/// Appends `numbers` with a bit width of `bits`, 1 to 32.
pub(crate) fn push_runs(numbers: &[u32], bits: u32, out: &mut Vec<u8>) {
    let (mut packed_from, mut at) = (0, 0);
    while at < numbers.len() {
        let run = run_length(&numbers[at..]);
        // Bit-packed groups hold eight numbers, so a run may lose its first ones to the group
        // before.
        let missing = (at - packed_from).next_multiple_of(8) - (at - packed_from);
        if run >= missing + RUN_MIN {
            push_packed(&numbers[packed_from..at + missing], bits, out);
            push_run(numbers[at], run - missing, bits, out);
            packed_from = at + run;
        }
        at += run;
    }
    push_packed(&numbers[packed_from..], bits, out);
}

fn run_length(numbers: &[u32]) -> usize {
    numbers.iter().take_while(|number| **number == numbers[0]).count()
}

fn push_run(number: u32, length: usize, bits: u32, out: &mut Vec<u8>) {
    push_varint((length as u64) << 1, out);
    out.extend_from_slice(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

/// Bit-packs the numbers; padding to a multiple of 8 is allowed only at the end of the page.
fn push_packed(numbers: &[u32], bits: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let eights = numbers.len().div_ceil(8);
    push_varint((eights as u64) << 1 | 1, out);
    push_bits(numbers, bits, out);
}

/// Bit-packs the low bits of each number, padded to a multiple of eight numbers.
pub(super) fn push_bits(numbers: &[u32], bits: u32, out: &mut Vec<u8>) {
    let end = out.len() + numbers.len().div_ceil(8) * bits as usize;
    out.reserve(end + 8 - out.len());
    let (mut gathered, mut count) = (0_u64, 0);
    for number in numbers {
        gathered |= u64::from(*number) << count;
        count += bits;
        if count >= 32 {
            #[expect(clippy::cast_possible_truncation, reason = "the lower half goes out")]
            out.extend_from_slice(&(gathered as u32).to_le_bytes());
            gathered >>= 32;
            count -= 32;
        }
    }
    out.extend_from_slice(&gathered.to_le_bytes());
    out.resize(end, 0);
}

pub(super) fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::push_runs;

    /// Decodes as the specification describes, independently of the encoder above.
    fn read(bytes: &[u8], bits: u32, count: usize) -> Vec<u32> {
        let (mut at, mut numbers) = (0, Vec::new());
        while numbers.len() < count {
            let (mut head, mut shift) = (0_usize, 0);
            loop {
                head |= usize::from(bytes[at] & 0x7f) << shift;
                (at, shift) = (at + 1, shift + 7);
                if bytes[at - 1] < 0x80 {
                    break;
                }
            }
            let bit = |number: usize| bytes[at + number / 8] >> (number % 8) & 1;
            if head & 1 == 1 {
                let bits = bits as usize;
                for number in 0..head / 2 * 8 {
                    let of = (0..bits).map(|place| u32::from(bit(number * bits + place)) << place);
                    numbers.push(of.sum());
                }
                at += head / 2 * bits;
            } else {
                let width = bits.div_ceil(8) as usize;
                let of = (0..width).map(|place| u32::from(bytes[at + place]) << (8 * place));
                let number: u32 = of.sum();
                numbers.resize(numbers.len() + head / 2, number);
                at += width;
            }
        }
        assert_eq!(at, bytes.len());
        assert!(numbers[count..].iter().all(|number| *number == 0), "filled with zeros");
        numbers.truncate(count);
        numbers
    }

    #[test]
    fn what_is_written_is_read_as_the_specification_says() {
        arbtest::arbtest(|u| {
            let bits = u.int_in_range(1..=32)?;
            let mut numbers: Vec<u32> = Vec::new();
            for _ in 0..u.int_in_range(0..=12)? {
                let number = u.arbitrary::<u32>()? >> (32 - bits);
                numbers.resize(numbers.len() + u.int_in_range(1..=40)?, number);
            }
            let mut bytes = Vec::new();
            push_runs(&numbers, bits, &mut bytes);
            assert_eq!(read(&bytes, bits, numbers.len()), numbers);
            Ok(())
        });
    }

    #[test]
    fn a_long_run_takes_a_few_bytes() {
        let mut bytes = Vec::new();
        push_runs(&[5; 8192], 12, &mut bytes);
        assert_eq!(bytes, [0x80, 0x80, 0x01, 5, 0]);
    }
}
