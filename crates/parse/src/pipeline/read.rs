//! A pipeline file to a [`Pipeline`]: every key is checked before a line is read.

use std::sync::Arc;

use super::condition::Condition;
use super::document::{self, Section};
use super::step::{Action, Conversion, Step, Target};
use super::{Match, Parse, Pipeline};
use crate::grok::{Library, Pattern};
use crate::key_value::KeyValue;
use crate::problem::{ParserProblem, did_you_mean};
use crate::redact::Redaction;
use crate::separated::Separated;
use crate::time::TimeForm;
use crate::zone::Zone;

const FORMATS: &[&str] = &[
    "auto",
    "json",
    "combined",
    "haproxy_http",
    "syslog",
    "nginx_error",
    "apache_error",
    "text",
    "grok",
    "regex",
    "csv",
    "tsv",
    "w3c",
    "key_value",
];
const PROGRAMS: &[&str] = &["nginx", "haproxy", "apache", "syslog", "journal", "other"];
/// Patterns of one pipeline; all of them together share the steps of a line.
const MAX_PATTERNS: usize = 100;
/// Steps of one pipeline.
const MAX_STEPS: usize = 200;

/// Reads a whole file; `name` is the file's name without directory and ending.
pub(super) fn pipeline(
    library: &Library,
    name: &str,
    origin: &str,
    text: &str,
) -> Result<Pipeline, ParserProblem> {
    document::read(origin, text, |file| {
        file.allow(&["description", "match", "patterns", "parse", "step"])?;
        let mut library = library.clone();
        for (name, expression) in file.pairs("patterns")? {
            library.add(name, &expression).map_err(|problem| file.place("patterns", problem))?;
        }
        let parse = file.section("parse", "[parse]")?;
        let steps = file.sections("step", "[[step]]")?;
        if steps.len() > MAX_STEPS {
            let message = format!("{} steps, more than {MAX_STEPS}", steps.len());
            return Err(file.problem("step", message, "split the pipeline"));
        }
        let mut pipeline = Pipeline {
            name: name.to_owned(),
            origin: origin.to_owned(),
            description: file.text("description")?.unwrap_or_default().to_owned(),
            matches: file.section("match", "[match]")?.map(matches).transpose()?,
            parse: Parse::AsFound,
            zone: None,
            times: Arc::from([]),
            steps: steps.into_iter().map(step).collect::<Result<_, _>>()?,
        };
        if let Some(section) = parse {
            parse_section(&library, section, &mut pipeline)?;
        }
        Ok(pipeline)
    })
}

fn matches(section: Section<'_>) -> Result<Match, ParserProblem> {
    section.allow(&["path", "program"])?;
    let programs = section.texts("program")?;
    if let Some(other) = programs.iter().find(|name| !PROGRAMS.contains(name)) {
        let hint = did_you_mean(other, PROGRAMS.iter().copied(), &PROGRAMS.join(", "));
        return Err(section.problem("program", format!("`{other}` is no program of a log"), hint));
    }
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    Ok(Match { paths: owned(section.texts("path")?), programs: owned(programs) })
}

fn parse_section(
    library: &Library,
    section: Section<'_>,
    pipeline: &mut Pipeline,
) -> Result<(), ParserProblem> {
    section.allow(&[
        "format",
        "pattern",
        "anywhere",
        "columns",
        "delimiter",
        "keys",
        "pair_separator",
        "value_separator",
        "time",
        "time_zone",
    ])?;
    if let Some(zone) = section.text("time_zone")? {
        let zone = Zone::parse(zone).map_err(|problem| section.place("time_zone", problem))?;
        pipeline.zone = Some(zone);
    }
    let times = section.texts("time")?.into_iter().map(TimeForm::parse);
    let times: Result<Vec<TimeForm>, ParserProblem> = times.collect();
    pipeline.times = times.map_err(|problem| section.place("time", problem))?.into();
    if let Some(format) = section.text("format")? {
        pipeline.parse = format_of(library, &section, format)?;
    }
    check_keys(&section, pipeline)
}

fn format_of(
    library: &Library,
    section: &Section<'_>,
    format: &str,
) -> Result<Parse, ParserProblem> {
    Ok(match format {
        "grok" => Parse::Patterns { name: "grok", patterns: patterns(library, section)? },
        "regex" => Parse::Patterns { name: "regex", patterns: patterns(library, section)? },
        "csv" | "tsv" => Parse::Separated(separated(section, format == "tsv")?),
        "w3c" => Parse::Separated(Separated::w3c()),
        "key_value" => Parse::KeyValue(key_value(section)?),
        other => Parse::named(other).ok_or_else(|| {
            let hint = did_you_mean(other, FORMATS.iter().copied(), &FORMATS.join(", "));
            section.problem("format", format!("there is no format `{other}`"), hint)
        })?,
    })
}

