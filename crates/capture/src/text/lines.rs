//! Lines of a stream, borrowed from the buffer.
//!
//! A line over the limit is returned truncated; the rest of it is dropped and counted.

use std::io::Read;

/// Maximum line length. A packet of 64 KiB in hexadecimal has lines of only 120 bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Bytes per read: they should still be in the core's own cache when their lines are parsed.
const READ_BYTES: usize = 256 << 10;

/// Reads lines of a stream.
pub struct LineReader<R> {
    input: R,
    buffer: Box<[u8]>,
    /// `[from, to)` is read but not returned.
    from: usize,
    to: usize,
    is_at_end: bool,
    is_in_long_line: bool,
    cut: u64,
}

impl<R: Read> LineReader<R> {
    /// Starts at the beginning of the stream; `begun` is what format detection has already read.
    pub fn new(begun: &[u8], input: R) -> Self {
        let mut buffer = vec![0; LINE_BYTES_MAX.max(begun.len()) + READ_BYTES].into_boxed_slice();
        buffer[..begun.len()].copy_from_slice(begun);
        let to = begun.len();
        Self { input, buffer, from: 0, to, is_at_end: false, is_in_long_line: false, cut: 0 }
    }

    /// The next line without its end; `None` at the end.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn next_line(&mut self) -> std::io::Result<Option<&[u8]>> {
        let mut searched = 0;
        loop {
            let open = &self.buffer[self.from + searched..self.to];
            if let Some(found) = memchr::memchr(b'\n', open) {
                let (start, end) = (self.from, self.from + searched + found);
                self.from = end + 1;
                if std::mem::take(&mut self.is_in_long_line) {
                    searched = 0;
                    continue;
                }
                return Ok(Some(without_return(&self.buffer[start..end])));
            }
            searched = self.to - self.from;
            if self.is_in_long_line {
                self.from = self.to;
                searched = 0;
            } else if searched >= LINE_BYTES_MAX {
                let start = self.from;
                self.from = self.to;
                self.is_in_long_line = true;
                self.cut += 1;
                return Ok(Some(&self.buffer[start..start + LINE_BYTES_MAX]));
            }
            if self.is_at_end {
                let start = std::mem::replace(&mut self.from, self.to);
                return Ok((searched > 0).then(|| without_return(&self.buffer[start..self.to])));
            }
            self.fill()?;
        }
    }

    /// Number of truncated lines.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn fill(&mut self) -> std::io::Result<()> {
        // Move the rest of a line to the front, unless it is long: then only when the buffer is
        // full.
        if self.to - self.from < READ_BYTES / 8 || self.buffer.len() - self.to < READ_BYTES {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        let end = (self.to + READ_BYTES).min(self.buffer.len());
        let read = loop {
            match self.input.read(&mut self.buffer[self.to..end]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.to += read;
        self.is_at_end = read == 0;
        Ok(())
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the test's pieces one by one.
    struct PieceReader(Vec<Vec<u8>>);

    impl Read for PieceReader {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some(piece) = self.0.first_mut() else { return Ok(0) };
            let length = piece.len().min(buffer.len());
            buffer[..length].copy_from_slice(&piece[..length]);
            piece.drain(..length);
            if piece.is_empty() {
                self.0.remove(0);
            }
            Ok(length)
        }
    }

    fn all(begun: &[u8], pieces: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let pieces = PieceReader(pieces.iter().map(|piece| piece.to_vec()).collect());
        let mut lines = LineReader::new(begun, pieces);
        let mut out = Vec::new();
        while let Some(line) = lines.next_line().expect("it can be read") {
            out.push(line.to_vec());
        }
        (out, lines.cut())
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"one\ntwo\r\n\nfour without an end";
        let expected: Vec<Vec<u8>> =
            [&b"one"[..], b"two", b"", b"four without an end"].map(Vec::from).to_vec();
        for cut in 0..text.len() {
            assert_eq!(all(&text[..cut], &[&text[cut..]]), (expected.clone(), 0));
            if cut > 0 {
                assert_eq!(all(b"", &[&text[..cut], &text[cut..]]), (expected.clone(), 0));
            }
        }
        assert_eq!(all(b"", &[]), (vec![], 0));
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_one_is_whole() {
        let long = vec![b'x'; 3 * LINE_BYTES_MAX];
        let (lines, cut) = all(b"", &[b"a\n", &long, b"yy\nlast\n"]);
        assert_eq!(cut, 1);
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].as_slice(), lines[1].len()), (&b"a"[..], LINE_BYTES_MAX));
        assert_eq!(lines[2], b"last");
    }
}
