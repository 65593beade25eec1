//! The template language and its bounds: minijinja without filters that could grow a text, without
//! local variables, with a bound on steps.

use std::io;

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde_json::json;
use weir_tables::Micros;

use super::trust::{self, MARKS};
use super::{TEMPLATE_BYTES_MAX, TemplateForm};
use crate::forms::{NoticeText, one_line};
use crate::receiver::Message;

/// Steps of one template: a message with all its symptoms needs some hundred.
const FUEL: u64 = 20_000;
/// Longest output, in bytes.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Nested calls; the language has none that a template could write.
const RECURSION_MAX: usize = 50;
/// Statements of the language. `set`, `with` and `filter` would keep texts, which could double at each step.
const STATEMENTS: &[&str] = &["if", "elif", "else", "endif", "for", "endfor"];
/// Names of texts that are the page's own links.
const LINKS: [&str; 2] = ["link", "act_link"];
/// Longest text that `truncate` leaves.
const TRUNCATED_MAX: usize = 2_000;

/// What is wrong with a template, and in which of its lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TemplateFault {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Renders a template to a finished form.
pub(super) fn render(
    form: TemplateForm,
    source: &str,
    message: &Message,
) -> Result<String, TemplateFault> {
    check_source(form, source)?;
    let environment = environment();
    let template = environment.template_from_str(source).map_err(|error| fault(&error))?;
    let mut output = BoundedOutput(Vec::new());
    let data = Value::from(Serde(data(message)));
    template.render_captured_to(data, &mut output).map_err(|error| fault(&error))?;
    let text = String::from_utf8(output.0).map_err(|_| fault_at(1, "the output is no text"))?;
    let text = trust::finished(form, &text);
    if text.trim().is_empty() {
        return Err(fault_at(1, "the output is empty"));
    }
    Ok(text)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_formatter(write_data);
    environment.add_filter("upper", |text: String| text.to_uppercase());
    environment.add_filter("lower", |text: String| text.to_lowercase());
    environment.add_filter("join", joined);
    environment.add_filter("truncate", truncated);
    environment.add_filter("length", |value: Value| value.len().unwrap_or(0));
    environment
}

fn joined(values: Vec<String>, between: Option<String>) -> String {
    values.join(between.as_deref().unwrap_or(", "))
}

fn truncated(text: String, letters: usize) -> String {
    let letters = letters.min(TRUNCATED_MAX);
    if text.chars().count() <= letters {
        return text;
    }
    let start: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// Writes a value between marks, unless it is one of the page's own links.
fn write_data(
    output: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), minijinja::Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    if value.is_none() {
        return Ok(());
    }
    let text = value.to_string();
    let is_link = LINKS
        .iter()
        .any(|name| state.lookup(name).is_some_and(|link| link.as_str() == Some(text.as_str())));
    let written = if is_link {
        output.write_str(&text)
    } else {
        let text = one_line(&text.replace(MARKS, ""));
        write!(output, "{}{text}{}", MARKS[0], MARKS[1])
    };
    written.map_err(|_| minijinja::Error::new(ErrorKind::WriteFailure, TOO_LONG))
}

const TOO_LONG: &str = "the output is longer than 64 KiB";

/// Output that ends in an error when it is too long.
struct BoundedOutput(Vec<u8>);

