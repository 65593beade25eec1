//! Finds the end of a JSON array or object that arrives in pieces, without reading a byte twice.
//!
//! From RFC 8259: brackets count outside of strings only. The value itself is checked by its parser.

/// State of a value that is arriving.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonScan {
    /// Bytes that were read.
    used: usize,
    /// Open arrays and objects.
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl JsonScan {
    /// The length of the array or object at the front of `bytes`, which begin with those of earlier
    /// calls; `None` while its end is missing.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        for byte in bytes.get(self.used..)? {
            self.used += 1;
            if self.is_text {
                self.is_text = *byte != b'"' || self.is_escaped;
                self.is_escaped = *byte == b'\\' && !self.is_escaped;
                continue;
            }
            match byte {
                b'"' => self.is_text = true,
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(std::mem::take(self).used);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_in_any_pieces() {
        let value = br#"["t]\"]", 1, {"a": ["\\"]}]"#;
        let bytes = [&value[..], b" [2]"].concat();
        for cut in 0..=bytes.len() {
            let mut scan = JsonScan::default();
            let first = scan.scan(&bytes[..cut]);
            assert_eq!(first.or_else(|| scan.scan(&bytes)), Some(value.len()), "{cut}");
        }
    }

    #[test]
    fn any_bytes_are_scanned_as_at_once() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let whole = JsonScan::default().scan(&bytes);
            let mut scan = JsonScan::default();
            let pieces = (0..=bytes.len()).find_map(|length| scan.scan(&bytes[..length]));
            assert_eq!(pieces, whole);
            Ok(())
        });
    }
}
