//! A scanner of JSON text that forgives what hand-made log formats get wrong.
//!
//! Strict JSON (RFC 8259) is read as any reader does. Beyond it: nginx's `\xNN` inside strings, control characters
//! inside strings, values without quotes (`-`, empty, `0.1, 0.2`), a comma before `}`. Torn lines are faults.

use bumpalo::Bump;

use crate::record::{Fault, Repair};

mod bare;
mod string;

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
}
