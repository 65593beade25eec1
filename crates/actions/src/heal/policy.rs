//! Which repairs weir may run for which findings, as the configuration has them.
//!
//! The host has the last word: an action exists only where root wrote its file, and nothing here
//! can widen what that file allows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pattern::matches_any;

/// How far weir goes by itself: each step includes the ones before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum HealStep {
    /// Runs are only recorded.
    #[default]
    Observe,
    /// Runs are listed, and a person may start one.
    Suggest,
    /// People are paged for an approval.
    Ask,
    /// Runs start by themselves.
    Auto,
}

impl HealStep {
    /// All steps, lowest first.
    pub const ALL: [Self; 4] = [Self::Observe, Self::Suggest, Self::Ask, Self::Auto];

    /// The word in the configuration and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Suggest => "suggest",
            Self::Ask => "ask",
            Self::Auto => "auto",
        }
    }

    /// The step of a word of the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }

    /// The next lower step; the lowest stays.
    pub fn lower(self) -> Self {
        match self {
            Self::Auto => Self::Ask,
            Self::Ask => Self::Suggest,
            Self::Suggest | Self::Observe => Self::Observe,
        }
    }

    /// The next higher step; the highest stays.
    pub fn higher(self) -> Self {
        match self {
            Self::Observe => Self::Suggest,
            Self::Suggest => Self::Ask,
            Self::Ask | Self::Auto => Self::Auto,
        }
    }
}

/// Repairs that are configured, and their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealPolicy {
    /// Limits of all repairs together.
    pub settings: HealSettings,
    /// Repairs; the first whose rule, host and role fit a finding applies.
    pub entries: Vec<HealEntry>,
}

/// Limits of all repairs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealSettings {
    /// Whether repairs are considered at all.
    pub is_enabled: bool,
    /// Orders to the whole fleet in an hour.
    pub fleet_per_hour: u32,
    /// Minutes in which a question for approval can be answered.
    pub answer_minutes: u32,
    /// Findings that begin within a minute and make a storm.
    pub storm_findings: u32,
}

impl Default for HealSettings {
    fn default() -> Self {
        Self { is_enabled: false, fleet_per_hour: 10, answer_minutes: 15, storm_findings: 10 }
    }
}

/// One repair: the rule that it cures, the action, and how far weir goes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealEntry {
    /// The rule.
    pub rule: String,
    /// The action's id in `/etc/weir/actions.d` of the host.
    pub action: String,
    /// Parameters: a text, or `{COLUMN}` for a value of the finding.
    pub params: BTreeMap<String, String>,
    /// The host to repair: `{host}`, or the column with its address, `{upstream}`.
    pub on: String,
    /// Patterns of hosts to repair; all hosts without any.
    pub hosts: Vec<String>,
    /// Patterns of roles of these hosts; all roles without any.
    pub roles: Vec<String>,
    /// The highest step.
    pub mode: HealStep,
    /// The highest step on a host without another one of its role.
    pub alone: HealStep,
    /// Whether a dry run has to succeed before each order.
    pub dry_run: bool,
    /// Share of the file system that the dry run has to promise, in percent; with it a dry run always comes first.
    pub frees_percent: Option<u32>,
}

impl Default for HealEntry {
    fn default() -> Self {
        Self {
            rule: String::new(),
            action: String::new(),
            params: BTreeMap::new(),
            on: "{host}".to_owned(),
            hosts: Vec::new(),
            roles: Vec::new(),
            mode: HealStep::Observe,
            alone: HealStep::Ask,
            dry_run: false,
            frees_percent: None,
        }
    }
}

/// A host as entries match it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostKey<'a> {
    pub(crate) host: &'a str,
    pub(crate) role: &'a str,
}

/// Actions that delete files: a little more space is not worth it.
const DELETING: [&str; 2] = ["trim-path", "clear-tmp"];
/// The share that they have to free where the configuration states none, in percent.
const FREES_PERCENT: u32 = 5;

impl HealEntry {
    /// The share of the file system that its dry run has to promise, in percent.
    pub(crate) fn needed_share(&self) -> Option<u32> {
        let is_deleting = DELETING.contains(&self.action.as_str());
        self.frees_percent.or(is_deleting.then_some(FREES_PERCENT))
    }

    /// Whether a dry run has to succeed before each order.
    pub(crate) fn needs_dry_run(&self) -> bool {
        self.dry_run || self.needed_share().is_some()
    }

    /// Whether it repairs this host.
    pub(crate) fn fits(&self, key: HostKey<'_>) -> bool {
        matches_any(&self.hosts, key.host) && matches_any(&self.roles, key.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_an_order_and_ends() {
        for pair in HealStep::ALL.windows(2) {
            assert_eq!((pair[0].higher(), pair[1].lower()), (pair[1], pair[0]));
            assert!(pair[0] < pair[1]);
        }
        assert_eq!(HealStep::Auto.higher(), HealStep::Auto);
        assert_eq!(HealStep::Observe.lower(), HealStep::Observe);
        for step in HealStep::ALL {
            assert_eq!(HealStep::parse(step.as_str()), Some(step));
        }
        assert_eq!(HealStep::parse("automatic"), None);
    }
}
