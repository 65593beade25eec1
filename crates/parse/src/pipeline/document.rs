//! A TOML file of a user, read key by key: unknown keys and wrong kinds are refused with their line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{ParserProblem, did_you_mean, line_of};

/// Larger files are refused.
const MAX_FILE_BYTES: usize = 256 << 10;

/// A table of the file, with what is needed to point into it.
#[derive(Clone, Copy)]
pub(super) struct Section<'t> {
    text: &'t str,
    origin: &'t str,
    /// For messages: `[parse]`, `[[step]]`.
    name: &'t str,
    start: usize,
    table: &'t DeTable<'t>,
}

/// Parses the file; `read` walks through it.
pub(super) fn read<T>(
    origin: &str,
    text: &str,
    read: impl FnOnce(Section<'_>) -> Result<T, ParserProblem>,
) -> Result<T, ParserProblem> {
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
    pub(super) fn allow(&self, known: &[&str]) -> Result<(), ParserProblem> {
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

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The problem, pointing at a key or, without it, at the section.
    pub(super) fn place(&self, key: &str, problem: ParserProblem) -> ParserProblem {
        let start = self.value(key).map_or(self.start, |value| value.span().start);
        problem.at(self.origin, self.line(start))
    }

    pub(super) fn problem(
        &self,
        key: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ParserProblem {
        self.place(key, ParserProblem::new(message, hint))
    }

    fn wrong_kind(&self, key: &str, kind: &str) -> ParserProblem {
        self.problem(key, format!("`{key}` must be {kind}"), "")
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'t str>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(text)),
            _ => Err(self.wrong_kind(key, "a text")),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.get_ref().as_bool().map(Some).ok_or_else(|| self.wrong_kind(key, "true or false"))
    }

    /// A list of texts; one text is a list of one.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<&'t str>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        match value.get_ref() {
            DeValue::String(text) => Ok(vec![text]),
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| item.get_ref().as_str());
                texts.collect::<Option<_>>().ok_or_else(|| self.wrong_kind(key, "a list of texts"))
            }
            _ => Err(self.wrong_kind(key, "a text or a list of texts")),
        }
    }

    /// Names with texts: `{ a = "b" }`; numbers and flags count as their text.
    pub(super) fn pairs(&self, key: &str) -> Result<Vec<(&'t str, String)>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong_kind(key, "names with texts, such as { a = \"b\" }"));
        };
        let pair = |(name, value): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
            let name: &'t toml::de::DeString<'t> = name.get_ref();
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                DeValue::Boolean(flag) => flag.to_string(),
                _ => return Err(self.wrong_kind(key, "names with texts, such as { a = \"b\" }")),
            };
            Ok((name.as_ref(), text))
        };
        table.iter().map(pair).collect()
    }

    /// A section below this one.
    pub(super) fn section(
        &self,
        key: &str,
        name: &'t str,
    ) -> Result<Option<Section<'t>>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let table = value.get_ref().as_table().ok_or_else(|| self.wrong_kind(key, "a section"))?;
        Ok(Some(Section { name, start: value.span().start, table, ..*self }))
    }

    /// Sections that may stand more than once: `[[step]]`.
    pub(super) fn sections(
        &self,
        key: &str,
        name: &'t str,
    ) -> Result<Vec<Section<'t>>, ParserProblem> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = || self.wrong_kind(key, &format!("sections {name}"));
        let items = value.get_ref().as_array().ok_or_else(wrong)?;
        let section = |item: &'t Spanned<DeValue<'t>>| {
            let table = item.get_ref().as_table().ok_or_else(wrong)?;
            Ok(Section { name, start: item.span().start, table, ..*self })
        };
        items.iter().map(section).collect()
    }
}
