//! Reads a pipeline file into a [`Pipeline`]; every key is checked before a line is read.

use std::sync::Arc;

use regex::bytes::RegexBuilder;
use weir_values::{TimeForm, TimeProblem, Zone};

use super::condition::Condition;
use super::document::{self, Section, SectionKey};
use super::step::{Conversion, PipelineStep, RouteTarget, StepAction};
use super::{LogMatcher, Pipeline, TextEncoding};
use crate::formats;
use crate::grok::PatternLibrary;
use crate::problem::{ParserFile, ParserProblem, did_you_mean};
use crate::redact::Redaction;
use crate::utf16::ByteOrder;
use crate::western;

const PROGRAMS: &[&str] = &["nginx", "haproxy", "apache", "syslog", "journal", "other"];
/// Most memory of a pattern of first lines.
const MAX_LINE_PATTERN_BYTES: usize = 1 << 18;
/// Most steps of one pipeline.
const MAX_STEPS: usize = 200;

/// Reads a whole file; `name` is the file's name without directory and extension.
pub(super) fn pipeline(
    library: &PatternLibrary,
    name: &str,
    source: ParserFile<'_>,
) -> Result<Pipeline, ParserProblem> {
    document::read(source, |file| {
        file.allow(&["description", "match", "patterns", "parse", "step"])?;
        let mut library = library.clone();
        for (name, expression) in file.pairs("patterns")? {
            library.add((name, &expression)).map_err(|problem| file.place("patterns", problem))?;
        }
        let parse = file.section(SectionKey { key: "parse", written: "[parse]" })?;
        let steps = file.sections(SectionKey { key: "step", written: "[[step]]" })?;
        if steps.len() > MAX_STEPS {
            let message = format!("{} steps, more than {MAX_STEPS}", steps.len());
            return Err(file.problem("step", message, "split the pipeline"));
        }
        let mut pipeline = Pipeline {
            name: name.to_owned(),
            origin: source.origin.to_owned(),
            description: file.text("description")?.unwrap_or_default().to_owned(),
            matches: file
                .section(SectionKey { key: "match", written: "[match]" })?
                .map(matches)
                .transpose()?,
            format: None,
            zone: None,
            encoding: TextEncoding::default(),
            times: Arc::from([]),
            steps: steps.into_iter().map(step).collect::<Result<_, _>>()?,
        };
        if let Some(section) = parse {
            parse_section(&library, section, &mut pipeline)?;
        }
        Ok(pipeline)
    })
}

