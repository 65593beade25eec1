//! A finding from its first second to its last, and the row that each change of it makes.
//!
//! ```text
//!              true              for how long `for` says           gone for `clear`
//!  inactive ─────────► pending ─────────────────────────► firing ──────────────────► resolved
//!                         │ gone                                                        ▲
//!                         └──────────────────────────────────────────────────────────────┘
//! ```

use siphasher::sip128::SipHasher24;
use weir_tables::{Finding, Micros};

use crate::{Class, Row};

/// Where a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The condition is not true.
    Inactive,
    /// It was true and is not any more.
    Resolved,
    /// It is true, but not yet for long enough.
    Pending,
    /// It is true.
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

/// What a rule says of one subject: the texts and the evidence made of the rows of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Details {
    pub(crate) tier: String,
    pub(crate) subject: String,
    pub(crate) summary: String,
    pub(crate) why: String,
    pub(crate) fix: String,
    pub(crate) evidence: String,
    /// The row that the texts were made of; `None` after a restart, until the rule has run again.
    pub(crate) row: Option<Row>,
}

/// A finding that is pending or firing.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenFinding {
    /// Stays the same until it is resolved.
    pub finding_id: String,
    /// The rule's id.
    pub rule: String,
    /// The host, empty when it is about more than one.
    pub host: String,
    /// The key columns as a JSON object.
    pub key: String,
    /// Page, mail or note: the highest since it opened, a note while another finding explains it.
    pub class: Class,
    /// Pending, firing, or resolved in its last transition.
    pub state: State,
    /// When the condition was first true.
    pub started_ts: Micros,
    /// When it began to fire.
    pub fired_ts: Option<Micros>,
    /// When it was resolved.
    pub resolved_ts: Option<Micros>,
    /// The finding at the root of this one, while that fires.
    pub cause: Option<Cause>,
    pub(crate) details: Details,
    pub(crate) key_values: Vec<(String, serde_json::Value)>,
    pub(crate) highest_class: Class,
    pub(crate) is_flapping: bool,
    pub(crate) absent_since: Option<Micros>,
    pub(crate) written: Written,
}

/// The root of a symptom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its finding.
    pub finding_id: String,
    /// Its rule.
    pub rule: String,
}

/// What the newest row in the table says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) ts: Micros,
    pub(crate) class: Class,
    pub(crate) row: Option<Row>,
    pub(crate) summary: String,
    pub(crate) cause: Option<Cause>,
}

impl OpenFinding {
    /// Whether it fires and nothing that fires explains it.
    pub fn is_root(&self) -> bool {
        self.state == State::Firing && self.cause.is_none()
    }

    /// Where it hurts.
    pub fn tier(&self) -> &str {
        &self.details.tier
    }

    /// What it is about, for a person.
    pub fn subject(&self) -> &str {
        &self.details.subject
    }

    /// One sentence with the numbers.
    pub fn summary(&self) -> &str {
        &self.details.summary
    }

    /// What it means.
    pub fn why(&self) -> &str {
        &self.details.why
    }

    /// What to change.
    pub fn fix(&self) -> &str {
        &self.details.fix
    }

    /// The highest class that its own evidence has given.
    pub fn highest_class(&self) -> Class {
        self.highest_class
    }

    /// The rows of the rule's answer, a JSON array of objects.
    pub fn evidence(&self) -> &str {
        &self.details.evidence
    }

    /// The row of the table `finding` that says how it stands at `ts`.
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

    /// Remembers that the row as it is now goes to the table.
    pub(crate) fn mark_written(&mut self, now: Micros) {
        self.written = Written {
            ts: now,
            class: self.class,
            row: self.details.row.clone(),
            summary: self.details.summary.clone(),
            cause: self.cause.clone(),
        };
    }
}

/// A change that makes a row of the table `finding`: a new state, a higher class, or evidence that has moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// When.
    pub ts: Micros,
    /// The state before; the same as now when only class or evidence changed.
    pub from: State,
    /// The finding as it is now.
    pub finding: OpenFinding,
}

impl Transition {
    /// The row to be kept.
    pub fn row(&self) -> Finding<'_> {
        self.finding.row(self.ts)
    }

    /// Whether the state changed, and not only class or evidence.
    pub fn is_state_change(&self) -> bool {
        self.from != self.finding.state
    }
}

/// The identity of a finding: 32 hex digits of rule, host, key and start.
pub(crate) fn finding_id(rule: &str, host: &str, key: &str, started: Micros) -> String {
    let identity = format!("{rule}\0{host}\0{key}\0{}", started.0);
    format!("{:032x}", SipHasher24::new().hash(identity.as_bytes()).as_u128())
}
