//! `key=value` lines (logfmt): `ts=… level=warn msg="request done" path=/x`.
//!
//! Taken only when the whole line is pairs and one of them is a message or a level: reading pairs out of any text
//! would make keys of data that visitors control.

use crate::field::{self, Field};
use crate::record::{Kind, Record};
use crate::{combined, text};

/// Fewer pairs do not make a line logfmt.
const MIN_PAIRS: usize = 3;

/// Reads a line, or gives `None` and puts nothing in.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<Kind> {
    let (mut count, mut is_log) = (0, false);
    let mut pairs = Pairs { rest: line };
    for pair in &mut pairs {
        is_log |= matches!(field::of_key(pair.0), Field::Message | Field::Severity);
        count += 1;
    }
    if !pairs.rest.is_empty() || count < MIN_PAIRS || !is_log {
        return None;
    }
    for (key, value) in (Pairs { rest: line }) {
        record.put(key, text::unescape(value, record.arena), field::of_key(key));
    }
    Some(record.guess_kind())
}

/// The pairs from the front; stops at what is no pair and leaves it in `rest`.
struct Pairs<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, behind) = self.rest.trim_ascii_start().split_once('=')?;
        let is_key = |b: u8| b.is_ascii_alphanumeric() || b"_-.@/".contains(&b);
        if key.is_empty() || key.len() > 128 || !key.bytes().all(is_key) {
            return None;
        }
        let (value, rest) = match behind.strip_prefix('"') {
            Some(quoted) => combined::quoted_end(quoted)?,
            None => behind.split_at(behind.find(' ').unwrap_or(behind.len())),
        };
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        self.rest = rest.trim_ascii_start();
        Some((key, value))
    }
}