fn matches(section: Section<'_>) -> Result<LogMatcher, ParserProblem> {
    section.allow(&["path", "program", "line"])?;
    let programs = section.texts("program")?;
    if let Some(other) = programs.iter().find(|name| !PROGRAMS.contains(name)) {
        let hint = did_you_mean(other, PROGRAMS.iter().copied(), &PROGRAMS.join(", "));
        return Err(section.problem(
            "program",
            format!("`{other}` is not a program that writes logs"),
            hint,
        ));
    }
    let lines = section.texts("line")?.into_iter().map(|line| {
        let pattern = RegexBuilder::new(line).size_limit(MAX_LINE_PATTERN_BYTES).build();
        pattern.map_err(|_| {
            let message = format!("`{line}` is not a regular expression of usual size");
            section.problem("line", message, "it is searched in the first line of a log")
        })
    });
    let lines = lines.collect::<Result<_, _>>()?;
    Ok(LogMatcher { paths: owned(section.texts("path")?), programs: owned(programs), lines })
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn parse_section(
    library: &PatternLibrary,
    section: Section<'_>,
    pipeline: &mut Pipeline,
) -> Result<(), ParserProblem> {
    let mut known = vec!["format"];
    for key in formats::CONFIGURED.iter().flat_map(|format| format.keys) {
        if !known.contains(key) {
            known.push(key);
        }
    }
    known.extend(["time", "time_zone", "encoding"]);
    section.allow(&known)?;
    if let Some(zone) = section.text("time_zone")? {
        let zone =
            Zone::parse(zone).map_err(|problem| section.place("time_zone", problem.into()))?;
        pipeline.zone = Some(zone);
    }
    if let Some(name) = section.text("encoding")? {
        pipeline.encoding = encoding(name).ok_or_else(|| {
            let message = format!("`{name}` is not an encoding that is known here");
            let hint = "`utf-8`, `utf-16le`, `utf-16be`, `latin1` or `windows-1252`";
            section.problem("encoding", message, hint)
        })?;
    }
    let times = section.texts("time")?.into_iter().map(TimeForm::parse);
    let times: Result<Vec<TimeForm>, TimeProblem> = times.collect();
    pipeline.times = times.map_err(|problem| section.place("time", problem.into()))?.into();
    let name = section.text("format")?;
    if let Some(name) = name {
        let format = formats::configured(name, library, &section)?.ok_or_else(|| {
            let all: Vec<&str> = formats::names().collect();
            let hint = did_you_mean(name, formats::names(), &all.join(", "));
            section.problem("format", format!("there is no format `{name}`"), hint)
        })?;
        pipeline.format = Some(format);
    }
    check_keys(&section, name)
}

fn encoding(name: &str) -> Option<TextEncoding> {
    match name.to_ascii_lowercase().as_str() {
        "utf-8" => Some(TextEncoding::Detected),
        "utf-16le" => Some(TextEncoding::Utf16(ByteOrder::Little)),
        "utf-16be" => Some(TextEncoding::Utf16(ByteOrder::Big)),
        western if western::NAMES.contains(&western) => Some(TextEncoding::Western),
        _ => None,
    }
}

/// Refuses keys of other formats, because they would be ignored silently.
fn check_keys(section: &Section<'_>, format: Option<&str>) -> Result<(), ParserProblem> {
    let other_keys = formats::CONFIGURED.iter().flat_map(|other| other.keys);
    for key in other_keys.filter(|key| section.has(key)) {
        let mut owners = formats::CONFIGURED.iter().filter(|owner| owner.keys.contains(key));
        if !owners.any(|owner| Some(owner.name) == format) {
            return Err(section.problem(
                key,
                format!("`{key}` has no effect in this format"),
                "`pattern` is for grok and regex, `columns` for csv, tsv and w3c, `keys` for key_value",
            ));
        }
    }
    Ok(())
}

const ACTIONS: &[&str] =
    &["set", "rename", "drop", "convert", "tag", "redact", "redact_pattern", "route", "reject"];

fn step(section: Section<'_>) -> Result<PipelineStep, ParserProblem> {
    let mut known = vec!["when"];
    known.extend(ACTIONS);
    section.allow(&known)?;
    let when = section
        .text("when")?
        .map(|text| Condition::parse(text).map_err(|problem| section.place("when", problem)))
        .transpose()?;
    let mut actions = Vec::new();
    for (name, text) in section.pairs("set")? {
        actions.push(StepAction::Set { field: name.to_owned(), text });
    }
    for (from, to) in section.pairs("rename")? {
        actions.push(StepAction::Rename { from: from.to_owned(), to });
    }
    for field in section.texts("drop")? {
        actions.push(StepAction::Drop { field: field.to_owned() });
    }
    for (field, kind) in section.pairs("convert")? {
        let conversion = Conversion::parse(&kind).map_err(|p| section.place("convert", p))?;
        actions.push(StepAction::Convert { field: field.to_owned(), conversion });
    }
    for tag in section.texts("tag")? {
        actions.push(StepAction::Tag(tag.to_owned()));
    }
    if let Some(redaction) = redaction(&section)? {
        actions.push(StepAction::Redact(redaction));
    }
    if let Some(table) = section.text("route")? {
        let target =
            RouteTarget::parse(table).map_err(|problem| section.place("route", problem))?;
        actions.push(StepAction::Route(target));
    }
    if let Some(detail) = section.text("reject")? {
        actions.push(StepAction::Route(RouteTarget::Reject(detail.to_owned())));
    }
    if actions.is_empty() {
        return Err(section.problem(
            "when",
            "the step does nothing",
            format!("add one of {}", ACTIONS.join(", ")),
        ));
    }
    Ok(PipelineStep { when, actions })
}

fn redaction(section: &Section<'_>) -> Result<Option<Redaction>, ParserProblem> {
    let kinds = section.texts("redact")?;
    let patterns = section.texts("redact_pattern")?;
    let mut redaction =
        Redaction::of_kinds(kinds).map_err(|problem| section.place("redact", problem))?;
    for pattern in patterns {
        redaction.add_pattern(pattern).map_err(|p| section.place("redact_pattern", p))?;
    }
    Ok(Some(redaction).filter(|redaction| !redaction.is_empty()))
}
