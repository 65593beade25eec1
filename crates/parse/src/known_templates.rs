//! Access lines in text of programs whose format no configuration on the host shows: frameworks of
//! applications, content networks, servers in containers.
//!
//! Programs, formats and their sources are in `parsers/access/text.toml`. The surprising thing: prose
//! has the same marks, so a line is one of them only if its numbers, times and addresses are such.

use std::sync::LazyLock;

use memchr::memmem;
use regex::Regex;
use weir_tables::JsonEscape;
use weir_values::{number, peer_address};

use crate::bare_access::METHODS;
use crate::field::{self, Field};
use crate::known::KnownEntry;
use crate::nginx_template;
use crate::record::Record;
use crate::template::Template;
use crate::text;

static KNOWN: LazyLock<KnownFormats> = LazyLock::new(|| {
    KnownFormats::new(KnownEntry::all(include_str!("../../../parsers/access/text.toml")))
});

/// All formats, and one search for the marks of all.
struct KnownFormats {
    marks: Regex,
    formats: Vec<KnownFormat>,
}

/// The formats of one program.
struct KnownFormat {
    program: String,
    tier: String,
    marks: Vec<String>,
    templates: Vec<Template>,
}

impl KnownFormats {
    fn new(entries: Vec<KnownEntry>) -> Self {
        let formats: Vec<_> = entries.into_iter().map(KnownFormat::new).collect();
        let marks = formats.iter().flat_map(|format| &format.marks).map(|mark| regex::escape(mark));
        let marks = marks.collect::<Vec<_>>().join("|");
        Self { marks: Regex::new(&marks).expect("escaped texts are a pattern"), formats }
    }
}

impl KnownFormat {
    fn new(mut entry: KnownEntry) -> Self {
        let templates = entry.take("templates").into_iter().map(|template| {
            nginx_template::text_with(&template, JsonEscape::Default, field::of_column)
        });
        Self {
            templates: templates.collect(),
            program: entry.take_text("program"),
            tier: entry.take_text("tier"),
            marks: entry.take("marks"),
        }
    }

    fn has_mark(&self, line: &str) -> bool {
        let mut marks = self.marks.iter();
        marks.any(|mark| memmem::find(line.as_bytes(), mark.as_bytes()).is_some())
    }

    fn parse<'a>(&'static self, line: &'a str, record: &mut Record<'a>) -> Option<()> {
        self.templates.iter().find(|template| {
            record.clear_texts();
            record.names = template.names(record.arena);
            template.parse(line, record).is_ok() && put_trimmed(record).is_some()
        })?;
        if !self.program.is_empty() {
            record.put(["program", &self.program], Field::Program);
        }
        record.request.tier = &self.tier;
        Some(())
    }
}

/// Reads a line; `None`, with the record empty, if it is in none of these formats.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    if !KNOWN.marks.is_match(line) {
        return None;
    }
    let names = record.names;
    let line = line.trim_ascii();
    let mut formats = KNOWN.formats.iter().filter(|format| format.has_mark(line));
    let found = formats.find_map(|format| format.parse(line, record));
    record.names = names;
    if found.is_none() {
        record.clear_texts();
    }
    found
}

/// Removes the blanks around the values; `None` if one does not fit its column.
fn put_trimmed(record: &mut Record<'_>) -> Option<()> {
    let texts = record.take_texts();
    for (key, value, field) in texts.iter() {
        let value = value.trim_ascii();
        let is_method = || METHODS.contains(&text::word(value).0);
        let fits = match field {
            Field::Status => value.len() == 3 && number::integer(value).is_some(),
            Field::Method | Field::RequestLine => is_method(),
            Field::ClientAddress => peer_address::is_peer(value),
            Field::Time | Field::TimeOtherwise => record.times.read(value).is_some(),
            Field::DurationText => number::span_seconds(value).is_some(),
            Field::DurationMillis | Field::DurationSeconds => number::float(value).is_some(),
            _ => true,
        };
        fits.then(|| record.put([key, value], field))?;
    }
    Some(())
}
