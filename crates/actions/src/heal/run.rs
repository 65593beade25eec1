//! A run: one repair for one finding, as it is kept between ticks and restarts.
//!
//! ```text
//!             a rule refuses                                  exit 0        resolved, and away
//!  proposed ◄───────────────► refused       ordered ► started ────► ended ───────────────────► verified
//!     │ ask                                  ▲  │ no word               │ fires, worse, stale
//!     ▼                                      │  ▼                       ▼
//!   asked ──────────────► approved ──────────┘ unknown               failed ──────► undone
//! ```
//!
//! An order has one id for ever: a run that has been ordered is never ordered again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::dry_run::DryRunRecord;
use super::facts::{HealFinding, OrderResult};
use super::policy::HealStep;
use super::refusal::RefusalReason;
use crate::Finding;
use crate::civil_time::{DAY, MINUTE, SECOND};
use crate::identity::{long_id, short_id, subject_id};

/// An order that no host began within this time is dropped by the host.
pub(crate) const ORDER_US: i64 = 30 * SECOND;
/// Time for the answer of an order beyond its end.
pub(crate) const ANSWER_US: i64 = 30 * SECOND;
/// Longest time from the start of an order to the report of its end.
pub(crate) const REPORT_US: i64 = 15 * MINUTE;
/// A run without an order is forgotten when its finding is gone for this time.
pub(crate) const RELEASE_US: i64 = 5 * MINUTE;
/// A run with an order is kept for this time, for limits and repeats.
pub(crate) const KEPT_US: i64 = 8 * DAY;
/// Longest text of a reason, an output or a figure.
const TEXT_CHARS_MAX: usize = 1_000;

/// Where a run is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It would be allowed now.
    Proposed,
    /// A limit, a person or the host refused it.
    Refused,
    /// An approval is pending.
    Asked,
    /// A person approved it.
    Approved,
    /// A dry run is ordered: what it shows decides about the order.
    #[serde(rename = "dry_run")]
    DryRun,
    /// The order is decided, and may be on its way.
    Ordered,
    /// Its programs run.
    Started,
    /// Its programs succeeded; the effect is verified.
    Ended,
    /// The finding was resolved and stayed away.
    Verified,
    /// It had no lasting effect, or did harm.
    Failed,
    /// It was taken back.
    Undone,
    /// No report came; it is never sent again.
    Unknown,
}

impl RunState {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Refused => "refused",
            Self::Asked => "asked",
            Self::Approved => "approved",
            Self::DryRun => "dry_run",
            Self::Ordered => "ordered",
            Self::Started => "started",
            Self::Ended => "ended",
            Self::Verified => "verified",
            Self::Failed => "failed",
            Self::Undone => "undone",
            Self::Unknown => "unknown",
        }
    }
}

/// A repair that is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// The order, 32 hex digits.
    pub order_id: String,
    /// When it was decided, microseconds since 1970.
    pub ordered_us: i64,
    /// The person that wanted it; weir without one.
    pub by: Option<String>,
    /// How it ended, in words; `None` before.
    pub outcome: Option<String>,
}

