//! One tick of one incident: its findings, state, root and class.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use weir_tables::Micros;

use super::assign::{Fact, FactList};
use super::{Desk, HOLD_US};
use crate::civil_time::{MINUTE, SECOND};
use crate::decisions::IncidentEvent;
use crate::incident::{
    CauseState, FREED_US, Incident, MEMBERS_MAX, Member, PendingMail, RootDetails,
};
use crate::{Finding, HostLock, IncidentState, Urgency};

/// Changed texts alone are kept at most this often.
const DETAILS_US: i64 = 30 * SECOND;

/// What a tick found in an incident's members.
#[derive(Default)]
struct MemberNews {
    /// A finding without a cause is new, or has a higher class than before.
    is_higher: bool,
    /// The highest class of its findings, silenced ones included; `None` while each is explained.
    class: Option<Urgency>,
}

impl Desk {
    /// Updates an incident from the findings that are in it now.
    pub(super) fn update(&mut self, now: Micros, id: &str, facts: &FactList<'_>, live: &[usize]) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        if incident.state == IncidentState::Merged {
            return;
        }
        let is_new = incident.members.is_empty() && incident.step == 0 && incident.baseline == 0;
        let is_first = is_new && incident.opened_us == now.0 && incident.finding_count == 0;
        end_members(incident, now, facts, live);
        incident.loud = Urgency::Note;
        incident.current = None;
        if live.is_empty() {
            self.end(now, id);
            return;
        }
        let mut news = update_members(incident, now, facts, live);
        let own = own_facts(incident, facts, live);
        news.class = own.iter().map(|fact| fact.finding.class).max();
        let reopened = self.reopen(now, id, &news);
        let Some(incident) = self.incidents.get_mut(id) else { return };
        incident.current = news.class;
        let root_event = choose_root(incident, facts, live, &own);
        let class = news.class.unwrap_or_default();
        let raised = (class > incident.class).then_some(IncidentEvent::Raised);
        incident.is_changed |= raised.is_some();
        incident.class = incident.class.max(class);
        let findings: Vec<(&str, &Finding)> =
            live.iter().map(|&at| (facts.at(at).subject.as_str(), facts.at(at).finding)).collect();
        let is_due = now.0 - incident.details_us >= DETAILS_US && incident.is_stale(&findings);
        if incident.is_changed || is_due || incident.finding_count != findings.len() {
            incident.describe(now, &findings);
        }
        self.listen(now, id, &own);
        let opened = is_first.then_some(IncidentEvent::Opened);
        let raised = raised.filter(|_| !is_first);
        if let Some(text) = reopened {
            self.record(now, id, IncidentEvent::Reopened, &text);
        }
        for event in [opened, raised, root_event].into_iter().flatten() {
            self.record(now, id, event, event_text(event));
        }
    }

    /// Resolves an open incident without findings; notes the end of one that a person resolved.
    fn end(&mut self, now: Micros, id: &str) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        if incident.over_us.is_none() {
            incident.over_us = Some(now.0);
            incident.is_changed = true;
        }
        if !incident.is_open() {
            return;
        }
        incident.state = IncidentState::Resolved;
        incident.resolved_us = Some(now.0);
        incident.pending = None;
        self.send_end(now, id, "resolved");
        self.record(now, id, IncidentEvent::Resolved, "resolved");
    }

    /// Opens a resolved incident again, if its findings are back; one that a person resolved only
    /// for a new or higher finding, or when it still fires after the time that an acknowledgement
    /// holds: then it is sent as if it had just opened, a page at once. What happened, in words.
    fn reopen(&mut self, now: Micros, id: &str, news: &MemberNews) -> Option<String> {
        let gather = i64::from(self.roster.settings.mail_gather_seconds) * SECOND;
        let hold_minutes = self.roster.settings.ack_hold_minutes;
        let incident = self.incidents.get_mut(id)?;
        if incident.over_us.take().is_some() {
            incident.is_changed = true;
        }
        if incident.state != IncidentState::Resolved {
            return None;
        }
        let mut text = "firing again".to_owned();
        if incident.is_resolved_by_hand() {
            if !news.is_higher {
                let by = incident.resolved_by.as_deref().unwrap_or_default();
                text = format!("still firing {hold_minutes} min after {by} resolved it");
                let hold = i64::from(hold_minutes) * MINUTE;
                let is_over = incident.resolved_us.is_some_and(|at| now.0 - at >= hold);
                if !is_over || news.class.is_none_or(|class| class == Urgency::Note) {
                    return None;
                }
                incident.pending = Some(PendingMail { due_us: now.0, change: text.clone() });
            }
            incident.notified_class = Urgency::Note;
            incident.is_reopened = true;
        } else if incident.is_reported_over {
            incident.pending = Some(PendingMail { due_us: now.0 + gather, change: text.clone() });
        }
        // Unacknowledged: continue the escalation, since a short recovery does not restart it.
        if let Some(escalation) = &mut incident.escalation {
            escalation.due_us = escalation.due_us.max(now.0 + gather);
        }
        // An acknowledgement that ended in between is over; it does not expire aloud.
        incident.ack.take_if(|ack| ack.until_us <= now.0);
        incident.state = IncidentState::Open;
        incident.resolved_us = None;
        incident.resolved_by = None;
        incident.is_changed = true;
        Some(text)
    }

    /// Finds the highest class that neither a silence nor a window mutes.
    fn listen(&mut self, now: Micros, id: &str, own: &[&Fact<'_>]) {
        let muted: Vec<Option<String>> =
            own.iter().map(|fact| self.muted_by(now, fact.finding)).collect();
        let Some(incident) = self.incidents.get_mut(id) else { return };
        let classes = own.iter().zip(&muted).map(|(fact, muted)| (fact.finding.class, muted));
        let loud = classes.clone().filter(|(_, muted)| muted.is_none()).map(|(class, _)| class);
        incident.loud = loud.max().unwrap_or_default();
        let highest = classes.filter(|(_, muted)| muted.is_some()).max_by_key(|(class, _)| *class);
        if let Some((class, muted)) = highest
            && class > incident.loud
            && incident.muted_by != *muted
        {
            incident.muted_by.clone_from(muted);
            incident.is_changed = true;
        }
    }

    /// The silence or maintenance window that mutes a finding now.
    pub fn muted_by(&self, now: Micros, finding: &Finding) -> Option<String> {
        let silence = self.silences.values().find(|silence| silence.mutes(finding));
        if let Some(silence) = silence {
            return Some(silence.mention());
        }
        let window = self.roster.windows.iter().find(|window| window.mutes(finding, now));
        window.map(|window| format!("in maintenance window {}", window.name))
    }

    /// Maintenance windows that are on, as locks of repairs: a repair may run on another host than its finding's.
    pub fn window_locks(&self, now: Micros) -> Vec<HostLock> {
        self.roster.windows.iter().filter_map(|window| window.lock(now)).collect()
    }
}

