//! What goes in and what comes out: findings that fire, and notices for receivers.

use serde::{Deserialize, Serialize};

/// Root rule of the page for a rota without a person on call.
pub(crate) const GAP_RULE: &str = "oncall.gap";
/// Root rule of a digest.
pub(crate) const DIGEST_RULE: &str = "notify.digest";

/// How urgent an incident is: a note is only listed, a mail is read in working hours, a page now.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Listed only, without a notification.
    #[default]
    Note,
    /// Someone reads it later.
    Mail,
    /// Someone must act now.
    Page,
}

/// A finding that fires, as the engine of the rules has it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Identity from pending to resolved.
    pub finding_id: String,
    /// The rule's id.
    pub rule: String,
    /// The host; empty if it concerns more than one.
    pub host: String,
    /// The key columns as a JSON object; with rule and host the identity of the subject.
    pub key: String,
    /// The affected tier.
    pub tier: String,
    /// The class now: a symptom of another finding is a note.
    pub class: Urgency,
    /// The subject for people: `nginx on 0.0.0.0:80`.
    pub subject: String,
    /// One sentence with the figures.
    pub summary: String,
    /// What it means.
    pub why: String,
    /// What to change.
    pub fix: String,
    /// The rows of the rule's result, a JSON array of objects.
    pub evidence: String,
    /// The root finding, while this one is a symptom.
    pub cause_finding_id: Option<String>,
}

/// What a notice is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeKind {
    /// An incident that someone must act on now: opened, worse, or escalated.
    Page,
    /// An incident that someone reads later; also updates and hand-overs.
    Mail,
    /// Someone acknowledged the incident, or the acknowledgement expired.
    Ack,
    /// The incident is over.
    Resolved,
    /// `weir notify test`.
    Test,
}

impl NoticeKind {
    /// The word in messages and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Mail => "mail",
            Self::Ack => "ack",
            Self::Resolved => "resolved",
            Self::Test => "test",
        }
    }
}

impl Urgency {
    /// The word in messages and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Mail => "mail",
            Self::Page => "page",
        }
    }

    /// The urgency of a word of the column `class`.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Note, Self::Mail, Self::Page].into_iter().find(|class| class.as_str() == word)
    }
}

/// One symptom of an incident in a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SymptomLine {
    /// The symptom's rule.
    pub rule: String,
    /// Its host; empty if it concerns more than one.
    pub host: String,
    /// One sentence with the figures.
    pub summary: String,
}

/// The incident as a notice shows it: what was true when the notice was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentSummary {
    /// The incident's id, which people type: at most 12 letters and digits.
    pub id: String,
    /// Its class.
    pub class: Urgency,
    /// The root's rule.
    pub root_rule: String,
    /// The root's host; empty if it concerns more than one.
    pub host: String,
    /// The root's tier.
    pub tier: String,
    /// The root's subject.
    pub subject: String,
    /// At most 78 ASCII characters: `web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)`.
    pub title: String,
    /// One sentence with the figures.
    pub summary: String,
    /// What it means.
    pub why: String,
    /// What to change.
    pub fix: String,
    /// The rows of the root's result, a JSON array of objects.
    pub evidence: String,
    /// The symptoms, at most 20.
    pub symptoms: Vec<SymptomLine>,
    /// All findings of the incident, the root included.
    pub finding_count: usize,
    /// Different hosts among them.
    pub host_count: usize,
    /// When it opened, microseconds since 1970.
    pub opened_us: i64,
    /// When it was over, microseconds since 1970.
    pub resolved_us: Option<i64>,
    /// Who acknowledged it, while that holds.
    pub acked_by: Option<String>,
}

/// One message to one receiver, decided once and kept until it is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// 32 hex digits from incident, episode, kind, step, receiver and address: the same on
    /// every hub.
    pub id: String,
    /// What it is for.
    pub kind: NoticeKind,
    /// The receiver's name in the configuration.
    pub receiver: String,
    /// The address within the receiver (a mailbox, a chat); the receiver's own without one.
    pub address: Option<String>,
    /// The person, if the receiver was chosen for one.
    pub person: Option<String>,
    /// Receivers and addresses of the same person that are tried when this one refuses for good, or
    /// is away for a minute while a page waits.
    pub fallbacks: Vec<(String, Option<String>)>,
    /// Not sent before; microseconds since 1970.
    pub due_us: i64,
    /// Given up after; microseconds since 1970.
    pub expires_us: i64,
    /// Within one receiver and incident, notices go out in this order.
    pub order: u64,
    /// Why the receiver gets it: `ada is on call for rota web`.
    pub reason: String,
    /// What changed: `opened`, `worse: 8 findings on 5 hosts`, `acknowledged by ada`.
    pub change: String,
    /// The people on call for it now.
    pub on_call: Vec<String>,
    /// The incident.
    pub incident: IncidentSummary,
}

impl Notice {
    /// Whether it is about no incident: a hand-over or a report.
    pub fn is_letter(&self) -> bool {
        self.incident.id.is_empty()
    }

    /// Whether it is one message for the mails of several incidents.
    pub fn is_digest(&self) -> bool {
        self.is_letter() && self.incident.root_rule == DIGEST_RULE
    }

    /// Whether it is about a rota, not about a finding; so are all letters but digests.
    pub fn is_about_rota(&self) -> bool {
        self.is_letter() && !self.is_digest() || self.incident.root_rule == GAP_RULE
    }

    /// Whether it ends a test; people need not read it.
    pub fn is_test_end(&self) -> bool {
        self.kind == NoticeKind::Test && self.incident.resolved_us.is_some()
    }

    /// Whether a person can acknowledge or resolve what it reports.
    pub fn is_actionable(&self) -> bool {
        matches!(self.kind, NoticeKind::Page | NoticeKind::Mail)
            && !self.is_letter()
            && !self.is_about_rota()
    }
}
