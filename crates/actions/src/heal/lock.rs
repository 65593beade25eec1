//! Deploy locks: no repair starts on a role or on hosts while one holds. A lock expires, so a deployment that
//! dies locks nothing for ever.

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::facts::HostLock;
use crate::civil_time::{DAY, SECOND};
use crate::error::DeskError;
use crate::identity::short_id;
use crate::pattern::matches_any;

/// The furthest end; longer work is a maintenance window.
const LONGEST_US: i64 = DAY;
/// Locks that hold at one time.
pub(crate) const LOCKS_MAX: usize = 500;
const TEXT_CHARS_MAX: usize = 500;

/// What a person or a deployment locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockRequest {
    /// The role; empty with `host`.
    pub role: String,
    /// A host, or a pattern of hosts; empty with `role`.
    pub host: String,
    /// For how long.
    pub seconds: i64,
    /// Why.
    pub reason: String,
}

/// A lock that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployLock {
    /// Id that people type.
    pub id: String,
    /// The role; empty if it is for hosts.
    pub role: String,
    /// A host or a pattern of hosts; empty if it is for a role.
    pub host: String,
    /// Its author.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When it began, microseconds since 1970.
    pub from_us: i64,
    /// How long it holds, in microseconds.
    pub length_us: i64,
}

/// Where a repair would run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepairPlace<'a> {
    pub(crate) host: &'a str,
    pub(crate) role: &'a str,
    pub(crate) rule: &'a str,
}

impl DeployLock {
    /// A lock that begins now.
    pub(crate) fn begin(now: Micros, request: LockRequest, by: &str) -> Result<Self, DeskError> {
        let LockRequest { role, host, seconds, reason } = request;
        let (role, host) = (role.trim().to_owned(), host.trim().to_owned());
        check_scope([&role, &host])?;
        let length_us = seconds.saturating_mul(SECOND);
        if !(SECOND..=LONGEST_US).contains(&length_us) {
            let hint = "`--for 30m`; planned work that takes longer is one of `[[windows]]`";
            return Err(DeskError::new("cannot lock repairs: a lock holds for 1 s to 24 h", hint));
        }
        let reason: String = reason.trim().chars().take(TEXT_CHARS_MAX).collect();
        if reason.is_empty() {
            let hint = "`--reason 'deploy 1.4.2'`: it is shown with each refused repair";
            return Err(DeskError::new("cannot lock repairs without a reason", hint));
        }
        let start = now.0.to_string();
        let id = short_id(&["lock", &role, &host, by, &reason, &start]);
        Ok(Self { id, role, host, by: by.to_owned(), reason, from_us: now.0, length_us })
    }

    /// When it ends, microseconds since 1970.
    pub fn until_us(&self) -> i64 {
        self.from_us.saturating_add(self.length_us)
    }

    /// Whether it has not ended.
    pub fn holds(&self, now: Micros) -> bool {
        now.0 < self.until_us()
    }

    pub(crate) fn covers(&self, place: RepairPlace<'_>, now: Micros) -> bool {
        let is_place = if self.role.is_empty() {
            matches_any(std::slice::from_ref(&self.host), place.host)
        } else {
            self.role == place.role
        };
        is_place && self.holds(now)
    }

    /// The role or the hosts in words.
    pub fn scope(&self) -> String {
        if self.role.is_empty() { self.host.clone() } else { format!("role {}", self.role) }
    }

    /// The reason of a refused repair.
    pub(crate) fn text(&self, now: Micros) -> String {
        let minutes = (self.until_us() - now.0).div_euclid(60 * SECOND) + 1;
        let (scope, by) = (self.scope(), &self.by);
        format!("{by} locked {scope} for another {minutes} min: {}", self.reason)
    }

    /// Bounds its begin, for the clock may be set back; whether it changed.
    pub(crate) fn settle_clock(&mut self, now: Micros) -> bool {
        let is_ahead = self.from_us > now.0;
        self.from_us = self.from_us.min(now.0);
        is_ahead
    }

    /// The document.
    pub(crate) fn body(&self) -> String {
        serde_json::to_string(self).expect("a lock has only texts and numbers")
    }
}

impl HostLock {
    /// Whether it holds for a repair.
    pub(crate) fn covers(&self, place: RepairPlace<'_>, now: Micros) -> bool {
        now.0 < self.until_us
            && matches_any(&self.hosts, place.host)
            && matches_any(&self.rules, place.rule)
    }
}

fn check_scope([role, host]: [&str; 2]) -> Result<(), DeskError> {
    let is_one = role.is_empty() != host.is_empty();
    let is_text = |text: &str| text.chars().count() <= 255 && !text.chars().any(char::is_control);
    if is_one && is_text(role) && is_text(host) {
        return Ok(());
    }
    let hint = "`--role web`, or `--host web7`; `*` stands for any text in a host";
    Err(DeskError::new("cannot lock repairs: a lock is for one role or for hosts", hint))
}
