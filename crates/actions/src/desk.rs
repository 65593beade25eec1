//! The incident desk: findings that fire and the time go in, notices and documents come out.
//!
//! It works by level: each tick compares all findings with the incidents that are kept, so a
//! restart or a new leader skips nothing. Nothing that a decision depends on is only in memory.

mod acts;
mod assign;
mod detour;
mod duty;
mod mailbox;
mod notify;
mod standing;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use weir_tables::Micros;

use crate::civil_time::{MINUTE, SECOND};
use crate::decisions::{
    Decisions, IncidentChange, IncidentEvent, KeptDocument, UnreadableDocument,
};
use crate::identity::subject_id;
use crate::incident::{CauseState, HOLD_US, Incident};
use crate::policy::Policy;
use crate::roster::Roster;
use crate::rota::OnCall;
use crate::silence::Silence;
use crate::{Finding, IncidentState};

pub use acts::{TestTarget, test_end};
use assign::FactList;
use duty::DutyBook;
pub use duty::LetterText;
use mailbox::MailboxBook;

const INCIDENT: &str = "incident";
const SILENCE: &str = "silence";
const DUTY: &str = "duty";
const MAILBOX: &str = "mailbox";

/// Incidents, silences, and the policy by which they notify.
#[derive(Clone, Debug)]
pub struct Desk {
    roster: Roster,
    incidents: BTreeMap<String, Incident>,
    silences: BTreeMap<String, Silence>,
    changed_silences: BTreeSet<String>,
    duties: DutyBook,
    mailboxes: MailboxBook,
    changed_mailboxes: BTreeSet<String>,
    unreadable: Vec<UnreadableDocument>,
    uncounted: usize,
    /// Receivers that accept no messages, as of the last tick.
    failing: BTreeSet<String>,
    out: Decisions,
}

