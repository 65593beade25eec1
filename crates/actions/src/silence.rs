//! Silences: notices of matching findings wait, until an end that is always there.
//!
//! A finding of a higher class than the silence was made for breaks through.

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use crate::civil_time::{DAY, MINUTE};
use crate::incident::HOLD_US;
use crate::pattern::matches_any;
use crate::{DeskError, Finding, Urgency};

/// The end without one: 2 hours.
const DEFAULT_US: i64 = 120 * MINUTE;
/// The furthest end: 30 days.
const LONGEST_US: i64 = 30 * DAY;
/// A silence ends after this time without a match.
const UNMATCHED_US: i64 = DAY;
/// How precisely the last match is kept, so that it is not written every second.
const MATCH_US: i64 = 10 * MINUTE;
const PATTERNS_MAX: usize = 50;
const TEXT_CHARS_MAX: usize = 500;

/// What is to be silenced, by whom and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SilenceRequest {
    /// Patterns of rules; all rules without any.
    pub rules: Vec<String>,
    /// Patterns of hosts; all hosts without any.
    pub hosts: Vec<String>,
    /// Why.
    pub reason: String,
    /// The author.
    pub by: String,
    /// The end; 2 hours from now without one, 30 days at most.
    pub until: Option<Micros>,
    /// Ends when what it matched is over for five minutes.
    pub until_resolved: bool,
    /// The highest class that is silenced; without one, the highest that matches now.
    pub class: Option<Urgency>,
}

/// A silence that holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// Id that people type.
    pub id: String,
    /// Patterns of rules; all rules without any.
    pub rules: Vec<String>,
    /// Patterns of hosts; all hosts without any.
    pub hosts: Vec<String>,
    /// Why.
    pub reason: String,
    /// The author.
    pub by: String,
    /// When it began, microseconds since 1970.
    pub from_us: i64,
    /// When it ends at the latest, microseconds since 1970.
    pub until_us: i64,
    /// Whether it ends when what it matched is over for five minutes.
    pub until_resolved: bool,
    /// The highest class that is silenced.
    pub class: Urgency,
    /// Whether it has matched a finding.
    pub has_matched: bool,
    /// When it last matched, or began; microseconds since 1970, to ten minutes.
    pub last_match_us: i64,
    /// Since when nothing matches that did; microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unmatched_us: Option<i64>,
}

impl Silence {
    /// A silence from a request, with its limits checked.
    pub(crate) fn from_request(
        request: SilenceRequest,
        now: Micros,
        class: Urgency,
    ) -> Result<Self, DeskError> {
        check(&request, now)?;
        let span = if request.until_resolved { LONGEST_US } else { DEFAULT_US };
        let until_us = request.until.map_or(now.0 + span, |until| until.0);
        let (rules, hosts) = (request.rules.join("\0"), request.hosts.join("\0"));
        let start = now.0.to_string();
        let parts = ["silence", &rules, &hosts, &request.by, &request.reason, &start];
        Ok(Self {
            id: crate::identity::short_id(&parts),
            rules: request.rules,
            hosts: request.hosts,
            reason: request.reason,
            by: request.by,
            from_us: now.0,
            until_us,
            until_resolved: request.until_resolved,
            class,
            has_matched: false,
            last_match_us: now.0,
            unmatched_us: None,
        })
    }

    /// Whether rule and host of a finding match.
    pub fn matches(&self, finding: &Finding) -> bool {
        matches_any(&self.rules, &finding.rule) && matches_any(&self.hosts, &finding.host)
    }

    /// Whether notices of a finding wait.
    pub(crate) fn mutes(&self, finding: &Finding) -> bool {
        finding.class <= self.class && self.matches(finding)
    }

    /// Notes whether it matches a finding that fires now; whether the document changed.
    pub(crate) fn observe(&mut self, now: Micros, is_matching: bool) -> bool {
        let before = (self.has_matched, self.last_match_us, self.unmatched_us);
        self.last_match_us = self.last_match_us.min(now.0);
        if is_matching {
            (self.has_matched, self.unmatched_us) = (true, None);
            if now.0 - self.last_match_us >= MATCH_US {
                self.last_match_us = now.0;
            }
        } else if self.has_matched {
            self.unmatched_us = Some(self.unmatched_us.map_or(now.0, |since| since.min(now.0)));
        }
        before != (self.has_matched, self.last_match_us, self.unmatched_us)
    }

    /// Why it is over, if it is.
    pub(crate) fn end_reason(&self, now: Micros, is_matching: bool) -> Option<&'static str> {
        if now.0 >= self.until_us {
            return Some("its time is over");
        }
        // What flaps is not over: an incident takes back what returns within this time, too.
        let is_over = self.unmatched_us.is_some_and(|since| now.0 - since >= HOLD_US);
        if self.until_resolved && is_over {
            return Some("what it silenced is resolved");
        }
        let is_idle = !is_matching && now.0 - self.last_match_us >= UNMATCHED_US;
        is_idle.then_some("it matched nothing for 24 hours")
    }

    /// For the next message of an incident that it silenced.
    pub(crate) fn mention(&self) -> String {
        let reason: String = self.reason.chars().take(80).collect();
        format!("silenced by {}: {reason}", self.by)
    }
}

fn check(request: &SilenceRequest, now: Micros) -> Result<(), DeskError> {
    let patterns = request.rules.iter().chain(&request.hosts);
    if request.rules.is_empty() && request.hosts.is_empty() {
        return Err(DeskError::new(
            "cannot silence everything without a pattern",
            "name rules or hosts; the rule `*` is every rule",
        ));
    }
    if patterns.clone().count() > PATTERNS_MAX || patterns.clone().any(|p| is_long(p)) {
        return Err(DeskError::new(
            "too many patterns in one silence: at most 50, each of at most 500 characters",
            "use `*` in a pattern",
        ));
    }
    if request.reason.trim().is_empty() || request.by.trim().is_empty() {
        return Err(DeskError::new(
            "cannot silence without reason and author",
            "state the reason, for the next shift",
        ));
    }
    if is_long(&request.reason) || is_long(&request.by) {
        return Err(DeskError::new(
            "reason or author is longer than 500 characters",
            "shorten the text",
        ));
    }
    let is_too_long = request.until.is_some_and(|until| until.0 > now.0 + LONGEST_US);
    if is_too_long || request.until.is_some_and(|until| until <= now) {
        return Err(DeskError::new(
            "cannot silence until that time: it is over or further than 30 days away",
            "for longer, disable the rule in the configuration",
        ));
    }
    Ok(())
}

fn is_long(text: &str) -> bool {
    text.chars().count() > TEXT_CHARS_MAX
}
