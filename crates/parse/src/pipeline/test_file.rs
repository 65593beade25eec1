//! Tests of pipelines as data: lines, and what must come of the last of them.
//!
//! ```text
//! # a failed login is tagged
//! source: /var/log/auth.log
//! line: Nov 20 11:59:59 web-01 sshd[1201]: Failed password for root
//! table: log
//! attrs.tags: auth_failure
//! no severity
//! ```
//! Lines are read at 2026-11-20T12:00:00Z. Expected is the whole text of a column; `no NAME` means NULL or absent.

use std::sync::Arc;

use weir_tables::{LogFormat, LogSource, Micros, Program};

use super::Pipeline;
use crate::parsers::Parsers;
use crate::problem::ParserProblem;
use crate::{ParsedRows, RowText};

/// When the lines of tests are read.
pub(crate) const TEST_NOW: Micros = Micros(1_795_176_000_000_000);

/// How one case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineCase {
    /// What the case shows.
    pub name: String,
    /// Where it begins in the file.
    pub line: usize,
    /// Why it failed; `None` when it passed.
    pub failure: Option<String>,
}

#[derive(Debug, Default)]
struct Case<'t> {
    name: &'t str,
    at: usize,
    source: &'t str,
    lines: Vec<&'t str>,
    expected: Vec<(&'t str, Option<&'t str>)>,
}

/// Runs every case of a test file.
pub(crate) fn run(
    parsers: &Parsers,
    pipeline: &Arc<Pipeline>,
    origin: &str,
    text: &str,
) -> Result<Vec<PipelineCase>, ParserProblem> {
    let mut results = Vec::new();
    for case in cases(origin, text)? {
        let failure = case.failure(parsers, pipeline);
        results.push(PipelineCase { name: case.name.to_owned(), line: case.at, failure });
    }
    if results.is_empty() {
        let problem =
            ParserProblem::new("the file has no case", "a case begins with `# what it shows`");
        return Err(problem.at(origin, 1));
    }
    Ok(results)
}

fn cases<'t>(origin: &str, text: &'t str) -> Result<Vec<Case<'t>>, ParserProblem> {
    let mut cases: Vec<Case<'t>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("# ") {
            cases.push(Case { name, at: index + 1, ..Case::default() });
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |message: &str| {
            let hint =
                "`line: TEXT`, `source: PATH`, `COLUMN: TEXT`, `attrs.NAME: TEXT`, or `no COLUMN`";
            ParserProblem::new(message, hint).at(origin, index + 1)
        };
        let Some(case) = cases.last_mut() else {
            return Err(wrong("there is no case yet; begin one with `# what it shows`"));
        };
        if let Some(name) = line.strip_prefix("no ") {
            case.expected.push((name.trim(), None));
            continue;
        }
        let Some((key, value)) = line.split_once(": ") else {
            return Err(wrong(&format!("`{line}` is no `key: value`")));
        };
        match key {
            "line" => case.lines.push(value),
            "source" => case.source = value,
            _ => case.expected.push((key, Some(value))),
        }
    }
    Ok(cases)
}

impl Case<'_> {
    fn failure(&self, parsers: &Parsers, pipeline: &Arc<Pipeline>) -> Option<String> {
        let path = if self.source.is_empty() { "/var/log/test.log" } else { self.source };
        let source = LogSource {
            path: path.into(),
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: "test".into(),
        };
        if !self.source.is_empty() && !pipeline.is_for(path, "other") {
            return Some(format!("the pipeline's [match] does not take `{path}`"));
        }
        let mut rows = ParsedRows::default();
        let mut parser = parsers.line_parser_with(Some(pipeline), &source, path, "web1");
        let text = self.lines.join("\n");
        parser.parse(text.as_bytes(), 0, TEST_NOW, &mut rows);
        let rows = RowText::all(&rows.finish());
        let Some(row) = rows.last().filter(|_| rows.len() == self.lines.len()) else {
            return Some(format!("{} rows came of {} lines", rows.len(), self.lines.len()));
        };
        let wrong = self.expected.iter().filter_map(|(name, expected)| {
            let found = if *name == "table" { Some(row.table) } else { row.get(name) };
            let shown = |text: Option<&str>| text.map_or("nothing".into(), |t| format!("`{t}`"));
            (found != *expected).then(|| {
                format!("{name}: {} is expected, {} is found", shown(*expected), shown(found))
            })
        });
        let wrong: Vec<String> = wrong.collect();
        (!wrong.is_empty()).then(|| wrong.join("\n"))
    }
}
