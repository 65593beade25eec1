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
    let front = line.strip_prefix('[').unwrap_or(line);
    if let Some((ts, used)) = record.times.read_front(front) {
        record.ts = Some(ts);
        record.log.severity = severity_at_front(&front[used..]);
    } else {
        record.log.severity = severity_at_front(line);
    }
}

/// A severity in capitals (`WARN`, `[ERROR]`, `INFO:`); in lower case such words are prose.
fn severity_at_front(text: &str) -> Option<&'static str> {
    let words = text.split_ascii_whitespace().take(FRONT_WORDS);
    words
        .map(|word| word.trim_matches(['[', ']', ':', '<', '>', '-', '|', ',']))
        .filter(|word| word.len() >= 3 && word.bytes().all(|b| b.is_ascii_uppercase()))
        .find_map(severity::of_word)
}
