//! An incident: a root finding with all that it explains, as it is kept between ticks and restarts.
//!
//! Everything that a decision depends on is in the document, so that a restart at any tick decides
//! the same.
//!
//! ```text
//!            all findings ended                     5 min
//!   open ──────────────────────────► resolved ─────────────► forgotten
//!    ▲ │ late root of two incidents     │
//!    │ └──────────► merged              │ a finding is back: an update, no second page
//!    └──────────────────────────────────┘
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use crate::civil_time::{MINUTE, SECOND};
use crate::roster::{Recipient, RouteKey};
use crate::title::TitleParts;
use crate::{Finding, IncidentSummary, SymptomLine, Urgency};

/// A resolved incident takes back what comes again within this time.
pub(crate) const HOLD_US: i64 = 5 * MINUTE;
/// A symptom that lost its cause counts with its own class after this time.
pub(crate) const FREED_US: i64 = 60 * SECOND;
/// Findings of an incident that are remembered one by one; the others are only counted.
pub(crate) const MEMBERS_MAX: usize = 200;
const SYMPTOMS_MAX: usize = 20;
/// Recipients that are remembered, so that they get the end as well.
pub(crate) const NOTIFIED_MAX: usize = 100;
/// A document has at most 64 KiB; this is what texts and members may have of it.
const BODY_BYTES_MAX: usize = 40 * 1024;
const EVIDENCE_BYTES_MAX: usize = 8 * 1024;
const TEXT_CHARS_MAX: usize = 1_000;
const LINE_CHARS_MAX: usize = 200;

/// Where an incident is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IncidentState {
    /// Its findings fire.
    Open,
    /// Its findings ended, or a person resolved it.
    Resolved,
    /// It has the same root as an older incident, which continues.
    Merged,
}

impl IncidentState {
    /// The word of the column `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
            Self::Merged => "merged",
        }
    }
}

/// A person works on an incident: it does not escalate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The person.
    pub by: String,
    /// When, microseconds since 1970.
    pub at_us: i64,
    /// How long it holds, microseconds since 1970.
    pub until_us: i64,
}

/// How a finding of an incident relates to its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CauseState {
    /// It has none: its class counts.
    #[serde(rename = "o")]
    Own,
    /// A firing finding explains it.
    #[serde(rename = "e")]
    Explained,
    /// It lost its cause at this time.
    #[serde(rename = "f")]
    Freed(i64),
}

/// A finding of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    #[serde(rename = "s")]
    pub(crate) cause: CauseState,
    /// The highest class that counted.
    #[serde(rename = "c")]
    pub(crate) class: Urgency,
    #[serde(rename = "f")]
    pub(crate) since_us: i64,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_us: Option<i64>,
}

/// The root's texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RootDetails {
    pub(crate) subject_id: String,
    #[serde(default)]
    pub(crate) finding_id: String,
    pub(crate) rule: String,
    pub(crate) host: String,
    pub(crate) tier: String,
    pub(crate) subject: String,
    pub(crate) summary: String,
    pub(crate) why: String,
    pub(crate) fix: String,
    pub(crate) evidence: String,
}

impl RootDetails {
    pub(crate) fn from_finding(finding: &Finding, subject_id: &str) -> Self {
        Self {
            subject_id: subject_id.to_owned(),
            finding_id: cut(&finding.finding_id, LINE_CHARS_MAX),
            rule: cut(&finding.rule, LINE_CHARS_MAX),
            host: cut(&finding.host, LINE_CHARS_MAX),
            tier: cut(&finding.tier, LINE_CHARS_MAX),
            subject: cut(&finding.subject, LINE_CHARS_MAX),
            summary: cut(&finding.summary, TEXT_CHARS_MAX),
            why: cut(&finding.why, TEXT_CHARS_MAX),
            fix: cut(&finding.fix, TEXT_CHARS_MAX),
            evidence: cut_rows(&finding.evidence),
        }
    }
}

/// The next escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Escalation {
    /// Targets that were used so far.
    pub(crate) count: usize,
    pub(crate) due_us: i64,
    /// The pause before it, which bounds `due_us` when the clock is set back.
    pub(crate) pause_us: i64,
}

/// A mail that collects findings before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingMail {
    pub(crate) due_us: i64,
    pub(crate) change: String,
}

