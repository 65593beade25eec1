//! MessagePack, read in place: one token at a time, no trusted lengths, no allocations.
//!
//! From the MessagePack specification. Arrays and maps announce their number of values; the caller
//! counts them.

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 32;

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MsgpackError {
    /// The bytes end inside the value: more may follow.
    Short,
    /// Malformed, or nested too deeply.
    Bad,
}

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Nil,
    Flag(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Extension(i8, &'a [u8]),
    /// Number of values that follow.
    Array(usize),
    /// Number of keys that follow, each with its value.
    Map(usize),
}

/// Reads from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MsgpackReader<'a>(pub(crate) &'a [u8]);

impl<'a> MsgpackReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], MsgpackError> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(MsgpackError::Short)?;
        self.0 = rest;
        Ok(head)
    }

    /// A big endian number of `width` bytes.
    fn number(&mut self, width: usize) -> Result<u64, MsgpackError> {
        Ok(self.take(width)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn length(&mut self, width: usize) -> Result<usize, MsgpackError> {
        usize::try_from(self.number(width)?).map_err(|_| MsgpackError::Bad)
    }

    fn extension(&mut self, length: usize) -> Result<Token<'a>, MsgpackError> {
        let kind = self.take(1)?[0].cast_signed();
        Ok(Token::Extension(kind, self.take(length)?))
    }

    /// The next token.
    pub(crate) fn token(&mut self) -> Result<Token<'a>, MsgpackError> {
        let first = self.take(1)?[0];
        Ok(match first {
            0x00..=0x7f => Token::Integer(i64::from(first)),
            0x80..=0x8f => Token::Map(usize::from(first & 0x0f)),
            0x90..=0x9f => Token::Array(usize::from(first & 0x0f)),
            0xa0..=0xbf => Token::Text(self.take(usize::from(first & 0x1f))?),
            0xc0 => Token::Nil,
            0xc1 => return Err(MsgpackError::Bad),
            0xc2 | 0xc3 => Token::Flag(first == 0xc3),
            0xc4..=0xc6 => {
                let length = self.length(1 << (first - 0xc4))?;
                Token::Bytes(self.take(length)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (first - 0xc7))?;
                self.extension(length)?
            }
            0xca => Token::Float(f64::from(f32::from_bits(
                u32::try_from(self.number(4)?).expect("four bytes"),
            ))),
            0xcb => Token::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Token::Unsigned(self.number(1 << (first - 0xcc))?),
            0xd0..=0xd3 => {
                let width = 1_usize << (first - 0xd0);
                let shift = 64 - 8 * width;
                Token::Integer((self.number(width)? << shift).cast_signed() >> shift)
            }
            0xd4..=0xd8 => self.extension(1 << (first - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(1 << (first - 0xd9))?;
                Token::Text(self.take(length)?)
            }
            0xdc | 0xdd => Token::Array(self.length(2 << (first - 0xdc))?),
            0xde | 0xdf => Token::Map(self.length(2 << (first - 0xde))?),
            0xe0..=0xff => Token::Integer(i64::from(first.cast_signed())),
        })
    }

    /// Skips one whole value and returns its bytes.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], MsgpackError> {
        let start = self.0;
        self.skip(0)?;
        Ok(&start[..start.len() - self.0.len()])
    }

    fn skip(&mut self, depth: usize) -> Result<(), MsgpackError> {
        if depth > MAX_DEPTH {
            return Err(MsgpackError::Bad);
        }
        let count = match self.token()? {
            Token::Array(count) => count,
            Token::Map(count) => count.checked_mul(2).ok_or(MsgpackError::Bad)?,
            _ => 0,
        };
        for _ in 0..count {
            self.skip(depth + 1)?;
        }
        Ok(())
    }

    /// Appends the next value as JSON. Bytes and text that are not UTF-8 are replaced.
    pub(crate) fn push_json(&mut self, out: &mut String, depth: usize) -> Result<(), MsgpackError> {
        if depth > MAX_DEPTH {
            return Err(MsgpackError::Bad);
        }
        let text =
            |bytes: &[u8]| serde_json::Value::from(String::from_utf8_lossy(bytes)).to_string();
        match self.token()? {
            Token::Nil => out.push_str("null"),
            Token::Flag(flag) => out.push_str(if flag { "true" } else { "false" }),
            Token::Integer(number) => out.push_str(&number.to_string()),
            Token::Unsigned(number) => out.push_str(&number.to_string()),
            Token::Float(number) => out.push_str(&serde_json::Value::from(number).to_string()),
            Token::Text(bytes) | Token::Bytes(bytes) => out.push_str(&text(bytes)),
            Token::Extension(_, bytes) => out.push_str(&text(bytes)),
            Token::Array(count) => {
                out.push('[');
                for at in 0..count {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.push_json(out, depth + 1)?;
                }
                out.push(']');
            }
            Token::Map(count) => {
                out.push('{');
                for at in 0..count {
                    out.push_str(if at == 0 { "" } else { "," });
                    match self.token()? {
                        Token::Text(key) | Token::Bytes(key) => out.push_str(&text(key)),
                        Token::Integer(key) => out.push_str(&format!("\"{key}\"")),
                        _ => return Err(MsgpackError::Bad),
                    }
                    out.push(':');
                    self.push_json(out, depth + 1)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }
}

/// Finds the end of a value that arrives in pieces, without reading a token twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueScan {
    /// Length of the tokens that were read.
    used: usize,
    /// Values that are missing, for each open array or map; the first is the value itself.
    missing: Vec<usize>,
}

impl ValueScan {
    /// The length of the value at the front of `bytes`, which begin with those of earlier calls.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Result<usize, MsgpackError> {
        if self.used == 0 {
            self.missing = vec![1];
        }
        while let Some(missing) = self.missing.last_mut() {
            if *missing == 0 {
                self.missing.pop();
                continue;
            }
            let mut reader = MsgpackReader(bytes.get(self.used..).unwrap_or_default());
            let token = reader.token()?;
            *missing -= 1;
            self.used = bytes.len() - reader.0.len();
            let count = match token {
                Token::Array(count) => count,
                Token::Map(count) => count.checked_mul(2).ok_or(MsgpackError::Bad)?,
                _ => 0,
            };
            if count == 0 {
                continue;
            }
            if self.missing.len() > MAX_DEPTH {
                return Err(MsgpackError::Bad);
            }
            self.missing.push(count);
        }
        Ok(std::mem::take(self).used)
    }
}

