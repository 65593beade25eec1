//! Which incident each finding belongs to: joining, late causes, merging.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_tables::Micros;

use super::Desk;
use super::detour::is_about_receiver;
use crate::civil_time::MINUTE;
use crate::decisions::IncidentEvent;
use crate::identity::{short_id, subject_id};
use crate::incident::{CauseState, Incident, MEMBERS_MAX, RootDetails};
use crate::roster::RouteKey;
use crate::{Finding, IncidentState, Urgency};

/// The same root rule in the same tier, with the same targets, joins an open incident within this
/// time of the last one.
const JOIN_US: i64 = 5 * MINUTE;
/// Open incidents; further roots are only counted.
const OPEN_MAX: usize = 1_000;
/// Open incidents that are notes, so that mails find space.
const OPEN_NOTES_MAX: usize = 500;
/// Open incidents that are notes and mails, so that pages find space.
const OPEN_QUIET_MAX: usize = 750;
/// Causes of causes that are followed.
const CHAIN_MAX: usize = 32;

/// A finding that fires, with its root.
pub(super) struct Fact<'a> {
    pub(super) finding: &'a Finding,
    pub(super) subject: String,
    /// Position of the root in the list; its own without one.
    root: usize,
    pub(super) is_explained: bool,
}

/// All findings that fire, each subject once, by subject.
pub(super) struct FactList<'a>(Vec<Fact<'a>>);

impl<'a> FactList<'a> {
    /// Finds each finding's root. Findings that explain each other have none.
    pub(super) fn collect(firing: &'a [Finding]) -> Self {
        let mut subjects: BTreeMap<String, &Finding> = BTreeMap::new();
        for finding in firing {
            let known = subjects.entry(subject_id(finding)).or_insert(finding);
            if rank(finding) > rank(known) {
                *known = finding;
            }
        }
        let positions: HashMap<&String, usize> =
            subjects.keys().enumerate().map(|(at, subject)| (subject, at)).collect();
        let by_id: HashMap<&str, usize> = firing
            .iter()
            .map(|each| (each.finding_id.as_str(), positions[&subject_id(each)]))
            .collect();
        let findings: Vec<&Finding> = subjects.values().copied().collect();
        let facts = subjects.iter().enumerate().map(|(at, (subject, finding))| {
            let root = root_of(at, &findings, &by_id);
            Fact {
                finding,
                subject: subject.clone(),
                root: root.unwrap_or(at),
                is_explained: root.is_some() && finding.cause_finding_id.is_some(),
            }
        });
        Self(facts.collect())
    }

    pub(super) fn at(&self, index: usize) -> &Fact<'a> {
        &self.0[index]
    }

    /// The finding of a subject, if it fires.
    fn find(&self, subject: &str) -> Option<&'a Finding> {
        let at = self.0.binary_search_by(|fact| fact.subject.as_str().cmp(subject)).ok()?;
        Some(self.0[at].finding)
    }

    /// The root of a finding, if it fires without a cause.
    pub(super) fn unexplained_root(&self, index: usize) -> Option<&Fact<'a>> {
        let root = self.at(self.at(index).root);
        (!root.is_explained).then_some(root)
    }

    /// Findings by root, the highest class first.
    fn groups(&self) -> Vec<(usize, Vec<usize>)> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, fact) in self.0.iter().enumerate() {
            groups.entry(fact.root).or_default().push(at);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(root, _)| std::cmp::Reverse(self.at(*root).finding.class));
        groups
    }
}

/// The end of a finding's chain of causes; `None` if the chain is a circle.
fn root_of(start: usize, findings: &[&Finding], by_id: &HashMap<&str, usize>) -> Option<usize> {
    let mut at = start;
    for _ in 0..CHAIN_MAX {
        let cause = findings[at].cause_finding_id.as_deref();
        match cause.and_then(|id| by_id.get(id)) {
            Some(next) => at = *next,
            None => return Some(at),
        }
    }
    None
}

/// Where findings are at home before the tick.
#[derive(Default)]
struct HomeIndex {
    by_subject: HashMap<String, String>,
    by_rule: HashMap<JoinKey, String>,
}

/// What findings without a common cause have in common when they are one incident: one message
/// reaches the people of all of them, and a silence covers all of them or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct JoinKey {
    rule: String,
    tier: String,
    route_group: Option<usize>,
    is_muted: bool,
    /// The subject of a rule whose findings do not join each other.
    alone: Option<String>,
}