/// A root finding with all that it explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    pub(crate) id: String,
    pub(crate) state: IncidentState,
    pub(crate) class: Urgency,
    pub(crate) opened_us: i64,
    pub(crate) resolved_us: Option<i64>,
    /// The person that resolved it by hand.
    pub(crate) resolved_by: Option<String>,
    pub(crate) merged_into: Option<String>,
    pub(crate) ack: Option<Acknowledgement>,
    pub(crate) root: RootDetails,
    pub(crate) symptoms: Vec<SymptomLine>,
    pub(crate) finding_count: usize,
    pub(crate) host_count: usize,
    pub(crate) members: BTreeMap<String, Member>,
    /// Since when no finding fires.
    pub(crate) over_us: Option<i64>,
    /// When the last finding of the root's rule joined.
    pub(crate) joined_us: i64,
    /// When texts and counts were last taken from findings.
    pub(crate) details_us: i64,
    pub(crate) notified: Vec<Recipient>,
    /// The highest class that was sent; a note when nothing was.
    pub(crate) notified_class: Urgency,
    pub(crate) notified_us: i64,
    /// Counts messages; orders them and is part of their ids.
    pub(crate) step: u64,
    /// Findings that the last message covered.
    pub(crate) baseline: usize,
    /// Root rules that messages named.
    pub(crate) announced: Vec<String>,
    pub(crate) escalation: Option<Escalation>,
    pub(crate) pending: Option<PendingMail>,
    /// What silenced it since the last message.
    pub(crate) muted_by: Option<String>,
    /// Whether the last message reported its end.
    pub(crate) is_reported_over: bool,
    /// Whether the next page is the first after a person resolved it.
    pub(crate) is_reopened: bool,
    /// Since when a paged incident has no finding that pages, silenced ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lowered_us: Option<i64>,
    /// The highest class of its findings at this tick, silenced ones included; `None` while each is
    /// explained.
    #[serde(skip)]
    pub(crate) current: Option<Urgency>,
    /// The highest class of its findings that is not silenced, at this tick.
    #[serde(skip)]
    pub(crate) loud: Urgency,
    /// Whether the document differs from the one that is kept.
    #[serde(skip)]
    pub(crate) is_changed: bool,
}

impl Incident {
    /// An incident that opens now.
    pub(crate) fn open(id: String, now: Micros, root: RootDetails) -> Self {
        Self {
            id,
            state: IncidentState::Open,
            class: Urgency::Note,
            opened_us: now.0,
            resolved_us: None,
            resolved_by: None,
            merged_into: None,
            ack: None,
            root,
            symptoms: Vec::new(),
            finding_count: 0,
            host_count: 0,
            members: BTreeMap::new(),
            over_us: None,
            joined_us: now.0,
            details_us: now.0,
            notified: Vec::new(),
            notified_class: Urgency::Note,
            notified_us: now.0,
            step: 0,
            baseline: 0,
            announced: Vec::new(),
            escalation: None,
            pending: None,
            muted_by: None,
            is_reported_over: false,
            is_reopened: false,
            lowered_us: None,
            current: None,
            loud: Urgency::Note,
            is_changed: true,
        }
    }

    /// Id that people type.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it is in its life.
    pub fn state(&self) -> IncidentState {
        self.state
    }

    /// The highest class since it opened.
    pub fn class(&self) -> Urgency {
        self.class
    }

    /// The acknowledgement that holds.
    pub fn acknowledgement(&self) -> Option<&Acknowledgement> {
        self.ack.as_ref()
    }

    /// The older incident that it was merged into.
    pub fn merged_into(&self) -> Option<&str> {
        self.merged_into.as_deref()
    }

    /// The person that resolved it by hand.
    pub fn resolved_by(&self) -> Option<&str> {
        self.resolved_by.as_deref()
    }

    /// What silenced it since the last message: a silence or a window.
    pub fn muted_by(&self) -> Option<&str> {
        self.muted_by.as_deref()
    }

    /// The root finding.
    pub fn root_finding_id(&self) -> &str {
        &self.root.finding_id
    }

