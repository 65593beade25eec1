//! Named expressions (`NAME expression`, one per line): built-in ones, overridden by the user's.

use std::collections::BTreeMap;

use crate::problem::{ParserFile, ParserProblem};

macro_rules! pattern_files {
    ($($file:literal,)+) => {
        /// Name and text of each file.
        const BUILT_IN: &[(&str, &str)] = &[$((
            concat!("parsers/patterns/", $file),
            include_str!(concat!("../../../../parsers/patterns/", $file)),
        )),+];
    };
}

pattern_files! { "core.grok", "time.grok", "syslog.grok", "web.grok", "app.grok", }

/// Named expressions.
#[derive(Clone, Debug)]
pub(crate) struct PatternLibrary {
    expressions: BTreeMap<String, String>,
}

impl PatternLibrary {
    /// The built-in names.
    pub(crate) fn built_in() -> Self {
        let mut library = Self { expressions: BTreeMap::new() };
        for (origin, text) in BUILT_IN {
            library
                .add_file(ParserFile { origin, text })
                .expect("a test reads every built-in file");
        }
        library
    }

    /// Adds the names of a file; a name that is known already gets the new meaning.
    pub(crate) fn add_file(&mut self, file: ParserFile<'_>) -> Result<(), ParserProblem> {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let added = match line.split_once(char::is_whitespace) {
                Some((name, expression)) => self.add((name, expression.trim())),
                None => Err(ParserProblem::new(
                    format!("`{line}` has a name and no expression"),
                    "write `NAME expression`, one per line",
                )),
            };
            added.map_err(|problem| problem.at(file.origin, index + 1))?;
        }
        Ok(())
    }

    /// Adds a name with its expression.
    pub(crate) fn add(&mut self, (name, expression): (&str, &str)) -> Result<(), ParserProblem> {
        let is_name = (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(ParserProblem::new(
                format!("`{name}` cannot be the name of a pattern"),
                "letters, digits and `_`, at most 64",
            ));
        }
        self.expressions.insert(name.to_owned(), expression.to_owned());
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.expressions.get(name).map(String::as_str)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.expressions.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_file_is_read_and_every_name_compiles() {
        let mut library = PatternLibrary { expressions: BTreeMap::new() };
        for (origin, text) in BUILT_IN {
            library.add_file(ParserFile { origin, text }).unwrap();
        }
        for name in library.names() {
            let grok = crate::grok::Pattern::grok(&library, &format!("%{{{name}}}"));
            assert!(grok.is_ok(), "{name}: {}", grok.unwrap_err().message);
        }
        assert!(library.names().count() > 100);
    }

    #[test]
    fn lines_that_are_not_patterns_are_refused() {
        let mut library = PatternLibrary::built_in();
        let file = ParserFile { origin: "my.grok", text: "# mine\n\nALONE\n" };
        assert_eq!(
            library.add_file(file).unwrap_err().to_string(),
            "cannot use my.grok:3: `ALONE` has a name and no expression\nhint: write `NAME expression`, one per line"
        );
        let file = ParserFile { text: "A-B x", ..file };
        assert!(library.add_file(file).unwrap_err().message.contains("cannot be the name"));
    }
}
