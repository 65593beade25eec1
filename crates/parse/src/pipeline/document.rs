//! Reads a user's TOML file key by key: unknown keys and wrong types are refused with their line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{ParserFile, ParserProblem, did_you_mean, line_of};

/// Largest file.
const MAX_FILE_BYTES: usize = 256 << 10;

/// A table of the file, with its position for messages.
#[derive(Clone, Copy)]
pub(crate) struct Section<'t> {
    text: &'t str,
    origin: &'t str,
    /// For messages: `[parse]`, `[[step]]`.
    name: &'t str,
    start: usize,
    table: &'t DeTable<'t>,
}

/// Parses the file and passes its root to `read`.
pub(crate) fn read<T>(
    file: ParserFile<'_>,
    read: impl FnOnce(Section<'_>) -> Result<T, ParserProblem>,
) -> Result<T, ParserProblem> {
    let ParserFile { origin, text } = file;
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the file is larger than {MAX_FILE_BYTES} bytes");
        return Err(ParserProblem::new(message, "split it").at(origin, 1));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        ParserProblem::new(error.message(), "the file is TOML: [section], then key = value")
            .at(origin, line)
    })?;
    read(Section { text, origin, name: "the file", start: 0, table: table.get_ref() })
}

impl<'t> Section<'t> {
    /// Refuses keys that are not among `known`.
    pub(crate) fn allow(&self, known: &[&str]) -> Result<(), ParserProblem> {
        for name in self.table.keys() {
            if !known.contains(&name.get_ref().as_ref()) {
                let hint = did_you_mean(
                    name.get_ref(),
                    known.iter().copied(),
                    &format!("{} knows {}", self.name, known.join(", ")),
                );
                let message = format!("unknown key `{}` in {}", name.get_ref(), self.name);
                return Err(
                    ParserProblem::new(message, hint).at(self.origin, self.line(name.span().start))
                );
            }
        }
        Ok(())
    }

    fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Points a problem at a key or, without one, at the section.
    pub(crate) fn place(&self, key: &str, problem: ParserProblem) -> ParserProblem {
        let start = self.value(key).map_or(self.start, |value| value.span().start);
        problem.at(self.origin, self.line(start))
    }

    pub(crate) fn problem(
        &self,
        key: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ParserProblem {
        self.place(key, ParserProblem::new(message, hint))
    }

    fn wrong_type(&self, key: &str, wanted: ValueType) -> ParserProblem {
        self.problem(key, format!("`{key}` must be {}", wanted.0), "")
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'t str>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(text)),
            _ => Err(self.wrong_type(key, ValueType("a text"))),
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value
            .get_ref()
            .as_bool()
            .map(Some)
            .ok_or_else(|| self.wrong_type(key, ValueType("true or false")))
    }

    /// A list of texts; a single text is a list of one.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&'t str>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        match value.get_ref() {
            DeValue::String(text) => Ok(vec![text]),
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| item.get_ref().as_str());
                texts
                    .collect::<Option<_>>()
                    .ok_or_else(|| self.wrong_type(key, ValueType("a list of texts")))
            }
            _ => Err(self.wrong_type(key, ValueType("a text or a list of texts"))),
        }
    }

    /// Names with texts: `{ a = "b" }`; numbers and flags count as their text.
    pub(crate) fn pairs(&self, key: &str) -> Result<Vec<(&'t str, String)>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong_type(key, ValueType("names with texts, such as { a = \"b\" }")));
        };
        let pairs = table.iter().map(|(name, value)| {
            let name: &'t toml::de::DeString<'t> = name.get_ref();
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                DeValue::Boolean(flag) => flag.to_string(),
                _ => {
                    return Err(
                        self.wrong_type(key, ValueType("names with texts, such as { a = \"b\" }"))
                    );
                }
            };
            Ok((name.as_ref(), text))
        });
        pairs.collect()
    }

    /// A subsection.
    pub(crate) fn section(&self, key: SectionKey) -> Result<Option<Section<'t>>, ParserProblem> {
        let Some(value) = self.value(key.key) else { return Ok(None) };
        let table = value
            .get_ref()
            .as_table()
            .ok_or_else(|| self.wrong_type(key.key, ValueType("a section")))?;
        Ok(Some(Section { name: key.written, start: value.span().start, table, ..*self }))
    }

    /// Subsections that can occur more than once: `[[step]]`.
    pub(crate) fn sections(&self, key: SectionKey) -> Result<Vec<Section<'t>>, ParserProblem> {
        let Some(value) = self.value(key.key) else { return Ok(Vec::new()) };
        let Some(items) = value.get_ref().as_array() else { return Err(self.not_sections(key)) };
        let sections = items.iter().map(|item| {
            let table = item.get_ref().as_table().ok_or_else(|| self.not_sections(key))?;
            Ok(Section { name: key.written, start: item.span().start, table, ..*self })
        });
        sections.collect()
    }

    fn not_sections(&self, key: SectionKey) -> ParserProblem {
        let SectionKey { key, written } = key;
        self.problem(key, format!("`{key}` must be sections {written}"), "")
    }
}

/// The key of a section, and how it is written: `step`, `[[step]]`.
#[derive(Clone, Copy)]
pub(crate) struct SectionKey {
    pub(crate) key: &'static str,
    pub(crate) written: &'static str,
}

/// The type that a value must have, for messages.
struct ValueType(&'static str);
