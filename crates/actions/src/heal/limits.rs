//! The limits of repairs: each refuses with its own reason and figures.

use std::collections::BTreeMap;

use weir_tables::Micros;

use super::control::HealControl;
use super::facts::{HealFacts, HealFinding, IncidentActor};
use super::fleet::{EntryMatch, FleetView};
use super::lock::{DeployLock, RepairPlace};
use super::policy::{HealSettings, HealStep};
use super::refusal::{Refusal, RefusalReason};
use super::run::HealRun;
use crate::Urgency;
use crate::civil_time::{MINUTE, SECOND};

const HOUR_US: i64 = 60 * MINUTE;
/// A program that exits and is started again: another restart helps nothing.
const CRASH_LOOP_RULE: &str = "app.crash_loop";
/// Names of actions that restart something begin with this.
const RESTART_PREFIX: &str = "restart-";
const SKEW_MAX_US: i64 = 2 * SECOND;
const LEADER_US: i64 = 30 * SECOND;
/// Runs of a rule after which its evidence is stale.
const EVIDENCE_INTERVALS: i64 = 2;
/// Least share of a role that must be well, and largest that may have the finding, in percent.
const WELL_PERCENT: usize = 60;
const CARRY_PERCENT: usize = 40;
/// Members from which the share with the finding counts.
const CARRY_MEMBERS: usize = 3;

/// Everything that limits are computed from.
#[derive(Clone, Copy)]
pub(crate) struct LimitCheck<'a> {
    pub(crate) now: Micros,
    pub(crate) facts: &'a HealFacts<'a>,
    pub(crate) view: &'a FleetView,
    pub(crate) control: &'a HealControl,
    pub(crate) settings: HealSettings,
    pub(crate) runs: &'a BTreeMap<String, HealRun>,
    pub(crate) locks: &'a BTreeMap<String, DeployLock>,
}

/// A run, its finding, and what it would do.
#[derive(Clone, Copy)]
pub(crate) struct RunCandidate<'a> {
    pub(crate) run: &'a HealRun,
    pub(crate) found: &'a HealFinding,
    pub(crate) wanted: &'a EntryMatch<'a>,
}

