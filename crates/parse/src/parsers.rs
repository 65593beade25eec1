//! All parsers: the built-in pipelines and patterns, overridden by the user's.
//!
//! A new built-in pipeline is `parsers/NAME.toml`, `parsers/NAME.test` and one line in this list.

use std::sync::Arc;

use weir_tables::{LogFormat, LogSource};
use weir_values::Zone;

use crate::grok::{Pattern, PatternLibrary, Progress};
use crate::key_budget::DEFAULT_KEY_BUDGET;
use crate::line_parser::{LineParser, StreamName};
use crate::pipeline::{Pipeline, PipelineCase, test_file};
use crate::problem::{ParserFile, ParserProblem};
use crate::redact::Redaction;
use crate::suggest::{self, Suggestion};

macro_rules! built_in {
    ($($name:literal,)+) => {
        /// Name, text of the pipeline file, text of its test file.
        const BUILT_IN: &[(&str, &str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../parsers/", $name, ".toml")),
            include_str!(concat!("../../../parsers/", $name, ".test")),
        )),+];
    };
}

built_in! {
    "auth",
    "aws_alb",
    "aws_cloudfront",
    "aws_elb",
    "aws_nlb",
    "aws_s3",
    "caddy",
    "envoy",
    "haproxy_stderr",
    "haproxy_tcp",
    "mariadb",
    "mysql_slow",
    "php_fpm",
    "postgresql",
    "postgresql_csv",
    "redis",
    "tomcat",
    "traefik",
    "w3c",
}

/// Patterns that describe whole lines, to suggest when a line nearly matches.
const LINE_PATTERNS: &[&str] = &[
    "COMBINEDAPACHELOG",
    "COMMONAPACHELOG",
    "HTTPD24_ERRORLOG",
    "HTTPD20_ERRORLOG",
    "NGINXERROR",
    "HAPROXYHTTP",
    "HAPROXYTCP",
    "SQUID3",
    "ELB_ACCESS_LOG",
    "SYSLOGLINE",
    "SYSLOG5424LINE",
    "CRONLOG",
    "CATALINALOG",
    "LOG4J",
    "LOGBACK",
    "PYTHONLOG",
    "RUBY_LOGGER",
    "GOLOG",
    "POSTGRESQL",
    "MYSQLERROR",
    "MARIADBLOG",
    "REDISLOG",
    "MONGO3_LOG",
    "PHPFPM",
    "RAILS3HEAD",
];
/// Close matches to suggest.
const MAX_NEAR: usize = 3;

/// Creates the parser for each log.
#[derive(Clone, Debug)]
pub struct Parsers {
    library: Arc<PatternLibrary>,
    /// The user's first; the first that applies to a log is used.
    pipelines: Vec<Arc<Pipeline>>,
    /// Those that are chosen by the first line of a log.
    by_first_line: Arc<[Arc<Pipeline>]>,
    /// Those of them that redact.
    redacting_by_line: Arc<[Arc<Pipeline>]>,
    zone: Zone,
    redaction: Redaction,
    key_budget: usize,
}

impl Parsers {
    /// The built-in ones.
    pub fn built_in() -> Self {
        Self::with_files(&[]).0
    }

