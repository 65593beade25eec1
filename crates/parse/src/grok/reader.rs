//! Lines through a list of patterns: the first that matches gives the values.

use std::sync::Arc;

use bumpalo::Bump;

use super::Pattern;
use super::engine::{MAX_LINE_BYTES, MAX_STEPS, Outcome, Scratch};
use crate::record::{Fault, Kind, Record};
use crate::text;

/// Patterns and the memory that one stream of lines needs for them.
pub(crate) struct PatternReader {
    patterns: Arc<[Pattern]>,
    scratches: Vec<Scratch>,
}

impl PatternReader {
    /// A reader for one stream.
    pub(crate) fn new(patterns: Arc<[Pattern]>) -> Self {
        let scratches = patterns.iter().map(Pattern::scratch).collect();
        Self { patterns, scratches }
    }

    /// The names of all values of all patterns, copied to where the rows of a chunk borrow from.
    pub(crate) fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names = self.patterns.iter().flat_map(Pattern::names);
        let names: Vec<&'a str> = names.map(|name| &*arena.alloc_str(name)).collect();
        arena.alloc_slice_copy(&names)
    }

    /// Reads a line.
    pub(crate) fn parse<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<Kind, Fault> {
        if line.len() > MAX_LINE_BYTES {
            let detail = format!("{} bytes, more than {MAX_LINE_BYTES} for a pattern", line.len());
            return Err(Fault { reason: "too_long", detail });
        }
        let names = record.names;
        let (mut first_name, mut steps_left) = (0, MAX_STEPS);
        let (mut best, mut best_pattern) = (0, 0);
        for (index, pattern) in self.patterns.iter().enumerate() {
            let scratch = &mut self.scratches[index];
            match pattern.search(line, scratch, &mut steps_left) {
                Outcome::Match(end) => {
                    pattern.put(line, scratch, &names[first_name..], record);
                    return Ok(self.end(line, end, record));
                }
                Outcome::NoMatch(at) if at > best => (best, best_pattern) = (at, index),
                Outcome::NoMatch(_) => {}
                Outcome::TooCostly => return Err(too_costly(index)),
            }
            first_name += pattern.names().count();
        }
        Err(no_match(line, best, best_pattern, self.patterns.len()))
    }

    /// What stands behind the match is kept.
    fn end<'a>(&self, line: &'a str, end: usize, record: &mut Record<'a>) -> Kind {
        let rest = line[line.floor_char_boundary(end)..].trim_ascii();
        record.attr("rest", rest);
        record.guess_kind()
    }
}

fn too_costly(index: usize) -> Fault {
    Fault {
        reason: "too_costly",
        detail: format!("pattern {} takes more than {MAX_STEPS} steps on this line", index + 1),
    }
}

fn no_match(line: &str, at: usize, index: usize, count: usize) -> Fault {
    let at = line.floor_char_boundary(at);
    let near: String = text::raw(&line.as_bytes()[at..]).chars().take(40).collect();
    let which = if count == 1 { String::new() } else { format!("pattern {}: ", index + 1) };
    if near.is_empty() {
        return Fault::no_match(format!("{which}the line ends at byte {at}, more is expected"));
    }
    Fault::no_match(format!("{which}fits up to byte {at}, not at `{near}`"))
}
