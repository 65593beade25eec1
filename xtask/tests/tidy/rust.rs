//! Rust sources: headers, lengths, words that must not stay.
//!
//! rustfmt has run before, so a function ends at the first line that is a brace at the indentation of its `fn`.

use std::collections::BTreeMap;

use crate::{files, no_breach};

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 700;
const CRATE_LINES_MAX: usize = 20_000;

/// Split, so that this list does not find itself.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("FIX", "ME"), "fix it now, or open an issue"),
    (concat!("XX", "X"), "fix it now, or open an issue"),
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "finish it"),
    (concat!("#[ign", "ore"), "a test that does not run is none"),
];

pub(crate) fn sources() -> Vec<(String, String)> {
    files().into_iter().filter(|(path, _)| path.ends_with(".rs")).collect()
}

/// The part of a file that is not its unit tests.
fn without_tests(source: &str) -> &str {
    source.split_once("#[cfg(test)]\nmod tests {").map_or(source, |(before, _)| before)
}

/// Sources without their unit tests; integration tests and modules that only tests have are left out.
pub(crate) fn shipped() -> Vec<(String, String)> {
    let mut sources = sources();
    let declared = |source: &str| -> Vec<String> {
        let names =
            source.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
        names.map(|(name, _)| format!("/{name}.rs")).filter(|name| !name.contains(' ')).collect()
    };
    let for_tests: Vec<String> = sources.iter().flat_map(|(_, source)| declared(source)).collect();
    sources.retain(|(path, _)| {
        !path.contains("/tests/") && !for_tests.iter().any(|name| path.ends_with(name))
    });
    sources.iter_mut().for_each(|(_, source)| source.truncate(without_tests(source).len()));
    sources
}

/// A word that is no part of a longer one.
struct WholeWord<'a>(&'a str);

impl WholeWord<'_> {
    fn is_in(&self, line: &str) -> bool {
        let is_edge =
            |neighbour: Option<char>| neighbour.is_none_or(|letter| !letter.is_alphanumeric());
        line.match_indices(self.0).any(|(at, word)| {
            is_edge(line[..at].chars().next_back())
                && (word.ends_with('(') || is_edge(line[at + word.len()..].chars().next()))
        })
    }
}

#[test]
fn every_file_opens_with_a_header() {
    let without = sources().into_iter().filter(|(_, source)| !source.starts_with("//!"));
    no_breach(
        &without
            .map(|(path, _)| format!("{path}:1: open with `//!`: one sentence what"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn files_are_short() {
    let mut breaches = Vec::new();
    for (path, source) in shipped() {
        let count = source.lines().count();
        if count > FILE_LINES_MAX {
            breaches.push(format!(
                "{path}: {count} lines without tests, over {FILE_LINES_MAX}; split it"
            ));
        }
    }
    no_breach(&breaches);
}

#[test]
fn functions_are_short() {
    let mut breaches = Vec::new();
    for (path, source) in shipped() {
        for (line, length) in functions(&source).filter(|(_, length)| *length > FUNCTION_LINES_MAX)
        {
            breaches.push(format!(
                "{path}:{line}: a function of {length} lines, over {FUNCTION_LINES_MAX}; split it"
            ));
        }
    }
    no_breach(&breaches);
}

/// Line number and length of each function that has a body over several lines.
fn functions(source: &str) -> impl Iterator<Item = (usize, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    (0..lines.len()).filter_map(move |start| {
        let line = lines[start];
        let indent = line.len() - line.trim_start().len();
        let is_function = is_function(line.trim_start());
        let end = lines[start..].iter().position(|other| {
            let same_indent = other.len() - other.trim_start().len() == indent;
            same_indent
                && (other.trim_start().starts_with('}')
                    || other.ends_with("{}")
                    || other.ends_with(';'))
        });
        end.filter(|_| is_function).map(|end| (start + 1, end + 1))
    })
}

fn is_function(line: &str) -> bool {
    let words =
        ["pub ", "pub(crate) ", "pub(super) ", "const ", "async ", "unsafe ", "extern \"C\" "];
    let mut rest = line;
    while let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    rest.starts_with("fn ")
}

#[test]
fn unfinished_words_do_not_stay() {
    let mut breaches = Vec::new();
    for (path, source) in sources() {
        for (number, line) in source.lines().enumerate() {
            for (_, instead) in FORBIDDEN.iter().filter(|(word, _)| WholeWord(word).is_in(line)) {
                breaches.push(format!("{path}:{}: {}; {instead}", number + 1, line.trim()));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn unwrap_is_for_tests() {
    let mut breaches = Vec::new();
    for (path, source) in shipped() {
        for (number, line) in source.lines().enumerate() {
            if line.contains(concat!(".unwrap", "()")) && !line.trim_start().starts_with("//") {
                breaches.push(format!(
                    "{path}:{}: state the invariant with expect(), or return the error",
                    number + 1
                ));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn words_are_found_whole() {
    assert!(WholeWord(FORBIDDEN[0].0).is_in(concat!("// FIX", "ME: later")));
    assert!(WholeWord(FORBIDDEN[2].0).is_in(concat!("    todo", "!()")));
    assert!(!WholeWord(FORBIDDEN[1].0).is_in(concat!("an escape \\uXX", "XX")));
}

#[test]
fn function_lengths_are_measured() {
    let source = "fn one() {}\nimpl X {\n    pub(crate) async fn two() {\n        body;\n    }\n}\nfn three(\n    a: u8,\n) {\n    if a {\n    }\n}\n";
    assert_eq!(functions(source).collect::<Vec<_>>(), [(1, 1), (3, 3), (7, 6)]);
}

#[test]
fn crates_are_small() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for (path, source) in sources() {
        let mut parts = path.split('/');
        if let (Some("crates"), Some(name)) = (parts.next(), parts.next()) {
            *lines.entry(name.to_owned()).or_default() += source.lines().count();
        }
    }
    let large = lines.iter().filter(|(_, count)| **count > CRATE_LINES_MAX);
    no_breach(
        &large
            .map(|(name, count)| {
                format!("crates/{name}: {count} lines with tests, over {CRATE_LINES_MAX}; split it")
            })
            .collect::<Vec<_>>(),
    );
}
