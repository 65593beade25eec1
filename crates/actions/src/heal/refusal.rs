//! Why a repair is not run: one reason for each limit, as rows and people read them.

use serde::{Deserialize, Serialize};

/// The limit that refuses a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// Repairs are stopped.
    Stopped,
    /// The host or a parameter cannot be determined.
    NoTarget,
    /// Another finding explains it, or it does not fire.
    NotRoot,
    /// Its class is a note.
    LowClass,
    /// Its evidence is older than two runs of the rule, or the newest run did not return it.
    StaleEvidence,
    /// A silence or a maintenance window covers it.
    Muted,
    /// A deployment holds a lock on the host.
    DeployLock,
    /// A program on the host is in a restart loop.
    CrashLoop,
    /// The agent is not connected or cannot carry orders.
    Unreachable,
    /// The host's clock is unknown or more than 2 s off.
    ClockSkew,
    /// This hub has run the rules for less than 30 s.
    NewLeader,
    /// Another host of the role is being repaired.
    RoleBusy,
    /// The role had its runs of this hour.
    RoleLimit,
    /// Less than 60 % of the role is well.
    RoleIll,
    /// More than 40 % of the role have this finding.
    RoleCarries,
    /// Something else acts in the incident.
    IncidentBusy,
    /// The fleet had its runs of this hour.
    FleetLimit,
    /// Many findings began at once within the last ten minutes.
    Storm,
    /// A person refused it.
    ByPerson,
    /// No person answered in time.
    NoAnswer,
    /// It ended before an order.
    Resolved,
    /// The configuration changed in the meantime.
    PolicyChanged,
    /// The dry run failed, or showed too little.
    DryRun,
    /// The host refused the order.
    ByHost,
}

impl RefusalReason {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::NoTarget => "no_target",
            Self::NotRoot => "not_root",
            Self::LowClass => "low_class",
            Self::StaleEvidence => "stale_evidence",
            Self::Muted => "muted",
            Self::DeployLock => "deploy_lock",
            Self::CrashLoop => "crash_loop",
            Self::Unreachable => "unreachable",
            Self::ClockSkew => "clock_skew",
            Self::NewLeader => "new_leader",
            Self::RoleBusy => "role_busy",
            Self::RoleLimit => "role_limit",
            Self::RoleIll => "role_ill",
            Self::RoleCarries => "role_carries",
            Self::IncidentBusy => "incident_busy",
            Self::FleetLimit => "fleet_limit",
            Self::Storm => "storm",
            Self::ByPerson => "by_person",
            Self::NoAnswer => "no_answer",
            Self::Resolved => "resolved",
            Self::PolicyChanged => "policy_changed",
            Self::DryRun => "dry_run",
            Self::ByHost => "by_host",
        }
    }
}

/// A limit that refuses a run, with the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: RefusalReason,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(reason: RefusalReason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }
}
