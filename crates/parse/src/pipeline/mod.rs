//! Pipelines: the format of a log's lines and the steps applied to its rows, as data.
//!
//! A file defines which logs it applies to (`[match]`), how their lines are parsed (`[parse]`), and
//! the steps for each row (`[[step]]`). See `docs/parsers.md`.

mod condition;
pub(crate) mod document;
mod read;
mod step;
pub(crate) mod test_file;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use regex::bytes::Regex;
use weir_tables::{LogFormat, Program};
use weir_values::{TimeForm, Zone};

use crate::format::{Format, FormatSpec};
use crate::formats;
use crate::grok::{Pattern, PatternLibrary};
use crate::problem::{ParserFile, ParserProblem};
use crate::record::{LineFault, Record, RowKind};
use crate::utf16::ByteOrder;

pub(crate) use step::{PipelineRow, redact};
use step::{PipelineStep, StepAction};
pub use test_file::PipelineCase;

/// A pipeline that is ready to run; shared by all streams that use it.
#[derive(Debug)]
pub struct Pipeline {
    name: String,
    origin: String,
    description: String,
    matches: Option<LogMatcher>,
    /// `None` for the format that discovery found.
    format: Option<Arc<dyn FormatSpec>>,
    zone: Option<Zone>,
    encoding: TextEncoding,
    times: Arc<[TimeForm]>,
    steps: Vec<PipelineStep>,
}

/// Encoding of a log that its bytes do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextEncoding {
    /// UTF-8, and UTF-16 where the file begins with a mark or with zero bytes.
    #[default]
    Detected,
    Utf16(ByteOrder),
    /// Latin-1 and Windows-1252, for lines that are not UTF-8.
    Western,
}

/// Logs that a pipeline applies to.
#[derive(Debug, Default)]
struct LogMatcher {
    paths: Vec<String>,
    programs: Vec<String>,
    /// Patterns of a log's first line, for logs of unknown format that no path or program names.
    lines: Vec<Regex>,
}

impl Pipeline {
    /// Reads a pipeline file.
    pub(crate) fn read(
        library: &PatternLibrary,
        file: ParserFile<'_>,
    ) -> Result<Self, ParserProblem> {
        let name = file.origin.rsplit('/').next().unwrap_or(file.origin);
        let name = name.strip_suffix(".toml").unwrap_or(name);
        read::pipeline(library, name, file)
    }

    /// The file's name without its extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The origin: `built in`, or the file.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The author's description.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it applies to the log at `path`, written by `program`. Without `[match]` it applies
    /// to none.
    pub(crate) fn is_for(&self, path: &str, program: Program) -> bool {
        let Some(matches) = &self.matches else { return false };
        let is_program = matches.programs.is_empty()
            || matches.programs.iter().any(|name| name == program.as_str());
        let is_empty = matches.paths.is_empty() && matches.programs.is_empty();
        matches.has_path(path) && is_program && !is_empty
    }

    /// Whether it may be chosen by the first line of a log.
    pub(crate) fn has_lines(&self) -> bool {
        self.matches.as_ref().is_some_and(|matches| !matches.lines.is_empty())
    }

    /// Whether its `[match]` has the first line of a log.
    pub(crate) fn has_line(&self, line: &[u8]) -> bool {
        let lines = self.matches.iter().flat_map(|matches| &matches.lines);
        lines.into_iter().any(|pattern| pattern.is_match(line))
    }

    /// Whether its `[match]` accepts a path, from any program; without `[match]` it accepts all.
    pub fn takes(&self, path: &str) -> bool {
        self.matches.as_ref().is_none_or(|matches| matches.has_path(path))
    }

    pub(crate) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// Order of the bytes of a log in UTF-16, if the pipeline names it.
    pub(crate) fn byte_order(&self) -> Option<ByteOrder> {
        match self.encoding {
            TextEncoding::Utf16(order) => Some(order),
            TextEncoding::Detected | TextEncoding::Western => None,
        }
    }

    /// Whether lines that are not UTF-8 are in a Western encoding.
    pub(crate) fn is_western(&self) -> bool {
        self.encoding == TextEncoding::Western
    }

    pub(crate) fn times(&self) -> Arc<[TimeForm]> {
        Arc::clone(&self.times)
    }

    /// The patterns that lines are tried with; empty for formats without patterns.
    pub(crate) fn patterns(&self) -> &[Pattern] {
        self.format.as_ref().map_or(&[], |format| format.patterns())
    }

    /// The reader for one stream in which discovery found the format `found`.
    pub(crate) fn format(&self, found: &LogFormat) -> Box<dyn Format> {
        match &self.format {
            Some(format) => format.new_format(),
            None => formats::new(found),
        }
    }

    /// Whether a step redacts.
    pub(crate) fn redacts(&self) -> bool {
        let mut actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.any(|action| matches!(action, StepAction::Redact(_)))
    }

    /// Redacts a raw line. A reject was not parsed, so everything that the pipeline redacts in any
    /// field is redacted in the whole line.
    pub(crate) fn redact_raw<'t>(&self, raw: &'t str) -> Cow<'t, str> {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.fold(Cow::Borrowed(raw), |text, action| match action {
            StepAction::Redact(redaction) => Cow::Owned(redaction.apply(&text).into_owned()),
            _ => text,
        })
    }

    /// Redacts a row of a line in which no format was found, as rejects are: conditions about fields that
    /// only a parsed line has do not hold it back.
    pub(crate) fn redact_plain(&self, record: &mut Record<'_>, kind: RowKind) {
        let is_skipped =
            |step: &&PipelineStep| step.when.as_ref().is_some_and(|when| !when.is_about_any_line());
        for action in self.steps.iter().filter(is_skipped).flat_map(|step| &step.actions) {
            if let StepAction::Redact(redaction) = action {
                redact(record, kind, redaction);
            }
        }
    }

    /// Runs the steps over a row; returns its final table.
    pub(crate) fn run(&self, mut row: PipelineRow<'_, '_>) -> Result<RowKind, LineFault> {
        row.run(&self.steps)?;
        Ok(row.kind)
    }
}

impl LogMatcher {
    fn has_path(&self, path: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|glob| is_match(glob, path.as_bytes()))
    }
}

/// Whether a path matches a glob: `*` within a component, `**` across components, `?` one
/// character.
///
/// A failed attempt resumes at the last `*` or the last `**`, so the cost is at most glob × path.
///
/// ```text
///  glob /var/**/a*.log    path /var/log/b/ab.log
///       ** takes "log"  → a* fails at "b/"  → ** takes "log/b" → a* takes "ab" → match
/// ```
fn is_match(glob: &str, path: &[u8]) -> bool {
    let glob = glob.as_bytes();
    let (mut g, mut p) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    let mut deep_star: Option<(usize, usize)> = None;
    while p < path.len() {
        if glob[g..].starts_with(b"**") {
            g += 2;
            (deep_star, star) = (Some((g, p)), None);
        } else if glob.get(g) == Some(&b'*') {
            g += 1;
            star = Some((g, p));
        } else if g < glob.len() && (glob[g] == path[p] || (glob[g] == b'?' && path[p] != b'/')) {
            (g, p) = (g + 1, p + 1);
        } else if let Some((after, from)) = star.filter(|(_, from)| path[*from] != b'/') {
            star = Some((after, from + 1));
            (g, p) = (after, from + 1);
        } else if let Some((after, from)) = deep_star {
            (deep_star, star) = (Some((after, from + 1)), None);
            (g, p) = (after, from + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}
