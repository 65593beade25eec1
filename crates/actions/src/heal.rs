//! The heal desk: which known cure is ordered for which finding, who approves it, and whether it
//! helped.
//!
//! Pure and by level, as the incident desk: each tick compares what fires with the runs that are
//! kept. An order comes out together with the document that has it, and only then, so it is sent
//! at most once: after a crash in between, the run is unknown and is not ordered again.

mod acts;
mod alarm;
mod check;
mod control;
mod decide;
mod decisions;
mod dry_run;
mod facts;
mod fleet;
mod ladder;
mod limits;
mod lock;
mod policy;
mod progress;
mod refusal;
mod run;
mod target;

use std::collections::{BTreeMap, BTreeSet};

use weir_tables::Micros;

use crate::Finding;
use crate::decisions::{KeptDocument, UnreadableDocument};

pub use acts::LadderName;
pub use check::{HealProblem, check_heal};
use control::HealControl;
pub use control::HealStop;
pub use decisions::{HealChange, HealDecisions, HealOrder, HealOrderKind};
pub use dry_run::DryRunRecord;
pub use facts::{
    HarmReport, HealFacts, HealFinding, HostLock, HostState, IncidentActor, OrderOutcome,
    OrderReport, OrderResult, RuleTiming,
};
use fleet::FleetView;
pub use ladder::HealLadder;
use ladder::LadderKey;
pub use lock::{DeployLock, LockRequest};
pub use policy::{HealEntry, HealPolicy, HealSettings, HealStep};
use progress::{RunEvent, RunSight};
pub use refusal::RefusalReason;
pub use run::{HealRun, RunState, UndoRecord};

/// Kinds of the heal desk's documents.
pub const HEAL_KINDS: [&str; 4] = [RUN, LADDER, CONTROL, LOCK];

const RUN: &str = "heal_run";
const LADDER: &str = "heal_ladder";
const CONTROL: &str = "heal_control";
const LOCK: &str = "heal_lock";
/// The key of the only document of its kind.
const CONTROL_KEY: &str = "all";

/// Runs, ladders, and the policy by which they are decided.
#[derive(Clone, Debug)]
pub struct HealDesk {
    policy: HealPolicy,
    runs: BTreeMap<String, HealRun>,
    ladders: BTreeMap<String, HealLadder>,
    control: HealControl,
    locks: BTreeMap<String, DeployLock>,
    unreadable: Vec<UnreadableDocument>,
    alarms: Vec<Finding>,
    out: HealDecisions,
}

impl HealDesk {
    /// A desk without runs.
    pub fn new(policy: HealPolicy) -> Self {
        Self {
            policy,
            runs: BTreeMap::new(),
            ladders: BTreeMap::new(),
            control: HealControl::default(),
            locks: BTreeMap::new(),
            unreadable: Vec::new(),
            alarms: Vec::new(),
            out: HealDecisions::default(),
        }
    }

    /// A desk with what is kept: kind, key and body of each document. Other kinds are left alone;
    /// what cannot be read is in [`Self::unreadable`], and stops all repairs.
    pub fn restore(policy: HealPolicy, documents: &[(String, String, String)]) -> Self {
        let mut desk = Self::new(policy);
        for (kind, key, body) in documents {
            let result = match kind.as_str() {
                RUN => {
                    serde_json::from_str(body).map(|run| drop(desk.runs.insert(key.clone(), run)))
                }
                LADDER => serde_json::from_str(body)
                    .map(|ladder| drop(desk.ladders.insert(key.clone(), ladder))),
                CONTROL => serde_json::from_str(body).map(|control| desk.control = control),
                LOCK => serde_json::from_str(body)
                    .map(|lock| drop(desk.locks.insert(key.clone(), lock))),
                _ => Ok(()),
            };
            if let Err(error) = result {
                let (kind, key, reason) = (kind.clone(), key.clone(), error.to_string());
                desk.unreadable.push(UnreadableDocument { kind, key, reason });
            }
        }
        desk
    }

    /// Takes another policy; runs and ladders stay.
    pub fn set_policy(&mut self, policy: HealPolicy) {
        self.policy = policy;
    }

    /// Compares what fires with the runs.
    ///
    /// Call it only when the rules have run since the program started.
    pub fn tick(&mut self, now: Micros, facts: &HealFacts<'_>) -> HealDecisions {
        self.settle_clock(now);
        self.control.observe_storm(now, facts, self.policy.settings.storm_findings);
        let view = FleetView::collect(&self.policy, facts);
        self.advance(now, facts, &view);
        self.decide(now, facts, &view);
        self.forget(now);
        self.alarms = self.raise_alarms(now, facts);
        self.finish()
    }

    /// All runs: waiting, running, and those of the last eight days.
    pub fn runs(&self) -> impl Iterator<Item = &HealRun> {
        self.runs.values()
    }

    /// Steps that differ from the start, or have successes.
    pub fn ladders(&self) -> impl Iterator<Item = &HealLadder> {
        self.ladders.values()
    }

    /// Why no repair runs, if they are stopped.
    pub fn stop_reason(&self) -> Option<&HealStop> {
        self.control.stop.as_ref()
    }

    /// Locks that hold.
    pub fn locks(&self, now: Micros) -> impl Iterator<Item = &DeployLock> {
        self.locks.values().filter(move |lock| lock.holds(now))
    }

    /// Findings of the last tick about repairs themselves: an approval is awaited, a run failed or
    /// is unknown, all are stopped. The incident desk sends them like others.
    pub fn alarms(&self) -> &[Finding] {
        &self.alarms
    }

