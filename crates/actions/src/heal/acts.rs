//! What people do: approve, refuse, take back, stop, start, raise a step, lock and unlock.

use weir_tables::{Micros, nearest};

use super::control::HealStop;
use super::ladder::{HealLadder, LadderKey};
use super::lock::{DeployLock, LOCKS_MAX, LockRequest};
use super::refusal::RefusalReason;
use super::run::{HealRun, RunState};
use super::{HealDecisions, HealDesk, HealStep, LOCK};
use crate::KeptDocument;
use crate::error::DeskError;

const NAME_CHARS_MAX: usize = 100;
const REASON_CHARS_MAX: usize = 500;

/// A repair on a role, as a person names it.
#[derive(Clone, Copy, Debug)]
pub struct LadderName<'a> {
    /// The rule.
    pub rule: &'a str,
    /// The action.
    pub action: &'a str,
    /// The role; empty for hosts without one.
    pub role: &'a str,
}

impl HealDesk {
    /// A person approves a run. It is ordered at the next tick, if all limits allow it then.
    ///
    /// # Errors
    /// The run is unknown, over, refused or only observed, or repairs are stopped.
    pub fn approve(
        &mut self,
        now: Micros,
        run_id: &str,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        let (id, by) = (self.find_run(run_id)?, person(by.into())?);
        if let Some(stop) = &self.control.stop {
            let what = format!("cannot approve run `{id}`: repairs are stopped: {}", stop.reason);
            return Err(DeskError::new(what, "`weir heal start` starts them"));
        }
        let run = self.runs.get_mut(&id).expect("it was found above");
        check_approval(run)?;
        run.approved_by = Some(by.clone());
        run.asked_until_us = None;
        run.set(now, RunState::Approved, format!("approved by {by}"));
        self.record(now, &id);
        Ok(self.finish())
    }

    /// A person refuses a run: the finding has none until it is resolved.
    ///
    /// # Errors
    /// The run is unknown, ordered or over.
    pub fn refuse_run(
        &mut self,
        now: Micros,
        run_id: &str,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        let (id, by) = (self.find_run(run_id)?, person(by.into())?);
        let run = self.runs.get_mut(&id).expect("it was found above");
        if !run.is_waiting() {
            return Err(wrong_state("refuse", run, "`weir heal undo` takes it back"));
        }
        run.close(now, RunState::Refused, format!("refused by {by}"));
        run.refusal = Some(RefusalReason::ByPerson);
        self.record(now, &id);
        Ok(self.finish())
    }

    /// A person takes a run back, also while repairs are stopped.
    ///
    /// # Errors
    /// The run is unknown, was never ordered, runs now, or was taken back before.
    pub fn undo(
        &mut self,
        now: Micros,
        run_id: &str,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        let (id, by) = (self.find_run(run_id)?, person(by.into())?);
        let run = self.runs.get(&id).expect("it was found above");
        let states = [RunState::Ended, RunState::Verified, RunState::Failed, RunState::Unknown];
        if !states.contains(&run.state) || run.undo.is_some() {
            return Err(wrong_state("undo", run, "only a run that ended can be taken back, once"));
        }
        self.order_undo(now, &id, Some(by));
        self.record(now, &id);
        Ok(self.finish())
    }

    /// A person stops all repairs at once; what already runs on a host goes to its end.
    ///
    /// # Errors
    /// The name is empty.
    pub fn stop(
        &mut self,
        now: Micros,
        reason: &str,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        let by = person(by.into())?;
        let reason: String = reason.trim().chars().take(REASON_CHARS_MAX).collect();
        let reason = if reason.is_empty() { format!("by {by}") } else { reason };
        self.control.stop = Some(HealStop { by: Some(by.clone()), reason, at_us: now.0 });
        self.control.is_changed = true;
        let pending: Vec<String> = self
            .runs
            .values()
            .filter(|run| run.is_waiting())
            .filter(|run| matches!(run.state, RunState::Asked | RunState::Approved))
            .map(|run| run.id.clone())
            .collect();
        for id in pending {
            let run = self.runs.get_mut(&id).expect("its id is of the map");
            run.close(now, RunState::Refused, format!("repairs were stopped by {by}"));
            run.refusal = Some(RefusalReason::Stopped);
            self.record(now, &id);
        }
        Ok(self.finish())
    }

    /// A person starts repairs that were stopped.
    ///
    /// # Errors
    /// The name is empty, or they are not stopped.
    pub fn start(&mut self, by: impl Into<String>) -> Result<HealDecisions, DeskError> {
        person(by.into())?;
        if self.control.stop.take().is_none() {
            let what = "cannot start repairs: they are not stopped";
            return Err(DeskError::new(what, "`weir heal list` shows what each may do"));
        }
        self.control.failures_us.clear();
        self.control.is_changed = true;
        Ok(self.finish())
    }

    /// Locks a role or hosts: no repair starts there until the lock ends. What already runs goes to its end.
    ///
    /// # Errors
    /// The name or the reason is empty, or the lock is for nothing or for too long.
    pub fn lock(
        &mut self,
        now: Micros,
        request: LockRequest,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        let by = person(by.into())?;
        let lock = DeployLock::begin(now, request, &by)?;
        if self.locks(now).count() >= LOCKS_MAX {
            let what = format!("cannot lock repairs: {LOCKS_MAX} locks hold");
            return Err(DeskError::new(what, "`weir heal locks` lists them"));
        }
        let (key, body) = (lock.id.clone(), Some(lock.body()));
        self.out.documents.push(KeptDocument { kind: LOCK, key: key.clone(), body });
        self.locks.insert(key, lock);
        Ok(self.finish())
    }