    /// The built-in ones, overridden by `files` (path and text; `.toml` pipelines, `.grok`
    /// patterns). A file that cannot be used is skipped and reported.
    pub fn with_files(files: &[(String, String)]) -> (Self, Vec<ParserProblem>) {
        let mut library = PatternLibrary::built_in();
        let mut problems = Vec::new();
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".grok")) {
            problems.extend(library.add_file(ParserFile { origin: path, text }).err());
        }
        let mut pipelines: Vec<Arc<Pipeline>> = Vec::new();
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".toml")) {
            match Pipeline::read(&library, ParserFile { origin: path, text }) {
                Ok(pipeline) => pipelines.push(Arc::new(pipeline)),
                Err(problem) => problems.push(problem),
            }
        }
        for (name, text, _) in BUILT_IN {
            if !pipelines.iter().any(|own| own.name() == *name) {
                let origin = format!("parsers/{name}.toml");
                let file = ParserFile { origin: &origin, text };
                let pipeline = Pipeline::read(&PatternLibrary::built_in(), file)
                    .expect("a test reads every built-in pipeline");
                pipelines.push(Arc::new(pipeline));
            }
        }
        let by_first_line = pipelines.iter().filter(|pipeline| pipeline.has_lines()).cloned();
        let by_first_line: Arc<[_]> = by_first_line.collect();
        let redacting = by_first_line.iter().filter(|pipeline| pipeline.redacts()).cloned();
        let parsers = Self {
            redacting_by_line: redacting.collect(),
            by_first_line,
            library: Arc::new(library),
            pipelines,
            zone: Zone::default(),
            redaction: Redaction::default(),
            key_budget: DEFAULT_KEY_BUDGET,
        };
        (parsers, problems)
    }

    /// Reads times without a zone as in `zone`, unless a pipeline sets another.
    #[must_use]
    pub fn with_zone(mut self, zone: Zone) -> Self {
        self.zone = zone;
        self
    }

    /// Redacts in every log.
    #[must_use]
    pub fn with_redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Limits the distinct attribute names of each stream.
    #[must_use]
    pub fn with_key_budget(mut self, names: usize) -> Self {
        self.key_budget = names;
        self
    }

    /// All pipelines, the user's first.
    pub fn pipelines(&self) -> impl Iterator<Item = &Arc<Pipeline>> {
        self.pipelines.iter()
    }

    /// The pipeline of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Pipeline>> {
        self.pipelines.iter().find(|pipeline| pipeline.name() == name)
    }

    /// The test file of a built-in pipeline.
    pub fn built_in_test(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _, _)| *known == name).map(|(_, _, test)| *test)
    }

    /// Reads a pipeline that is not installed, with the known patterns.
    pub fn pipeline_of(&self, file: ParserFile<'_>) -> Result<Arc<Pipeline>, ParserProblem> {
        Pipeline::read(&self.library, file).map(Arc::new)
    }

    /// The pipeline that applies to a log, if any.
    pub fn find(&self, source: &LogSource, path: &str) -> Option<&Arc<Pipeline>> {
        self.pipelines.iter().find(|pipeline| pipeline.is_for(path, source.program))
    }

    /// The parser for one stream of a log.
    pub fn line_parser(&self, source: &LogSource, stream: StreamName<'_>) -> LineParser {
        self.line_parser_with(self.find(source, stream.path), source, stream)
    }

    /// The parser for one stream with a given pipeline. Without one, a log of unknown format is read
    /// with the pipeline that has its first line.
    pub fn line_parser_with(
        &self,
        pipeline: Option<&Arc<Pipeline>>,
        source: &LogSource,
        stream: StreamName<'_>,
    ) -> LineParser {
        let parser = LineParser::new(source, stream)
            .with_zone(self.zone.clone())
            .with_redaction(self.redaction.clone())
            .with_key_budget(self.key_budget);
        match pipeline {
            Some(pipeline) => parser.with_pipeline(Arc::clone(pipeline), source),
            None if source.format == LogFormat::Auto => {
                parser.with_candidates(&self.by_first_line, &self.redacting_by_line)
            }
            None => parser,
        }
    }

    /// Whether anything is redacted anywhere.
    pub fn redacts(&self) -> bool {
        !self.redaction.is_empty() || self.pipelines.iter().any(|pipeline| pipeline.redacts())
    }

    /// Redacts a text of a log that no line parser reads. Such a log has no first line, so without a
    /// pipeline for its path, all pipelines that are chosen by a line redact it.
    pub fn redacted(&self, text: &str, source: &LogSource, path: &str) -> String {
        let text = self.redaction.apply(text);
        let found = self.find(source, path).map(std::slice::from_ref);
        let pipelines = found.unwrap_or(&self.redacting_by_line);
        let redacted = pipelines.iter().fold(text, |text, pipeline| {
            std::borrow::Cow::Owned(pipeline.redact_raw(&text).into_owned())
        });
        redacted.into_owned()
    }

    /// Runs the cases of a test file.
    pub fn run_tests(
        &self,
        pipeline: &Arc<Pipeline>,
        file: ParserFile<'_>,
    ) -> Result<Vec<PipelineCase>, ParserProblem> {
        test_file::run(self, pipeline, file)
    }

    /// How far each pattern of a pipeline matches a line; empty without patterns.
    pub fn progress(&self, pipeline: &Pipeline, line: &str) -> Vec<Progress> {
        pipeline.patterns().iter().map(|pattern| pattern.progress(line)).collect()
    }

    /// Patterns for whole lines that match a line or nearly do, the closest first.
    pub fn near(&self, line: &str) -> Vec<Progress> {
        let patterns = LINE_PATTERNS.iter().filter(|name| self.library.get(name).is_some());
        let written = patterns.map(|name| format!("%{{{name}}}"));
        let compiled = written.filter_map(|text| Pattern::grok(&self.library, &text).ok());
        let mut near: Vec<Progress> = compiled.map(|pattern| pattern.progress(line)).collect();
        near.retain(|progress| progress.is_match || 4 * progress.stopped_at >= line.len().min(200));
        near.sort_by_key(|progress| {
            std::cmp::Reverse((progress.is_match, progress.stopped_at, progress.pieces_matched))
        });
        near.truncate(MAX_NEAR);
        near
    }

    /// A pattern for a sample of lines; `None` for a sample without a line.
    pub fn suggest(&self, lines: &[String]) -> Option<Suggestion> {
        suggest::suggest(&self.library, LINE_PATTERNS, lines)
    }

    /// Names of all known patterns.
    pub fn pattern_names(&self) -> impl Iterator<Item = &str> {
        self.library.names()
    }

    /// The expression of a named pattern.
    pub fn pattern(&self, name: &str) -> Option<&str> {
        self.library.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_pipeline_is_read_and_passes_its_test_file() {
        let parsers = Parsers::built_in();
        assert_eq!(parsers.pipelines().count(), BUILT_IN.len());
        let mut failures = Vec::new();
        for (name, _, test) in BUILT_IN {
            let pipeline = parsers.get(name).unwrap();
            assert!(!pipeline.description().is_empty(), "{name} has no description");
            for case in
                parsers.run_tests(pipeline, ParserFile { origin: name, text: test }).unwrap()
            {
                if let Some(failure) = case.failure {
                    failures.push(format!("{name}.test:{} {}\n{failure}", case.line, case.name));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }
}