impl Desk {
    /// Kinds of the documents that a desk keeps.
    pub const KINDS: [&'static str; 4] = [INCIDENT, SILENCE, DUTY, MAILBOX];

    /// A desk without incidents.
    pub fn new(policy: Policy) -> Self {
        Self {
            roster: Roster::compile(policy),
            incidents: BTreeMap::new(),
            silences: BTreeMap::new(),
            changed_silences: BTreeSet::new(),
            duties: DutyBook::default(),
            mailboxes: MailboxBook::default(),
            changed_mailboxes: BTreeSet::new(),
            unreadable: Vec::new(),
            uncounted: 0,
            failing: BTreeSet::new(),
            out: Decisions::default(),
        }
    }

    /// A desk with what is kept: kind, key and body of each document of [`Self::KINDS`].
    /// Other kinds are left alone; what cannot be read is in [`Self::unreadable`].
    pub fn restore(policy: Policy, documents: &[(String, String, String)]) -> Self {
        let mut desk = Self::new(policy);
        for (kind, key, body) in documents {
            let result = match kind.as_str() {
                INCIDENT => serde_json::from_str(body)
                    .map(|incident| drop(desk.incidents.insert(key.clone(), incident))),
                SILENCE => serde_json::from_str(body)
                    .map(|silence| drop(desk.silences.insert(key.clone(), silence))),
                DUTY => desk.duties.read(key, body),
                MAILBOX => desk.mailboxes.read([key, body]),
                _ => Ok(()),
            };
            if let Err(error) = result {
                let (kind, key, reason) = (kind.clone(), key.clone(), error.to_string());
                desk.unreadable.push(UnreadableDocument { kind, key, reason });
            }
        }
        desk
    }

    /// Takes another policy; incidents and silences stay.
    pub fn set_policy(&mut self, policy: Policy) {
        self.roster = Roster::compile(policy);
    }

    /// Compares all findings that fire now, symptoms included, with the incidents.
    ///
    /// Call it only when the rules have run since the program started: what is not in the list has
    /// ended.
    pub fn tick(&mut self, now: Micros, firing: &[Finding]) -> Decisions {
        self.settle_clock(now);
        self.note_failing(firing);
        self.forget(now);
        self.forget_mailboxes(now);
        let facts = FactList::collect(firing);
        let placed = self.assign(now, &facts);
        self.update_silences(now, firing);
        let ids: Vec<String> = self.incidents.keys().cloned().collect();
        for id in &ids {
            let live = placed.get(id).map_or(&[][..], Vec::as_slice);
            self.update(now, id, &facts, live);
        }
        for id in &ids {
            self.notify(now, id);
        }
        self.watch_duties(now);
        self.finish()
    }

    /// All incidents: open, resolved less than five minutes ago, and merged.
    pub fn incidents(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.values()
    }

    /// The incident that a finding belongs to; one that is open, if there is one.
    pub fn incident_of(&self, finding: &Finding) -> Option<&Incident> {
        let subject = subject_id(finding);
        let having = self.incidents.values().filter(|each| each.members.contains_key(&subject));
        having.max_by_key(|incident| incident.is_open())
    }

    /// The silences that hold.
    pub fn silences(&self) -> impl Iterator<Item = &Silence> {
        self.silences.values()
    }

    /// Documents that could not be read at the start.
    pub fn unreadable(&self) -> &[UnreadableDocument] {
        &self.unreadable
    }

    /// Root findings of the last tick that have no incident, since too many are open.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// Who is on call in a rota at a time, until when, and why.
    pub fn on_call(&self, rota: &str, at: Micros) -> OnCall {
        self.roster.rotas.on_call(rota, at)
    }

    /// Bounds every timer by its own length, for the clock may be set back.
    fn settle_clock(&mut self, now: Micros) {
        let hold = i64::from(self.roster.settings.ack_hold_minutes) * MINUTE;
        let gather = i64::from(self.roster.settings.mail_gather_seconds) * SECOND;
        for incident in self.incidents.values_mut() {
            let mut clamp = ClockClamp { is_changed: false };
            for member in incident.members.values_mut() {
                if let CauseState::Freed(since) = &mut member.cause {
                    clamp.at_most(since, now.0);
                }
                member.ended_us.iter_mut().for_each(|ended| clamp.at_most(ended, now.0));
            }
            for past in [
                Some(&mut incident.joined_us),
                Some(&mut incident.details_us),
                Some(&mut incident.notified_us),
                incident.over_us.as_mut(),
                incident.resolved_us.as_mut(),
                incident.lowered_us.as_mut(),
            ] {
                past.into_iter().for_each(|past| clamp.at_most(past, now.0));
            }
            if let Some(ack) = &mut incident.ack {
                clamp.at_most(&mut ack.until_us, now.0 + hold);
            }
            if let Some(pending) = &mut incident.pending {
                clamp.at_most(&mut pending.due_us, now.0 + gather);
            }
            if let Some(escalation) = &mut incident.escalation {
                clamp.at_most(&mut escalation.due_us, now.0 + escalation.pause_us);
            }
            incident.is_changed |= clamp.is_changed;
        }
    }

    /// Removes incidents that are over for five minutes, and merged ones with the older incident.
    fn forget(&mut self, now: Micros) {
        let mut gone: BTreeSet<String> = self
            .incidents
            .values()
            .filter(|each| is_forgettable(each, now))
            .map(|each| each.id.clone())
            .collect();
        loop {
            let merged = self.incidents.values().find(|incident| {
                let into = incident.merged_into.as_ref();
                !gone.contains(&incident.id)
                    && into.is_some_and(|id| gone.contains(id) || !self.incidents.contains_key(id))
            });
            let Some(merged) = merged else { break };
            gone.insert(merged.id.clone());
        }
        for key in gone {
            self.incidents.remove(&key);
            self.out.documents.push(KeptDocument { kind: INCIDENT, key, body: None });
        }
    }

    fn update_silences(&mut self, now: Micros, firing: &[Finding]) {
        let mut over = Vec::new();
        for silence in self.silences.values_mut() {
            let is_matching = firing.iter().any(|finding| silence.matches(finding));
            if silence.observe(now, is_matching) {
                self.changed_silences.insert(silence.id.clone());
            }
            if silence.end_reason(now, is_matching).is_some() {
                over.push(silence.id.clone());
            }
        }
        for id in over {
            self.silences.remove(&id);
            self.changed_silences.insert(id);
        }
    }

    /// The decisions since the last call, with every document that changed.
    fn finish(&mut self) -> Decisions {
        for incident in self.incidents.values_mut().filter(|incident| incident.is_changed) {
            incident.is_changed = false;
            let (key, body) = (incident.id.clone(), Some(incident.body()));
            self.out.documents.push(KeptDocument { kind: INCIDENT, key, body });
        }
        for key in std::mem::take(&mut self.changed_silences) {
            let body = self.silences.get(&key).map(|silence| {
                serde_json::to_string(silence).expect("a silence has only texts and numbers")
            });
            self.out.documents.push(KeptDocument { kind: SILENCE, key, body });
        }
        self.keep_mailboxes();
        std::mem::take(&mut self.out)
    }

    /// Notes a change of an incident for tables.
    fn record(&mut self, now: Micros, id: &str, event: IncidentEvent, text: &str) {
        let Some(incident) = self.incidents.get(id) else { return };
        let by = match event {
            IncidentEvent::Acknowledged => incident.ack.as_ref().map(|ack| ack.by.clone()),
            IncidentEvent::Resolved => incident.resolved_by.clone(),
            _ => None,
        };
        self.out.changes.push(IncidentChange {
            ts: now,
            event,
            state: incident.state,
            text: text.to_owned(),
            by,
            merged_into: incident.merged_into.clone(),
            root_finding_id: incident.root_finding_id().to_owned(),
            incident: incident.summary(),
        });
    }
}

/// Whether an incident is over for so long that nothing comes back to it.
fn is_forgettable(incident: &Incident, now: Micros) -> bool {
    incident.state == IncidentState::Resolved
        && incident.over_us.is_some_and(|over| now.0 - over >= HOLD_US)
}

/// Bounds times and notes whether one was beyond.
struct ClockClamp {
    is_changed: bool,
}

impl ClockClamp {
    fn at_most(&mut self, time: &mut i64, most: i64) {
        if *time > most {
            *time = most;
            self.is_changed = true;
        }
    }
}
