//! Runs before their order: proposed for what fires, refused by limits, asked, ordered.

use weir_tables::Micros;

use super::facts::{HealFacts, HealFinding};
use super::fleet::{EntryMatch, FleetView, entry_match};
use super::ladder::{LadderKey, REPEAT_RUNS, REPEAT_US};
use super::limits::{LimitCheck, RunCandidate};
use super::refusal::{Refusal, RefusalReason};
use super::run::{HealRun, RunSnapshot, RunState};
use super::{HealDesk, HealOrder, HealOrderKind, HealStep};
use crate::civil_time::{MINUTE, SECOND};
use crate::identity::subject_id;

/// Runs that are kept at once; further findings have none.
const RUNS_MAX: usize = 2_000;
/// A finding fires for two runs of its rule, within these bounds, before a repair is considered:
/// its cause may fire a little later.
const STEADY_MIN_US: i64 = 10 * SECOND;
const STEADY_MAX_US: i64 = 30 * SECOND;
/// A refusal has another row at most this often.
const REFUSAL_US: i64 = 30 * SECOND;
/// Time that an approved run waits for a limit.
const APPROVED_US: i64 = 60 * SECOND;
/// Time for which a finding may be absent before an approval lapses.
const ABSENT_US: i64 = 10 * SECOND;

impl HealDesk {
    /// Proposes, refuses, asks and orders, for each finding that fires.
    pub(super) fn decide(&mut self, now: Micros, facts: &HealFacts<'_>, view: &FleetView) {
        if self.policy.settings.is_enabled {
            let mut firing: Vec<&HealFinding> = facts.firing.iter().collect();
            firing.sort_by_key(|found| {
                let finding = &found.finding;
                (std::cmp::Reverse(finding.class), found.fired.0, subject_id(finding))
            });
            let policy = self.policy.clone();
            for found in firing {
                let Some(wanted) = entry_match(&policy, found, facts) else { continue };
                let Some(id) = self.current_run(now, found, &wanted, facts) else { continue };
                self.decide_run(now, &id, found, &wanted, facts, view);
            }
        }
        self.lapse(now, facts);
    }

    /// The run of a finding, a new one if there is none; `None` if nothing is to be decided.
    fn current_run(
        &mut self,
        now: Micros,
        found: &HealFinding,
        wanted: &EntryMatch<'_>,
        facts: &HealFacts<'_>,
    ) -> Option<String> {
        let subject = subject_id(&found.finding);
        let known = self.runs.values().find(|run| run.subject_id == subject && !run.is_released);
        if let Some(run) = known {
            return run.is_waiting().then(|| run.id.clone());
        }
        let every = facts.rules.get(&found.finding.rule).map_or(0, |rule| rule.every_us);
        let steady = (2 * every).clamp(STEADY_MIN_US, STEADY_MAX_US);
        if now.0 - found.fired.0 < steady || self.runs.len() >= RUNS_MAX {
            return None;
        }
        let run = HealRun::open(now, found, wanted.plan.clone());
        let id = run.id.clone();
        if self.runs.contains_key(&id) {
            return None;
        }
        self.runs.insert(id.clone(), run);
        Some(id)
    }

    fn decide_run(
        &mut self,
        now: Micros,
        id: &str,
        found: &HealFinding,
        wanted: &EntryMatch<'_>,
        facts: &HealFacts<'_>,
        view: &FleetView,
    ) {
        let Some(step) = self.follow_policy(now, id, found, wanted, facts) else { return };
        let Some(run) = self.runs.get(id) else { return };
        let check = LimitCheck {
            now,
            facts,
            view,
            control: &self.control,
            settings: self.policy.settings,
            runs: &self.runs,
            locks: &self.locks,
        };
        let refusal = if self.unreadable.is_empty() {
            check.refusal(RunCandidate { run, found, wanted })
        } else {
            let text = "documents of earlier runs cannot be read";
            Some(Refusal::new(RefusalReason::Stopped, text))
        };
        let is_dry = wanted.entry.needs_dry_run() && !run.has_valid_dry_run(now);
        let (state, is_new) = (run.state, run.opened_us == now.0);
        match (state, refusal) {
            (RunState::Asked, _) => self.wait_for_answer(now, id, step),
            (RunState::Approved, Some(refusal)) => self.refuse_approved(now, id, refusal),
            (RunState::Approved, None) if is_dry => self.order_dry_run(now, id, wanted),
            (RunState::Approved, None) => self.order(now, id, found, facts, view),
            (_, Some(refusal)) => self.refuse(now, id, refusal),
            (_, None) if step == HealStep::Auto && is_dry => self.order_dry_run(now, id, wanted),
            (_, None) if step == HealStep::Auto => self.order(now, id, found, facts, view),
            (_, None) if step == HealStep::Ask => self.ask(now, id),
            (_, None) => self.propose(now, id, is_new),
        }
    }

