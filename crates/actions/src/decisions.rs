//! What the desk decided: documents to keep, notices to send, changes of incidents for tables.

use weir_tables::Micros;

use crate::{IncidentState, IncidentSummary, Notice};

/// Everything that one tick or one act decided. Documents and notices are kept in one transaction,
/// before anything is sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// Documents that changed.
    pub documents: Vec<KeptDocument>,
    /// Notices to send.
    pub notices: Vec<Notice>,
    /// Changes of incidents.
    pub changes: Vec<IncidentChange>,
}

/// A document of a desk as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDocument {
    /// `incident`, `silence`, or a kind of the heal desk.
    pub kind: &'static str,
    /// Identity within its kind.
    pub key: String,
    /// JSON of at most 64 KiB; `None` deletes the document.
    pub body: Option<String>,
}

/// A document that cannot be read. The desk neither uses nor deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableDocument {
    /// `incident`, `silence`, or a kind of the heal desk.
    pub kind: String,
    /// Identity within its kind.
    pub key: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// A change of an incident: a row of the table `incident`.
#[derive(Clone, Debug, PartialEq)]
pub struct IncidentChange {
    /// When.
    pub ts: Micros,
    /// What happened.
    pub event: IncidentEvent,
    /// Its state now.
    pub state: IncidentState,
    /// The change in words: `worse: 8 findings on 5 hosts`.
    pub text: String,
    /// The person that made it.
    pub by: Option<String>,
    /// The older incident, if it was merged.
    pub merged_into: Option<String>,
    /// The root finding.
    pub root_finding_id: String,
    /// The incident after the change.
    pub incident: IncidentSummary,
}

/// What happened to an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IncidentEvent {
    /// It opened.
    Opened,
    /// Its class rose.
    Raised,
    /// Its class fell for five minutes.
    Lowered,
    /// It has another root rule.
    RootChanged,
    /// Its findings doubled since the last message.
    Grown,
    /// A person works on it.
    Acknowledged,
    /// The acknowledgement is over, and the incident is not.
    AckExpired,
    /// The next target of the route is paged.
    Escalated,
    /// Its findings ended, or a person resolved it.
    Resolved,
    /// A finding of it is back, or a new one came after a person resolved it.
    Reopened,
    /// It has the root of an older incident.
    Merged,
}

impl IncidentEvent {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Raised => "raised",
            Self::Lowered => "lowered",
            Self::RootChanged => "root_changed",
            Self::Grown => "grown",
            Self::Acknowledged => "acked",
            Self::AckExpired => "ack_expired",
            Self::Escalated => "escalated",
            Self::Resolved => "resolved",
            Self::Reopened => "reopened",
            Self::Merged => "merged",
        }
    }
}
