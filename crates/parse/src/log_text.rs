//! Lines of unknown format: the body is the whole line; a leading time and a severity word are
//! read.

use crate::format::{LineFormat, NamedFormat};
use crate::record::{Record, RowKind};
use crate::severity;

/// Leading words that are checked for a severity.
const FRONT_WORDS: usize = 3;

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "text",
    new: || {
        Box::new(LineFormat {
            name: "text",
            parse: |line, record| {
                parse(line, record);
                Ok(RowKind::Log)
            },
        })
    },
};

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) {
    record.log.body = line;
    let front = front(line);
    if let Some((ts, used)) = record.times.read_any_front(front) {
        record.ts = Some(ts);
        record.log.severity = severity_at_front(&front[used..]);
    } else {
        record.log.severity = severity_at_front(line);
    }
}

/// The severity of a line whose time is known otherwise.
pub(crate) fn severity_of(line: &str, record: &Record<'_>) -> Option<&'static str> {
    let front = front(line);
    let used = record.times.read_front(front).map_or(0, |(_, used)| used);
    severity_at_front(&front[used..])
}

/// A line without the marks that some programs write before the time (`[`, WebLogic's `####<`).
fn front(line: &str) -> &str {
    line.strip_prefix("####<").or_else(|| line.strip_prefix('[')).unwrap_or(line)
}

/// A severity in capitals (`WARN`, `INFO:`) or in brackets (`[error]`, `<Error>`); in lower case
/// such words are prose.
fn severity_at_front(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches([']', ' ']);
    if let Some(severity) = severity::of_php(text) {
        return Some(severity);
    }
    // `[ info] ` of Fluent Bit.
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((level, _)) = bracketed.filter(|(level, _)| level.starts_with(' ')) {
        return severity::of_word(level.trim_ascii());
    }
    let words = text.split_ascii_whitespace().take(FRONT_WORDS);
    words
        .map(|word| (word, bare(word)))
        .filter(|(word, bare)| is_level(word, bare))
        .find_map(|(_, bare)| severity::of_word(bare))
}

fn bare(word: &str) -> &str {
    word.trim_matches(['[', ']', ':', '<', '>', '-', '|', ','])
}

fn is_level(word: &str, bare: &str) -> bool {
    let is_bracketed = (word.starts_with('[') && word.ends_with(']'))
        || (word.starts_with('<') && word.ends_with('>'));
    let is_word = bare.len() >= 3 && bare.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_word && (is_bracketed || bare.bytes().all(|byte| byte.is_ascii_uppercase()))
}