    /// Takes the target of the policy into a run; the step that applies, or `None` if the run
    /// ends because it is another one now.
    fn follow_policy(
        &mut self,
        now: Micros,
        id: &str,
        found: &HealFinding,
        wanted: &EntryMatch<'_>,
        facts: &HealFacts<'_>,
    ) -> Option<HealStep> {
        let step = self.step(now, id, wanted, facts)?;
        let run = self.runs.get_mut(id)?;
        let plan = &wanted.plan;
        let is_same =
            run.action == plan.action && run.host == plan.host && run.params == plan.params;
        if !is_same && matches!(run.state, RunState::Asked | RunState::Approved) {
            let reason = "host, action or parameters changed since the question";
            run.close(now, RunState::Refused, reason);
            run.refusal = Some(RefusalReason::PolicyChanged);
            run.is_released = true;
            self.record(now, id);
            return None;
        }
        let finding_id = &found.finding.finding_id;
        let is_known = is_same
            && run.role == plan.role
            && run.step == step
            && run.incident_id == found.incident_id
            && run.finding_id == *finding_id;
        if !is_known {
            if !is_same {
                run.void_dry_run();
            }
            run.action.clone_from(&plan.action);
            run.host.clone_from(&plan.host);
            run.role.clone_from(&plan.role);
            run.params.clone_from(&plan.params);
            run.finding_id.clone_from(finding_id);
            run.incident_id.clone_from(&found.incident_id);
            run.step = step;
            run.is_changed = true;
        }
        Some(step)
    }

    /// The step that applies to a run: the lowest of configuration, ladder and company.
    fn step(
        &mut self,
        now: Micros,
        id: &str,
        wanted: &EntryMatch<'_>,
        facts: &HealFacts<'_>,
    ) -> Option<HealStep> {
        let subject = self.runs.get(id)?.subject_id.clone();
        let repeats = self.runs.values().filter(|run| {
            let is_recent = run.ordered_us.is_some_and(|ordered| now.0 - ordered < REPEAT_US);
            run.subject_id == subject && is_recent
        });
        let repeats = repeats.count() + 1;
        let plan = &wanted.plan;
        let (rule, role) = (wanted.entry.rule.as_str(), plan.role.as_str());
        let ladder = self.ladder_mut(LadderKey { rule, action: &plan.action, role });
        if repeats >= REPEAT_RUNS {
            let reason = format!("run {repeats} within 7 days on one subject of {}", plan.host);
            ladder.cap_at_suggest(now, &reason);
        }
        let step = wanted.entry.mode.min(ladder.limit);
        let is_alone = facts.members(&plan.host).len() < 2;
        Some(if is_alone { step.min(wanted.entry.alone) } else { step })
    }

