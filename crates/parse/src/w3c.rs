//! W3C extended logs: IIS, Exchange, proxies and content delivery networks.
//!
//! Sources: <https://www.w3.org/TR/WD-logfile.html>, Microsoft's "W3C Extended Log File Format".
//! `#Fields:` names the values, also again in the middle of a file. The surprising thing: writers
//! do not agree on what is between values, which are quoted in some logs: spaces (IIS), tabs (often
//! with spaces in `#Fields:`), commas (Exchange). `time-taken` has seconds in the specification and
//! milliseconds in IIS.

use std::sync::Arc;

use bumpalo::Bump;

use crate::field::{self, Field};
use crate::format::{Format, FormatSpec};
use crate::grok::PatternLibrary;
use crate::iis;
use crate::pipeline::document::Section;
use crate::problem::ParserProblem;
use crate::record::{LineFault, Record, RowKind};
use crate::separated;

/// Most values of one line.
const MAX_VALUES: usize = 1_000;
/// Mark of the line that names the values.
const FIELDS: &str = "#Fields:";
/// Mark of the line with the day of lines that have only a clock.
const DATE: &str = "#Date:";

/// Keys in `[parse]`.
pub(crate) const KEYS: &[&str] = &["columns", "optional_columns"];

pub(crate) fn read_w3c(
    _library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<dyn FormatSpec>, ParserProblem> {
    let (columns, optional_count) = separated::columns(section)?;
    Ok(Arc::new(W3cSpec { columns, optional_count }))
}

#[derive(Debug)]
struct W3cSpec {
    /// Columns of files that do not name them; empty for those of IIS.
    columns: Vec<String>,
    /// How many of the last ones a line may lack.
    optional_count: usize,
}

impl FormatSpec for W3cSpec {
    fn new_format(&self) -> Box<dyn Format> {
        let columns = match self.columns.is_empty() {
            true => iis::DEFAULT.iter().map(|name| (*name).to_owned()).collect(),
            false => self.columns.clone(),
        };
        Box::new(W3cReader {
            columns,
            optional_count: self.optional_count,
            is_guessed: self.columns.is_empty(),
            is_first: true,
            has_commas: false,
            date: String::new(),
        })
    }
}

/// Reads the lines of one stream.
struct W3cReader {
    columns: Vec<String>,
    /// How many of the last columns a line may lack.
    optional_count: usize,
    /// Whether the columns are guessed by the values: IIS' without `#Fields:`.
    is_guessed: bool,
    /// Whether no line has shown the columns.
    is_first: bool,
    /// Whether commas are between values.
    has_commas: bool,
    /// The day of `#Date:`, for lines that have only a clock.
    date: String,
}

impl Format for W3cReader {
    fn name(&self) -> &'static str {
        "w3c"
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        if line.starts_with('#') {
            self.read_directive(line, record);
            return Ok(RowKind::Log);
        }
        let separator = self.separator(line);
        let values = split(line, separator, record.arena)?;
        let most = self.columns.len();
        let is_unknown = self.is_guessed && (self.is_first || values.len() != most);
        if let Some(columns) = is_unknown.then(|| iis::columns(&values)).flatten() {
            self.is_first = false;
            self.columns = columns.into_iter().map(str::to_owned).collect();
            record.names = self.names(record.arena);
        } else if !(most - self.optional_count..=most).contains(&values.len()) {
            let detail = format!("{} values, but {most} columns", values.len());
            return Err(LineFault::no_match(detail));
        }
        self.put_time(&values, record);
        // http.sys closes connections without a request as well.
        let method = record.names.iter().position(|name| *name == "cs-method");
        let has_request = method.is_none_or(|at| values.get(at) != Some(&"-"));
        for (name, value) in record.names.iter().zip(values) {
            match *name {
                "date" | "time" => {}
                "cs(User-Agent)" => {
                    record.put([name, user_agent(value, record.arena)], Field::UserAgent);
                }
                // Not in milliseconds.
                "time-taken" if value.contains('.') => {
                    record.put([name, value], Field::DurationSeconds);
                }
                _ => record.put([name, value], field::of_capture(name)),
            }
        }
        Ok(if has_request { record.guess_kind() } else { RowKind::Log })
    }

    fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names: Vec<&'a str> = self.columns.iter().map(|name| &*arena.alloc_str(name)).collect();
        arena.alloc_slice_copy(&names)
    }

    fn set_head(&mut self, head: &[u8]) {
        let lines = head.split_inclusive(|byte| *byte == b'\n');
        let whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
        for line in whole.filter_map(|line| std::str::from_utf8(line).ok()) {
            if let Some(names) = line.strip_prefix(FIELDS) {
                self.name_columns(names);
            } else if let Some(date) = line.strip_prefix(DATE) {
                self.set_day(date);
            }
        }
    }

    fn later_heads(&self) -> &'static [&'static str] {
        if self.columns.iter().any(|name| name == "date") { &[FIELDS] } else { &[FIELDS, DATE] }
    }
}

