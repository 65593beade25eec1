//! Named expressions (`NAME expression`, one a line): those that are built in, and those of users laid over them.

use std::collections::BTreeMap;

use crate::problem::ParserProblem;

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
pub(crate) struct Library {
    expressions: BTreeMap<String, String>,
}

impl Library {
    /// The built-in names.
    pub(crate) fn built_in() -> Self {
        let mut library = Self { expressions: BTreeMap::new() };
        for (origin, text) in BUILT_IN {
            library.add_file(origin, text).expect("the built-in files are read by a test");
        }
        library
    }

    /// Adds the names of a file; a name that is known already gets the new meaning.
    pub(crate) fn add_file(&mut self, origin: &str, text: &str) -> Result<(), ParserProblem> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = |problem: ParserProblem| problem.at(origin, index + 1);
            let Some((name, expression)) = line.split_once(char::is_whitespace) else {
                return Err(place(ParserProblem::new(
                    format!("`{line}` has a name and no expression"),
                    "write `NAME expression`, one a line",
                )));
            };
            self.add(name, expression.trim()).map_err(place)?;
        }
        Ok(())
    }

    /// Adds one name.
    pub(crate) fn add(&mut self, name: &str, expression: &str) -> Result<(), ParserProblem> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
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
        let mut library = Library { expressions: BTreeMap::new() };
        for (origin, text) in BUILT_IN {
            library.add_file(origin, text).unwrap();
        }
        for name in library.names() {
            let grok = crate::grok::Pattern::grok(&library, &format!("%{{{name}}}"));
            assert!(grok.is_ok(), "{name}: {}", grok.unwrap_err().message);
        }
        assert!(library.names().count() > 100);
    }

    #[test]
    fn lines_that_are_no_patterns_are_refused() {
        let mut library = Library::built_in();
        let refused = |result: Result<(), ParserProblem>| result.unwrap_err().to_string();
        assert_eq!(
            refused(library.add_file("my.grok", "# mine\n\nALONE\n")),
            "cannot use my.grok:3: `ALONE` has a name and no expression\nhint: write `NAME expression`, one a line"
        );
        assert!(refused(library.add_file("my.grok", "A-B x")).contains("cannot be the name"));
    }
}