    /// Refuses a run that waits; at most one row in half a minute.
    fn refuse(&mut self, now: Micros, id: &str, refusal: Refusal) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let is_known = run.state == RunState::Refused && run.refusal == Some(refusal.reason);
        let is_new = run.opened_us == now.0;
        if is_known || (!is_new && now.0 - run.changed_us < REFUSAL_US) {
            return;
        }
        run.set(now, RunState::Refused, refusal.text);
        run.refusal = Some(refusal.reason);
        self.record(now, id);
    }

    /// Refuses a run that a person approved, if the limit does not lift within a minute.
    fn refuse_approved(&mut self, now: Micros, id: &str, refusal: Refusal) {
        let Some(run) = self.runs.get_mut(id) else { return };
        if now.0 - run.changed_us < APPROVED_US {
            return;
        }
        run.close(now, RunState::Refused, refusal.text);
        run.refusal = Some(refusal.reason);
        self.record(now, id);
    }

    fn propose(&mut self, now: Micros, id: &str, is_new: bool) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let is_due = is_new || now.0 - run.changed_us >= REFUSAL_US;
        if is_due && (is_new || run.state != RunState::Proposed) {
            let reason = match run.step {
                HealStep::Observe => "only recorded",
                _ => "a person may start it",
            };
            run.set(now, RunState::Proposed, reason);
            self.record(now, id);
        }
    }

    fn ask(&mut self, now: Micros, id: &str) {
        let minutes = self.policy.settings.answer_minutes.max(1);
        let Some(run) = self.runs.get_mut(id) else { return };
        run.asked_until_us = Some(now.0 + i64::from(minutes) * MINUTE);
        run.set(now, RunState::Asked, format!("an approval is awaited for {minutes} min"));
        self.record(now, id);
    }

    /// Ends a question that was not answered, or that is not to be asked any more.
    fn wait_for_answer(&mut self, now: Micros, id: &str, step: HealStep) {
        let Some(run) = self.runs.get_mut(id) else { return };
        if run.asked_until_us.is_some_and(|until| now.0 >= until) {
            run.close(now, RunState::Refused, "no person answered in time");
            run.refusal = Some(RefusalReason::NoAnswer);
            self.record(now, id);
        } else if step < HealStep::Ask {
            run.asked_until_us = None;
            run.set(now, RunState::Proposed, format!("step {}", step.as_str()));
            self.record(now, id);
        }
    }

    /// Orders a dry run; what it shows decides about the order.
    fn order_dry_run(&mut self, now: Micros, id: &str, wanted: &EntryMatch<'_>) {
        let Some(run) = self.runs.get_mut(id) else { return };
        run.order_dry_run(now, wanted.entry.needed_share());
        let order_id = run.dry_run.as_ref().map(|dry| dry.order_id.clone()).unwrap_or_default();
        let order = HealOrder::new(run, &order_id, HealOrderKind::DryRun, now);
        self.out.orders.push(order);
        self.record(now, id);
    }

    fn order(
        &mut self,
        now: Micros,
        id: &str,
        found: &HealFinding,
        facts: &HealFacts<'_>,
        view: &FleetView,
    ) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let clear = facts.rules.get(&run.rule).map_or(0, |rule| rule.clear_us);
        let members = facts.members(&run.host);
        let siblings = view.ill_siblings(&members, &run.host);
        if !run.order(now, &RunSnapshot::of(&found.finding, clear, siblings)) {
            return;
        }
        let order_id = run.order_id.clone().unwrap_or_default();
        let order = HealOrder::new(run, &order_id, HealOrderKind::Run, now);
        self.out.orders.push(order);
        self.record(now, id);
    }

    /// Ends questions and approvals whose finding is gone or whose repair is switched off.
    fn lapse(&mut self, now: Micros, facts: &HealFacts<'_>) {
        let is_enabled = self.policy.settings.is_enabled;
        let mut lapsed = Vec::new();
        for run in self.runs.values_mut().filter(|run| run.is_waiting()) {
            let is_pending = matches!(run.state, RunState::Asked | RunState::Approved);
            let is_gone = run.gone_us.is_some_and(|gone| now.0 - gone >= ABSENT_US);
            let found =
                facts.firing.iter().find(|found| subject_id(&found.finding) == run.subject_id);
            let is_wanted = is_enabled
                && found.is_none_or(|found| entry_match(&self.policy, found, facts).is_some());
            let (reason, text) = match (is_gone && is_pending, is_wanted) {
                (true, _) => (RefusalReason::Resolved, "it was resolved before an order"),
                (false, false) => {
                    (RefusalReason::PolicyChanged, "the repair is not configured now")
                }
                (false, true) => continue,
            };
            run.close(now, RunState::Refused, text);
            run.refusal = Some(reason);
            run.is_released |= reason == RefusalReason::PolicyChanged;
            lapsed.push(run.id.clone());
        }
        for id in lapsed {
            self.record(now, &id);
        }
    }
}
