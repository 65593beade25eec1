//! Templates that replace a form of a message: its subject, text, line for a phone, or HTML.
//!
//! The language is Jinja, as far as messages need it: `{{ … }}`, `if` and `for`. A template that cannot
//! be used never stops a message: the built-in form is sent, and the reason is logged once. Steps,
//! output and source are bounded, and nothing in the language can repeat or store a text.
//!
//! What a template says itself may be a link. What comes from a finding may not, also in one piece with
//! the template's own words (`trust.rs`).

mod language;
mod sample;
mod trust;

use std::collections::BTreeSet;
use std::fmt;

use parking_lot::Mutex;
use weir_actions::NoticeKind;

use crate::receiver::Message;

pub use sample::sample_message;

/// Longest source of a template, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 16 * 1024;

/// A form that a template may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplateForm {
    /// The subject of a mail, and the first line in chats.
    Subject,
    /// The text of a mail or a chat.
    Text,
    /// One line of at most 160 letters.
    Phone,
    /// The HTML of a mail.
    Html,
}

/// Every form, by its key in the configuration.
pub const TEMPLATE_FORMS: [(&str, TemplateForm); 4] = [
    ("subject", TemplateForm::Subject),
    ("text", TemplateForm::Text),
    ("phone", TemplateForm::Phone),
    ("html", TemplateForm::Html),
];

/// Kinds of notices, by their names in the configuration.
pub const TEMPLATE_KINDS: [(&str, NoticeKind); 5] = [
    ("page", NoticeKind::Page),
    ("mail", NoticeKind::Mail),
    ("ack", NoticeKind::Ack),
    ("resolved", NoticeKind::Resolved),
    ("test", NoticeKind::Test),
];

/// The messages that a template is for; the narrower one is preferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateScope {
    /// Every message.
    All,
    /// Messages of one kind.
    Kind(NoticeKind),
    /// Messages to one receiver.
    Receiver(String),
}

/// A template as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSource {
    /// The form that it replaces.
    pub form: TemplateForm,
    /// The messages that it is for.
    pub scope: TemplateScope,
    /// Its text.
    pub text: String,
    /// The file that it is in.
    pub file: String,
    /// The line of the file that its first line is.
    pub first_line: usize,
}

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The form.
    pub form: TemplateForm,
    /// `weir.toml:14`.
    pub place: String,
    /// The reason.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (form, place) = (self.form.as_str(), &self.place);
        write!(f, "cannot use the template `{form}` of {place}: {}", self.message)
    }
}

impl std::error::Error for TemplateError {}

impl TemplateForm {
    /// The key in the configuration.
    pub fn as_str(self) -> &'static str {
        TEMPLATE_FORMS.iter().find(|(_, form)| *form == self).map_or("", |(name, _)| name)
    }
}

/// The templates of a configuration.
#[derive(Debug, Default)]
pub struct TemplateSet {
    sources: Vec<TemplateSource>,
    /// Positions of templates whose failure was logged.
    logged: Mutex<BTreeSet<usize>>,
}

impl PartialEq for TemplateSet {
    fn eq(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

impl TemplateSet {
    /// Takes templates as they are; [`TemplateSet::errors`] has what is wrong with them.
    pub fn new(sources: Vec<TemplateSource>) -> Self {
        Self { sources, logged: Mutex::default() }
    }

    /// The templates that fail for a message of a kind that they are for, each once.
    pub fn errors(&self) -> Vec<TemplateError> {
        self.sources.iter().filter_map(first_error).collect()
    }

    /// The form of a message by its template; `None` where it has none that works.
    pub(crate) fn render(&self, form: TemplateForm, message: &Message) -> Option<String> {
        // Hand-overs and reports are about no incident.
        if message.notice.is_letter() {
            return None;
        }
        let at = self.position(form, message)?;
        match rendered(&self.sources[at], message) {
            Ok(text) => Some(text),
            Err(error) => {
                if self.logged.lock().insert(at) {
                    tracing::warn!("{error}; the built-in form is sent");
                }
                None
            }
        }
    }

    /// The narrowest template of a form.
    fn position(&self, form: TemplateForm, message: &Message) -> Option<usize> {
        let fits = self.sources.iter().enumerate().filter_map(|(at, source)| {
            let rank = match &source.scope {
                TemplateScope::All => 0,
                TemplateScope::Kind(kind) if *kind == message.notice.kind => 1,
                TemplateScope::Receiver(name) if *name == message.notice.receiver => 2,
                _ => return None,
            };
            (source.form == form).then_some((rank, at))
        });
        fits.max().map(|(_, at)| at)
    }
}

/// Why a template fails for a kind that it is for.
fn first_error(source: &TemplateSource) -> Option<TemplateError> {
    let kinds = TEMPLATE_KINDS.iter().map(|(_, kind)| *kind);
    let mut kinds = kinds.filter(|kind| match &source.scope {
        TemplateScope::Kind(own) => own == kind,
        _ => true,
    });
    kinds.find_map(|kind| rendered(source, &sample_message(kind)).err())
}

fn rendered(source: &TemplateSource, message: &Message) -> Result<String, TemplateError> {
    let text = language::render(source.form, &source.text, message);
    text.map_err(|fault| TemplateError {
        form: source.form,
        place: format!("{}:{}", source.file, source.first_line + fault.line.saturating_sub(1)),
        message: fault.message,
    })
}

#[cfg(test)]
mod tests;