impl LimitCheck<'_> {
    /// The first limit that refuses a run.
    pub(crate) fn refusal(&self, candidate: RunCandidate<'_>) -> Option<Refusal> {
        if let Some(stop) = &self.control.stop {
            let text = format!("repairs are stopped: {}", stop.reason);
            return Some(Refusal::new(RefusalReason::Stopped, text));
        }
        self.finding_refusal(candidate)
            .or_else(|| self.host_refusal(candidate))
            .or_else(|| self.role_refusal(candidate))
            .or_else(|| self.fleet_refusal(candidate))
    }

    fn finding_refusal(&self, candidate: RunCandidate<'_>) -> Option<Refusal> {
        let RunCandidate { found, wanted, .. } = candidate;
        let finding = &found.finding;
        if let Some(cause) = &finding.cause_finding_id {
            let text = format!("it is a symptom of finding {cause}");
            return Some(Refusal::new(RefusalReason::NotRoot, text));
        }
        if finding.class < Urgency::Mail {
            return Some(Refusal::new(RefusalReason::LowClass, "it is only a note"));
        }
        if let Some(text) = self.stale_evidence(found) {
            return Some(Refusal::new(RefusalReason::StaleEvidence, text));
        }
        if let Some(muted_by) = &found.muted_by {
            return Some(Refusal::new(RefusalReason::Muted, muted_by.as_str()));
        }
        let fault = wanted.fault.as_ref()?;
        Some(Refusal::new(RefusalReason::NoTarget, fault.as_str()))
    }

    /// Why the evidence does not count, if it does not.
    fn stale_evidence(&self, found: &HealFinding) -> Option<String> {
        let Some(rule) = self.facts.rules.get(&found.finding.rule) else {
            return Some("its rule does not run".to_owned());
        };
        if rule.last_run > found.evidence {
            return Some("the newest run of its rule did not return it".to_owned());
        }
        let age = self.now.0 - found.evidence.0;
        (age > EVIDENCE_INTERVALS * rule.every_us).then(|| {
            let (age, every) = (age / SECOND, rule.every_us / SECOND);
            format!("its evidence is {age} s old, and its rule runs each {every} s")
        })
    }

    fn host_refusal(&self, candidate: RunCandidate<'_>) -> Option<Refusal> {
        let plan = &candidate.wanted.plan;
        let host = plan.host.as_str();
        let place = RepairPlace { host, role: &plan.role, rule: &candidate.run.rule };
        if let Some(text) = self.locked(place) {
            return Some(Refusal::new(RefusalReason::DeployLock, text));
        }
        if let Some(text) = self.crash_loop(&plan.action, host) {
            return Some(Refusal::new(RefusalReason::CrashLoop, text));
        }
        let state = self.facts.hosts.get(host);
        if !state.is_some_and(|state| state.is_reachable) {
            let text = format!("the agent of {host} is not connected or carries no orders");
            return Some(Refusal::new(RefusalReason::Unreachable, text));
        }
        let offset = state.and_then(|state| state.clock_offset_us);
        let text = match offset {
            None => format!("the clock of {host} was not compared with this hub's"),
            Some(offset) if offset.saturating_abs() > SKEW_MAX_US => {
                let tenths = offset / (SECOND / 10);
                format!("the clock of {host} is {}.{} s off", tenths / 10, (tenths % 10).abs())
            }
            Some(_) => return None,
        };
        Some(Refusal::new(RefusalReason::ClockSkew, text))
    }

    /// The restart loop of a program on the host, if an action would restart one.
    fn crash_loop(&self, action: &str, host: &str) -> Option<String> {
        let mut findings = self.facts.firing.iter().map(|found| &found.finding);
        let looping = findings.find(|it| it.rule == CRASH_LOOP_RULE && it.host == host)?;
        action
            .starts_with(RESTART_PREFIX)
            .then(|| format!("{} is in a restart loop", looping.subject))
    }

    /// The lock or maintenance window that covers a repair.
    fn locked(&self, place: RepairPlace<'_>) -> Option<String> {
        let own = self.locks.values().find(|lock| lock.covers(place, self.now));
        let window = self.facts.locks.iter().find(|lock| lock.covers(place, self.now));
        let own = own.map(|lock| lock.text(self.now));
        own.or_else(|| window.map(|lock| format!("locked: {}", lock.name)))
    }

    fn role_refusal(&self, candidate: RunCandidate<'_>) -> Option<Refusal> {
        let plan = &candidate.wanted.plan;
        let members = self.facts.members(&plan.host);
        let count = members.len();
        let role = if plan.role.is_empty() { &plan.host } else { &plan.role };
        let others = self.runs.values().filter(|other| {
            let is_same = if plan.role.is_empty() {
                other.host == plan.host
            } else {
                other.role == plan.role
            };
            is_same && other.id != candidate.run.id
        });
        if let Some(other) = others.clone().find(|other| other.is_acting()) {
            let text = format!("{} of {role} is being repaired ({})", other.host, other.id);
            return Some(Refusal::new(RefusalReason::RoleBusy, text));
        }
        let recent = others.filter(|other| self.is_recent(other)).count();
        let most = (count / 10).max(1);
        if recent >= most {
            let text = format!("{role} had {recent} runs within an hour, the limit is {most}");
            return Some(Refusal::new(RefusalReason::RoleLimit, text));
        }
        let well = self.view.well(&members, self.facts, self.now);
        if count > 1 && well * 100 < count * WELL_PERCENT {
            let text = format!("{well} of {count} hosts of {role} are well, needed are 60 %");
            return Some(Refusal::new(RefusalReason::RoleIll, text));
        }
        let carriers = self.view.carriers(&members, &candidate.run.rule);
        if count >= CARRY_MEMBERS && carriers * 100 > count * CARRY_PERCENT {
            let text =
                format!("{carriers} of {count} hosts of {role} have it: not one host's fault");
            return Some(Refusal::new(RefusalReason::RoleCarries, text));
        }
        None
    }

    fn fleet_refusal(&self, candidate: RunCandidate<'_>) -> Option<Refusal> {
        if let Some(text) = self.busy_incident(candidate) {
            return Some(Refusal::new(RefusalReason::IncidentBusy, text));
        }
        let recent = self.runs.values().filter(|other| self.is_recent(other)).count();
        let most = usize::try_from(self.settings.fleet_per_hour).unwrap_or(usize::MAX);
        if recent >= most {
            let text = format!("the fleet had {recent} runs within an hour, the limit is {most}");
            return Some(Refusal::new(RefusalReason::FleetLimit, text));
        }
        if self.control.is_stormy(self.now) {
            let text = "many findings began at once within the last 10 minutes";
            return Some(Refusal::new(RefusalReason::Storm, text));
        }
        let led = self.now.0 - self.facts.leader_since.0;
        (led < LEADER_US).then(|| {
            let text = "this hub has run the rules for less than 30 s";
            Refusal::new(RefusalReason::NewLeader, text)
        })
    }

    /// What else acts in the incident or on the host.
    fn busy_incident(&self, candidate: RunCandidate<'_>) -> Option<String> {
        let RunCandidate { run, found, wanted } = candidate;
        match &found.acting {
            Some(IncidentActor::Change(what)) => return Some(what.clone()),
            // That person may approve the run; nothing starts without an approval beside them.
            Some(IncidentActor::Person(name))
                if run.step == HealStep::Auto && run.approved_by.is_none() =>
            {
                return Some(format!("{name} works on the incident"));
            }
            _ => {}
        }
        let other = self.runs.values().find(|other| {
            let is_same_incident =
                found.incident_id.is_some() && other.incident_id == found.incident_id;
            let is_near = is_same_incident || other.host == wanted.plan.host;
            is_near && other.id != run.id && other.is_acting()
        })?;
        Some(format!("{} on {} acts ({})", other.action, other.host, other.id))
    }

    /// Whether a run was ordered within the last hour.
    fn is_recent(&self, run: &HealRun) -> bool {
        run.ordered_us.is_some_and(|ordered| self.now.0 - ordered < HOUR_US)
    }
}
