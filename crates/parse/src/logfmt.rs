//! `key=value` lines (logfmt): `ts=… level=warn msg="request done" path=/x`.
//!
//! Accepted only if the whole line is pairs and one of them is a message or a level, or they are
//! method, target and status of a request (lograge): reading pairs from any text would turn untrusted
//! data into keys.

use crate::field::{self, Field};
use crate::record::{Record, RowKind};
use crate::{heroku, text};

/// First pairs that may have the parts of a time.
const PARTED_TIME_PAIRS: usize = 6;
/// Fewest pairs of a logfmt line.
const MIN_PAIRS: usize = 3;
/// Most quotes that are tried as the end of a value.
const MAX_QUOTES: usize = 16;

/// Reads a line; `None`, with the record unchanged, if it is not in this format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    let line = if has_commas(line) { without_commas(line, record) } else { line };
    // Some formats of nginx have the time in brackets before the pairs.
    let bracketed = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let (time, line) = bracketed.unwrap_or(("", line));
    let (mut count, mut flag_count, mut is_log, mut seen) = (0, 0, false, 0);
    let mut pairs = PairIter { rest: line };
    for pair in &mut pairs {
        let field = field::of_key(pair.key);
        // Sophos' firewalls write neither.
        is_log |= matches!(field, Field::Message | Field::Severity) || pair.key == "log_type";
        seen |= field.bit();
        if pair.value.is_some() {
            count += 1;
        } else if count == 0 {
            return None;
        } else {
            flag_count += 1;
        }
    }
    // Words without a value are prose when there are many of them.
    if !pairs.rest.is_empty() || count < MIN_PAIRS || flag_count * 2 > count {
        return None;
    }
    if heroku::is_router(seen, line) {
        for pair in (PairIter { rest: line }) {
            heroku::put([pair.key, pair.text(record)], record);
        }
        return Some(RowKind::Request);
    }
    let line_bit = Field::RequestLine.bit();
    let [method, target, status] = [Field::Method, Field::Target, Field::Status].map(Field::bit);
    let request = [method | line_bit, target | line_bit, status];
    if !is_log && request.iter().any(|bits| seen & bits == 0) {
        return None;
    }
    if time.is_empty() {
        put_parted_time(line, record);
    } else {
        record.ts = Some(record.times.read(time)?);
    }
    for pair in (PairIter { rest: line }) {
        let text = pair.text(record);
        record.put([pair.key, text], field::of_key(pair.key));
    }
    Some(record.guess_kind())
}

/// Whether a line is FortiMail's, which has commas between its pairs: `date=2026-11-20,time=…`.
fn has_commas(line: &str) -> bool {
    line.starts_with("date=") && line.get(15..21) == Some(",time=")
}

/// A line with blanks in place of the commas outside of quotes.
fn without_commas<'a>(line: &str, record: &Record<'a>) -> &'a str {
    let mut quote = None;
    let spaced = line.chars().map(|letter| {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        if letter == ',' && quote.is_none() { ' ' } else { letter }
    });
    record.arena.alloc_str(&spaced.collect::<String>())
}

/// The pairs of a text that has nothing else.
pub(crate) fn whole_pairs(text: &str) -> Option<Vec<[&str; 2]>> {
    let mut pairs = PairIter { rest: text };
    let all: Option<Vec<_>> = pairs.by_ref().map(|pair| Some([pair.key, pair.value?])).collect();
    all.filter(|all| !all.is_empty() && pairs.rest.is_empty())
}

/// A firewall's `date=2026-11-20 time=12:00:00 tz="+0100"`.
fn put_parted_time<'a>(line: &'a str, record: &mut Record<'a>) {
    let mut parts = [""; 3];
    for pair in (PairIter { rest: line }).take(PARTED_TIME_PAIRS) {
        let place = ["date", "time", "tz"].iter().position(|name| *name == pair.key);
        if let Some(place) = place {
            parts[place] = pair.value.unwrap_or("");
        }
    }
    let [date, clock, zone] = parts;
    if !date.is_empty() && !clock.is_empty() {
        record.ts = record.times.read(&format!("{date} {clock}{zone}"));
    }
}

/// A pair; without a value it is a flag.
struct KeyValuePair<'a> {
    key: &'a str,
    value: Option<&'a str>,
    is_escaped: bool,
}

impl<'a> KeyValuePair<'a> {
    fn text(&self, record: &Record<'a>) -> &'a str {
        let value = self.value.unwrap_or("true");
        if self.is_escaped { text::unescape(value, record.arena) } else { value }
    }
}

/// Iterates over leading pairs; stops at the first text that is not a pair and leaves it in `rest`.
struct PairIter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for PairIter<'a> {
    type Item = KeyValuePair<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.trim_ascii_start();
        let length = text.bytes().position(|byte| !is_key_byte(byte)).unwrap_or(text.len());
        let (key, behind) = text.split_at(length);
        if key.is_empty() || key.len() > 128 {
            return None;
        }
        let (value, rest, is_escaped) = match behind.strip_prefix('=') {
            None => (None, behind, false),
            Some(behind) => {
                let (value, rest, is_escaped) = value(behind)?;
                (Some(value), rest, is_escaped)
            }
        };
        if !is_end(rest) {
            return None;
        }
        self.rest = rest.trim_ascii_start();
        Some(KeyValuePair { key, value, is_escaped })
    }
}

/// The value at the front, the text behind it, and whether it may have escapes. Backticks quote
/// without escapes, as in Go, and so do single quotes.
fn value(text: &str) -> Option<(&str, &str, bool)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let first = text::quoted_end(quoted)?;
        // Some writers escape no quote: the value ends at the first one before a blank.
        let later = memchr::memchr_iter(b'"', quoted.as_bytes()).take(MAX_QUOTES);
        let mut later = later.map(|at| (&quoted[..at], &quoted[at + 1..]));
        let found = later.find(|end| end.0.len() >= first.0.len() && is_end(end.1));
        let (value, rest) = found.unwrap_or(first);
        return Some((value, rest, true));
    }
    for quote in ['`', '\''] {
        // In the middle of a value, as in `it's`, it is a letter.
        if let Some((value, rest)) =
            text.strip_prefix(quote).and_then(|rest| rest.split_once(quote))
            && is_end(rest)
        {
            return Some((value, rest, false));
        }
    }
    let (value, rest) = text.split_at(text.find([' ', '\t']).unwrap_or(text.len()));
    Some((value, rest, true))
}

/// Whether a pair may end before this text.
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t'])
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.@/#".contains(&byte)
}
