//! A place in a line, moved forward by what is read.

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Moves over `text` if it stands here.
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Moves over a whole number that fits.
    pub(super) fn number(&mut self) -> Option<u32> {
        let (mut number, mut count) = (0_u64, 0);
        // Eleven digits do not fit.
        for byte in self.0.iter().take(11) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            number = number * 10 + u64::from(digit);
            count += 1;
        }
        let number = u32::try_from(number).ok().filter(|_| count > 0)?;
        self.0 = &self.0[count..];
        Some(number)
    }

    /// Moves over what stands before `end`, and over it.
    pub(super) fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = memchr::memchr(end, self.0)?;
        let (before, rest) = self.0.split_at(at);
        self.0 = &rest[1..];
        Some(before)
    }

    /// Moves over what stands before `text`, and over it.
    pub(super) fn past(&mut self, text: &[u8]) -> Option<&'a [u8]> {
        let at = memchr::memmem::find(self.0, text)?;
        let before = &self.0[..at];
        self.0 = &self.0[at + text.len()..];
        Some(before)
    }

    /// Moves over spaces.
    pub(super) fn spaces(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }
}
