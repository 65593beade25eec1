//! Expands `%{NAME:field:type}` to a regular expression: names are replaced, fields become groups.
//!
//! Keeps the written form of each group, so that a debugger can show names instead of expansions.

use std::collections::HashMap;

use super::library::PatternLibrary;
use crate::problem::{ParserProblem, did_you_mean};

/// Deepest nesting of names.
const MAX_DEPTH: usize = 24;
/// Largest expanded expression.
const MAX_EXPANDED_BYTES: usize = 128 << 10;

/// The type of a captured value (`%{NUMBER:took:int}`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureType {
    Text,
    Integer,
    Float,
    Boolean,
}

/// A value that an expression captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    /// The name of the group in the regular expression.
    pub(crate) group: String,
    /// The name given by the user.
    pub(crate) field: String,
    pub(crate) capture_type: CaptureType,
}

/// An expanded expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpandedRegex {
    pub(crate) regex: String,
    pub(crate) captures: Vec<Capture>,
    /// Written form of the group that starts at a position of `regex`: `%{NUMBER:took}`.
    pub(crate) labels: HashMap<usize, String>,
}

/// Expands a written expression.
pub(crate) fn expand(
    library: &PatternLibrary,
    written: &str,
) -> Result<ExpandedRegex, ParserProblem> {
    let mut expanded = ExpandedRegex::default();
    piece(library, written, &mut Vec::new(), &mut expanded)?;
    Ok(expanded)
}

fn piece(
    library: &PatternLibrary,
    written: &str,
    within: &mut Vec<String>,
    out: &mut ExpandedRegex,
) -> Result<(), ParserProblem> {
    let mut at = 0;
    while at < written.len() {
        let rest = &written[at..];
        let length = if rest.starts_with("%{") {
            let Some(end) = rest.find('}') else {
                return Err(ParserProblem::new(
                    format!("`{rest}` begins with `%{{` and has no `}}`"),
                    "write %{NAME}, %{NAME:field} or %{NAME:field:int}; a plain `%{` is `%\\{`",
                ));
            };
            out.labels.insert(out.regex.len(), rest[..=end].to_owned());
            reference(library, &rest[2..end], within, out)?;
            end + 1
        } else {
            let end = next_piece(rest);
            text(&rest[..end], out);
            end
        };
        if out.regex.len() > MAX_EXPANDED_BYTES {
            return Err(ParserProblem::new(
                format!(
                    "the pattern is longer than {MAX_EXPANDED_BYTES} bytes when its names are replaced"
                ),
                "split it into several patterns, which are tried one after the other",
            ));
        }
        at += length;
    }
    Ok(())
}

/// Length of the text up to the next `%{`; a backslash escapes the next character.
fn next_piece(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'%' if bytes.get(at + 1) == Some(&b'{') => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// Appends text between references. Records named groups; atomic groups become plain ones, because
/// backtracking is bounded here.
fn text(text: &str, out: &mut ExpandedRegex) {
    let mut rest = text;
    while let Some(at) = rest.find("(?") {
        let (before, group) = rest.split_at(at);
        out.regex.push_str(before);
        let name = group.strip_prefix("(?<").or_else(|| group.strip_prefix("(?P<"));
        match name.filter(|name| !name.starts_with(['=', '!'])).and_then(|n| n.split_once('>')) {
            Some((name, behind)) if !is_escaped(before) => {
                begin_group(name, CaptureType::Text, out);
                rest = behind;
            }
            _ if group.starts_with("(?>") => {
                out.regex.push_str("(?:");
                rest = &group[3..];
            }
            _ => {
                out.regex.push_str("(?");
                rest = &group[2..];
            }
        }
    }
    out.regex.push_str(rest);
}

fn is_escaped(before: &str) -> bool {
    before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn begin_group(field: &str, capture_type: CaptureType, out: &mut ExpandedRegex) {
    let group = format!("f{}", out.captures.len());
    out.regex.push_str("(?<");
    out.regex.push_str(&group);
    out.regex.push('>');
    out.captures.push(Capture { group, field: plain_field(field), capture_type });
}

/// `[http][status]` is the same as `http.status`.
fn plain_field(field: &str) -> String {
    match field.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.replace("][", "."),
        None => field.to_owned(),
    }
}

fn reference(
    library: &PatternLibrary,
    inner: &str,
    within: &mut Vec<String>,
    out: &mut ExpandedRegex,
) -> Result<(), ParserProblem> {
    let mut parts = inner.splitn(3, ':');
    let name = parts.next().unwrap_or_default();
    let (field, kind) = (parts.next().filter(|field| !field.is_empty()), parts.next());
    let Some(expression) = library.get(name) else {
        return Err(ParserProblem::new(
            format!("there is no pattern `{name}`"),
            did_you_mean(name, library.names(), "`weir parse --list` lists them"),
        ));
    };
    if within.iter().any(|outer| outer == name) || within.len() >= MAX_DEPTH {
        return Err(ParserProblem::new(
            format!("the pattern `{name}` contains itself: {} > {name}", within.join(" > ")),
            "give one of them another name",
        ));
    }
    match field {
        Some(field) => begin_group(field, capture_type(kind)?, out),
        None => out.regex.push_str("(?:"),
    }
    within.push(name.to_owned());
    piece(library, expression, within, out)?;
    within.pop();
    out.regex.push(')');
    Ok(())
}

fn capture_type(name: Option<&str>) -> Result<CaptureType, ParserProblem> {
    Ok(match name {
        None | Some("string" | "text") => CaptureType::Text,
        Some("int" | "integer" | "long") => CaptureType::Integer,
        Some("float" | "double") => CaptureType::Float,
        Some("bool" | "boolean") => CaptureType::Boolean,
        Some(other) => {
            return Err(ParserProblem::new(
                format!("`{other}` is not a type of a value"),
                "int, float, boolean or text",
            ));
        }
    })
}
