//! `key=value` text of firewalls, mail servers and programs, with configurable separators.
//!
//! Keys come from untrusted data: with an allow-list only its keys become attributes, and without
//! one the number of distinct keys is limited (`key_budget.rs`). Neither loses data.

use std::sync::Arc;

use crate::field::{self, Field};
use crate::format::{Format, FormatSpec};
use crate::grok::PatternLibrary;
use crate::pipeline::document::Section;
use crate::problem::ParserProblem;
use crate::record::{LineFault, Record, RowKind};
use crate::text;

/// Syntax of the pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyValue {
    /// Between pairs; a space matches any number of spaces and tabs.
    pair_separator: String,
    /// Between key and value.
    value_separator: String,
    /// The only keys that become attributes; empty for all within the limit.
    keys: Vec<String>,
}

impl Default for KeyValue {
    fn default() -> Self {
        Self { pair_separator: " ".into(), value_separator: "=".into(), keys: Vec::new() }
    }
}

/// Keys in `[parse]`.
pub(crate) const KEYS: &[&str] = &["keys", "pair_separator", "value_separator"];

pub(crate) fn read(
    _library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<dyn FormatSpec>, ParserProblem> {
    let mut spec = KeyValue::default();
    for (key, separator) in [
        ("pair_separator", &mut spec.pair_separator),
        ("value_separator", &mut spec.value_separator),
    ] {
        if let Some(text) = section.text(key)? {
            if text.is_empty() {
                return Err(section.problem(key, format!("`{key}` must not be empty"), ""));
            }
            text.clone_into(separator);
        }
    }
    spec.keys = section.texts("keys")?.into_iter().map(str::to_owned).collect();
    Ok(Arc::new(spec))
}

impl FormatSpec for KeyValue {
    fn new_format(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}

impl Format for KeyValue {
    fn name(&self) -> &'static str {
        "key_value"
    }

    /// Words that are not pairs become the message.
    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        let (mut rest, mut words, mut pair_count) = (line, Vec::new(), 0);
        while let Some(start) = self.skip_separators(rest) {
            let (part, behind) = self.part(start);
            match self.pair(part) {
                Some((key, value)) => {
                    pair_count += 1;
                    self.put_pair([key, value], record);
                }
                None => words.push(part),
            }
            rest = behind;
        }
        if pair_count == 0 {
            let separator = &self.value_separator;
            return Err(LineFault::no_match(format!("no `key{separator}value` in the line")));
        }
        if !words.is_empty() && record.is_free(Field::Message) {
            let message = record.arena.alloc_str(&words.join(&self.pair_separator));
            record.put(["message", message], Field::Message);
        }
        Ok(record.guess_kind())
    }
}

impl KeyValue {
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

    /// Splits at the next separator that is not inside quotes.
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

    fn put_pair<'a>(&self, [key, value]: [&'a str; 2], record: &mut Record<'a>) {
        let value = match unquoted(value) {
            Some((inner, '\'')) if inner.contains("\\'") => {
                record.arena.alloc_str(&inner.replace("\\'", "'"))
            }
            Some((inner, _)) => text::unescape(inner, record.arena),
            None => value,
        };
        if self.keys.is_empty() || self.keys.iter().any(|known| known == key) {
            record.put([key, value], field::of_capture(key));
        } else {
            record.put([key, value], Field::Unlisted);
        }
    }
}

/// The text between a value's quotes, and the quote character.
fn unquoted(value: &str) -> Option<(&str, char)> {
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    Some((value[1..].strip_suffix(quote)?, quote))
}

/// Length of a quoted text including its quotes; `None` if it is not closed.
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