impl W3cReader {
    /// Keeps a line of comment, and what it says about those that follow.
    fn read_directive<'a>(&mut self, line: &'a str, record: &mut Record<'a>) {
        record.log.body = line;
        if let Some(names) = line.strip_prefix(FIELDS) {
            self.name_columns(names);
            record.names = self.names(record.arena);
        } else if let Some(date) = line.strip_prefix(DATE) {
            record.ts = record.times.read(date.trim_ascii());
            self.set_day(date);
        }
    }

    fn set_day(&mut self, date: &str) {
        let day = date.trim_ascii().split([' ', 'T']).next().unwrap_or_default();
        day.clone_into(&mut self.date);
    }

    fn name_columns(&mut self, names: &str) {
        self.has_commas = names.contains(',') && names.split_ascii_whitespace().count() == 1;
        let words = names.split(|mark: char| mark == ',' || mark.is_ascii_whitespace());
        self.columns = words.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        (self.is_guessed, self.optional_count) = (false, 0);
    }

    /// What is between the values of a line.
    fn separator(&self, line: &str) -> u8 {
        let has_tabs = || memchr::memchr(b'\t', line.as_bytes()).is_some();
        match self.has_commas {
            true => b',',
            false if has_tabs() => b'\t',
            false => b' ',
        }
    }

    /// Date and clock are two values; without a date, it is that of `#Date:`.
    fn put_time<'a>(&self, values: &[&'a str], record: &mut Record<'a>) {
        let value = |name| values.get(record.names.iter().position(|known| *known == name)?);
        let Some(clock) = value("time") else { return };
        let date = value("date").copied().unwrap_or(&self.date);
        let moment = record.arena.alloc_str(&format!("{date} {clock}"));
        record.put(["timestamp", moment], Field::Time);
    }
}

/// IIS writes `+` for each blank.
fn user_agent<'a>(value: &'a str, arena: &'a Bump) -> &'a str {
    if value.contains('+') && !value.contains(' ') {
        return arena.alloc_str(&value.replace('+', " "));
    }
    value
}

/// The values of a line. Several spaces are one separator; tabs and commas have empty values between
/// them.
fn split<'a>(line: &'a str, separator: u8, arena: &'a Bump) -> Result<Vec<&'a str>, LineFault> {
    let mut values = Vec::with_capacity(32);
    let mut rest = Some(if separator == b' ' { line.trim_matches(' ') } else { line });
    while let Some(text) = rest {
        if values.len() == MAX_VALUES {
            return Err(LineFault::no_match(format!("more than {MAX_VALUES} values")));
        }
        let quoted = text.strip_prefix('"').and_then(|text| quoted(text, separator, arena));
        let (value, behind) = quoted.unwrap_or_else(|| plain(text, separator));
        values.push(value);
        rest = behind;
        if separator == b' ' {
            rest = rest.map(|rest| rest.trim_start_matches(' '));
        }
    }
    Ok(values)
}

/// Splits off a value; the rest is `None` at the end of the line.
fn plain(text: &str, separator: u8) -> (&str, Option<&str>) {
    match memchr::memchr(separator, text.as_bytes()) {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

/// Splits off a value behind its opening quote; doubled quotes are part of it. `None` if the quote
/// does not close in front of a separator: a value may begin with one.
fn quoted<'a>(text: &'a str, separator: u8, arena: &'a Bump) -> Option<(&'a str, Option<&'a str>)> {
    let bytes = text.as_bytes();
    let (mut at, mut is_doubled) = (0, false);
    loop {
        at += memchr::memchr(b'"', &bytes[at..])? + 1;
        match bytes.get(at) {
            Some(b'"') => (at, is_doubled) = (at + 1, true),
            Some(next) if *next == separator => break,
            None => break,
            Some(_) => return None,
        }
    }
    let value = &text[..at - 1];
    let value = if is_doubled { arena.alloc_str(&value.replace("\"\"", "\"")) } else { value };
    Some((value, text.get(at + 1..).filter(|_| at < bytes.len())))
}