/// One repair for one finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealRun {
    /// Id that people type.
    pub id: String,
    /// The finding's rule.
    pub rule: String,
    /// The action.
    pub action: String,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
    /// The host that is repaired; empty if it cannot be determined.
    pub host: String,
    /// The role of that host; empty if unknown.
    pub role: String,
    /// Identity of the finding's subject.
    pub subject_id: String,
    /// The finding.
    pub finding_id: String,
    /// The finding's subject for people.
    pub subject: String,
    /// The incident.
    pub incident_id: Option<String>,
    /// The step that applied last.
    pub step: HealStep,
    /// Its state.
    pub state: RunState,
    /// Why it was refused, if a limit refused it.
    pub refusal: Option<RefusalReason>,
    /// The state in words: why it was refused, failed or is unknown.
    pub reason: String,
    /// When it was proposed, microseconds since 1970.
    pub opened_us: i64,
    /// When its state or reason last changed, microseconds since 1970.
    pub changed_us: i64,
    /// Until when an approval is awaited, microseconds since 1970.
    pub asked_until_us: Option<i64>,
    /// The person that approved it.
    pub approved_by: Option<String>,
    /// The dry run before the order.
    #[serde(default)]
    pub dry_run: Option<DryRunRecord>,
    /// The order, 32 hex digits; set once.
    pub order_id: Option<String>,
    /// When it was ordered, microseconds since 1970.
    pub ordered_us: Option<i64>,
    /// When the host accepted or started it, microseconds since 1970.
    pub accepted_us: Option<i64>,
    /// When its programs ended, microseconds since 1970.
    pub ended_us: Option<i64>,
    /// How its programs ended.
    pub result: Option<OrderResult>,
    /// The rule's `clear` when it was ordered, microseconds.
    pub clear_us: i64,
    /// Other hosts of the role with a finding when it was ordered.
    pub siblings_ill: usize,
    /// The finding's summary when it was ordered.
    pub before: String,
    /// What verification found.
    pub after: String,
    /// When the finding was resolved after the end, microseconds since 1970.
    pub resolved_us: Option<i64>,
    /// What became of taking it back.
    pub undo: Option<UndoRecord>,
    /// When it reached its last state, microseconds since 1970.
    pub closed_us: Option<i64>,
    /// Since when its finding does not fire, microseconds since 1970.
    pub gone_us: Option<i64>,
    /// Whether the finding's next firing is a new run.
    pub is_released: bool,
    /// Whether the document differs from the one that is kept.
    #[serde(skip)]
    pub(crate) is_changed: bool,
}

impl HealRun {
    /// A run that is proposed now.
    pub(crate) fn open(now: Micros, found: &HealFinding, plan: RunPlan) -> Self {
        let finding = &found.finding;
        let subject = subject_id(finding);
        let opened = now.0.to_string();
        Self {
            id: short_id(&["heal", &subject, &plan.action, &opened]),
            rule: finding.rule.clone(),
            action: plan.action,
            params: plan.params,
            host: plan.host,
            role: plan.role,
            subject_id: subject,
            finding_id: finding.finding_id.clone(),
            subject: cut(&finding.subject),
            incident_id: found.incident_id.clone(),
            step: HealStep::Observe,
            state: RunState::Proposed,
            refusal: None,
            reason: String::new(),
            opened_us: now.0,
            changed_us: now.0,
            asked_until_us: None,
            approved_by: None,
            dry_run: None,
            order_id: None,
            ordered_us: None,
            accepted_us: None,
            ended_us: None,
            result: None,
            clear_us: 0,
            siblings_ill: 0,
            before: String::new(),
            after: String::new(),
            resolved_us: None,
            undo: None,
            closed_us: None,
            gone_us: None,
            is_released: false,
            is_changed: true,
        }
    }

    /// Whether it waits for an order: limits are checked at each tick.
    pub(crate) fn is_waiting(&self) -> bool {
        let states = [RunState::Proposed, RunState::Refused, RunState::Asked, RunState::Approved];
        self.closed_us.is_none() && states.contains(&self.state)
    }

    /// Whether its programs may run, or their effect is not visible yet.
    pub(crate) fn is_acting(&self) -> bool {
        match self.state {
            RunState::DryRun | RunState::Ordered | RunState::Started => true,
            RunState::Ended => self.resolved_us.is_none(),
            _ => self.undo.as_ref().is_some_and(|undo| undo.outcome.is_none()),
        }
    }

    /// Changes the state; the reason is for people.
    pub(crate) fn set(&mut self, now: Micros, state: RunState, reason: impl Into<String>) {
        self.state = state;
        self.reason = cut(&reason.into());
        if state != RunState::Refused {
            self.refusal = None;
        }
        self.changed_us = now.0;
        self.is_changed = true;
    }

    /// Sets the last state: nothing more is decided about the run, except taking it back.
    pub(crate) fn close(&mut self, now: Micros, state: RunState, reason: impl Into<String>) {
        self.set(now, state, reason);
        self.closed_us = Some(now.0);
    }

    /// Decides the order; `false` if it was decided before. The id is the same on every hub,
    /// so a host that has it twice runs it once.
    pub(crate) fn order(&mut self, now: Micros, snapshot: &RunSnapshot) -> bool {
        if self.order_id.is_some() {
            return false;
        }
        self.order_id = Some(long_id(&["order", &self.id, "run"]));
        self.ordered_us = Some(now.0);
        self.clear_us = snapshot.clear_us;
        self.siblings_ill = snapshot.siblings_ill;
        self.before = cut(&snapshot.before);
        let mut reason = match &self.approved_by {
            Some(by) => format!("approved by {by}"),
            None => "without an approval".to_owned(),
        };
        if let Some(dry) = &self.dry_run {
            reason = format!("{reason}; dry run: {}", dry.text);
        }
        self.set(now, RunState::Ordered, reason);
        true
    }

