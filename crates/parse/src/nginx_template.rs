//! nginx's `log_format` (ngx_http_log_module): its text to a matcher of lines.
//!
//! A text that begins with `{` describes JSON: there the lines are read as JSON and the text only tells what each
//! key means, since a hand-made format is often not quite JSON and lines of an older format may stand in the file.

use std::collections::HashMap;

use crate::field::{self, Field};
use crate::json_lines::JsonLines;
use crate::template::{Inside, Part, Template};

/// A piece of the format text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Cuts `$name` and `${name}` out of a text.
fn tokens(template: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = template;
    while let Some(dollar) = rest.find('$') {
        let (before, behind) = rest.split_at(dollar);
        if !before.is_empty() {
            tokens.push(Token::Text(before));
        }
        let (name, length) = variable(&behind[1..]);
        if name.is_empty() {
            tokens.push(Token::Text("$"));
        } else {
            tokens.push(Token::Variable(name));
        }
        rest = &behind[1 + length..];
    }
    if !rest.is_empty() {
        tokens.push(Token::Text(rest));
    }
    tokens
}

/// The variable's name at the front, and the bytes it takes.
fn variable(text: &str) -> (&str, usize) {
    if let Some((name, _)) = text.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
        return (name, name.len() + 2);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    (&text[..length], length)
}

/// The matcher of a text format.
pub(crate) fn text(template: &str) -> Template {
    let parts = tokens(template).into_iter().map(|token| match token {
        Token::Text(text) => Part::Literal(text.to_owned()),
        Token::Variable(name) => Part::Value {
            name: name.to_owned(),
            field: field::of_nginx(name),
            inside: inside(name),
        },
    });
    Template::new(parts.collect())
}

fn inside(variable: &str) -> Inside {
    match variable {
        "time_local" => Inside::ZoneSpace,
        _ if variable.starts_with("upstream_") => Inside::List,
        _ => Inside::Nothing,
    }
}

/// The reader of a JSON format.
pub(crate) fn json(template: &str) -> JsonLines {
    let fields = json_fields(template);
    JsonLines::new(move |key| fields.get(key).copied().unwrap_or_else(|| field::of_key(key)))
}

/// What each key of a JSON format means; a value made of more than one variable is an attribute.
fn json_fields(template: &str) -> HashMap<String, Field> {
    let mut fields = HashMap::new();
    let mut path: Vec<String> = Vec::new();
    let mut key = None;
    let mut rest = template;
    while let Some(mark) = rest.chars().next() {
        let is_word =
            !matches!(mark, '{' | '}' | '[' | ']' | ',' | ':' | '"') && !mark.is_whitespace();
        let (word, length) = match mark {
            '"' => quoted(rest),
            '$' => (rest, 1 + variable(&rest[1..]).1),
            _ => (rest, mark.len_utf8()),
        };
        let word = if mark == '"' { word } else { &word[..length] };
        match mark {
            '{' => path.extend(key.take()),
            '}' => drop(path.pop()),
            ',' => key = None,
            '"' if key.is_none() => key = Some(word.to_owned()),
            _ if mark == '"' || is_word => {
                if let Some(key) = key.take() {
                    fields.insert(dotted(&path, &key), value_field(word));
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    fields
}

/// The text between quotes, and the bytes it takes with them.
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

fn value_field(value: &str) -> Field {
    match tokens(value).as_slice() {
        [Token::Variable(name)] => field::of_nginx(name),
        [Token::Variable("uri"), Token::Variable("is_args"), Token::Variable("args")] => {
            Field::Target
        }
        _ => Field::Attr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_format, nginx};
    use expect_test::expect;

    #[test]
    fn variables_are_cut_out_of_a_text() {
        use Token::{Text, Variable};
        assert_eq!(
            tokens("a${b}c $d_1-$"),
            [Text("a"), Variable("b"), Text("c "), Variable("d_1"), Text("-"), Text("$")]
        );
    }

    #[test]
    fn keys_of_a_json_format_get_the_meaning_of_their_variable() {
        let fields = json_fields(
            r#"{ "rt":"$request_time", "st": $status, "u":{"addr":"$upstream_addr"},
                "where":"$scheme://$host", "v":"1" }"#,
        );
        let get = |key: &str| fields.get(key).copied();
        assert_eq!(get("rt"), Some(Field::DurationSeconds));
        assert_eq!(get("st"), Some(Field::Status));
        assert_eq!(get("u.addr"), Some(Field::UpstreamAddress));
        assert_eq!((get("where"), get("v")), (Some(Field::Attr), Some(Field::Attr)));
        assert_eq!(fields.len(), 5);
    }
}