    /// Documents that could not be read at the start.
    pub fn unreadable(&self) -> &[UnreadableDocument] {
        &self.unreadable
    }

    /// Reports, silence and verification of runs with an order.
    fn advance(&mut self, now: Micros, facts: &HealFacts<'_>, view: &FleetView) {
        let firing: BTreeSet<String> =
            facts.firing.iter().map(|found| crate::identity::subject_id(&found.finding)).collect();
        let ids: Vec<String> = self.runs.keys().cloned().collect();
        for id in ids {
            let Some(run) = self.runs.get_mut(&id) else { continue };
            let is_firing = firing.contains(&run.subject_id);
            let before = (run.state, run.reason.clone());
            let members = facts.members(&run.host);
            let sight = RunSight {
                is_firing,
                rule: facts.rules.get(&run.rule).copied(),
                is_seen: facts.is_seen(&run.host, now),
                siblings_ill: view.ill_siblings(&members, &run.host),
                harm: facts.harms.iter().find(|harm| harm.run_id == id).map(|it| it.text.as_str()),
            };
            let reports = facts.reports.iter();
            let mut events: Vec<RunEvent> =
                reports.filter_map(|report| run.report(now, report)).collect();
            events.extend(run.expire(now));
            events.extend(run.verify(now, &sight));
            run.observe_presence(now, is_firing);
            let is_changed = before != (run.state, run.reason.clone());
            for event in events {
                self.settle(now, &id, event);
            }
            if is_changed {
                self.record(now, &id);
            }
        }
    }

    /// What a run's end means for its ladder, for all repairs, and for taking it back.
    fn settle(&mut self, now: Micros, id: &str, event: RunEvent) {
        let Some(run) = self.runs.get(id).cloned() else { return };
        let ladder = self.ladder_mut(LadderKey::of(&run));
        match event {
            RunEvent::Verified => ladder.credit(now, &run),
            RunEvent::Undone => ladder.reset(),
            RunEvent::Failed | RunEvent::Unknown => {
                let reason = format!("run {id} on {}: {}", run.host, run.reason);
                ladder.lower(now, run.step, &reason);
                self.control.fail(now);
            }
        }
        let is_stopped_by_person = self.control.stop.as_ref().is_some_and(|stop| stop.by.is_some());
        if event == RunEvent::Failed && run.undo.is_none() && !is_stopped_by_person {
            self.order_undo(now, id, None);
        }
    }

    /// Decides to take a run back.
    fn order_undo(&mut self, now: Micros, id: &str, by: Option<String>) {
        let Some(run) = self.runs.get_mut(id) else { return };
        run.order_undo(now, by);
        let Some(undo) = &run.undo else { return };
        let order = HealOrder::new(run, &undo.order_id, HealOrderKind::Undo, now);
        self.out.orders.push(order);
    }

    fn ladder_mut(&mut self, key: LadderKey<'_>) -> &mut HealLadder {
        self.ladders.entry(key.id()).or_insert_with(|| HealLadder::new(key))
    }

    /// Bounds every time, for the clock may be set back.
    fn settle_clock(&mut self, now: Micros) {
        let answer = i64::from(self.policy.settings.answer_minutes) * crate::civil_time::MINUTE;
        for run in self.runs.values_mut() {
            run.settle_clock(now);
            if let Some(until) =
                run.asked_until_us.as_mut().filter(|until| **until > now.0 + answer)
            {
                *until = now.0 + answer;
                run.is_changed = true;
            }
        }
        self.ladders.values_mut().for_each(|ladder| ladder.settle_clock(now));
        self.control.settle_clock(now);
        for lock in self.locks.values_mut() {
            if lock.settle_clock(now) {
                let (key, body) = (lock.id.clone(), Some(lock.body()));
                self.out.documents.push(KeptDocument { kind: LOCK, key, body });
            }
        }
    }

    /// Removes runs that no limit and no person needs any more, and locks that ended.
    fn forget(&mut self, now: Micros) {
        let gone: Vec<String> = self
            .runs
            .values()
            .filter(|run| run.is_forgettable(now))
            .map(|run| run.id.clone())
            .collect();
        for key in gone {
            self.runs.remove(&key);
            self.out.documents.push(KeptDocument { kind: RUN, key, body: None });
        }
        let ended = self.locks.values().filter(|lock| !lock.holds(now));
        let ended: Vec<String> = ended.map(|lock| lock.id.clone()).collect();
        for key in ended {
            self.locks.remove(&key);
            self.out.documents.push(KeptDocument { kind: LOCK, key, body: None });
        }
    }

    /// Notes a change of a run for tables.
    fn record(&mut self, now: Micros, id: &str) {
        if let Some(run) = self.runs.get(id) {
            self.out.changes.push(HealChange { ts: now, run: run.clone() });
        }
    }

    /// The decisions since the last call, with every document that changed.
    fn finish(&mut self) -> HealDecisions {
        for run in self.runs.values_mut().filter(|run| run.is_changed) {
            run.is_changed = false;
            let (key, body) = (run.id.clone(), Some(run.body()));
            self.out.documents.push(KeptDocument { kind: RUN, key, body });
        }
        for ladder in self.ladders.values_mut().filter(|ladder| ladder.is_changed) {
            ladder.is_changed = false;
            let (key, body) = (ladder.id.clone(), Some(ladder.body()));
            self.out.documents.push(KeptDocument { kind: LADDER, key, body });
        }
        if self.control.is_changed {
            self.control.is_changed = false;
            let (key, body) = (CONTROL_KEY.to_owned(), Some(self.control.body()));
            self.out.documents.push(KeptDocument { kind: CONTROL, key, body });
        }
        std::mem::take(&mut self.out)
    }
}