    /// Decides to take it back; once.
    pub(crate) fn order_undo(&mut self, now: Micros, by: Option<String>) {
        let order_id = long_id(&["order", &self.id, "undo"]);
        self.undo = Some(UndoRecord { order_id, ordered_us: now.0, by, outcome: None });
        self.changed_us = now.0;
        self.is_changed = true;
    }

    /// When no report is expected any more.
    pub(crate) fn report_deadline(&self) -> i64 {
        match (self.accepted_us, self.ordered_us) {
            (Some(accepted), _) => accepted + REPORT_US,
            (None, Some(ordered)) => ordered + ORDER_US + ANSWER_US,
            (None, None) => i64::MAX,
        }
    }

    /// Time in which the finding has to be resolved after the end.
    pub(crate) fn settle_us(&self) -> i64 {
        (60 * SECOND).max(3 * self.clear_us)
    }

    /// Time for which the finding has to stay away.
    pub(crate) fn hold_us(&self) -> i64 {
        (30 * MINUTE).max(10 * self.clear_us)
    }

    /// Notes whether its finding fires, and releases a run that is over.
    pub(crate) fn observe_presence(&mut self, now: Micros, is_firing: bool) {
        let before = (self.gone_us, self.is_released);
        match (is_firing, self.gone_us) {
            (true, _) => self.gone_us = None,
            (false, None) => self.gone_us = Some(now.0),
            (false, Some(_)) => {}
        }
        let is_gone = self.gone_us.is_some_and(|gone| now.0 - gone >= RELEASE_US);
        let is_over = self.closed_us.is_some() || (self.is_waiting() && is_gone);
        let is_at_once = self.state == RunState::Verified || self.state == RunState::Undone;
        self.is_released |= is_over && (is_gone || (is_at_once && !is_firing));
        self.is_changed |= before != (self.gone_us, self.is_released);
    }

    /// Whether its document can be deleted.
    pub(crate) fn is_forgettable(&self, now: Micros) -> bool {
        let is_done = self.is_released && !self.is_acting();
        match self.ordered_us {
            Some(ordered) => is_done && now.0 - ordered >= KEPT_US,
            None => is_done,
        }
    }

    /// Bounds every time by its own length, for the clock may be set back.
    pub(crate) fn settle_clock(&mut self, now: Micros) {
        let mut is_changed = false;
        let past = [
            Some(&mut self.opened_us),
            Some(&mut self.changed_us),
            self.ordered_us.as_mut(),
            self.accepted_us.as_mut(),
            self.ended_us.as_mut(),
            self.resolved_us.as_mut(),
            self.closed_us.as_mut(),
            self.gone_us.as_mut(),
            self.undo.as_mut().map(|undo| &mut undo.ordered_us),
        ];
        let dry = self.dry_run.iter_mut().flat_map(|dry| {
            [Some(&mut dry.ordered_us), dry.accepted_us.as_mut(), dry.ended_us.as_mut()]
        });
        for time in past.into_iter().chain(dry).flatten().filter(|time| **time > now.0) {
            *time = now.0;
            is_changed = true;
        }
        self.is_changed |= is_changed;
    }

    /// The document.
    pub(crate) fn body(&self) -> String {
        serde_json::to_string(self).expect("a run has only texts, numbers and lists")
    }
}

/// What a run is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunPlan {
    pub(crate) action: String,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) host: String,
    pub(crate) role: String,
}

/// What is compared after a run.
#[derive(Clone, Debug)]
pub(crate) struct RunSnapshot {
    pub(crate) clear_us: i64,
    pub(crate) siblings_ill: usize,
    pub(crate) before: String,
}

impl RunSnapshot {
    pub(crate) fn of(finding: &Finding, clear_us: i64, siblings_ill: usize) -> Self {
        Self { clear_us, siblings_ill, before: finding.summary.clone() }
    }
}

/// The first characters of a text.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
