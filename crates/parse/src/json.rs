//! A JSON scanner that tolerates the errors of hand-written log formats.
//!
//! Accepts strict JSON (RFC 8259), and also nginx's `\xNN` and control characters inside strings,
//! values without quotes (`-`, empty, `0.1, 0.2`), and a comma before `}`. Truncated lines are
//! faults.

use bumpalo::Bump;

use crate::record::{LineFault, LineRepair};

mod bare;
mod string;

/// Deepest nesting of objects and arrays.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value; texts borrow from the line, or from the arena when they had escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonValue<'a> {
    Text(&'a str),
    /// A number, `true` or `false`, as written.
    Bare(&'a str),
    Null,
    /// An array as written.
    Array(&'a str),
    /// The scanner is after the `{`.
    Object,
}

/// A scanner at a position in JSON text.
#[derive(Debug)]
pub(crate) struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
    arena: &'a Bump,
    pub(crate) repair: LineRepair,
}

impl<'a> JsonScanner<'a> {
    pub(crate) fn new(text: &'a str, arena: &'a Bump) -> Self {
        Self { text, at: 0, arena, repair: LineRepair::default() }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn fault(&self, cause: &str) -> LineFault {
        LineFault { reason: "invalid_json", detail: format!("{cause} at byte {}", self.at) }
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

    /// Enters the root object.
    pub(crate) fn open(&mut self) -> Result<(), LineFault> {
        if self.next_is(b'{') { Ok(()) } else { Err(self.fault("no `{`")) }
    }

    /// Checks that only space follows the object.
    pub(crate) fn close(&mut self) -> Result<(), LineFault> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fault("text behind the object")) }
    }

    /// The next key of the object, with quotes and colon consumed; `None` after the `}`.
    #[inline]
    pub(crate) fn key(&mut self, is_first: bool) -> Result<Option<&'a str>, LineFault> {
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

    /// Consumes the key `quoted` (`"key":`) if it is the next one, and returns it without quotes.
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

    /// The value after a key.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<JsonValue<'a>, LineFault> {
        if self.next_is(b'"') {
            return Ok(JsonValue::Text(self.string()?));
        }
        match self.rest().first() {
            Some(b'{') => {
                self.at += 1;
                Ok(JsonValue::Object)
            }
            Some(b'[') => self.array(),
            Some(_) => self.bare(),
            None => Err(self.fault("the line ends")),
        }
    }

    /// An array as written; checks only strings and brackets inside.
    fn array(&mut self) -> Result<JsonValue<'a>, LineFault> {
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
                        return Ok(JsonValue::Array(&self.text[start..self.at]));
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn too_deep(&self) -> LineFault {
        self.fault(&format!("nested deeper than {MAX_DEPTH}"))
    }
}
