//! `key=value` text, as firewalls, mail servers and programs write it, with the separators that the user names.
//!
//! Reading pairs out of a text makes keys of data that others control: with an allow-list only its keys become values
//! of their own, and without one the budget of distinct keys holds (`key_budget.rs`). Nothing is lost by either.

use crate::field::{self, Field};
use crate::record::{Fault, Kind, Record};
use crate::text;

/// How pairs are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyValue {
    /// Between pairs; a space stands for any number of spaces and tabs.
    pub(crate) pair_separator: String,
    /// Between key and value.
    pub(crate) value_separator: String,
    /// The only keys that become values of their own; empty: all within the budget.
    pub(crate) keys: Vec<String>,
}

impl Default for KeyValue {
    fn default() -> Self {
        Self { pair_separator: " ".into(), value_separator: "=".into(), keys: Vec::new() }
    }
}

impl KeyValue {
    /// Reads a line. Words that are no pairs become the message.
    pub(crate) fn parse<'a>(&self, line: &'a str, record: &mut Record<'a>) -> Result<Kind, Fault> {
        let (mut rest, mut words, mut pair_count) = (line, Vec::new(), 0);
        while let Some(start) = self.skip_separators(rest) {
            let (part, behind) = self.part(start);
            match self.pair(part) {
                Some((key, value)) => {
                    pair_count += 1;
                    self.put(key, value, record);
                }
                None => words.push(part),
            }
            rest = behind;
        }
        if pair_count == 0 {
            let separator = &self.value_separator;
            return Err(Fault::no_match(format!("no `key{separator}value` in the line")));
        }
        if !words.is_empty() && record.is_free(Field::Message) {
            let message = record.arena.alloc_str(&words.join(&self.pair_separator));
            record.put("message", message, Field::Message);
        }
        Ok(record.guess_kind())
    }

    fn is_spaced(&self) -> bool {
        self.pair_separator == " "
    }

    fn skip_separators<'l>(&self, rest: &'l str) -> Option<&'l str> {
        let mut rest = rest.trim_ascii_start();
        while let Some(shorter) =
            rest.strip_prefix(&*self.pair_separator).filter(|_| !self.is_spaced())
        {
            rest = shorter.trim_ascii_start();
        }
        (!rest.is_empty()).then_some(rest)
    }

    /// The text up to the next separator that is not inside of quotes, and what is behind it.
    fn part<'l>(&self, text: &'l str) -> (&'l str, &'l str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let quote = bytes[at];
            let may_open = at == 0 || bytes[..at].ends_with(self.value_separator.as_bytes());
            if (quote == b'"' || quote == b'\'') && may_open {
                at += quoted_length(&bytes[at..]).unwrap_or(1);
            } else if self.is_spaced() && quote.is_ascii_whitespace() {
                return (&text[..at], &text[at + 1..]);
            } else if !self.is_spaced() && bytes[at..].starts_with(self.pair_separator.as_bytes()) {
                return (text[..at].trim_ascii_end(), &text[at + self.pair_separator.len()..]);
            } else {
                at += 1;
            }
        }
        (text.trim_ascii_end(), "")
    }

    fn pair<'l>(&self, part: &'l str) -> Option<(&'l str, &'l str)> {
        let (key, value) = part.split_once(&*self.value_separator)?;
        let (key, value) = (key.trim_ascii(), value.trim_ascii());
        let is_key = !key.is_empty() && key.len() <= 128 && !key.starts_with(['"', '\'']);
        is_key.then_some((key, value))
    }

    fn put<'a>(&self, key: &'a str, value: &'a str, record: &mut Record<'a>) {
        let value = match unquoted(value) {
            Some((inner, '\'')) if inner.contains("\\'") => {
                record.arena.alloc_str(&inner.replace("\\'", "'"))
            }
            Some((inner, _)) => text::unescape(inner, record.arena),
            None => value,
        };
        if self.keys.is_empty() || self.keys.iter().any(|known| known == key) {
            record.put(key, value, field::of_capture(key));
        } else {
            record.put(key, value, Field::Unlisted);
        }
    }
}

/// What stands between a value's quotes, and which these are.
fn unquoted(value: &str) -> Option<(&str, char)> {
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    Some((value[1..].strip_suffix(quote)?, quote))
}

/// The bytes of a quoted text with its quotes; `None` when it has no end.
fn quoted_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(bytes[0], b'\\', &bytes[at..])?;
        if bytes[at] == bytes[0] {
            return Some(at + 1);
        }
        at = (at + 2).min(bytes.len());
    }
}
