//! What holds for all repairs together: the stop, failures of the last hour, the last storm.

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::facts::HealFacts;
use crate::Urgency;
use crate::civil_time::{MINUTE, SECOND};

/// Failures within an hour that stop all repairs.
pub(crate) const FAILURES_MAX: usize = 2;
const FAILURES_US: i64 = 60 * MINUTE;
/// Findings that begin within this time may be a storm.
const STORM_SPAN_US: i64 = 60 * SECOND;
/// Repairs wait for this time after a storm.
const STORM_HOLD_US: i64 = 10 * MINUTE;
/// How precisely a storm that continues is kept, so that it is not written every second.
const STORM_STEP_US: i64 = 10 * SECOND;

/// Why no repair runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealStop {
    /// The person that stopped them; weir without one.
    pub by: Option<String>,
    /// Why.
    pub reason: String,
    /// When, microseconds since 1970.
    pub at_us: i64,
}

/// What holds for all repairs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HealControl {
    pub(crate) stop: Option<HealStop>,
    pub(crate) failures_us: Vec<i64>,
    pub(crate) storm_us: Option<i64>,
    #[serde(skip)]
    pub(crate) is_changed: bool,
}

impl HealControl {
    /// Notes whether many findings began at once.
    pub(crate) fn observe_storm(&mut self, now: Micros, facts: &HealFacts<'_>, most: u32) {
        let begun = facts.firing.iter().filter(|found| {
            let finding = &found.finding;
            let counts = finding.class >= Urgency::Mail || finding.cause_finding_id.is_some();
            counts && (0..=STORM_SPAN_US).contains(&(now.0 - found.fired.0))
        });
        let is_storm = begun.count() >= usize::try_from(most.max(2)).unwrap_or(usize::MAX);
        let is_kept = self.storm_us.is_some_and(|at| now.0 - at < STORM_STEP_US);
        if is_storm && !is_kept {
            self.storm_us = Some(now.0);
            self.is_changed = true;
        }
        if self.storm_us.is_some_and(|at| now.0 - at > STORM_HOLD_US + STORM_STEP_US) {
            self.storm_us = None;
            self.is_changed = true;
        }
    }

    /// Whether the last storm is less than ten minutes ago.
    pub(crate) fn is_stormy(&self, now: Micros) -> bool {
        self.storm_us.is_some_and(|at| now.0 - at < STORM_HOLD_US + STORM_STEP_US)
    }

    /// Notes a failed run; the second within an hour stops all repairs.
    pub(crate) fn fail(&mut self, now: Micros) {
        self.failures_us.retain(|at| now.0 - at < FAILURES_US);
        self.failures_us.push(now.0);
        self.is_changed = true;
        if self.failures_us.len() >= FAILURES_MAX && self.stop.is_none() {
            let count = self.failures_us.len();
            let reason = format!("{count} repairs failed within an hour");
            self.stop = Some(HealStop { by: None, reason, at_us: now.0 });
        }
    }

    /// Bounds times, for the clock may be set back.
    pub(crate) fn settle_clock(&mut self, now: Micros) {
        let stop = self.stop.as_mut().map(|stop| &mut stop.at_us);
        let times = self.failures_us.iter_mut().chain(&mut self.storm_us).chain(stop);
        for time in times.filter(|time| **time > now.0) {
            *time = now.0;
            self.is_changed = true;
        }
    }

    /// The document.
    pub(crate) fn body(&self) -> String {
        serde_json::to_string(self).expect("the state of all repairs has only texts and numbers")
    }
}
