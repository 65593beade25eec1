//! Tests of pipelines as data: lines, and the expected row of the last one.
//!
//! ```text
//! # a failed login is tagged
//! source: /var/log/auth.log
//! line: Nov 20 11:59:59 web-01 sshd[1201]: Failed password for root
//! table: log
//! attrs.tags: auth_failure
//! no severity
//! ```
//! Lines are read at 2026-11-20T12:00:00Z. A value is compared with the whole column; `no NAME`
//! means NULL or absent.

use std::sync::Arc;

use weir_tables::{LogFormat, LogSource, Micros, Program};

use super::Pipeline;
use crate::line_parser::StreamName;
use crate::parsers::Parsers;
use crate::problem::{ParserFile, ParserProblem};
use crate::{ParsedRows, RowText};

/// When the lines of tests are read.
pub(crate) const TEST_NOW: Micros = Micros(1_795_176_000_000_000);

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineCase {
    /// What the case shows.
    pub name: String,
    /// First line in the file.
    pub line: usize,
    /// Why it failed; `None` when it passed.
    pub failure: Option<String>,
}

#[derive(Debug, Default)]
struct TestCase<'t> {
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
    file: ParserFile<'_>,
) -> Result<Vec<PipelineCase>, ParserProblem> {
    let mut results = Vec::new();
    for case in cases(file)? {
        let failure = case.failure(parsers, pipeline);
        results.push(PipelineCase { name: case.name.to_owned(), line: case.at, failure });
    }
    if results.is_empty() {
        let problem =
            ParserProblem::new("the file has no case", "a case begins with `# what it shows`");
        return Err(problem.at(file.origin, 1));
    }
    Ok(results)
}

fn cases(file: ParserFile<'_>) -> Result<Vec<TestCase<'_>>, ParserProblem> {
    let mut cases: Vec<TestCase<'_>> = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("# ") {
            cases.push(TestCase { name, at: index + 1, ..TestCase::default() });
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let Some(case) = cases.last_mut() else {
            let message = "there is no case yet; start one with `# what it shows`";
            return Err(malformed(message).at(file.origin, index + 1));
        };
        if let Some(name) = line.strip_prefix("no ") {
            case.expected.push((name.trim(), None));
            continue;
        }
        let Some((key, value)) = line.split_once(": ") else {
            let problem = malformed(&format!("`{line}` is not `key: value`"));
            return Err(problem.at(file.origin, index + 1));
        };
        match key {
            "line" => case.lines.push(value),
            "source" => case.source = value,
            _ => case.expected.push((key, Some(value))),
        }
    }
    Ok(cases)
}

fn malformed(message: &str) -> ParserProblem {
    let hint = "`line: TEXT`, `source: PATH`, `COLUMN: TEXT`, `attrs.NAME: TEXT`, or `no COLUMN`";
    ParserProblem::new(message, hint)
}

impl TestCase<'_> {
    fn failure(&self, parsers: &Parsers, pipeline: &Arc<Pipeline>) -> Option<String> {
        let path = if self.source.is_empty() { "/var/log/test.log" } else { self.source };
        let source = LogSource {
            path: path.into(),
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: "test".into(),
        };
        if !self.source.is_empty() && !pipeline.is_for(path, Program::Other) {
            return Some(format!("the pipeline's [match] does not include `{path}`"));
        }
        let mut rows = ParsedRows::default();
        let mut parser =
            parsers.line_parser_with(Some(pipeline), &source, StreamName { path, host: "web1" });
        let text = self.lines.join("\n");
        parser.parse(text.as_bytes(), 0, TEST_NOW, &mut rows);
        let rows = RowText::all(&rows.finish());
        let Some(row) = rows.last().filter(|_| rows.len() == self.lines.len()) else {
            return Some(format!("{} lines became {} rows", self.lines.len(), rows.len()));
        };
        let wrong = self.expected.iter().filter_map(|(name, expected)| {
            let found = if *name == "table" { Some(row.table) } else { row.get(name) };
            (found != *expected).then(|| {
                let [expected, found] = [*expected, found]
                    .map(|text| text.map_or("nothing".to_owned(), |text| format!("`{text}`")));
                format!("{name}: expected {expected}, found {found}")
            })
        });
        let wrong: Vec<String> = wrong.collect();
        (!wrong.is_empty()).then(|| wrong.join("\n"))
    }
}