impl Desk {
    /// Finds or opens each finding's incident; incidents with the positions of their findings.
    pub(super) fn assign(
        &mut self,
        now: Micros,
        facts: &FactList<'_>,
    ) -> BTreeMap<String, Vec<usize>> {
        let mut homes = self.homes(now, facts);
        let mut counts = self.open_counts();
        let mut placed: Vec<(usize, String)> = Vec::new();
        self.uncounted = 0;
        for (root, group) in facts.groups() {
            let mut home = self.home_of(root, &group, facts, &homes, now);
            if home.is_none() && !facts.at(root).is_explained {
                home = self.open_incident(now, facts.at(root), &mut counts);
                if let Some(id) = &home {
                    homes.by_rule.insert(self.join_key(now, facts.at(root).finding), id.clone());
                }
                self.uncounted += usize::from(home.is_none());
            }
            let Some(home) = home else { continue };
            for index in group {
                self.move_to(&home, &facts.at(index).subject, &homes);
                placed.push((index, home.clone()));
            }
        }
        let mut by_incident: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, id) in placed {
            by_incident.entry(self.follow(&id)).or_default().push(index);
        }
        by_incident
    }

    fn homes(&self, now: Micros, facts: &FactList<'_>) -> HomeIndex {
        let mut homes = HomeIndex::default();
        let mut order: Vec<&Incident> =
            self.incidents.values().filter(|each| each.state != IncidentState::Merged).collect();
        // Later ones replace earlier ones: an open incident is preferred, then the older one.
        order.sort_by_key(|each| (each.is_open(), std::cmp::Reverse((each.opened_us, &each.id))));
        for incident in order {
            for subject in incident.members.keys() {
                homes.by_subject.insert(subject.clone(), incident.id.clone());
            }
            let is_recent = now.0 - incident.joined_us <= JOIN_US;
            // A person works on what was acknowledged; what begins after that is news.
            let is_news = incident.is_open() && incident.ack.is_none();
            let is_joinable = is_recent && (is_news || incident.is_resolved_by_hand());
            let is_full = incident.is_open() && incident.members.len() >= MEMBERS_MAX;
            if is_joinable || is_full {
                let root = facts.find(&incident.root.subject_id);
                let key = JoinKey {
                    rule: incident.root.rule.clone(),
                    tier: incident.root.tier.clone(),
                    route_group: self.roster.route_group(incident.route_key()),
                    is_muted: root.is_some_and(|root| self.muted_by(now, root).is_some()),
                    alone: is_about_receiver(&incident.root.rule)
                        .then(|| incident.root.subject_id.clone()),
                };
                homes.by_rule.insert(key, incident.id.clone());
            }
        }
        homes
    }

    fn join_key(&self, now: Micros, finding: &Finding) -> JoinKey {
        JoinKey {
            rule: finding.rule.clone(),
            tier: finding.tier.clone(),
            route_group: self.roster.route_group(RouteKey {
                rule: &finding.rule,
                host: &finding.host,
                tier: &finding.tier,
                subject: &finding.subject,
            }),
            is_muted: self.muted_by(now, finding).is_some(),
            alone: is_about_receiver(&finding.rule).then(|| subject_id(finding)),
        }
    }

    fn open_counts(&self) -> OpenCounts {
        let mut counts = OpenCounts::default();
        self.incidents.values().filter(|it| it.is_open()).for_each(|it| counts.add(it.class));
        counts
    }

    /// The incident of a group of findings with one root; merges the incidents that it joins.
    fn home_of(
        &mut self,
        root: usize,
        group: &[usize],
        facts: &FactList<'_>,
        homes: &HomeIndex,
        now: Micros,
    ) -> Option<String> {
        let mut found: BTreeSet<(i64, String)> = BTreeSet::new();
        for &index in group {
            let subject = &facts.at(index).subject;
            let Some(id) = homes.by_subject.get(subject).map(|id| self.follow(id)) else {
                continue;
            };
            let Some(incident) = self.incidents.get(&id) else { continue };
            if index == root || is_cause_late(incident, subject) {
                found.insert((incident.opened_us, id));
            }
        }
        let Some((_, oldest)) = found.pop_first() else {
            if facts.at(root).is_explained {
                return None;
            }
            let same_rule = homes.by_rule.get(&self.join_key(now, facts.at(root).finding));
            return same_rule.map(|id| self.follow(id));
        };
        for (_, younger) in found {
            let its_root = self.incidents.get(&younger).map(|each| each.root.subject_id.as_str());
            if group.iter().any(|&index| Some(facts.at(index).subject.as_str()) == its_root) {
                self.merge(now, &younger, &oldest);
            }
        }
        Some(oldest)
    }

    fn open_incident(
        &mut self,
        now: Micros,
        root: &Fact<'_>,
        counts: &mut OpenCounts,
    ) -> Option<String> {
        if !counts.has_space(root.finding.class) {
            return None;
        }
        counts.add(root.finding.class);
        let id = self.free_id(&root.subject, now);
        let details = RootDetails::from_finding(root.finding, &root.subject);
        self.incidents.insert(id.clone(), Incident::open(id.clone(), now, details));
        Some(id)
    }

    /// An id from the subject and the start, which no other document has.
    fn free_id(&self, subject: &str, now: Micros) -> String {
        let start = now.0.to_string();
        let ids = (0_u32..)
            .map(|try_number| short_id(&["incident", subject, &start, &try_number.to_string()]));
        ids.into_iter().find(|id| self.is_free(id)).expect("ids have 50 bits and documents are few")
    }

    fn is_free(&self, id: &str) -> bool {
        !self.incidents.contains_key(id) && self.unreadable.iter().all(|each| each.key != id)
    }

    /// Takes a finding out of the incident that it was in, if that is another one.
    fn move_to(&mut self, home: &str, subject: &str, homes: &HomeIndex) {
        let Some(before) = homes.by_subject.get(subject).map(|id| self.follow(id)) else { return };
        if before != home
            && let Some(incident) = self.incidents.get_mut(&before)
        {
            incident.is_changed |= incident.members.remove(subject).is_some();
        }
    }

    /// The incident into which one was merged, else itself.
    pub(super) fn follow(&self, id: &str) -> String {
        let mut id = id;
        // Merging leads to an older incident each time.
        while let Some(next) = self.incidents.get(id).and_then(|each| each.merged_into.as_deref()) {
            id = next;
        }
        id.to_owned()
    }

    fn merge(&mut self, now: Micros, younger: &str, older: &str) {
        let Some(from) = self.incidents.get_mut(younger) else { return };
        from.state = IncidentState::Merged;
        from.merged_into = Some(older.to_owned());
        from.resolved_us = Some(now.0);
        from.escalation = None;
        from.pending = None;
        from.is_changed = true;
        let members = std::mem::take(&mut from.members);
        let (ack, class) = (from.ack.take(), from.class);
        let text = format!("merged into {older}, which has the same root");
        self.send_end(now, younger, &text);
        self.record(now, younger, IncidentEvent::Merged, &text);
        let Some(into) = self.incidents.get_mut(older) else { return };
        for (subject, member) in members {
            if into.members.len() < MEMBERS_MAX {
                into.members.entry(subject).or_insert(member);
            }
        }
        into.class = into.class.max(class);
        if ack.as_ref().map(|ack| ack.until_us) > into.ack.as_ref().map(|ack| ack.until_us) {
            into.ack = ack;
        }
        into.is_changed = true;
    }
}

