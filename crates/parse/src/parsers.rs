//! All parsers of a weir: the built-in pipelines and patterns, and those of the user laid over them.
//!
//! A new built-in pipeline is `parsers/NAME.toml`, `parsers/NAME.test` and its name in this list.

use std::sync::Arc;

use weir_tables::LogSource;

use crate::grok::{Library, Pattern, Progress};
use crate::key_budget::DEFAULT_KEY_BUDGET;
use crate::line_parser::LineParser;
use crate::pipeline::{Pipeline, PipelineCase, test_file};
use crate::problem::ParserProblem;
use crate::redact::Redaction;
use crate::suggest::{self, Suggestion};
use crate::zone::Zone;

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
    "aws_nlb",
    "haproxy_tcp",
    "mariadb",
    "php_fpm",
    "postgresql",
    "redis",
    "tomcat",
    "w3c",
}

/// Patterns that describe whole lines; what is nearly one of them is worth telling.
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
/// Near patterns that are told.
const MAX_NEAR: usize = 3;

/// What makes a parser for each log.
#[derive(Clone, Debug)]
pub struct Parsers {
    library: Arc<Library>,
    /// The user's first; the first that is for a log counts.
    pipelines: Vec<Arc<Pipeline>>,
    zone: Zone,
    redaction: Redaction,
    key_budget: usize,
}

impl Parsers {
    /// The built-in ones.
    pub fn built_in() -> Self {
        Self::with_files(&[]).0
    }

    /// The built-in ones under those of `files` (path and text; `.toml` pipelines, `.grok` patterns). A file that cannot
    /// be used is left out and told; the others go on.
    pub fn with_files(files: &[(String, String)]) -> (Self, Vec<ParserProblem>) {
        let mut library = Library::built_in();
        let mut problems = Vec::new();
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".grok")) {
            problems.extend(library.add_file(path, text).err());
        }
        let mut pipelines: Vec<Arc<Pipeline>> = Vec::new();
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".toml")) {
            match Pipeline::read(&library, path, text) {
                Ok(pipeline) => pipelines.push(Arc::new(pipeline)),
                Err(problem) => problems.push(problem),
            }
        }
        for (name, text, _) in BUILT_IN {
            if !pipelines.iter().any(|own| own.name() == *name) {
                let origin = format!("parsers/{name}.toml");
                let pipeline = Pipeline::read(&Library::built_in(), &origin, text)
                    .expect("a test reads every built-in pipeline");
                pipelines.push(Arc::new(pipeline));
            }
        }
        let parsers = Self {
            library: Arc::new(library),
            pipelines,
            zone: Zone::default(),
            redaction: Redaction::default(),
            key_budget: DEFAULT_KEY_BUDGET,
        };
        (parsers, problems)
    }

    /// Reads times without a zone as those of a clock in `zone`, where no pipeline says otherwise.
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

    /// Lets each stream bring so many distinct names of attributes.
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

    /// A pipeline of a text that is in no directory, with the patterns that are known here.
    pub fn pipeline_of(&self, origin: &str, text: &str) -> Result<Arc<Pipeline>, ParserProblem> {
        Pipeline::read(&self.library, origin, text).map(Arc::new)
    }

    /// The pipeline that is for a log, if any.
    pub fn find(&self, source: &LogSource, path: &str) -> Option<&Arc<Pipeline>> {
        let program = source.program.as_str();
        self.pipelines.iter().find(|pipeline| pipeline.is_for(path, program))
    }

    /// The parser for one stream of a log.
    pub fn line_parser(&self, source: &LogSource, path: &str, host: &str) -> LineParser {
        self.line_parser_with(self.find(source, path), source, path, host)
    }

    /// The parser for one stream with a pipeline that was chosen for it.
    pub fn line_parser_with(
        &self,
        pipeline: Option<&Arc<Pipeline>>,
        source: &LogSource,
        path: &str,
        host: &str,
    ) -> LineParser {
        let parser = LineParser::new(source, path, host)
            .with_zone(self.zone.clone())
            .with_redaction(self.redaction.clone())
            .with_key_budget(self.key_budget);
        match pipeline {
            Some(pipeline) => parser.with_pipeline(Arc::clone(pipeline), source),
            None => parser,
        }
    }

    /// Whether anything is redacted anywhere.
    pub fn redacts(&self) -> bool {
        !self.redaction.is_empty() || self.pipelines.iter().any(|pipeline| pipeline.redacts())
    }

    /// A text of a log that no line parser reads, without what the configuration and the log's pipeline redact.
    pub fn redacted(&self, source: &LogSource, path: &str, text: &str) -> String {
        let text = self.redaction.apply(text);
        match self.find(source, path) {
            Some(pipeline) => pipeline.redact_raw(&text).into_owned(),
            None => text.into_owned(),
        }
    }

    /// Runs the cases of a test file.
    pub fn run_tests(
        &self,
        pipeline: &Arc<Pipeline>,
        origin: &str,
        text: &str,
    ) -> Result<Vec<PipelineCase>, ParserProblem> {
        test_file::run(self, pipeline, origin, text)
    }

    /// How far each pattern of a pipeline fits a line; empty when its format has no patterns.
    pub fn progress(&self, pipeline: &Pipeline, line: &str) -> Vec<Progress> {
        pipeline.patterns().iter().map(|pattern| pattern.progress(line)).collect()
    }

    /// Patterns for whole lines that fit a line, or nearly do, the nearest first.
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

    /// Names of all patterns that pipelines can use.
    pub fn pattern_names(&self) -> impl Iterator<Item = &str> {
        self.library.names()
    }

    /// What a name of a pattern stands for.
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
            assert!(!pipeline.description().is_empty(), "{name} says what it is for");
            for case in parsers.run_tests(pipeline, name, test).unwrap() {
                if let Some(failure) = case.failure {
                    failures.push(format!("{name}.test:{} {}\n{failure}", case.line, case.name));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }
}
