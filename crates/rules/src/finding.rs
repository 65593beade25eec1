//! The life of a finding, and the row that each change of its state writes.
//!
//! ```text
//!              true              holds for `for`                    gone for `clear`
//!  inactive ─────────► pending ─────────────────────────► firing ──────────────────► resolved
//!                         │ gone                                                        ▲
//!                         └──────────────────────────────────────────────────────────────┘
//! ```

use siphasher::sip128::SipHasher24;
use weir_tables::{Finding, Micros};

use crate::{Class, Row};

/// The state of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The condition is not true.
    Inactive,
    /// The condition was true and is no longer.
    Resolved,
    /// The condition is true, but not yet for long enough.
    Pending,
    /// The condition is true.
    Firing,
}

impl State {
    /// The word of the column `state`; `inactive` occurs only in the status of rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Resolved => "resolved",
            Self::Pending => "pending",
            Self::Firing => "firing",
        }
    }
}

/// Texts and evidence of one subject, from the rows of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FindingDetails {
    pub(crate) tier: String,
    pub(crate) subject: String,
    pub(crate) summary: String,
    pub(crate) why: String,
    pub(crate) fix: String,
    pub(crate) evidence: String,
    /// The rule's `equal`.
    pub(crate) equal: Vec<String>,
    /// The source row of the texts; `None` after a restart, until the rule has run again.
    pub(crate) row: Option<Row>,
}

/// A finding that is pending or firing.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenFinding {
    /// Identity until it is resolved.
    pub finding_id: String,
    /// The rule's id.
    pub rule: String,
    /// The host; empty if it concerns more than one.
    pub host: String,
    /// The key columns as a JSON object.
    pub key: String,
    /// The highest class since it opened; a note while another finding explains it, and for at most
    /// a minute after that one ended.
    pub class: Class,
    /// Pending, firing, or resolved in its last transition.
    pub state: State,
    /// When the condition was first true.
    pub started_ts: Micros,
    /// When it began to fire.
    pub fired_ts: Option<Micros>,
    /// When it was resolved.
    pub resolved_ts: Option<Micros>,
    /// The root finding, while it fires.
    pub cause: Option<Cause>,
    pub(crate) ended_cause: Option<EndedCause>,
    /// The class of its newest evidence.
    pub(crate) evidence_class: Class,
    pub(crate) details: FindingDetails,
    pub(crate) key_values: Vec<(String, serde_json::Value)>,
    pub(crate) highest_class: Class,
    pub(crate) is_flapping: bool,
    pub(crate) absent_since: Option<Micros>,
    pub(crate) written: WrittenRow,
}

/// The root of a symptom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The root finding's id.
    pub finding_id: String,
    /// The root finding's rule.
    pub rule: String,
}

/// A cause that no longer fires, while its symptom is held as a note.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndedCause {
    pub(crate) ended_ts: Micros,
    /// The cause's rule; empty after a restart.
    pub(crate) rule: String,
    /// The class of the symptom's evidence when its cause ended.
    pub(crate) evidence_class: Class,
}

/// The newest row in the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrittenRow {
    pub(crate) ts: Micros,
    pub(crate) class: Class,
    pub(crate) row: Option<Row>,
    pub(crate) summary: String,
    pub(crate) cause: Option<Cause>,
}

impl OpenFinding {
    /// Whether it fires and no other firing finding explains it.
    pub fn is_root(&self) -> bool {
        self.state == State::Firing && self.cause.is_none()
    }

    /// When its cause ended, while it is held as a note for that: its class is its own again a
    /// minute later.
    pub fn cause_ended_ts(&self) -> Option<Micros> {
        self.ended_cause.as_ref().map(|cause| cause.ended_ts)
    }

    /// Since when its rule does not return it, while it fires.
    pub fn absent_since(&self) -> Option<Micros> {
        self.absent_since
    }

    /// The tier at fault.
    pub fn tier(&self) -> &str {
        &self.details.tier
    }

    /// The subject, for display.
    pub fn subject(&self) -> &str {
        &self.details.subject
    }

    /// One sentence with the numbers.
    pub fn summary(&self) -> &str {
        &self.details.summary
    }

    /// The reason why it matters.
    pub fn why(&self) -> &str {
        &self.details.why
    }

    /// The recommended change.
    pub fn fix(&self) -> &str {
        &self.details.fix
    }

    /// The highest class from evidence, without symptoms.
    pub fn highest_class(&self) -> Class {
        self.highest_class
    }

    /// The rows of the rule's result, a JSON array of objects.
    pub fn evidence(&self) -> &str {
        &self.details.evidence
    }

    /// The row of the table `finding` at `ts`.
    pub fn row(&self, ts: Micros) -> Finding<'_> {
        Finding {
            ts,
            host: &self.host,
            finding_id: &self.finding_id,
            rule: &self.rule,
            tier: &self.details.tier,
            class: self.class.as_str(),
            state: self.state.as_str(),
            subject: &self.details.subject,
            key: &self.key,
            started_ts: self.started_ts,
            fired_ts: self.fired_ts,
            resolved_ts: self.resolved_ts,
            summary: &self.details.summary,
            why: &self.details.why,
            fix: &self.details.fix,
            evidence: &self.details.evidence,
            cause_finding_id: self.cause.as_ref().map(|cause| cause.finding_id.as_str()),
            cause_rule: self.cause.as_ref().map(|cause| cause.rule.as_str()),
            own_class: Some(self.highest_class.as_str()),
        }
    }

    /// Remembers the row that is written now.
    pub(crate) fn mark_written(&mut self, now: Micros) {
        self.written = WrittenRow {
            ts: now,
            class: self.class,
            row: self.details.row.clone(),
            summary: self.details.summary.clone(),
            cause: self.cause.clone(),
        };
    }
}

/// A change that writes a row of the table `finding`: a new state, a higher class, or changed
/// evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Time of the change.
    pub ts: Micros,
    /// The state before; equal to the current one if only class or evidence changed.
    pub from: State,
    /// The finding as it is now.
    pub finding: OpenFinding,
}

impl Transition {
    /// The row to write.
    pub fn row(&self) -> Finding<'_> {
        self.finding.row(self.ts)
    }

    /// Whether the state changed, and not only class or evidence.
    pub fn is_state_change(&self) -> bool {
        self.from != self.finding.state
    }
}

/// The identity of a finding: 32 hex digits of rule, host, key and start.
pub(crate) fn finding_id(rule: &str, subject: &(String, String), started: Micros) -> String {
    let (host, key) = subject;
    let identity = format!("{rule}\0{host}\0{key}\0{}", started.0);
    format!("{:032x}", SipHasher24::new().hash(identity.as_bytes()).as_u128())
}