/// Open incidents, and how many of them are notes and mails.
#[derive(Default)]
struct OpenCounts {
    all: usize,
    notes: usize,
    mails: usize,
}

impl OpenCounts {
    fn add(&mut self, class: Urgency) {
        self.all += 1;
        match class {
            Urgency::Note => self.notes += 1,
            Urgency::Mail => self.mails += 1,
            Urgency::Page => {}
        }
    }

    /// Whether one more may open.
    fn has_space(&self, class: Urgency) -> bool {
        let quiet = self.notes + self.mails;
        self.all < OPEN_MAX
            && match class {
                Urgency::Note => self.notes < OPEN_NOTES_MAX && quiet < OPEN_QUIET_MAX,
                Urgency::Mail => quiet < OPEN_QUIET_MAX,
                Urgency::Page => true,
            }
    }
}

/// Whether a finding that is now explained counted on its own until now, so that its cause came
/// late.
fn is_cause_late(incident: &Incident, subject: &str) -> bool {
    let member = incident.members.get(subject);
    let is_over = incident.state == IncidentState::Resolved && !incident.is_resolved_by_hand();
    !is_over && member.is_some_and(|it| it.cause == CauseState::Own && it.ended_us.is_none())
}

/// Order of two findings of one subject; the higher one counts.
fn rank(finding: &Finding) -> (Urgency, bool, &str) {
    (finding.class, finding.cause_finding_id.is_none(), &finding.finding_id)
}