    /// The incident as messages show it.
    pub fn summary(&self) -> IncidentSummary {
        let root = self.root.clone();
        let behind = self.finding_count.saturating_sub(1);
        let parts =
            TitleParts { host: &root.host, rule: &root.rule, summary: &root.summary, behind };
        IncidentSummary {
            id: self.id.clone(),
            class: self.class,
            title: parts.title(),
            root_rule: root.rule,
            host: root.host,
            tier: root.tier,
            subject: root.subject,
            summary: root.summary,
            why: root.why,
            fix: root.fix,
            evidence: root.evidence,
            symptoms: self.symptoms.clone(),
            finding_count: self.finding_count,
            host_count: self.host_count,
            opened_us: self.opened_us,
            resolved_us: self.resolved_us,
            acked_by: self.ack.as_ref().map(|ack| ack.by.clone()),
        }
    }

    pub(crate) fn route_key(&self) -> RouteKey<'_> {
        let root = &self.root;
        RouteKey { rule: &root.rule, host: &root.host, tier: &root.tier, subject: &root.subject }
    }

    /// Whether it counts among the open ones.
    pub(crate) fn is_open(&self) -> bool {
        self.state == IncidentState::Open
    }

    /// Whether a person resolved it while its findings fire.
    pub(crate) fn is_resolved_by_hand(&self) -> bool {
        self.state == IncidentState::Resolved && self.resolved_by.is_some()
    }

    /// Takes texts and counts from the findings that fire: the root first, then the others.
    pub(crate) fn describe(&mut self, now: Micros, findings: &[(&str, &Finding)]) {
        let root = findings.iter().find(|(subject, _)| *subject == self.root.subject_id);
        if let Some((subject, finding)) = root {
            self.root = RootDetails::from_finding(finding, subject);
        }
        let others = findings.iter().filter(|(subject, _)| *subject != self.root.subject_id);
        let lines = others.take(SYMPTOMS_MAX).map(|(_, finding)| SymptomLine {
            rule: cut(&finding.rule, LINE_CHARS_MAX),
            host: cut(&finding.host, LINE_CHARS_MAX),
            summary: cut(&finding.summary, LINE_CHARS_MAX),
        });
        self.symptoms = lines.collect();
        let hosts = findings.iter().map(|(_, finding)| finding.host.as_str());
        let mut hosts: Vec<&str> = hosts.filter(|host| !host.is_empty()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        self.finding_count = findings.len();
        self.host_count = hosts.len();
        self.details_us = now.0;
        self.is_changed = true;
        if self.body().len() > BODY_BYTES_MAX {
            self.root.evidence = "[]".to_owned();
            self.symptoms.truncate(SYMPTOMS_MAX / 4);
        }
    }

    /// Whether texts or counts of the findings that fire differ from the kept ones.
    pub(crate) fn is_stale(&self, findings: &[(&str, &Finding)]) -> bool {
        let root = findings.iter().find(|(subject, _)| *subject == self.root.subject_id);
        findings.len() != self.finding_count
            || root.is_some_and(|(_, root)| cut(&root.summary, TEXT_CHARS_MAX) != self.root.summary)
    }

    /// The document.
    pub(crate) fn body(&self) -> String {
        serde_json::to_string(self).expect("an incident has only texts, numbers and lists")
    }
}

/// The first characters of a text.
fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// The first rows of a JSON array that are short enough together.
fn cut_rows(rows: &str) -> String {
    if rows.len() <= EVIDENCE_BYTES_MAX {
        return rows.to_owned();
    }
    let parsed: Vec<serde_json::Value> = serde_json::from_str(rows).unwrap_or_default();
    let mut kept = String::from("[");
    for row in parsed {
        let row = row.to_string();
        if kept.len() + row.len() + 2 > EVIDENCE_BYTES_MAX {
            break;
        }
        if kept.len() > 1 {
            kept.push(',');
        }
        kept.push_str(&row);
    }
    kept + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_cut_between_rows() {
        let row = format!("{{\"text\":\"{}\"}}", "x".repeat(3_000));
        let rows = format!("[{row},{row},{row}]");
        assert_eq!(cut_rows(&rows), format!("[{row},{row}]"));
        assert_eq!(cut_rows("[]"), "[]");
        assert_eq!(cut_rows(&"x".repeat(9_000)), "[]");
    }
}