/// Notes which findings ended; forgets a finding five minutes later.
fn end_members(incident: &mut Incident, now: Micros, facts: &FactList<'_>, live: &[usize]) {
    let firing: BTreeSet<&str> = live.iter().map(|&at| facts.at(at).subject.as_str()).collect();
    let before = incident.members.len();
    for (subject, member) in &mut incident.members {
        if member.ended_us.is_none() && !firing.contains(subject.as_str()) {
            member.ended_us = Some(now.0);
            incident.is_changed = true;
        }
    }
    // The members of a resolved incident stay as long as it does.
    if !live.is_empty() {
        incident.members.retain(|_, it| it.ended_us.is_none_or(|ended| now.0 - ended < HOLD_US));
    }
    incident.is_changed |= incident.members.len() != before;
}

fn update_members(
    incident: &mut Incident,
    now: Micros,
    facts: &FactList<'_>,
    live: &[usize],
) -> MemberNews {
    let mut news = MemberNews::default();
    for &at in live {
        let fact = facts.at(at);
        if !incident.members.contains_key(&fact.subject) {
            if incident.members.len() >= MEMBERS_MAX {
                continue;
            }
            let cause = if fact.is_explained { CauseState::Explained } else { CauseState::Own };
            news.is_higher |= !fact.is_explained;
            let member = Member { cause, class: Urgency::Note, since_us: now.0, ended_us: None };
            incident.members.insert(fact.subject.clone(), member);
            incident.is_changed = true;
            if fact.finding.rule == incident.root.rule {
                incident.joined_us = now.0;
            }
        }
        let member = incident.members.get_mut(&fact.subject).expect("it was inserted above");
        let before = member.clone();
        let was_gone = member.ended_us.take().is_some();
        member.cause = next_cause(before.cause, fact.is_explained, was_gone, now);
        if member.cause == CauseState::Own && fact.finding.class > member.class {
            member.class = fact.finding.class;
            news.is_higher = true;
        }
        incident.is_changed |= *member != before;
    }
    news
}

fn next_cause(before: CauseState, is_explained: bool, was_gone: bool, now: Micros) -> CauseState {
    match before {
        _ if is_explained => CauseState::Explained,
        CauseState::Own => CauseState::Own,
        CauseState::Explained => CauseState::Freed(now.0),
        CauseState::Freed(_) if was_gone => CauseState::Freed(now.0),
        CauseState::Freed(since) if now.0 - since >= FREED_US => CauseState::Own,
        CauseState::Freed(since) => CauseState::Freed(since),
    }
}

/// The findings whose own class counts: without a cause, and not just freed of one.
fn own_facts<'b, 'a>(
    incident: &Incident,
    facts: &'b FactList<'a>,
    live: &[usize],
) -> Vec<&'b Fact<'a>> {
    let facts = live.iter().map(|&at| facts.at(at));
    let counts = facts.filter(|fact| match incident.members.get(&fact.subject) {
        Some(member) => member.cause == CauseState::Own,
        None => !fact.is_explained,
    });
    counts.collect()
}

/// Keeps the root while it fires without a cause; else takes its own root, then one of the same
/// rule, then the one of the highest class.
fn choose_root(
    incident: &mut Incident,
    facts: &FactList<'_>,
    live: &[usize],
    own: &[&Fact<'_>],
) -> Option<IncidentEvent> {
    let current = &incident.root;
    if own.iter().any(|fact| fact.subject == current.subject_id) {
        return None;
    }
    let at = live.iter().find(|&&at| facts.at(at).subject == current.subject_id);
    let cause = at.and_then(|&at| facts.unexplained_root(at)).map(|cause| cause.subject.as_str());
    let next = own.iter().max_by_key(|fact| {
        let since = incident.members.get(&fact.subject).map_or(i64::MAX, |it| it.since_us);
        let is_same_rule = fact.finding.rule == current.rule;
        let is_cause = Some(fact.subject.as_str()) == cause;
        let age = Reverse((since, &fact.subject));
        (is_cause, is_same_rule, fact.finding.class, age)
    })?;
    let is_other_rule = next.finding.rule != current.rule;
    incident.root = RootDetails::from_finding(next.finding, &next.subject);
    incident.is_changed = true;
    is_other_rule.then_some(IncidentEvent::RootChanged)
}

fn event_text(event: IncidentEvent) -> &'static str {
    match event {
        IncidentEvent::Opened => "opened",
        IncidentEvent::Raised => "class rose",
        IncidentEvent::RootChanged => "another root",
        other => other.as_str(),
    }
}
