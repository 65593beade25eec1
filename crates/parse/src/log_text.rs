//! A line of no known format: the body is the whole line; a time at its front and a word for its severity are read.

use crate::record::Record;
use crate::severity;

/// Words at the front of a line that are looked at for a severity.
const FRONT_WORDS: usize = 3;

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) {
    record.log.body = line;
    let front = line.strip_prefix('[').unwrap_or(line);
    if let Some((ts, used)) = record.times.read_front(front) {
        record.ts = Some(ts);
        record.log.severity = severity_at_front(&front[used..]);
    } else {
        record.log.severity = severity_at_front(line);
    }
}

/// A severity in capitals (`WARN`, `[ERROR]`, `INFO:`): in small letters such words are prose.
fn severity_at_front(text: &str) -> Option<&'static str> {
    let words = text.split_ascii_whitespace().take(FRONT_WORDS);
    words
        .map(|word| word.trim_matches(['[', ']', ':', '<', '>', '-', '|', ',']))
        .filter(|word| word.len() >= 3 && word.bytes().all(|b| b.is_ascii_uppercase()))
        .find_map(severity::of_word)
}
