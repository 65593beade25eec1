//! JSON as the text of a `log_format` or `LogFormat`: what each key means.

use std::collections::HashMap;

use crate::field::{self, Field};
use crate::json_lines::JsonLines;

/// A reader of the lines of a JSON format; `meaning` is that of a value's text.
pub(crate) fn lines(template: &str, meaning: fn(&str) -> Field) -> JsonLines {
    let fields = fields(template, meaning);
    JsonLines::new(move |key| fields.get(key).copied().unwrap_or_else(|| field::of_key(key)))
}

/// The meaning of each key; keys of nested objects are dotted.
pub(crate) fn fields(template: &str, meaning: fn(&str) -> Field) -> HashMap<String, Field> {
    let mut fields = HashMap::new();
    let mut path: Vec<String> = Vec::new();
    let mut key = None;
    let mut rest = template;
    while let Some(mark) = rest.chars().next() {
        let is_word =
            !matches!(mark, '{' | '}' | '[' | ']' | ',' | ':' | '"') && !mark.is_whitespace();
        let (word, length) = match mark {
            '"' => quoted(rest),
            _ if is_word => bare(rest),
            _ => (rest, mark.len_utf8()),
        };
        match mark {
            '{' => path.extend(key.take()),
            '}' => drop(path.pop()),
            ',' => key = None,
            '"' if key.is_none() => key = Some(word.to_owned()),
            _ if mark == '"' || is_word => {
                if let Some(key) = key.take() {
                    fields.insert(dotted(&path, &key), meaning(word));
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    fields
}

/// A value without quotes (`$status`, `%{ms}T`), and its length.
fn bare(rest: &str) -> (&str, usize) {
    let mut depth = 0;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' | b']' | b',' => return (rest[..at].trim_ascii_end(), at),
            _ => {}
        }
    }
    (rest.trim_ascii_end(), rest.len())
}

/// The text between quotes, and its length including them.
fn quoted(rest: &str) -> (&str, usize) {
    let inner = &rest[1..];
    let mut is_escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        if byte == b'"' && !is_escaped {
            return (&inner[..at], at + 2);
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    (inner, rest.len())
}

fn dotted(path: &[String], key: &str) -> String {
    path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".")
}