    /// Ends a lock before its time.
    ///
    /// # Errors
    /// The name is empty, or no such lock holds.
    pub fn unlock(
        &mut self,
        now: Micros,
        lock_id: &str,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        person(by.into())?;
        let key = lock_id.trim().to_lowercase();
        if !self.locks.get(&key).is_some_and(|lock| lock.holds(now)) {
            let near = nearest(&key, self.locks(now).map(|lock| lock.id.as_str()));
            let hint = near.map_or_else(
                || "`weir heal locks` lists them".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(DeskError::new(format!("there is no lock `{lock_id}`"), hint));
        }
        self.locks.remove(&key);
        self.out.documents.push(KeptDocument { kind: LOCK, key, body: None });
        Ok(self.finish())
    }

    /// A person lets a repair go one step further on a role.
    ///
    /// # Errors
    /// The step is not earned, or is that of the configuration.
    pub fn raise(
        &mut self,
        now: Micros,
        name: LadderName<'_>,
        by: impl Into<String>,
    ) -> Result<HealDecisions, DeskError> {
        let by = person(by.into())?;
        let LadderName { rule, action, role } = name;
        let entries = self.policy.entries.iter();
        let modes = entries.filter(|entry| entry.rule == rule && entry.action == action);
        let Some(mode) = modes.map(|entry| entry.mode).max() else {
            let what = format!("cannot raise `{action}` for `{rule}`: it is not configured");
            return Err(DeskError::new(what, "add a `[[heals]]` block to the configuration"));
        };
        let what = format!("cannot raise `{action}` for `{rule}` on role `{role}`");
        let ladder = self.ladder_mut(LadderKey { rule, action, role });
        if ladder.limit >= mode || ladder.limit == HealStep::Auto {
            let hint = "set a higher `mode` in the configuration";
            let what = format!("{what}: its step is `{}` already", mode.as_str());
            return Err(DeskError::new(what, hint));
        }
        if let Some(missing) = ladder.missing(now) {
            let hint = "5 approved runs have to be verified, the first at least 3 days ago";
            return Err(DeskError::new(format!("{what}: {missing}"), hint));
        }
        ladder.raise(now, &by);
        Ok(self.finish())
    }

    /// What is missing before a repair may go one step further; `None` if nothing is.
    pub fn missing_merit(&self, now: Micros, name: LadderName<'_>) -> Option<String> {
        let LadderName { rule, action, role } = name;
        let key = LadderKey { rule, action, role };
        match self.ladders.get(&key.id()) {
            Some(ladder) => ladder.missing(now),
            None => HealLadder::new(key).missing(now),
        }
    }

    /// The step of a repair on a host now.
    pub fn step_of(&self, name: LadderName<'_>) -> HealStep {
        let LadderName { rule, action, role } = name;
        let entries = self.policy.entries.iter();
        let modes = entries.filter(|entry| entry.rule == rule && entry.action == action);
        let mode = modes.map(|entry| entry.mode).max().unwrap_or_default();
        let limit = self.ladders.get(&LadderKey { rule, action, role }.id());
        mode.min(limit.map_or(HealStep::Ask, |ladder| ladder.limit))
    }

    fn find_run(&self, typed: &str) -> Result<String, DeskError> {
        let id = typed.trim().to_lowercase();
        if self.runs.contains_key(&id) {
            return Ok(id);
        }
        let near = nearest(&id, self.runs.keys().map(String::as_str));
        let hint = near.map_or_else(
            || "`weir heal runs` lists them".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        Err(DeskError::new(format!("there is no run `{typed}`"), hint))
    }
}

/// Why a run cannot be approved, if so.
fn check_approval(run: &HealRun) -> Result<(), DeskError> {
    if !run.is_waiting() || run.state == RunState::Approved {
        return Err(wrong_state("approve", run, "the finding's next run can be approved"));
    }
    if run.step == HealStep::Observe {
        let hint = "set `mode = \"suggest\"` in its `[[heals]]` block";
        return Err(wrong_state("approve", run, hint));
    }
    // A person that works on the incident may decide on the repair, too.
    let is_open =
        run.state != RunState::Refused || run.refusal == Some(RefusalReason::IncidentBusy);
    if !is_open {
        return Err(wrong_state("approve", run, "it can be approved when that is over"));
    }
    Ok(())
}

fn wrong_state(verb: &str, run: &HealRun, hint: &str) -> DeskError {
    let (id, state) = (&run.id, run.state.as_str());
    let mut message = format!("cannot {verb} run `{id}`: it is {state}");
    if !run.reason.is_empty() {
        message = format!("{message}: {}", run.reason);
    }
    DeskError::new(message, hint)
}

fn person(name: String) -> Result<String, DeskError> {
    let name = name.trim().to_owned();
    let is_name = !name.is_empty() && !name.chars().any(char::is_control);
    if is_name && name.chars().count() <= NAME_CHARS_MAX {
        return Ok(name);
    }
    Err(DeskError::new(
        "cannot decide about a repair without the name of a person",
        "log in with a personal login, or give `--by NAME`",
    ))
}
