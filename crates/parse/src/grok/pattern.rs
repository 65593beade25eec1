//! Compiled patterns: expanded, compiled with limits, and their groups mapped to fields.

use regex_automata::nfa::thompson;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax;
use weir_values::number;

use super::engine::{Engine, SearchOutcome, SearchScratch};
use super::expand::{self, CaptureType, ExpandedRegex};
use super::library::PatternLibrary;
use crate::field::{self, Field};
use crate::problem::ParserProblem;
use crate::record::Record;

/// Largest compiled expression; nested repetitions beyond it are refused.
const NFA_BYTES: usize = 2 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// As the user wrote it.
    pub(crate) written: String,
    pub(crate) expanded: ExpandedRegex,
    engine: Engine,
    groups: Vec<CaptureGroup>,
}

/// A group with a value.
#[derive(Debug)]
struct CaptureGroup {
    index: usize,
    name: String,
    field: Field,
    capture_type: CaptureType,
}

impl Pattern {
    /// A grok expression.
    pub(crate) fn grok(library: &PatternLibrary, written: &str) -> Result<Self, ParserProblem> {
        Self::new(written, expand::expand(library, written)?)
    }

    fn new(written: &str, expanded: ExpandedRegex) -> Result<Self, ParserProblem> {
        let nfa = compile(&expanded.regex)?;
        let groups = expanded.captures.iter().filter_map(|capture| {
            let index =
                nfa.group_info().to_index(regex_automata::PatternID::ZERO, &capture.group)?;
            Some(CaptureGroup {
                index,
                name: capture.field.clone(),
                field: field::of_capture(&capture.field),
                capture_type: capture.capture_type,
            })
        });
        let groups = groups.collect();
        Ok(Self { written: written.to_owned(), engine: Engine::new(nfa), groups, expanded })
    }

    /// Whether each byte of a line is read once.
    pub(crate) fn is_one_pass(&self) -> bool {
        self.engine.is_one_pass()
    }

    /// Memory for searches.
    pub(crate) fn scratch(&self) -> SearchScratch {
        self.engine.scratch()
    }

    /// Names of the values, in the order of the pattern.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.name.as_str())
    }

    /// Searches; on a match, `scratch` holds the positions of the values.
    pub(crate) fn search(
        &self,
        line: &str,
        scratch: &mut SearchScratch,
        steps_left: &mut usize,
    ) -> SearchOutcome {
        self.engine.search(line, scratch, steps_left)
    }

    /// Adds the values of a match to the record. A repeated name gets the first value.
    pub(crate) fn put<'a>(
        &self,
        line: &'a str,
        scratch: &SearchScratch,
        names: &[&'a str],
        record: &mut Record<'a>,
    ) {
        for (position, group) in self.groups.iter().enumerate() {
            let Some(value) = captured(line, scratch, group.index) else { continue };
            let is_second = self.groups[..position].iter().any(|earlier| {
                earlier.name == group.name && captured(line, scratch, earlier.index).is_some()
            });
            if !is_second {
                let value = typed(value, group.capture_type, record);
                record.put([names[position], value], group.field);
            }
        }
    }
}

/// The text of a group; `None` if the group did not match. Positions are moved to character
/// boundaries.
fn captured<'a>(line: &'a str, scratch: &SearchScratch, index: usize) -> Option<&'a str> {
    let [start, end] = [2 * index, 2 * index + 1].map(|slot| {
        let position = scratch.slots.get(slot).copied().flatten().map(NonMaxUsize::get);
        position.map(|position| line.floor_char_boundary(position))
    });
    let (start, end) = (start?, end?);
    line.get(start..end.max(start))
}

/// A value in the canonical form of its type; other text is unchanged.
fn typed<'a>(value: &'a str, capture_type: CaptureType, record: &Record<'a>) -> &'a str {
    match capture_type {
        CaptureType::Text => value,
        CaptureType::Integer => match number::integer(value) {
            Some(number) if value.starts_with(['+', '0']) && value.len() > 1 => {
                record.arena.alloc_str(&number.to_string())
            }
            _ => value,
        },
        CaptureType::Float => value.strip_prefix('+').unwrap_or(value),
        CaptureType::Boolean => number::boolean(value).unwrap_or(value),
    }
}

/// Compiles an expression, first over bytes, then, when it names characters outside of ASCII, over
/// characters.
pub(super) fn compile(regex: &str) -> Result<thompson::NFA, ParserProblem> {
    let build = |is_unicode: bool| {
        thompson::Compiler::new()
            .syntax(syntax::Config::new().unicode(is_unicode).utf8(is_unicode))
            .configure(
                thompson::Config::new().utf8(false).shrink(false).nfa_size_limit(Some(NFA_BYTES)),
            )
            .build(regex)
            .map_err(Box::new)
    };
    build(false).or_else(|_| build(true)).map_err(|error| problem(regex, &error))
}

fn problem(regex: &str, error: &thompson::BuildError) -> ParserProblem {
    if error.size_limit().is_some() {
        return ParserProblem::new(
            format!(
                "the expression is too large: it takes more than {NFA_BYTES} bytes when compiled"
            ),
            "counted repetitions multiply (`(x{1,500}){1,500}`); use `*` or `+`",
        );
    }
    match regex_syntax::ast::parse::Parser::new().parse(regex) {
        Err(error) => {
            use regex_syntax::ast::ErrorKind;
            let hint = match error.kind() {
                ErrorKind::UnsupportedLookAround => {
                    "look-around cannot be run in linear time; match what must stand there, and capture only what is wanted"
                }
                ErrorKind::UnsupportedBackreference => {
                    "references to earlier groups cannot be run in linear time; capture both and compare them in `when`"
                }
                _ => {
                    "the syntax is that of https://docs.rs/regex; special characters are escaped with `\\`"
                }
            };
            let at = error.span().start.offset;
            let near: String = regex[regex.floor_char_boundary(at)..].chars().take(40).collect();
            ParserProblem::new(
                format!("the expression is wrong at `{near}`: {}", error.kind()),
                hint,
            )
        }
        Ok(_) => ParserProblem::new(
            format!("the expression cannot be compiled: {error}"),
            "the syntax is that of https://docs.rs/regex",
        ),
    }
}
