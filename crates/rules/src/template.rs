//! Templates with `{column}`: renders the values of a row into a text.
//!
//! `{x}` plain, `{x:.1}` with one digit, `{x:%}` a ratio as per cent, `{x:bytes}`, `{x:duration}`
//! (seconds), `{x:sh}` one word of a shell line to paste. A brace without a column's name after it
//! is kept, so nginx configuration needs no escapes.

use std::fmt::Write as _;

use weir_tables::sql_literal;

use crate::{Cell, Row};

/// The text with every `{column}` replaced; NULL becomes `unknown`, a column that the row lacks
/// stays as it is.
pub(crate) fn render(text: &str, row: &Row) -> String {
    expand(text, |name, format| row.get(name).map(|cell| show(cell, format)))
}

/// Renders SQL: texts become quoted literals, so a value can never end the literal.
pub(crate) fn render_sql(text: &str, row: &Row) -> String {
    expand(text, |name, _| {
        row.get(name).map(|cell| match cell {
            Cell::Null => "null".to_owned(),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Int(number) => number.to_string(),
            Cell::Float(number) if number.is_finite() => number.to_string(),
            Cell::Float(_) => "null".to_owned(),
            Cell::Time(at) => format!("timestamp '{at}'"),
            Cell::Text(text) => sql_literal(text),
        })
    })
}

/// Column names in a template.
pub(crate) fn columns(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    expand(text, |name, _| {
        names.push(name.to_owned());
        None
    });
    names
}

fn expand(text: &str, mut value: impl FnMut(&str, &str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let inside = &rest[open + 1..];
        let replaced = inside.find('}').and_then(|close| {
            let (name, format) = inside[..close].split_once(':').unwrap_or((&inside[..close], ""));
            let text = is_name(name).then(|| value(name, format))??;
            Some((text, close))
        });
        match replaced {
            Some((text, close)) => {
                out.push_str(&text);
                rest = &inside[close + 1..];
            }
            None => {
                out.push('{');
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn show(cell: &Cell, format: &str) -> String {
    match cell {
        Cell::Null => "unknown".to_owned(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Text(text) if format == "sh" => shell_word(text),
        Cell::Text(text) => text.clone(),
        Cell::Time(at) => at.to_string(),
        Cell::Int(_) | Cell::Float(_) => number(cell.as_number().unwrap_or(f64::NAN), format, cell),
    }
}

/// A value as one word of sh(1): names of processes, files and hosts are chosen by others.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let is_shown = |character: &char| !character.is_control();
    let text: String = text.chars().filter(is_shown).collect();
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn number(value: f64, format: &str, cell: &Cell) -> String {
    match format {
        "%" if value.abs() < 0.1 => format!("{:.1} %", value * 100.0),
        "%" => format!("{:.0} %", value * 100.0),
        "bytes" => bytes(value),
        "duration" => duration(value),
        _ => match (format.strip_prefix('.').and_then(|digits| digits.parse::<usize>().ok()), cell)
        {
            (Some(digits), _) => format!("{value:.*}", digits.min(9)),
            (None, Cell::Int(number)) => number.to_string(),
            (None, _) => trimmed(value),
        },
    }
}

/// At most three digits after the point, no zeros at the end.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value.abs() < 1024.0 {
            let digits = usize::from(unit != "B" && value.abs() < 100.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} PiB")
}

/// A duration for display: `250 ms`, `1.5 s`, `12 min`.
pub fn duration(seconds: f64) -> String {
    let mut out = String::new();
    let written = match seconds.abs() {
        s if s < 0.001 => write!(out, "{:.0} µs", seconds * 1e6),
        s if s < 1.0 => write!(out, "{:.0} ms", seconds * 1e3),
        s if s < 10.0 => write!(out, "{seconds:.1} s"),
        s if s < 120.0 => write!(out, "{seconds:.0} s"),
        s if s < 7200.0 => write!(out, "{:.0} min", seconds / 60.0),
        s if s < 172_800.0 => write!(out, "{:.0} h", seconds / 3600.0),
        _ => write!(out, "{:.0} days", seconds / 86_400.0),
    };
    written.expect("writing to a String cannot fail");
    out
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(template: &str, expected: Expect) {
        let json = r#"{"n":12,"ratio":0.034,"size":1610612736,"took":0.25,"f":1.5,"name":"ng'inx","gone":null}"#;
        let row = Row::from_json(&serde_json::from_str(json).unwrap()).unwrap();
        expected.assert_eq(&render(template, &row));
    }

    #[test]
    fn value_in_a_shell_line_is_one_word() {
        let json =
            r#"{"p":"nginx","bad":"a; curl x | sh #","quote":"it's `id` $(id)","line":"a\nb"}"#;
        let row = Row::from_json(&serde_json::from_str(json).unwrap()).unwrap();
        let shown = |template: &str| render(template, &row);
        assert_eq!(shown("`kill {p:sh}`"), "`kill nginx`");
        assert_eq!(shown("{bad:sh}"), "'a; curl x | sh #'");
        assert_eq!(shown("{quote:sh}"), r"'it'\''s `id` $(id)'");
        assert_eq!(shown("{line:sh}"), "'ab'");
    }

    #[test]
    fn columns_are_replaced_by_their_format() {
        check("{n} of {name}, {gone}", expect!["12 of ng'inx, unknown"]);
        check(
            "{ratio:%} {size:bytes} {took:duration} {f} {f:.2} {n:.1}",
            expect!["3.4 % 1.5 GiB 250 ms 1.5 1.50 12.0"],
        );
    }

    #[test]
    fn other_braces_stay() {
        check(
            "server { listen 80; } {} {missing} { {n",
            expect!["server { listen 80; } {} {missing} { {n"],
        );
        assert_eq!(columns("{a} {b:.1} { c } server {listen}"), ["a", "b", "listen"]);
    }

    #[test]
    fn text_in_sql_is_quoted() {
        let row = Row::from_json(&serde_json::from_str(r#"{"name":"a'; drop table x"}"#).unwrap())
            .unwrap();
        assert_eq!(render_sql("where host = {name}", &row), "where host = 'a''; drop table x'");
    }

    #[test]
    fn long_spans_and_sizes_are_readable() {
        assert_eq!(duration(5e-5), "50 µs");
        assert_eq!(duration(90.0), "90 s");
        assert_eq!(duration(86_400.0), "24 h");
        assert_eq!(bytes(512.0), "512 B");
    }
}