impl io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_BYTES_MAX {
            return Err(io::Error::other(TOO_LONG));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn fault(error: &minijinja::Error) -> TemplateFault {
    let message = match error.kind() {
        ErrorKind::OutOfFuel => format!("it needs more than {FUEL} steps"),
        ErrorKind::WriteFailure => TOO_LONG.to_owned(),
        ErrorKind::UndefinedError => "undefined value: docs/notify.md lists the names".to_owned(),
        kind => match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    };
    TemplateFault { line: error.line().unwrap_or(1), message: one_line(&message) }
}

fn fault_at(line: usize, message: &str) -> TemplateFault {
    TemplateFault { line, message: message.to_owned() }
}

/// Refuses what the language has beyond the needs of a message.
fn check_source(form: TemplateForm, source: &str) -> Result<(), TemplateFault> {
    if source.len() > TEMPLATE_BYTES_MAX {
        return Err(fault_at(1, "it is longer than 16 KiB"));
    }
    if source.contains(MARKS) {
        return Err(fault_at(1, "it has characters of a private area of Unicode"));
    }
    for (line, inner) in expressions(source, "{%", "%}") {
        let word = inner.trim_start_matches(['-', '+']).trim_start();
        let end = word.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let word = &word[..end.unwrap_or(word.len())];
        if !STATEMENTS.contains(&word) {
            let message = format!("there is no statement `{word}` here; `if` and `for` are");
            return Err(TemplateFault { line, message });
        }
        // Data of that name would pass for the page's own link.
        let names = inner.split(" in ").next().unwrap_or_default();
        if word == "for" && LINKS.iter().any(|link| names.contains(link)) {
            return Err(fault_at(line, "`link` and `act_link` are the page's own"));
        }
    }
    let all = expressions(source, "{%", "%}").into_iter().chain(expressions(source, "{{", "}}"));
    for (line, inner) in all {
        if inner.contains('*') || inner.contains("recursive") {
            return Err(fault_at(line, "`*` and `recursive` have no use in a message"));
        }
    }
    let lower = source.to_ascii_lowercase();
    let script = ["<script", "<style", "<iframe", "<object", "<embed", "srcdoc"];
    match script.iter().find_map(|word| lower.find(word)) {
        Some(at) if form == TemplateForm::Html => {
            let line = line_at(source, at);
            Err(fault_at(line, "scripts, styles and frames are not for mails"))
        }
        _ => Ok(()),
    }
}

/// Lines and contents of what is between two delimiters. An unclosed one reaches to the end.
fn expressions<'a>(source: &'a str, open: &str, close: &str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices(open) {
        let inner = &source[at + open.len()..];
        let end = inner.find(close).unwrap_or(inner.len());
        found.push((line_at(source, at), &inner[..end]));
    }
    found
}

fn line_at(source: &str, at: usize) -> usize {
    1 + source[..at].matches('\n').count()
}

/// The values of a message: one-line texts and lists of them.
fn data(message: &Message) -> serde_json::Value {
    let notice = NoticeText::built_in(message);
    let incident = &message.notice.incident;
    let symptoms = incident.symptoms.iter().take(20).map(
        |symptom| json!({"rule": symptom.rule, "host": symptom.host, "summary": symptom.summary}),
    );
    let figures = notice.figures.iter().map(|(name, value)| json!({"name": name, "value": value}));
    json!({
        "kind": message.notice.kind.as_str(),
        "word": notice.word,
        "title": notice.title,
        "incident": incident.id,
        "class": incident.class.as_str(),
        "rule": incident.root_rule,
        "host": incident.host,
        "tier": incident.tier,
        "subject": incident.subject,
        "summary": notice.summary,
        "why": notice.why,
        "fix": notice.fix,
        "change": notice.change,
        "reason": notice.reason,
        "receiver": message.notice.receiver,
        "person": message.notice.person,
        "on_call": message.notice.on_call,
        "acked_by": incident.acked_by,
        "figures": figures.collect::<Vec<_>>(),
        "symptoms": symptoms.collect::<Vec<_>>(),
        "more_symptoms": notice.more_symptoms,
        "finding_count": incident.finding_count,
        "host_count": incident.host_count,
        "opened_at": Micros(incident.opened_us).to_string(),
        "resolved_at": incident.resolved_us.map(|at| Micros(at).to_string()),
        "is_repeat": message.is_repeat,
        "link": notice.link.as_ref().map(ToString::to_string),
        "act_link": notice.act.as_ref().map(|(link, _)| link.to_string()),
        "pin": notice.act.as_ref().map(|(_, pin)| pin),
    })
}
