//! How far a repair goes by itself for a rule, an action and a role: a step that is earned by runs
//! that people approved, and lost by one that failed.

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::policy::HealStep;
use super::run::HealRun;
use crate::civil_time::DAY;
use crate::identity::short_id;

/// Approved runs that were verified, before the next step.
pub(crate) const MERIT_RUNS: usize = 5;
/// Time since the first of them.
pub(crate) const MERIT_US: i64 = 3 * DAY;
/// Runs on one subject within this time count as repeats.
pub(crate) const REPEAT_US: i64 = 7 * DAY;
/// From this run within that time a repair is only suggested.
pub(crate) const REPEAT_RUNS: usize = 4;
/// Verified runs that are remembered.
const MERIT_MAX: usize = 20;

/// The step of one repair on one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealLadder {
    /// Identity.
    pub id: String,
    /// The rule.
    pub rule: String,
    /// The action.
    pub action: String,
    /// The role; empty if unknown.
    pub role: String,
    /// The highest step now; the configuration may be lower.
    pub limit: HealStep,
    /// Times of approved runs that were verified since the last failure or step, microseconds
    /// since 1970.
    pub verified_us: Vec<i64>,
    /// Why the step changed last.
    pub reason: String,
    /// When it changed, microseconds since 1970.
    pub changed_us: i64,
    /// Whether the document differs from the one that is kept.
    #[serde(skip)]
    pub(crate) is_changed: bool,
}

/// The repair and role of a ladder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LadderKey<'a> {
    pub(crate) rule: &'a str,
    pub(crate) action: &'a str,
    pub(crate) role: &'a str,
}

impl<'a> LadderKey<'a> {
    pub(crate) fn of(run: &'a HealRun) -> Self {
        Self { rule: &run.rule, action: &run.action, role: &run.role }
    }

    pub(crate) fn id(self) -> String {
        short_id(&["ladder", self.rule, self.action, self.role])
    }
}

impl HealLadder {
    /// A repair without a past: runs need an approval.
    pub(crate) fn new(key: LadderKey<'_>) -> Self {
        Self {
            id: key.id(),
            rule: key.rule.to_owned(),
            action: key.action.to_owned(),
            role: key.role.to_owned(),
            limit: HealStep::Ask,
            verified_us: Vec::new(),
            reason: String::new(),
            changed_us: 0,
            is_changed: false,
        }
    }

    /// Notes a verified run; only approved ones count.
    pub(crate) fn credit(&mut self, now: Micros, run: &HealRun) {
        if run.approved_by.is_none() {
            return;
        }
        self.verified_us.push(now.0);
        let excess = self.verified_us.len().saturating_sub(MERIT_MAX);
        // The first one decides about the days, so later ones go.
        self.verified_us.truncate(self.verified_us.len() - excess);
        self.is_changed = true;
    }

    /// One step down from the step that applied.
    pub(crate) fn lower(&mut self, now: Micros, from: HealStep, reason: &str) {
        self.set(now, self.limit.min(from.lower()), reason);
    }

    /// At most suggests from now on.
    pub(crate) fn cap_at_suggest(&mut self, now: Micros, reason: &str) {
        if self.limit > HealStep::Suggest {
            self.set(now, HealStep::Suggest, reason);
        }
    }

    /// Forgets earlier successes; the step stays.
    pub(crate) fn reset(&mut self) {
        self.is_changed |= !self.verified_us.is_empty();
        self.verified_us.clear();
    }

    /// What is missing for the next step; `None` if it is earned.
    pub(crate) fn missing(&self, now: Micros) -> Option<String> {
        // Nothing runs by itself when it is suggested.
        if self.limit == HealStep::Observe {
            return None;
        }
        let count = self.verified_us.len();
        if count < MERIT_RUNS {
            return Some(format!("{count} of {MERIT_RUNS} approved runs are verified"));
        }
        let first = self.verified_us.iter().copied().min().unwrap_or(now.0);
        (now.0 - first < MERIT_US)
            .then(|| "the first of its verified runs is less than 3 days old".to_owned())
    }

    /// One step up, by a person.
    pub(crate) fn raise(&mut self, now: Micros, by: &str) {
        self.set(now, self.limit.higher(), &format!("raised by {by}"));
    }

    /// Bounds times, for the clock may be set back.
    pub(crate) fn settle_clock(&mut self, now: Micros) {
        let late = self.verified_us.iter_mut().chain([&mut self.changed_us]);
        for time in late.filter(|time| **time > now.0) {
            *time = now.0;
            self.is_changed = true;
        }
    }

    fn set(&mut self, now: Micros, limit: HealStep, reason: &str) {
        self.limit = limit;
        self.verified_us.clear();
        reason.clone_into(&mut self.reason);
        self.changed_us = now.0;
        self.is_changed = true;
    }

    /// The document.
    pub(crate) fn body(&self) -> String {
        serde_json::to_string(self).expect("a ladder has only texts and numbers")
    }
}
