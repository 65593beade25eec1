//! Pipelines: what a log's lines look like and what is done to them, written down as data.
//!
//! A file says for which logs it is (`[match]`), how their lines are read (`[parse]`), and what happens to each row
//! (`[[step]]`). `docs/parsers.md` is its page.

mod condition;
mod document;
mod read;
mod step;
pub(crate) mod test_file;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use weir_tables::LogFormat;

use crate::format::Format;
use crate::grok::{Library, Pattern, PatternReader};
use crate::key_value::KeyValue;
use crate::problem::ParserProblem;
use crate::record::{Fault, Kind, Record};
use crate::separated::{Separated, SeparatedReader};
use crate::time::TimeForm;
use crate::zone::Zone;

pub(crate) use step::redact;
use step::{Action, Row, Step};
pub use test_file::PipelineCase;

/// A pipeline that is ready to run; shared by all streams that it is for.
#[derive(Debug)]
pub struct Pipeline {
    name: String,
    origin: String,
    description: String,
    matches: Option<Match>,
    parse: Parse,
    zone: Option<Zone>,
    times: Arc<[TimeForm]>,
    steps: Vec<Step>,
}

/// For which logs a pipeline is.
#[derive(Debug, Default)]
struct Match {
    paths: Vec<String>,
    programs: Vec<String>,
}

/// How lines are read.
#[derive(Debug)]
enum Parse {
    /// In the format that discovery found.
    AsFound,
    Named(LogFormat),
    Text,
    Patterns {
        name: &'static str,
        patterns: Arc<[Pattern]>,
    },
    Separated(Separated),
    KeyValue(KeyValue),
}

impl Parse {
    /// The formats that need no more than their name.
    fn named(name: &str) -> Option<Self> {
        Some(Self::Named(match name {
            "auto" => LogFormat::Auto,
            "json" => LogFormat::Json,
            "combined" => LogFormat::Combined,
            "haproxy_http" => LogFormat::HaproxyHttp,
            "syslog" => LogFormat::Syslog,
            "nginx_error" => LogFormat::NginxError,
            "apache_error" => LogFormat::ApacheError,
            "text" => return Some(Self::Text),
            _ => return None,
        }))
    }
}

impl Pipeline {
    /// Reads a pipeline file; `origin` is its path for messages.
    pub(crate) fn read(library: &Library, origin: &str, text: &str) -> Result<Self, ParserProblem> {
        let file = origin.rsplit('/').next().unwrap_or(origin);
        let name = file.strip_suffix(".toml").unwrap_or(file);
        read::pipeline(library, name, origin, text)
    }

    /// The file's name without its ending.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is from: `built in`, or the file.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What it is for, in the words of its author.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it is for the log at `path` that `program` writes. A pipeline without `[match]` is for none by itself.
    pub(crate) fn is_for(&self, path: &str, program: &str) -> bool {
        let Some(matches) = &self.matches else { return false };
        let is_path = matches.paths.is_empty()
            || matches.paths.iter().any(|glob| fits(glob.as_bytes(), path.as_bytes()));
        let is_program =
            matches.programs.is_empty() || matches.programs.iter().any(|name| name == program);
        is_path && is_program && !(matches.paths.is_empty() && matches.programs.is_empty())
    }

    /// Whether its `[match]` takes a path, whatever program writes it; without `[match]` it takes all.
    pub fn takes(&self, path: &str) -> bool {
        self.matches.as_ref().is_none_or(|matches| {
            matches.paths.is_empty()
                || matches.paths.iter().any(|glob| fits(glob.as_bytes(), path.as_bytes()))
        })
    }

    pub(crate) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    pub(crate) fn times(&self) -> Arc<[TimeForm]> {
        Arc::clone(&self.times)
    }

    /// The patterns that lines are tried with; empty when the format is another.
    pub(crate) fn patterns(&self) -> &[Pattern] {
        match &self.parse {
            Parse::Patterns { patterns, .. } => patterns,
            _ => &[],
        }
    }

    /// The reader for one stream whose lines were found to be in format `found`.
    pub(crate) fn format(&self, found: &LogFormat) -> Format {
        match &self.parse {
            Parse::AsFound => Format::new(found),
            Parse::Named(format) => Format::new(format),
            Parse::Text => Format::Text,
            Parse::Patterns { name, patterns } => {
                Format::Patterns { name, reader: PatternReader::new(Arc::clone(patterns)) }
            }
            Parse::Separated(spec) => Format::Separated(SeparatedReader::new(spec)),
            Parse::KeyValue(spec) => Format::KeyValue(spec.clone()),
        }
    }

    /// Whether a step redacts.
    pub(crate) fn redacts(&self) -> bool {
        let mut actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.any(|action| matches!(action, Action::Redact(_)))
    }

    /// A raw line as it may leave the host: a reject was not taken apart, so all that its pipeline redacts anywhere is
    /// taken out of the whole.
    pub(crate) fn redact_raw<'t>(&self, raw: &'t str) -> Cow<'t, str> {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.fold(Cow::Borrowed(raw), |text, action| match action {
            Action::Redact(redaction) => Cow::Owned(redaction.apply(&text).into_owned()),
            _ => text,
        })
    }

    /// Runs the steps over a row; gives the table that it ends in.
    pub(crate) fn run<'a>(
        &self,
        record: &mut Record<'a>,
        kind: Kind,
        line: &'a str,
        source: &'a str,
    ) -> Result<Kind, Fault> {
        let mut row = Row { record, kind, line, source };
        row.run(&self.steps)?;
        Ok(row.kind)
    }
}

/// Whether a path fits a glob: `*` within a component, `**` across them, `?` one character.
///
/// The last `*` and the last `**` that were met are where a failed try goes on, so nothing is tried more often than
/// glob times path.
fn fits(glob: &[u8], path: &[u8]) -> bool {
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
