//! The fleet at a tick: which hosts have findings, and which entry repairs a finding where.

use std::collections::{BTreeMap, BTreeSet};

use weir_tables::Micros;

use super::facts::{HealFacts, HealFinding};
use super::policy::{HealEntry, HealPolicy, HostKey};
use super::run::RunPlan;
use super::target::{parameters, placeholder, target_host};
use crate::Urgency;

/// Target of a policy for a finding.
#[derive(Clone, Debug)]
pub(crate) struct EntryMatch<'a> {
    pub(crate) entry: &'a HealEntry,
    pub(crate) plan: RunPlan,
    /// Why host or parameters cannot be determined.
    pub(crate) fault: Option<String>,
}

/// Hosts with findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct FleetView {
    /// Hosts with a finding of class mail or page, or a symptom.
    ill: BTreeSet<String>,
    /// Hosts by rule.
    carriers: BTreeMap<String, BTreeSet<String>>,
}

impl FleetView {
    pub(crate) fn collect(policy: &HealPolicy, facts: &HealFacts<'_>) -> Self {
        let mut view = Self::default();
        for found in facts.firing {
            let Some(host) = afflicted_host(policy, found, facts) else { continue };
            let finding = &found.finding;
            if finding.class >= Urgency::Mail || finding.cause_finding_id.is_some() {
                view.ill.insert(host.clone());
            }
            view.carriers.entry(finding.rule.clone()).or_default().insert(host);
        }
        view
    }

    /// Members that are well: they sent rows within the last minute and have no finding.
    pub(crate) fn well(&self, members: &[&str], facts: &HealFacts<'_>, now: Micros) -> usize {
        let well = members.iter().filter(|host| !self.ill.contains(**host));
        well.filter(|host| facts.is_seen(host, now)).count()
    }

    /// Members with a finding of a rule.
    pub(crate) fn carriers(&self, members: &[&str], rule: &str) -> usize {
        let Some(carriers) = self.carriers.get(rule) else { return 0 };
        members.iter().filter(|host| carriers.contains(**host)).count()
    }

    /// Members beside a host that have a finding.
    pub(crate) fn ill_siblings(&self, members: &[&str], host: &str) -> usize {
        members.iter().filter(|member| **member != host && self.ill.contains(**member)).count()
    }
}

/// The host that a finding is about: where its repair would run, else its own.
fn afflicted_host(
    policy: &HealPolicy,
    found: &HealFinding,
    facts: &HealFacts<'_>,
) -> Option<String> {
    let finding = &found.finding;
    let elsewhere = policy.entries.iter().find(|entry| {
        entry.rule == finding.rule && placeholder(&entry.on).is_some_and(|name| name != "host")
    });
    if let Some(host) = elsewhere.and_then(|entry| target_host(entry, finding, facts).ok()) {
        return Some(host);
    }
    (!finding.host.is_empty()).then(|| finding.host.clone())
}

/// The first entry that fits a finding, with what it would do.
pub(crate) fn entry_match<'a>(
    policy: &'a HealPolicy,
    found: &HealFinding,
    facts: &HealFacts<'_>,
) -> Option<EntryMatch<'a>> {
    let mut unknown = None;
    for entry in policy.entries.iter().filter(|entry| entry.rule == found.finding.rule) {
        let host = match target_host(entry, &found.finding, facts) {
            Ok(host) => host,
            Err(why) => {
                unknown.get_or_insert((entry, why));
                continue;
            }
        };
        let role = facts.role(&host).to_owned();
        if !entry.fits(HostKey { host: &host, role: &role }) {
            continue;
        }
        let (params, fault) = match parameters(entry, &found.finding) {
            Ok(params) => (params, None),
            Err(why) => (BTreeMap::new(), Some(why)),
        };
        let plan = RunPlan { action: entry.action.clone(), params, host, role };
        return Some(EntryMatch { entry, plan, fault });
    }
    let (entry, why) = unknown?;
    let plan = RunPlan {
        action: entry.action.clone(),
        params: BTreeMap::new(),
        host: String::new(),
        role: String::new(),
    };
    Some(EntryMatch { entry, plan, fault: Some(why) })
}
