//! The times of Apache's `LogFormat`: `%{format}t` with a strftime form, an epoch or a fraction.
//!
//! A form has no fraction of a second, so it is written as two or three directives side by side:
//! `%{%Y-%m-%d %T}t.%{msec_frac}t %{%z}t`. They are read as one time.

use weir_values::TimeForm;

use crate::field::Field;
use crate::template::TemplatePart;

/// Characters between two directives of one time.
const BETWEEN: [char; 8] = [' ', '.', ',', ':', 'T', '-', '/', '_'];
/// Most of them.
const MAX_BETWEEN: usize = 2;

/// A directive `%{argument}t`.
struct TimeDirective<'t> {
    /// Whether it is the time of the request's end.
    is_end: bool,
    /// The form, or a word such as `usec_frac`.
    form: &'t str,
    length: usize,
}

/// The time at the front of a format text, with its length; `None` if there is none.
pub(crate) fn directives(text: &str) -> Option<(TemplatePart, usize)> {
    let first = directive(text)?;
    let mut form = strptime(first.form).to_owned();
    let mut used = first.length;
    loop {
        let rest = &text[used..];
        let gap = rest.find(|mark| !BETWEEN.contains(&mark)).unwrap_or(rest.len());
        let Some(next) = directive(&rest[gap..]).filter(|_| gap <= MAX_BETWEEN) else { break };
        if next.is_end != first.is_end || matches!(next.form, "sec" | "msec" | "usec") {
            break;
        }
        form += &rest[..gap];
        form += strptime(next.form);
        used += gap + next.length;
    }
    let field = if first.is_end { Field::TimeOtherwise } else { Field::Time };
    // Without a form, as for epochs, the value's own form is detected.
    Some((TemplatePart::Time { form: TimeForm::parse(&form).ok(), field }, used))
}

fn directive(text: &str) -> Option<TimeDirective<'_>> {
    let rest = text.strip_prefix('%')?;
    let modifiers = rest.find(|mark: char| !matches!(mark, '<' | '>' | '!' | ',' | '0'..='9'))?;
    let (argument, behind) = rest[modifiers..].strip_prefix('{')?.split_once('}')?;
    let is_time = behind.starts_with('t') && !argument.is_empty();
    let (is_end, form) = match argument.split_once(':') {
        Some(("begin", form)) => (false, form),
        Some(("end", form)) => (true, form),
        _ => (false, argument),
    };
    let length = text.len() - behind.len() + 1;
    is_time.then_some(TimeDirective { is_end, form, length })
}

/// A form for reading.
fn strptime(form: &str) -> &str {
    match form {
        "sec" | "msec" | "usec" => "%s",
        "msec_frac" | "usec_frac" => "%f",
        _ => form,
    }
}
