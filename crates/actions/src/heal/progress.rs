//! A run after its order: reports of the host, silence, and whether the repair helped.
//!
//! What cannot be told counts as failed: a host that is silent proves nothing.

use weir_tables::Micros;

use super::facts::{OrderOutcome, OrderReport, OrderResult, RuleTiming};
use super::refusal::RefusalReason;
use super::run::{HealRun, RunState};
use crate::civil_time::{MINUTE, SECOND};

/// A rule whose newest run is older than this many intervals proves nothing.
const FRESH_INTERVALS: i64 = 3;
const FRESH_MIN_US: i64 = 30 * SECOND;
/// Longest time from the order of an undo to its report.
const UNDO_US: i64 = 16 * MINUTE;

/// What became of a run, for ladder, stop and undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEvent {
    /// It helped.
    Verified,
    /// It did not help, or did harm.
    Failed,
    /// No report came.
    Unknown,
    /// It was taken back.
    Undone,
}

/// What verification looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSight<'a> {
    /// Whether the finding's subject fires.
    pub(crate) is_firing: bool,
    /// The rule, if it is loaded.
    pub(crate) rule: Option<RuleTiming>,
    /// Whether the host sent rows within the last minute.
    pub(crate) is_seen: bool,
    /// Other hosts of the role with a finding.
    pub(crate) siblings_ill: usize,
    /// A figure that is clearly worse.
    pub(crate) harm: Option<&'a str>,
}

impl HealRun {
    /// Takes a report about the run's order or its undo; repeated reports change nothing.
    pub(crate) fn report(&mut self, now: Micros, report: &OrderReport) -> Option<RunEvent> {
        if report.host != self.host {
            return None;
        }
        let dry = self.dry_run.as_ref().filter(|_| self.state == RunState::DryRun);
        if dry.is_some_and(|dry| dry.order_id == report.order_id) {
            self.report_dry_run(now, &report.outcome);
            return None;
        }
        if self.order_id.as_ref() == Some(&report.order_id) {
            return match self.state {
                RunState::Ordered | RunState::Started => self.report_order(now, &report.outcome),
                RunState::Unknown => {
                    self.report_late(now, &report.outcome);
                    None
                }
                _ => None,
            };
        }
        let is_undo = self.undo.as_ref().is_some_and(|undo| undo.order_id == report.order_id);
        if is_undo { self.report_undo(now, &report.outcome) } else { None }
    }

    fn report_order(&mut self, now: Micros, outcome: &OrderOutcome) -> Option<RunEvent> {
        match outcome {
            OrderOutcome::Accepted | OrderOutcome::Repeated => {
                self.is_changed |= self.accepted_us.is_none();
                self.accepted_us.get_or_insert(now.0);
                None
            }
            OrderOutcome::Refused(why) => {
                self.close(now, RunState::Refused, format!("refused by the host: {why}"));
                self.refusal = Some(RefusalReason::ByHost);
                None
            }
            OrderOutcome::Started => {
                self.accepted_us.get_or_insert(now.0);
                if self.state == RunState::Ordered {
                    let reason = self.reason.clone();
                    self.set(now, RunState::Started, reason);
                }
                None
            }
            OrderOutcome::Ended(result) => self.end(now, result),
            OrderOutcome::Lost(why) => {
                self.close(now, RunState::Unknown, format!("the host lost its outcome: {why}"));
                Some(RunEvent::Unknown)
            }
        }
    }

    fn end(&mut self, now: Micros, result: &OrderResult) -> Option<RunEvent> {
        self.accepted_us.get_or_insert(now.0);
        self.ended_us = Some(now.0);
        self.result = Some(result.clone());
        if result.is_success() {
            self.set(now, RunState::Ended, "waiting for the finding to be resolved");
            return None;
        }
        let (state, reason) = (RunState::Failed, exit_text(result));
        self.close(now, state, reason);
        Some(RunEvent::Failed)
    }

    /// A report after the deadline is noted; the run stays unknown.
    fn report_late(&mut self, now: Micros, outcome: &OrderOutcome) {
        let OrderOutcome::Ended(result) = outcome else { return };
        if self.result.is_some() {
            return;
        }
        self.result = Some(result.clone());
        let reason = format!("{}; reported late: {}", self.reason, exit_text(result));
        self.set(now, RunState::Unknown, reason);
    }

    fn report_undo(&mut self, now: Micros, outcome: &OrderOutcome) -> Option<RunEvent> {
        let undo = self.undo.as_mut()?;
        if undo.outcome.is_some() {
            return None;
        }
        let (text, is_undone) = match outcome {
            OrderOutcome::Refused(why) => (format!("cannot be taken back: {why}"), false),
            OrderOutcome::Ended(result) if result.is_success() => ("taken back".to_owned(), true),
            OrderOutcome::Ended(result) => {
                (format!("taking it back failed: {}", exit_text(result)), false)
            }
            OrderOutcome::Lost(why) => (format!("taking it back has no outcome: {why}"), false),
            OrderOutcome::Accepted | OrderOutcome::Repeated | OrderOutcome::Started => return None,
        };
        self.end_undo(now, &text, is_undone);
        is_undone.then_some(RunEvent::Undone)
    }

