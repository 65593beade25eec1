//! Forms of a notice: subject, text, HTML, and a line for a phone.
//!
//! Every form begins with the fields of `NoticeText`, which have no control characters; what a
//! markup needs beyond that is the form's own. Data never makes a link or a mention.

mod chart;
mod clean;
mod html;
mod phone;
mod text;

pub(crate) use chart::{chart, has_chart};
pub(crate) use clean::{
    ascii, cut_by, cut_bytes, cut_units, escape_html, is_invisible, is_mention_word, is_scheme,
    one_line, unlinked,
};
pub use html::html;
pub use phone::phone;
pub use text::text;
pub(crate) use text::{chat_text, sections};

use reqwest::Url;
use serde_json::Value;
use weir_actions::{NoticeKind, Urgency};

use crate::receiver::Message;
use crate::templates::TemplateForm;

/// Longest subject: the length that RFC 5322 recommends for a line.
const SUBJECT_CHARS_MAX: usize = 78;
/// Figures of evidence in a message.
const FIGURES_MAX: usize = 5;
/// Symptoms in a message; the incident itself has them all.
const SYMPTOMS_MAX: usize = 10;
/// Lines of a message about no incident: a hand-over.
const LETTER_LINES_MAX: usize = 60;
/// Longest value of a figure.
const FIGURE_CHARS_MAX: usize = 120;
/// Longest single text of a notice in any form.
const FIELD_CHARS_MAX: usize = 2000;
/// Name of the chart within a mail.
pub(crate) const CHART_ID: &str = "chart";
const REPEAT_MARK: &str = "(may be a repeat)";

/// The parts of a message as one-line texts.
pub(crate) struct NoticeText {
    /// `PAGE`, `MAIL`, `ACK`, `OK`, `TEST`.
    pub(crate) word: &'static str,
    /// `web3 app.down 10.0.0.7:8080 refuses connections`, with a mark when it may be a repeat.
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) fix: String,
    pub(crate) why: String,
    pub(crate) change: String,
    pub(crate) reason: String,
    pub(crate) on_call: String,
    /// Names and values of the root's first row.
    pub(crate) figures: Vec<(String, String)>,
    pub(crate) symptoms: Vec<String>,
    /// Symptoms beyond those listed.
    pub(crate) more_symptoms: usize,
    /// Whether it is about no incident, so that its lines are no symptoms.
    pub(crate) is_letter: bool,
    /// The page of the incident.
    pub(crate) link: Option<Url>,
    /// The page on which the person acts, and its PIN.
    pub(crate) act: Option<(Url, String)>,
    /// Head and text by templates of the configuration.
    own_head: Option<String>,
    pub(crate) own_text: Option<String>,
}

impl NoticeText {
    /// The parts of a message, with head and text by the configuration's templates.
    pub(crate) fn new(message: &Message) -> Self {
        let own_head = own_form(TemplateForm::Subject, message);
        let own_head = own_head.map(|head| format!("{head}{}", repeat_mark(message)));
        let own_text = own_form(TemplateForm::Text, message);
        Self { own_head, own_text, ..Self::built_in(message) }
    }

    /// The parts of a message without templates.
    pub(crate) fn built_in(message: &Message) -> Self {
        let incident = &message.notice.incident;
        let mut title = field(&incident.title);
        if title.is_empty() {
            title = one_line(&format!("{} {}", incident.host, incident.root_rule));
        }
        if message.is_repeat {
            title = format!("{title} {REPEAT_MARK}");
        }
        let is_letter = message.notice.is_letter();
        let symptoms_max = if is_letter { LETTER_LINES_MAX } else { SYMPTOMS_MAX };
        let symptoms = incident.symptoms.iter().take(symptoms_max).map(|symptom| {
            field(&format!("{} {}: {}", symptom.rule, symptom.host, symptom.summary))
        });
        let symptoms: Vec<String> = symptoms.collect();
        Self {
            word: word(message.notice.kind),
            title,
            summary: field(&incident.summary),
            fix: field(&incident.fix),
            why: field(&incident.why),
            change: field(&message.notice.change),
            reason: field(&message.notice.reason),
            on_call: field(&message.notice.on_call.join(", ")),
            // What a chart shows is in the lines as well.
            figures: if has_chart(message) { Vec::new() } else { figures(&incident.evidence) },
            more_symptoms: incident.finding_count.saturating_sub(1 + symptoms.len()),
            symptoms,
            is_letter,
            link: incident_url(message),
            act: act_url(message),
            own_head: None,
            own_text: None,
        }
    }

    /// `PAGE web3 app.down …`.
    pub(crate) fn head(&self) -> String {
        self.own_head.clone().unwrap_or_else(|| format!("{} {}", self.word, self.title))
    }
}

/// A form by its template.
fn own_form(form: TemplateForm, message: &Message) -> Option<String> {
    message.templates.as_ref()?.render(form, message)
}

/// What stands behind the head of a message that may have arrived before.
fn repeat_mark(message: &Message) -> String {
    if message.is_repeat { format!(" {REPEAT_MARK}") } else { String::new() }
}