/// Appends text, at most 65,535 bytes of it.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.push(0xda);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&text[..usize::from(length)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_type_become_json() {
        let bytes = b"\x8a\xa1a\xc0\xa1b\xc3\xa1c\xd1\xff\x00\xa1d\xcd\x01\x00\xa1e\xcb\x3f\xe0\0\0\0\0\0\0\xa1f\xc4\x01x\xa1g\x92\x01\xff\xa1h\x81\x05\xa0\xa1i\xd7\x00\0\0\0\x01\0\0\0\x02\xa1j\xca\x3f\0\0\0";
        let (mut reader, mut out) = (MsgpackReader(bytes), String::new());
        reader.push_json(&mut out, 0).expect("well formed");
        assert_eq!(
            out.replace("\\u0000", "0").replace("\\u0001", "1").replace("\\u0002", "2"),
            r#"{"a":null,"b":true,"c":-256,"d":256,"e":0.5,"f":"x","g":[1,-1],"h":{"5":""},"i":"00010002","j":0.5}"#
        );
        assert!(reader.0.is_empty());
        assert_eq!(MsgpackReader(bytes).value(), Ok(&bytes[..]));
    }

    #[test]
    fn false_lengths_are_short_and_depth_is_limited() {
        assert_eq!(MsgpackReader(b"\xdb\xff\xff\xff\xffabc").value(), Err(MsgpackError::Short));
        assert_eq!(MsgpackReader(b"\xdd\xff\xff\xff\xff\x01").value(), Err(MsgpackError::Short));
        assert_eq!(MsgpackReader(b"\xc1").value(), Err(MsgpackError::Bad));
        assert_eq!(MsgpackReader(&[0x91; 100]).value(), Err(MsgpackError::Bad));
    }

    /// Bytes that come one by one give what they give at once, and no token is read twice.
    #[test]
    fn a_scan_in_pieces_agrees_with_a_scan_at_once() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let whole = MsgpackReader(&bytes).value().map(<[u8]>::len);
            let mut scan = ValueScan::default();
            let mut pieces = Err(MsgpackError::Short);
            for length in 1..=bytes.len() {
                let before = scan.used;
                pieces = scan.scan(&bytes[..length]);
                assert!(pieces.is_ok() || scan.used >= before);
                if pieces != Err(MsgpackError::Short) {
                    break;
                }
            }
            assert_eq!(pieces, whole);
            Ok(())
        });
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let (mut a, mut b) = (MsgpackReader(&bytes), MsgpackReader(&bytes));
            let mut out = String::new();
            if b.push_json(&mut out, 0).is_ok() {
                assert!(a.value().is_ok());
                serde_json::from_str::<serde_json::Value>(&out).expect("JSON");
            }
            Ok(())
        });
    }
}