/// Keys of one format beside another are a mistake that would not be seen.
fn check_keys(section: &Section<'_>, pipeline: &Pipeline) -> Result<(), ParserProblem> {
    let owners: [(&str, bool); 6] = [
        ("pattern", matches!(pipeline.parse, Parse::Patterns { .. })),
        ("anywhere", matches!(pipeline.parse, Parse::Patterns { .. })),
        ("columns", matches!(pipeline.parse, Parse::Separated(_))),
        ("delimiter", matches!(pipeline.parse, Parse::Separated(_))),
        ("keys", matches!(pipeline.parse, Parse::KeyValue(_))),
        ("pair_separator", matches!(pipeline.parse, Parse::KeyValue(_))),
    ];
    match owners.into_iter().find(|(key, is_owner)| !is_owner && section.has(key)) {
        Some((key, _)) => Err(section.problem(
            key,
            format!("`{key}` does nothing in this format"),
            "`pattern` goes with grok and regex, `columns` with csv and tsv, `keys` with key_value",
        )),
        None => Ok(()),
    }
}

fn patterns(library: &Library, section: &Section<'_>) -> Result<Arc<[Pattern]>, ParserProblem> {
    let written = section.texts("pattern")?;
    if written.is_empty() || written.len() > MAX_PATTERNS {
        return Err(section.problem(
            "pattern",
            format!("{} patterns; 1 to {MAX_PATTERNS} are possible", written.len()),
            "pattern = \"%{COMBINEDAPACHELOG}\", or a list that is tried from the first to the last",
        ));
    }
    let is_anywhere = section.flag("anywhere")?.unwrap_or_default();
    let compile = |written: &str| {
        if is_anywhere {
            Pattern::grok(library, &format!("(?<before>(?s:.*?))(?:{written})"))
        } else {
            Pattern::grok(library, written)
        }
    };
    let compiled: Result<Vec<Pattern>, ParserProblem> = written.into_iter().map(compile).collect();
    compiled.map(Arc::from).map_err(|problem| section.place("pattern", problem))
}

fn separated(section: &Section<'_>, is_tsv: bool) -> Result<Separated, ParserProblem> {
    let delimiter = section.text("delimiter")?.unwrap_or(if is_tsv { "\t" } else { "," });
    let [delimiter] = delimiter.as_bytes() else {
        return Err(section.problem("delimiter", "`delimiter` must be one ASCII character", ""));
    };
    let columns: Vec<String> = section.texts("columns")?.into_iter().map(str::to_owned).collect();
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = columns.iter().find(|name| !seen.insert(*name)) {
        return Err(section.problem("columns", format!("the column `{twice}` stands twice"), ""));
    }
    Ok(Separated { delimiter: *delimiter, is_quoted: !is_tsv, is_w3c: false, columns })
}

fn key_value(section: &Section<'_>) -> Result<KeyValue, ParserProblem> {
    let mut spec = KeyValue::default();
    for (key, separator) in [
        ("pair_separator", &mut spec.pair_separator),
        ("value_separator", &mut spec.value_separator),
    ] {
        if let Some(text) = section.text(key)? {
            if text.is_empty() {
                return Err(section.problem(key, format!("`{key}` must not be empty"), ""));
            }
            text.clone_into(separator);
        }
    }
    spec.keys = section.texts("keys")?.into_iter().map(str::to_owned).collect();
    Ok(spec)
}

const ACTIONS: &[&str] =
    &["set", "rename", "drop", "convert", "tag", "redact", "redact_pattern", "route", "reject"];

fn step(section: Section<'_>) -> Result<Step, ParserProblem> {
    let mut known = vec!["when"];
    known.extend(ACTIONS);
    section.allow(&known)?;
    let when = section
        .text("when")?
        .map(|text| Condition::parse(text).map_err(|problem| section.place("when", problem)))
        .transpose()?;
    let mut actions = Vec::new();
    for (name, text) in section.pairs("set")? {
        actions.push(Action::Set { field: name.to_owned(), text });
    }
    for (from, to) in section.pairs("rename")? {
        actions.push(Action::Rename { from: from.to_owned(), to });
    }
    for field in section.texts("drop")? {
        actions.push(Action::Drop { field: field.to_owned() });
    }
    for (field, kind) in section.pairs("convert")? {
        let conversion = Conversion::parse(&kind).map_err(|p| section.place("convert", p))?;
        actions.push(Action::Convert { field: field.to_owned(), conversion });
    }
    for tag in section.texts("tag")? {
        actions.push(Action::Tag(tag.to_owned()));
    }
    if let Some(redaction) = redaction(&section)? {
        actions.push(Action::Redact(redaction));
    }
    if let Some(table) = section.text("route")? {
        let target = Target::parse(table).map_err(|problem| section.place("route", problem))?;
        actions.push(Action::Route(target));
    }
    if let Some(detail) = section.text("reject")? {
        actions.push(Action::Route(Target::Reject(detail.to_owned())));
    }
    if actions.is_empty() {
        return Err(section.problem(
            "when",
            "the step does nothing",
            format!("add one of {}", ACTIONS.join(", ")),
        ));
    }
    Ok(Step { when, actions })
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