    fn end_undo(&mut self, now: Micros, text: &str, is_undone: bool) {
        let Some(undo) = self.undo.as_mut() else { return };
        undo.outcome = Some(text.to_owned());
        let earlier = self.reason.clone();
        let reason =
            if earlier.is_empty() { text.to_owned() } else { format!("{earlier}; {text}") };
        let state = match self.state {
            _ if is_undone => RunState::Undone,
            // A person took it back while it was verified, and that did not work.
            RunState::Ended => RunState::Failed,
            state => state,
        };
        self.close(now, state, reason);
    }

    /// Ends the wait for reports that are overdue.
    pub(crate) fn expire(&mut self, now: Micros) -> Option<RunEvent> {
        self.expire_dry_run(now);
        let is_overdue = self
            .undo
            .as_ref()
            .is_some_and(|undo| undo.outcome.is_none() && now.0 - undo.ordered_us > UNDO_US);
        if is_overdue {
            self.end_undo(now, "taking it back has no report", false);
        }
        let is_waiting = matches!(self.state, RunState::Ordered | RunState::Started);
        if !is_waiting || now.0 <= self.report_deadline() {
            return None;
        }
        let reason = match self.accepted_us {
            Some(_) => "the host accepted the order and never reported its end",
            None => "the host never answered the order",
        };
        self.close(now, RunState::Unknown, reason);
        Some(RunEvent::Unknown)
    }

    /// Compares what there is after the end with what there was before.
    pub(crate) fn verify(&mut self, now: Micros, sight: &RunSight<'_>) -> Option<RunEvent> {
        let ended = self.ended_us.filter(|_| self.state == RunState::Ended)?;
        if self.undo.is_some() {
            return None;
        }
        let is_settling = now.0 - ended <= self.settle_us();
        if is_settling && let Some(harm) = self.harm(sight) {
            return Some(self.fail(now, harm));
        }
        match self.resolved_us {
            None => self.verify_end(now, sight, ended),
            Some(resolved) => self.verify_hold(now, sight, resolved),
        }
    }

    fn harm(&self, sight: &RunSight<'_>) -> Option<String> {
        if let Some(harm) = sight.harm {
            return Some(format!("worse since: {harm}"));
        }
        let (before, after) = (self.siblings_ill, sight.siblings_ill);
        (after > before).then(|| {
            format!("worse since: {after} other hosts of the role have a finding, before {before}")
        })
    }

    fn verify_end(&mut self, now: Micros, sight: &RunSight<'_>, ended: i64) -> Option<RunEvent> {
        if !sight.is_firing && sight.is_fresh(now, ended) {
            let seconds = (now.0 - ended) / SECOND;
            self.resolved_us = Some(now.0);
            self.after = format!("resolved after {seconds} s");
            let reason = format!("{}; waiting whether it stays away", self.after);
            self.set(now, RunState::Ended, reason);
            return None;
        }
        if now.0 - ended <= self.settle_us() {
            return None;
        }
        let seconds = self.settle_us() / SECOND;
        let reason = if sight.is_firing {
            format!("the finding still fires after {seconds} s")
        } else {
            format!("no data of the host or the rule for {seconds} s: the effect is unknown")
        };
        Some(self.fail(now, reason))
    }

    fn verify_hold(
        &mut self,
        now: Micros,
        sight: &RunSight<'_>,
        resolved: i64,
    ) -> Option<RunEvent> {
        let minutes = (now.0 - resolved) / MINUTE;
        if sight.is_firing {
            return Some(self.fail(now, format!("the finding fires again after {minutes} min")));
        }
        if now.0 - resolved < self.hold_us() {
            return None;
        }
        if sight.is_fresh(now, resolved) {
            let after = format!("{}, away for {minutes} min", self.after);
            self.after.clone_from(&after);
            self.close(now, RunState::Verified, after);
            return Some(RunEvent::Verified);
        }
        let is_late = now.0 - resolved > self.hold_us() + self.settle_us();
        let reason = "no data of the host or the rule at the end: the effect is unknown";
        is_late.then(|| self.fail(now, reason.to_owned()))
    }

    fn fail(&mut self, now: Micros, reason: String) -> RunEvent {
        self.after.clone_from(&reason);
        self.close(now, RunState::Failed, reason);
        RunEvent::Failed
    }
}

impl RunSight<'_> {
    /// Whether the absence of the finding is evidence: rule and host are current.
    fn is_fresh(&self, now: Micros, since: i64) -> bool {
        let is_rule_fresh = self.rule.is_some_and(|rule| {
            let limit = FRESH_MIN_US.max(FRESH_INTERVALS * rule.every_us);
            rule.last_run.0 > since && now.0 - rule.last_run.0 <= limit
        });
        is_rule_fresh && self.is_seen
    }
}

/// How programs ended, in words.
pub(crate) fn exit_text(result: &OrderResult) -> String {
    let text = match result.exit {
        _ if result.timed_out => "its time was over before it ended".to_owned(),
        Some(exit) => format!("exit status {exit}"),
        None => "it did not end by itself".to_owned(),
    };
    if result.why.is_empty() { text } else { format!("{text}: {}", result.why) }
}
