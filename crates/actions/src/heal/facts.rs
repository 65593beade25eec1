//! What the heal desk is given at each tick: findings, hosts, rules, and answers to orders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use crate::Finding;

/// A host that sent no row for this time may be in any state.
pub(crate) const SEEN_US: i64 = 60_000_000;

/// A finding that fires, with what decides about a repair.
#[derive(Clone, Debug, PartialEq)]
pub struct HealFinding {
    /// The finding.
    pub finding: Finding,
    /// When it began to fire.
    pub fired: Micros,
    /// When its rule last returned it.
    pub evidence: Micros,
    /// The incident that it belongs to.
    pub incident_id: Option<String>,
    /// The silence or maintenance window that mutes it.
    pub muted_by: Option<String>,
    /// What else acts in its incident: a person that acknowledged it, a trial of a setting.
    pub acting: Option<IncidentActor>,
}

/// What acts in an incident beside repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncidentActor {
    /// A person acknowledged it; that person may still approve a repair.
    Person(String),
    /// Another change is being made: a trial of a setting, a drain.
    Change(String),
}

/// Times of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleTiming {
    /// Interval between its runs, in microseconds.
    pub every_us: i64,
    /// How long its condition must be absent before a finding is resolved, in microseconds.
    pub clear_us: i64,
    /// Its last run without an error.
    pub last_run: Micros,
}

/// A host as the hub has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// Its role; empty if unknown.
    pub role: String,
    /// Its clock minus the hub's, in microseconds; `None` if not measured.
    pub clock_offset_us: Option<i64>,
    /// When its newest rows arrived.
    pub seen: Micros,
    /// Whether its agent is connected and carries orders.
    pub is_reachable: bool,
}

/// Planned work that forbids repairs on hosts: a maintenance window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLock {
    /// What holds the lock: `in maintenance window night`.
    pub name: String,
    /// Patterns of hosts; all hosts without any.
    pub hosts: Vec<String>,
    /// Patterns of rules; all rules without any.
    #[serde(default)]
    pub rules: Vec<String>,
    /// When it ends at the latest, microseconds since 1970.
    pub until_us: i64,
}

/// What is known about an order; repeated reports of the same are harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderReport {
    /// The order, 32 hex digits.
    pub order_id: String,
    /// The host that reports; a host reports its own runs only.
    pub host: String,
    /// When it happened.
    pub ts: Micros,
    /// What happened.
    pub outcome: OrderOutcome,
}

/// What happened to an order.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderOutcome {
    /// The host accepted it.
    Accepted,
    /// The host has had it before, and does not run it a second time.
    Repeated,
    /// The host does not run it, and why.
    Refused(String),
    /// Its first program started.
    Started,
    /// Its programs ended.
    Ended(OrderResult),
    /// The host has no record of its end, and why.
    Lost(String),
}

/// How the programs of an order ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderResult {
    /// Exit status of the last program; `None` if a signal ended it.
    pub exit: Option<i64>,
    /// Whether the host ended it after the action's timeout.
    pub timed_out: bool,
    /// Program and arguments.
    pub argv: String,
    /// The end of its output.
    pub output_tail: String,
    /// Why it failed, in the host's words; empty otherwise.
    #[serde(default)]
    pub why: String,
}

impl OrderResult {
    /// Whether all programs succeeded.
    pub(crate) fn is_success(&self) -> bool {
        self.exit == Some(0) && !self.timed_out
    }
}

/// A figure that is clearly worse since a run: requests that failed, latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarmReport {
    /// The run.
    pub run_id: String,
    /// What is worse: `more requests answered with an error: 40 of 900, before 2 of 880`.
    pub text: String,
}

/// Everything that a tick decides on.
#[derive(Clone, Copy, Debug)]
pub struct HealFacts<'a> {
    /// All findings that fire, symptoms included.
    pub firing: &'a [HealFinding],
    /// Rules by id.
    pub rules: &'a BTreeMap<String, RuleTiming>,
    /// Hosts by name.
    pub hosts: &'a BTreeMap<String, HostState>,
    /// Hosts by address; an address of several hosts is left out.
    pub addresses: &'a BTreeMap<String, String>,
    /// Locks of hosts.
    pub locks: &'a [HostLock],
    /// Answers to orders, and what agents reported.
    pub reports: &'a [OrderReport],
    /// Figures that are worse since a run.
    pub harms: &'a [HarmReport],
    /// Since when this hub runs the rules.
    pub leader_since: Micros,
}

impl HealFacts<'_> {
    /// The role of a host; empty if unknown.
    pub(crate) fn role(&self, host: &str) -> &str {
        self.hosts.get(host).map_or("", |state| state.role.as_str())
    }

    /// Hosts of a role; only the host itself if the role is unknown.
    pub(crate) fn members<'s>(&'s self, host: &'s str) -> Vec<&'s str> {
        let role = self.role(host);
        if role.is_empty() {
            return vec![host];
        }
        let members = self.hosts.iter().filter(|(_, state)| state.role == role);
        members.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether a host sent rows within the last minute.
    pub(crate) fn is_seen(&self, host: &str, now: Micros) -> bool {
        self.hosts.get(host).is_some_and(|state| now.0 - state.seen.0 <= SEEN_US)
    }
}
