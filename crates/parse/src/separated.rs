//! Values between separators: CSV (RFC 4180), TSV, and the like, with columns named by the user or by the first line.
//!
//! A quoted value that goes on in the next line cannot be read, because a line is the unit here; it is rejected. The
//! header itself is a line too, and is kept as a `log` row. W3C extended logs are the same with lines of `#` between, of
//! which `#Fields:` names the values (<https://www.w3.org/TR/WD-logfile.html>).

use bumpalo::Bump;

use crate::field::{self, Field};
use crate::record::{Fault, Kind, Record};

/// Values that one line may have.
const MAX_VALUES: usize = 1_000;

/// How values are separated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Separated {
    pub(crate) delimiter: u8,
    /// `"` around values, doubled inside. Without it `\t`, `\n` and `\\` are escapes, as in TSV files.
    pub(crate) is_quoted: bool,
    /// Lines of `#` are remarks, date and clock are two values.
    pub(crate) is_w3c: bool,
    /// Empty when the first line names them.
    pub(crate) columns: Vec<String>,
}

/// What IIS writes when nobody chose.
const W3C_COLUMNS: &str = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) \
     cs(Referer) sc-status sc-substatus sc-win32-status time-taken";

impl Separated {
    /// W3C extended logs.
    pub(crate) fn w3c() -> Self {
        let columns = W3C_COLUMNS.split_whitespace().map(str::to_owned).collect();
        Self { delimiter: b' ', is_quoted: false, is_w3c: true, columns }
    }
}

/// Reads the lines of one stream.
pub(crate) struct SeparatedReader {
    spec: Separated,
    columns: Vec<String>,
}

impl SeparatedReader {
    /// A reader that knows the names when the user gave them.
    pub(crate) fn new(spec: &Separated) -> Self {
        Self { spec: spec.clone(), columns: spec.columns.clone() }
    }

    /// Whether names come from the first line and it was not seen yet.
    pub(crate) fn needs_header(&self) -> bool {
        self.columns.is_empty()
    }

    /// Takes the first line of the file.
    pub(crate) fn set_header(&mut self, line: &str) {
        let arena = Bump::new();
        if let Ok(values) = self.split(line.trim_end(), &arena) {
            self.columns = values.iter().map(|name| name.trim().to_owned()).collect();
        }
    }

    /// The names, copied to where the rows of a chunk borrow from.
    pub(crate) fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names: Vec<&'a str> = self.columns.iter().map(|name| &*arena.alloc_str(name)).collect();
        arena.alloc_slice_copy(&names)
    }

    /// Reads a line.
    pub(crate) fn parse<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<Kind, Fault> {
        if self.spec.is_w3c && line.starts_with('#') {
            if let Some(names) = line.strip_prefix("#Fields:") {
                self.columns = names.split_whitespace().map(str::to_owned).collect();
                record.names = self.names(record.arena);
            }
            record.log.body = line;
            return Ok(Kind::Log);
        }
        let values = self.split(line, record.arena)?;
        if self.columns.is_empty() && self.spec.columns.is_empty() {
            self.set_header(line);
            record.names = self.names(record.arena);
            record.log.body = line;
            return Ok(Kind::Log);
        }
        if values.iter().eq(self.columns.iter()) {
            record.log.body = line;
            return Ok(Kind::Log);
        }
        if values.len() != self.columns.len() {
            return Err(Fault::no_match(format!(
                "{} values, but {} columns",
                values.len(),
                self.columns.len()
            )));
        }
        let names = record.names;
        if self.spec.is_w3c {
            let value = |name: &str| names.iter().position(|n| *n == name).map(|at| values[at]);
            if let (Some(date), Some(clock)) = (value("date"), value("time")) {
                let moment = record.arena.alloc_str(&format!("{date} {clock}"));
                record.put("timestamp", moment, Field::Time);
            }
        }
        for (name, value) in names.iter().zip(values) {
            if !(self.spec.is_w3c && matches!(*name, "date" | "time")) {
                record.put(name, value, field::of_capture(name));
            }
        }
        Ok(record.guess_kind())
    }

    fn split<'a>(&self, line: &'a str, arena: &'a Bump) -> Result<Vec<&'a str>, Fault> {
        let mut values = Vec::with_capacity(self.columns.len());
        let mut rest = line;
        loop {
            let (value, behind) = match rest.strip_prefix('"').filter(|_| self.spec.is_quoted) {
                Some(quoted) => self.quoted(quoted, line.len() - quoted.len(), arena)?,
                None => self.plain(rest, arena),
            };
            if values.len() == MAX_VALUES {
                return Err(Fault::no_match(format!("more than {MAX_VALUES} values")));
            }
            values.push(value);
            match behind {
                Some(behind) => rest = behind,
                None => return Ok(values),
            }
        }
    }

    /// A value up to the next delimiter, and what is behind it; `None` at the line's end.
    fn plain<'a>(&self, rest: &'a str, arena: &'a Bump) -> (&'a str, Option<&'a str>) {
        let end = memchr::memchr(self.spec.delimiter, rest.as_bytes());
        let value = end.map_or(rest, |end| &rest[..end]);
        let is_escaped = !self.spec.is_quoted && !self.spec.is_w3c;
        let value = if is_escaped { unescaped(value, arena) } else { value };
        (value, end.map(|end| &rest[end + 1..]))
    }

    fn quoted<'a>(
        &self,
        quoted: &'a str,
        start: usize,
        arena: &'a Bump,
    ) -> Result<(&'a str, Option<&'a str>), Fault> {
        let bytes = quoted.as_bytes();
        let (mut at, mut is_doubled) = (0, false);
        loop {
            let Some(found) = memchr::memchr(b'"', &bytes[at..]) else {
                let detail = format!("the quote at byte {} has no end in this line", start - 1);
                return Err(Fault::no_match(detail));
            };
            at += found + 1;
            match bytes.get(at) {
                Some(b'"') => (at, is_doubled) = (at + 1, true),
                Some(next) if *next == self.spec.delimiter => break,
                None => break,
                Some(_) => {
                    let detail = format!("text behind the quote's end at byte {}", start + at);
                    return Err(Fault::no_match(detail));
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
