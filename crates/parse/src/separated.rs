//! Delimited values: CSV (RFC 4180) and TSV, with columns named by the user or the first line.
//!
//! A quoted value may have line ends. The header is a line too, and is kept as a `log` row.

use std::collections::HashSet;
use std::sync::Arc;

use bumpalo::Bump;

use crate::field;
use crate::format::{Format, FormatSpec, LineJoin};
use crate::grok::PatternLibrary;
use crate::pipeline::document::Section;
use crate::problem::ParserProblem;
use crate::record::{LineFault, Record, RowKind};

/// Most values of one line.
const MAX_VALUES: usize = 1_000;

/// Syntax of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeparatedSpec {
    delimiter: u8,
    /// Whether values may be quoted with `"`, doubled inside. Else `\t`, `\n` and `\\` are escapes,
    /// as in TSV files.
    is_quoted: bool,
    /// Names of the values; empty if the first line names them.
    columns: Vec<String>,
    /// How many of the last columns a line may lack: older versions of its program have fewer.
    optional_count: usize,
}

/// Keys in `[parse]`.
pub(crate) const KEYS: &[&str] = &["columns", "delimiter", "optional_columns"];

pub(crate) fn read_csv(
    _library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<dyn FormatSpec>, ParserProblem> {
    Ok(Arc::new(SeparatedSpec::read(section, false)?))
}

pub(crate) fn read_tsv(
    _library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Arc<dyn FormatSpec>, ParserProblem> {
    Ok(Arc::new(SeparatedSpec::read(section, true)?))
}

/// Names of the values, and how many of the last ones a line may lack.
pub(crate) fn columns(section: &Section<'_>) -> Result<(Vec<String>, usize), ParserProblem> {
    let mut columns: Vec<String> =
        section.texts("columns")?.into_iter().map(str::to_owned).collect();
    let optional = section.texts("optional_columns")?;
    if columns.is_empty() && !optional.is_empty() {
        let message = "`optional_columns` needs `columns`";
        return Err(section.problem("optional_columns", message, ""));
    }
    let optional_count = optional.len();
    columns.extend(optional.into_iter().map(str::to_owned));
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|name| !seen.insert(*name)) {
        let message = format!("the column `{twice}` is listed twice");
        return Err(section.problem("columns", message, ""));
    }
    Ok((columns, optional_count))
}

impl SeparatedSpec {
    fn read(section: &Section<'_>, is_tsv: bool) -> Result<Self, ParserProblem> {
        let delimiter = section.text("delimiter")?.unwrap_or(if is_tsv { "\t" } else { "," });
        let [delimiter] = delimiter.as_bytes() else {
            return Err(section.problem(
                "delimiter",
                "`delimiter` must be one ASCII character",
                "",
            ));
        };
        let (columns, optional_count) = columns(section)?;
        Ok(Self { delimiter: *delimiter, is_quoted: !is_tsv, columns, optional_count })
    }
}

impl FormatSpec for SeparatedSpec {
    fn new_format(&self) -> Box<dyn Format> {
        Box::new(SeparatedReader { spec: self.clone(), columns: self.columns.clone() })
    }
}

/// Reads the lines of one stream.
struct SeparatedReader {
    spec: SeparatedSpec,
    columns: Vec<String>,
}

impl Format for SeparatedReader {
    fn name(&self) -> &'static str {
        "separated"
    }

    fn line_join(&self) -> LineJoin {
        let delimiter = self.spec.delimiter;
        if self.spec.is_quoted { LineJoin::Quotes { delimiter } } else { LineJoin::None }
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        let Some(values) = self.values(line, record)? else {
            record.log.body = line;
            return Ok(RowKind::Log);
        };
        let names = record.names;
        for (name, value) in names.iter().zip(values) {
            record.put([name, value], field::of_capture(name));
        }
        Ok(record.guess_kind())
    }

    fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names: Vec<&'a str> = self.columns.iter().map(|name| &*arena.alloc_str(name)).collect();
        arena.alloc_slice_copy(&names)
    }

    fn needs_header(&self) -> bool {
        self.columns.is_empty()
    }

    fn set_header(&mut self, line: &str) {
        let arena = Bump::new();
        if let Ok(values) = self.split(line.trim_end(), &arena) {
            self.columns = values.iter().map(|name| name.trim().to_owned()).collect();
        }
    }
}

impl SeparatedReader {
    /// The values of a line; `None` for headers and comments.
    fn values<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<Option<Vec<&'a str>>, LineFault> {
        let values = self.split(line, record.arena)?;
        if self.columns.is_empty() && self.spec.columns.is_empty() {
            self.set_header(line);
            record.names = self.names(record.arena);
            return Ok(None);
        }
        if values.iter().eq(self.columns.iter()) {
            return Ok(None);
        }
        let most = self.columns.len();
        if !(most - self.spec.optional_count..=most).contains(&values.len()) {
            return Err(LineFault::no_match(format!(
                "{} values, but {} columns",
                values.len(),
                most
            )));
        }
        Ok(Some(values))
    }

    fn split<'a>(&self, line: &'a str, arena: &'a Bump) -> Result<Vec<&'a str>, LineFault> {
        let mut values = Vec::with_capacity(self.columns.len());
        let mut rest = line;
        loop {
            let quote = rest.strip_prefix('"');
            let (value, behind) = match quote {
                Some(quoted) if self.spec.is_quoted => {
                    self.quoted(quoted, line.len() - quoted.len(), arena)?
                }
                _ => self.plain(rest, arena),
            };
            if values.len() == MAX_VALUES {
                return Err(LineFault::no_match(format!("more than {MAX_VALUES} values")));
            }
            values.push(value);
            match behind {
                Some(behind) => rest = behind,
                None => return Ok(values),
            }
        }
    }

    /// Splits off a value at the next delimiter; the rest is `None` at the end of the line.
    fn plain<'a>(&self, rest: &'a str, arena: &'a Bump) -> (&'a str, Option<&'a str>) {
        let end = memchr::memchr(self.spec.delimiter, rest.as_bytes());
        let value = end.map_or(rest, |end| &rest[..end]);
        let value = if self.spec.is_quoted { value } else { unescaped(value, arena) };
        (value, end.map(|end| &rest[end + 1..]))
    }

    fn quoted<'a>(
        &self,
        quoted: &'a str,
        start: usize,
        arena: &'a Bump,
    ) -> Result<(&'a str, Option<&'a str>), LineFault> {
        let bytes = quoted.as_bytes();
        let (mut at, mut is_doubled) = (0, false);
        loop {
            let Some(found) = memchr::memchr(b'"', &bytes[at..]) else {
                let detail = format!("the quote at byte {} has no end in this line", start - 1);
                return Err(LineFault::no_match(detail));
            };
            at += found + 1;
            match bytes.get(at) {
                Some(b'"') => (at, is_doubled) = (at + 1, true),
                Some(next) if *next == self.spec.delimiter => break,
                None => break,
                Some(_) => {
                    let detail = format!("text behind the quote's end at byte {}", start + at);
                    return Err(LineFault::no_match(detail));
                }
            }
        }
        let value = &quoted[..at - 1];
        let value = if is_doubled { arena.alloc_str(&value.replace("\"\"", "\"")) } else { value };
        Ok((value, quoted.get(at + 1..).filter(|_| at < bytes.len())))
    }
}

fn unescaped<'a>(value: &'a str, arena: &'a Bump) -> &'a str {
    if memchr::memchr(b'\\', value.as_bytes()).is_none() {
        return value;
    }
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('\\') => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    arena.alloc_str(&out)
}
