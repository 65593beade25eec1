//! A scanner of JSON text that forgives what hand-made log formats get wrong.
//!
//! Strict JSON (RFC 8259) is read as any reader does. Beyond it: nginx's `\xNN` inside strings, control characters
//! inside strings, values without quotes (`-`, empty, `0.1, 0.2`), a comma before `}`. Torn lines are faults.

use bumpalo::Bump;
use memchr::{memchr2, memchr3};

use crate::record::{Fault, Repair};
use crate::text;

/// Objects and arrays may be this deep in each other.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value; texts borrow from the line, or from the arena when they had escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    /// A number, `true` or `false`, as written.
    Bare(&'a str),
    Null,
    /// An array as written.
    Array(&'a str),
    /// The scanner stands behind the `{`.
    Object,
}

/// A place in JSON text.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    arena: &'a Bump,
    pub(crate) repair: Repair,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, arena: &'a Bump) -> Self {
        Self { text, at: 0, arena, repair: Repair::default() }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn fault(&self, cause: &str) -> Fault {
        Fault { reason: "invalid_json", detail: format!("{cause} at byte {}", self.at) }
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    #[inline]
    fn next_is(&mut self, mark: u8) -> bool {
        if self.text.as_bytes().get(self.at) == Some(&mark) {
            self.at += 1;
            return true;
        }
        self.next_is_behind_space(mark)
    }

    fn next_is_behind_space(&mut self, mark: u8) -> bool {
        self.skip_space();
        let is_next = self.text.as_bytes().get(self.at) == Some(&mark);
        self.at += usize::from(is_next);
        is_next
    }

    /// Steps into the object that the text is.
    pub(crate) fn open(&mut self) -> Result<(), Fault> {
        if self.next_is(b'{') { Ok(()) } else { Err(self.fault("no `{`")) }
    }

    /// Nothing but space may follow the object.
    pub(crate) fn close(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fault("text behind the object")) }
    }

    /// The next key of the object, its quotes and colon taken; `None` behind the `}`.
    #[inline]
    pub(crate) fn key(&mut self, is_first: bool) -> Result<Option<&'a str>, Fault> {
        if !is_first && !self.next_is(b',') {
            return if self.next_is(b'}') { Ok(None) } else { Err(self.fault("no `,` or `}`")) };
        }
        if !self.next_is(b'"') {
            if self.next_is(b'}') {
                self.repair.loose_json |= !is_first;
                return Ok(None);
            }
            return Err(self.fault("no key"));
        }
        let key = self.string()?;
        if self.next_is(b':') { Ok(Some(key)) } else { Err(self.fault("no `:`")) }
    }

    /// Takes the key `quoted` (`"key":`) if it is the next one, and gives it without quotes.
    #[inline]
    pub(crate) fn take_key(&mut self, quoted: &[u8], is_first: bool) -> Option<&'a str> {
        let start = self.at + usize::from(!is_first);
        let bytes = self.text.as_bytes();
        let is_next = (is_first || bytes.get(self.at) == Some(&b','))
            && bytes.get(start..).is_some_and(|rest| rest.starts_with(quoted));
        is_next.then(|| {
            self.at = start + quoted.len();
            &self.text[start + 1..self.at - 2]
        })
    }

    /// The value behind a key.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Value<'a>, Fault> {
        if self.next_is(b'"') {
            return Ok(Value::Text(self.string()?));
        }
        match self.rest().first() {
            Some(b'{') => {
                self.at += 1;
                Ok(Value::Object)
            }
            Some(b'[') => self.array(),
            Some(_) => self.bare(),
            None => Err(self.fault("the line ends")),
        }
    }

    /// A string whose first quote is taken.
    #[inline]
    fn string(&mut self) -> Result<&'a str, Fault> {
        let start = self.at;
        match find_string_mark(self.rest()) {
            Some(length) if self.rest()[length] == b'"' => {
                self.at = start + length + 1;
                Ok(&self.text[start..start + length])
            }
            Some(_) => self.escaped_string(),
            None => Err(self.unended(start)),
        }
    }

    fn unended(&mut self, start: usize) -> Fault {
        self.at = start.saturating_sub(1);
        self.fault("a string without end begins")
    }

    #[cold]
    fn escaped_string(&mut self) -> Result<&'a str, Fault> {
        let start = self.at;
        let mut out = Vec::new();
        let mut has_hex = false;
        loop {
            let Some(length) = memchr2(b'"', b'\\', self.rest()) else {
                return Err(self.unended(start));
            };
            out.extend_from_slice(&self.rest()[..length]);
            let is_end = self.rest()[length] == b'"';
            self.at += length + 1;
            if is_end {
                break;
            }
            has_hex |= self.escape(&mut out)?;
        }
        self.repair.hex_escape |= has_hex;
        let (decoded, is_mended) =
            text::lossless(self.arena.alloc_slice_copy(&out), "\\x", self.arena);
        self.repair.invalid_utf8 |= is_mended;
        Ok(decoded)
    }

    /// Decodes what follows a backslash; true when it was nginx's `xNN`.
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let Some(mark) = self.rest().first().copied() else {
            return Err(self.fault("an escape is cut off"));
        };
        self.at += 1;
        out.push(match mark {
            b'"' | b'\\' | b'/' => mark,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(out).map(|()| false),
            b'x' => match text::hex_byte(self.rest()) {
                Some(byte) => {
                    self.at += 2;
                    out.push(byte);
                    return Ok(true);
                }
                None => return Err(self.fault("`\\x` without two hex digits")),
            },
            _ => {
                self.at -= 1;
                return Err(self.fault("an unknown escape"));
            }
        });
        Ok(false)
    }

    /// `\uXXXX`; half a surrogate pair becomes U+FFFD.
    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut code = self.four_hex()?;
        if (0xd800..0xdc00).contains(&code) && self.rest().starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.four_hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            } else {
                self.at = back;
            }
        }
        let character = char::from_u32(code).unwrap_or_else(|| {
            self.repair.invalid_utf8 = true;
            char::REPLACEMENT_CHARACTER
        });
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn four_hex(&mut self) -> Result<u32, Fault> {
        let high = text::hex_byte(self.rest());
        let low = self.rest().get(2..).and_then(text::hex_byte);
        match (high, low) {
            (Some(high), Some(low)) => {
                self.at += 4;
                Ok(u32::from(high) << 8 | u32::from(low))
            }
            _ => Err(self.fault("`\\u` without four hex digits")),
        }
    }

    /// An array as written; only strings and brackets inside are looked at.
    fn array(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        let mut closers: Vec<u8> = Vec::new();
        loop {
            let Some(&byte) = self.rest().first() else {
                return Err(self.fault("the line ends inside an array"));
            };
            self.at += 1;
            match byte {
                b'"' => self.skip_string()?,
                b'[' | b'{' => {
                    closers.push(if byte == b'[' { b']' } else { b'}' });
                    if closers.len() > MAX_DEPTH {
                        return Err(self.too_deep());
                    }
                }
                b']' | b'}' => {
                    if closers.pop() != Some(byte) {
                        return Err(self.fault("a bracket that closes nothing"));
                    }
                    if closers.is_empty() {
                        return Ok(Value::Array(&self.text[start..self.at]));
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn too_deep(&self) -> Fault {
        self.fault(&format!("nested deeper than {MAX_DEPTH}"))
    }

    fn skip_string(&mut self) -> Result<(), Fault> {
        let start = self.at;
        loop {
            let Some(length) = memchr2(b'"', b'\\', self.rest()) else {
                return Err(self.unended(start));
            };
            let is_end = self.rest()[length] == b'"';
            self.at += length + 1;
            if is_end {
                return Ok(());
            }
            self.at += usize::from(!self.rest().is_empty());
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
        }
    }

    /// A value without quotes. Numbers, `true`, `false` and `null` are JSON; the rest is forgiven.
    #[inline]
    fn bare(&mut self) -> Result<Value<'a>, Fault> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let is_end = matches!(&rest[length..], [b',', b'"', ..] | [b'}', ..]);
        if is_end && is_number(&rest[..length]) {
            let start = self.at;
            self.at += length;
            return Ok(Value::Bare(&self.text[start..self.at]));
        }
        self.any_bare()
    }

    fn any_bare(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        let mut end = start;
        loop {
            let Some(length) = memchr3(b',', b'}', b'"', &self.text.as_bytes()[end..]) else {
                self.at = self.text.len();
                return Err(self.fault("the line ends inside a value"));
            };
            end += length;
            match self.text.as_bytes()[end] {
                b',' if !self.is_list_comma(end) => break,
                b'}' => break,
                b'"' => {
                    self.at = end;
                    return Err(self.fault("a quote inside a value without quotes"));
                }
                _ => end += 1,
            }
        }
        self.at = end;
        Ok(self.bare_value(self.text[start..end].trim_ascii_end()))
    }

    /// Whether the comma parts a list (`0.1, 0.2`) rather than two members: no key and no end follows.
    fn is_list_comma(&self, at: usize) -> bool {
        let rest = self.text[at + 1..].trim_ascii_start();
        !rest.starts_with(['"', '}']) && !rest.is_empty()
    }

    fn bare_value(&mut self, value: &'a str) -> Value<'a> {
        match value {
            "null" => Value::Null,
            "true" | "false" => Value::Bare(value),
            _ if is_number(value.as_bytes()) => Value::Bare(value),
            _ => {
                self.repair.loose_json = true;
                if value.is_empty() { Value::Null } else { Value::Bare(value) }
            }
        }
    }
}

/// The place of the first `"` or `\`.
///
/// Most strings of logs are shorter than what a call of a vector search costs, so the first bytes are looked at
/// eight at a time: a byte that equals the mark is zero after xor, and borrows in the subtraction.
#[inline]
fn find_string_mark(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(word) = bytes.get(at..at + 8).filter(|_| at < 32) {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let (quote, slash) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
        let marks = zeros(quote) | zeros(slash);
        if marks != 0 {
            return Some(at + (marks.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', &bytes[at..]).map(|length| at + length)
}

/// RFC 8259 §6.
fn is_number(bytes: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let whole = digits(bytes);
    if whole == 0 || (whole > 1 && bytes[0] == b'0') {
        return false;
    }
    let mut rest = &bytes[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    match rest {
        [] => true,
        [b'e' | b'E', power @ ..] => {
            let power = power.strip_prefix(b"+").or(power.strip_prefix(b"-")).unwrap_or(power);
            !power.is_empty() && digits(power) == power.len()
        }
        _ => false,
    }
}