fn field(text: &str) -> String {
    cut_units(&one_line(text), FIELD_CHARS_MAX)
}

/// The word that a message begins with.
fn word(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Page => "PAGE",
        NoticeKind::Mail => "MAIL",
        NoticeKind::Ack => "ACK",
        NoticeKind::Resolved => "OK",
        NoticeKind::Test => "TEST",
    }
}

/// The subject of a mail: at most 78 printable ASCII characters.
pub fn subject(message: &Message) -> String {
    let mark = repeat_mark(message);
    let mut title = own_form(TemplateForm::Subject, message).unwrap_or_else(|| {
        let title = unlinked(&ascii(&message.notice.incident.title));
        format!("{} {title}", word(message.notice.kind))
    });
    let space = SUBJECT_CHARS_MAX - mark.len();
    if title.len() > space {
        title.truncate(space - 3);
        title.truncate(title.trim_end().len());
        title.push_str("...");
    }
    format!("{title}{mark}")
}

/// The address of the incident's page, if the message has one.
pub(crate) fn incident_url(message: &Message) -> Option<Url> {
    let page = message.page_url.trim().trim_end_matches('/');
    let url = Url::parse(page).ok()?;
    if !["http", "https"].contains(&url.scheme()) {
        return None;
    }
    if message.notice.is_about_rota() {
        return Url::parse(&format!("{page}/#/oncall")).ok();
    }
    if message.notice.is_digest() {
        return Url::parse(&format!("{page}/#/incidents")).ok();
    }
    let id = message.notice.incident.id.chars().filter(char::is_ascii_alphanumeric);
    Url::parse(&format!("{page}/#/incidents/{}", id.collect::<String>())).ok()
}

/// The address of the page on which the person acts, and its PIN.
fn act_url(message: &Message) -> Option<(Url, String)> {
    let link = message.act_link.as_ref()?;
    Some((Url::parse(&link.url).ok()?, link.pin.clone()))
}

/// Severity of Nagios and its relatives: 0 fine, 1 warning, 2 critical.
pub(crate) fn check_state(message: &Message) -> u8 {
    match (message.notice.kind, message.notice.incident.class) {
        (NoticeKind::Resolved | NoticeKind::Test, _) => 0,
        (_, Urgency::Page) => 2,
        (NoticeKind::Page, _) => 2,
        _ => 1,
    }
}

/// Five figures of the first row: numbers first, since they are what is compared.
fn figures(evidence: &str) -> Vec<(String, String)> {
    let rows: Value = serde_json::from_str(evidence).unwrap_or_default();
    let Some(row) = rows.get(0).and_then(Value::as_object) else { return Vec::new() };
    let mut pairs: Vec<(&String, &Value)> =
        row.iter().filter(|(_, value)| !value.is_null()).collect();
    pairs.sort_by_key(|(name, value)| (!value.is_number(), name.as_str()));
    let shown = pairs.into_iter().take(FIGURES_MAX).map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = cut_units(&one_line(name), FIGURE_CHARS_MAX);
        (name, cut_units(&one_line(&value), FIGURE_CHARS_MAX))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::{evil_message, message};

    #[test]
    fn subjects_are_short_ascii_and_name_kind_and_title() {
        let mut sample = message(NoticeKind::Page);
        assert_eq!(
            subject(&sample),
            "PAGE web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)"
        );
        sample.notice.incident.title = "é".repeat(500);
        sample.is_repeat = true;
        let long = subject(&sample);
        assert_eq!(long.len(), SUBJECT_CHARS_MAX);
        assert!(long.ends_with("... (may be a repeat)"), "{long}");
        let words = [
            (NoticeKind::Mail, "MAIL "),
            (NoticeKind::Ack, "ACK "),
            (NoticeKind::Resolved, "OK "),
            (NoticeKind::Test, "TEST "),
        ];
        for (kind, start) in words {
            assert!(subject(&message(kind)).starts_with(start));
        }
        let evil = subject(&evil_message());
        assert!(
            evil.len() <= SUBJECT_CHARS_MAX && evil.bytes().all(|byte| (32..127).contains(&byte))
        );
    }

    #[test]
    fn figures_are_numbers_first_and_at_most_five() {
        let evidence = r#"[{"a":"x\ny","b":1.5,"c":null,"d":2,"e":"z","f":"q","g":"r","h":3}]"#;
        let shown = figures(evidence);
        let names: Vec<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "d", "h", "a", "e"]);
        assert_eq!(shown[3].1, "x y");
        assert!(
            figures("not JSON").is_empty() && figures("[]").is_empty() && figures("{}").is_empty()
        );
    }

    #[test]
    fn the_link_is_the_page_and_nothing_from_data() {
        let mut sample = message(NoticeKind::Page);
        sample.notice.incident.id = "../x?y#<z>".to_owned();
        assert_eq!(
            incident_url(&sample).unwrap().as_str(),
            "https://weir.example.net/#/incidents/xyz"
        );
        sample.page_url = "javascript:alert(1)".to_owned();
        assert_eq!(incident_url(&sample), None);
        sample.page_url = String::new();
        assert_eq!(incident_url(&sample), None);
    }
}
