//! The formats `grok` and `regex`: the first of a list of patterns that matches gives the values.

use std::sync::Arc;

use bumpalo::Bump;

use super::engine::{MAX_LINE_BYTES, MAX_STEPS, SearchOutcome, SearchScratch};
use super::{Pattern, PatternLibrary};
use crate::format::{Format, FormatSpec};
use crate::pipeline::document::Section;
use crate::problem::ParserProblem;
use crate::record::{LineFault, Record, RowKind};
use crate::text;

/// Patterns, with search memory for one stream.
struct PatternReader {
    name: &'static str,
    patterns: Arc<[Pattern]>,
    scratches: Vec<SearchScratch>,
}

/// Keys in `[parse]`.
pub(crate) const KEYS: &[&str] = &["pattern", "anywhere"];

/// Most patterns of one pipeline; together they share the step limit of a line.
const MAX_PATTERNS: usize = 100;

/// The patterns of a pipeline, compiled.
#[derive(Debug)]
struct PatternSpec {
    name: &'static str,
    patterns: Arc<[Pattern]>,
}

pub(crate) fn read_grok(
    library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<dyn FormatSpec>, ParserProblem> {
    Ok(Arc::new(PatternSpec { name: "grok", patterns: patterns(library, section)? }))
}

pub(crate) fn read_regex(
    library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<dyn FormatSpec>, ParserProblem> {
    Ok(Arc::new(PatternSpec { name: "regex", patterns: patterns(library, section)? }))
}

fn patterns(
    library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<[Pattern]>, ParserProblem> {
    let written = section.texts("pattern")?;
    if written.is_empty() || written.len() > MAX_PATTERNS {
        return Err(section.problem(
            "pattern",
            format!("{} patterns; 1 to {MAX_PATTERNS} are allowed", written.len()),
            "pattern = \"%{COMBINEDAPACHELOG}\", or a list that is tried from first to last",
        ));
    }
    let is_anywhere = section.flag("anywhere")?.unwrap_or_default();
    let compiled = written.into_iter().map(|written| {
        if is_anywhere {
            Pattern::grok(library, &format!("(?<before>(?s:.*?))(?:{written})"))
        } else {
            Pattern::grok(library, written)
        }
    });
    let compiled: Result<Vec<Pattern>, ParserProblem> = compiled.collect();
    compiled.map(Arc::from).map_err(|problem| section.place("pattern", problem))
}

impl FormatSpec for PatternSpec {
    fn new_format(&self) -> Box<dyn Format> {
        let patterns = Arc::clone(&self.patterns);
        let scratches = patterns.iter().map(Pattern::scratch).collect();
        Box::new(PatternReader { name: self.name, patterns, scratches })
    }

    fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }
}

impl Format for PatternReader {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Names of all values of all patterns.
    fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names = self.patterns.iter().flat_map(Pattern::names);
        let names: Vec<&'a str> = names.map(|name| &*arena.alloc_str(name)).collect();
        arena.alloc_slice_copy(&names)
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        if line.len() > MAX_LINE_BYTES {
            let detail = format!("{} bytes, more than {MAX_LINE_BYTES} for a pattern", line.len());
            return Err(LineFault { reason: "too_long", detail });
        }
        let names = record.names;
        let (mut first_name, mut steps_left) = (0, MAX_STEPS);
        let (mut best, mut best_pattern) = (0, 0);
        for (index, pattern) in self.patterns.iter().enumerate() {
            let scratch = &mut self.scratches[index];
            match pattern.search(line, scratch, &mut steps_left) {
                SearchOutcome::Match(end) => {
                    pattern.put(line, scratch, &names[first_name..], record);
                    return Ok(self.end(line, end, record));
                }
                SearchOutcome::NoMatch(at) if at > best => (best, best_pattern) = (at, index),
                SearchOutcome::NoMatch(_) => {}
                SearchOutcome::TooCostly => return Err(too_costly(index)),
            }
            first_name += pattern.names().count();
        }
        let best = FurthestMatch { at: best, pattern: best_pattern, patterns: self.patterns.len() };
        Err(best.fault(line))
    }
}

impl PatternReader {
    /// Keeps the rest of the line after the match.
    fn end<'a>(&self, line: &'a str, end: usize, record: &mut Record<'a>) -> RowKind {
        let rest = line[line.floor_char_boundary(end)..].trim_ascii();
        record.attr(["rest", rest]);
        record.guess_kind()
    }
}

fn too_costly(index: usize) -> LineFault {
    LineFault {
        reason: "too_costly",
        detail: format!("pattern {} takes more than {MAX_STEPS} steps on this line", index + 1),
    }
}

/// How far the best of the patterns matched a line.
struct FurthestMatch {
    at: usize,
    pattern: usize,
    /// Number of patterns.
    patterns: usize,
}

impl FurthestMatch {
    fn fault(&self, line: &str) -> LineFault {
        let at = line.floor_char_boundary(self.at);
        let near: String = text::raw(&line.as_bytes()[at..]).chars().take(40).collect();
        let which = match self.patterns {
            1 => String::new(),
            _ => format!("pattern {}: ", self.pattern + 1),
        };
        if near.is_empty() {
            return LineFault::no_match(format!(
                "{which}the line ends at byte {at}, more is expected"
            ));
        }
        LineFault::no_match(format!("{which}matches up to byte {at}, not at `{near}`"))
    }
}
