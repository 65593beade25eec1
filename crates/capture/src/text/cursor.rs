//! Cursor over a line.

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Consumes `text` if it is next.
    #[inline]
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    pub(super) fn number(&mut self) -> Option<u32> {
        let (number, count) = digits(self.0);
        let Ok(number) = u32::try_from(number) else { return None };
        self.0 = self.0.get(count..).filter(|_| count > 0)?;
        Some(number)
    }

    /// Consumes up to and including `end`; returns what is before it.
    pub(super) fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = memchr::memchr(end, self.0)?;
        let (before, rest) = self.0.split_at(at);
        self.0 = &rest[1..];
        Some(before)
    }

    /// Consumes up to and including `text`; returns what is before it.
    pub(super) fn past(&mut self, text: &[u8]) -> Option<&'a [u8]> {
        let at = memchr::memmem::find(self.0, text)?;
        let before = &self.0[..at];
        self.0 = &self.0[at + text.len()..];
        Some(before)
    }

    pub(super) fn spaces(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }
}

/// The number at the start of `text` and its digit count; digits beyond the nineteenth are ignored.
#[inline(always)]
pub(super) fn digits(text: &[u8]) -> (u64, usize) {
    let Some(eight) = text.first_chunk() else { return more_digits(text, 0, 0) };
    let (number, count) = digits_of_eight(*eight);
    if count < 8 { (number, count) } else { long_digits(text, number) }
}

/// Parses a number of at least eight digits: clocks and absolute numbers have up to ten.
#[inline(always)]
fn long_digits(text: &[u8], first: u64) -> (u64, usize) {
    const POWERS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let Some(next) = text.get(8..).and_then(<[u8]>::first_chunk) else {
        return more_digits(text, first, 8);
    };
    match digits_of_eight(*next) {
        (number, count) if count < 8 => (first * POWERS[count] + number, 8 + count),
        _ => more_digits(text, first, 8),
    }
}

#[cold]
fn more_digits(text: &[u8], mut number: u64, mut count: usize) -> (u64, usize) {
    for byte in text.iter().take(DIGITS_MAX).skip(count) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + u64::from(digit);
        count += 1;
    }
    (number, count)
}

/// Digits that always fit into 64 bits.
const DIGITS_MAX: usize = 19;

/// Parses up to eight digits at once (SWAR): digit counts vary per line, so a loop would be
/// mispredicted.
#[inline(always)]
fn digits_of_eight(bytes: [u8; 8]) -> (u64, usize) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let values = u64::from_le_bytes(bytes) ^ (EACH * 0x30);
    // The highest bit of each byte above 9; carries only reach bytes after such a one.
    let wrong = (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80);
    let count = wrong.trailing_zeros() / 8;
    if count == 0 {
        return (0, 0);
    }
    // Moves the last digit to the last byte, with zeros before the first; then adds up pairs,
    // fours, and all eight.
    let values = values << (64 - 8 * count);
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let all = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    (all, count as usize)
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn digits_are_what_parsing_them_one_by_one_gives() {
        arbtest::arbtest(|u| {
            let number: u64 = u.arbitrary::<u64>()? >> u.int_in_range(0..=63)?;
            let zeros = "0".repeat(u.int_in_range(0..=3)?);
            let before = format!("{zeros}{number}");
            let behind: Vec<u8> = u.arbitrary()?;
            let text = [before.as_bytes(), b",", &behind].concat();
            let known = before.len().min(19);
            let expected = before[..known].parse::<u64>().expect("nineteen digits fit");
            assert_eq!(digits(&text), (expected, known), "{text:?}");
            let is_digit = |byte: &&u8| byte.is_ascii_digit();
            assert_eq!(digits(&behind).1, behind.iter().take(19).take_while(is_digit).count());
            Ok(())
        });
    }
}
