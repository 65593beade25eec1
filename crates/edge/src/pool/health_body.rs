//! The body of a health response: JSON in which an application reports its own checks.
//!
//! Sources: draft-inadarei-api-health-check-06, and the documentation of Spring Boot's Actuator,
//! MicroProfile Health (Quarkus), AspNetCore.HealthChecks.UI, Dropwizard and Terminus.
//!
//! ```text
//!   {"status": "fail", "checks": {"feed:rate": [{"status": "fail", "observedValue": 3}]}}   draft
//!   {"status": "DOWN", "checks": [{"name": "db", "status": "DOWN", "data": {}}]}     MicroProfile
//!   {"status": "DOWN", "components": {"db": {"status": "DOWN", "details": {}}}}            Spring
//!   {"status": "Unhealthy", "entries": {"db": {"status": "Unhealthy"}}}                   ASP.NET
//!   {"status": "error", "details": {"db": {"status": "down"}}}            Terminus, older Spring
//!   {"db": {"healthy": false}, "deadlocks": {"healthy": true}}                         Dropwizard
//!   {"ok": false, "checks": [{"name": "feed", "ok": false, "value": 3, "threshold": 50}]}    weir
//! ```
//!
//! A check may state `"scope": "self"` or `"dependency"`, beside its status or in its `details` or
//! `data`, where frameworks let applications write. The surprising thing: most bodies state no
//! scope, so whether the failure is the backend's own shows only in comparison with its pool.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Members that contain checks, by name or as a list.
const CONTAINERS: [&str; 5] = ["checks", "components", "entries", "results", "details"];
/// Members in which frameworks keep what an application wrote about its check.
const NOTES: [&str; 2] = ["details", "data"];
/// Checks of frameworks that are about the process itself: Spring's availability states and
/// Dropwizard's search for deadlocked threads.
const OWN_CHECKS: [&str; 3] = ["readinessState", "livenessState", "deadlocks"];
const FAILED_WORDS: [&str; 5] = ["fail", "error", "down", "out_of_service", "unhealthy"];
/// Longer texts of a failed check are cut.
const TEXT_CHARS_MAX: usize = 120;

/// The content of a health response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthDigest {
    /// Whether the application counts itself as healthy; `None` if only its checks have a status.
    pub(crate) is_healthy: Option<bool>,
    /// The checks that failed.
    pub(crate) failed: Vec<FailedCheck>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCheck {
    /// The name, the same in every member of a pool: `db`, `broker/us1`.
    pub(crate) name: String,
    /// The name with figures or error: `feed (3 /s, threshold 50)`.
    pub(crate) text: String,
    pub(crate) scope: CheckScope,
}

/// What a check examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckScope {
    /// The backend itself.
    Own,
    /// Something that other backends depend on as well.
    Dependency,
    /// One of both.
    Unstated,
}

/// Parses a body; `None` if it reports no health.
pub(crate) fn parse(body: &[u8]) -> Option<HealthDigest> {
    let mut reader = DigestReader::default();
    let is_healthy = match serde_json::from_slice(body).ok()? {
        Value::Object(summary) => {
            reader.read_containers(&summary, "", CheckScope::Unstated);
            let is_healthy = is_healthy(&summary);
            if is_healthy.is_none() && !reader.has_checks && is_dropwizard(summary.values()) {
                reader.read_named(&summary, "", CheckScope::Unstated);
            }
            is_healthy
        }
        Value::Array(list) if is_dropwizard(list.iter()) => {
            reader.read_list(&list, "", CheckScope::Unstated);
            None
        }
        _ => return None,
    };
    let is_digest = is_healthy.is_some() || reader.has_checks;
    is_digest.then_some(HealthDigest { is_healthy, failed: reader.failed })
}

/// Whether all values are checks of Dropwizard.
fn is_dropwizard<'a>(mut values: impl ExactSizeIterator<Item = &'a Value>) -> bool {
    values.len() > 0 && values.all(|value| value.get("healthy").is_some_and(Value::is_boolean))
}

#[derive(Default)]
struct DigestReader {
    failed: Vec<FailedCheck>,
    /// Whether anything with a status was found.
    has_checks: bool,
}

impl DigestReader {
    fn read_containers(&mut self, parent: &Map<String, Value>, path: &str, scope: CheckScope) {
        for container in CONTAINERS {
            match parent.get(container) {
                Some(Value::Object(checks)) => self.read_named(checks, path, scope),
                Some(Value::Array(checks)) => self.read_list(checks, path, scope),
                _ => {}
            }
        }
    }

    fn read_named(&mut self, checks: &Map<String, Value>, path: &str, scope: CheckScope) {
        for (name, value) in checks {
            let name = join(path, name);
            match value {
                Value::Object(check) => self.read_check(check, &name, scope),
                // The draft has a list for each name: one element for each node of a component.
                Value::Array(nodes) => {
                    for node in nodes.iter().filter_map(Value::as_object) {
                        self.read_check(node, &name, scope);
                    }
                }
                _ => {}
            }
        }
    }

    fn read_list(&mut self, checks: &[Value], path: &str, scope: CheckScope) {
        for check in checks.iter().filter_map(Value::as_object) {
            let name = check.get("name").and_then(Value::as_str).unwrap_or("an unnamed check");
            self.read_check(check, &join(path, name), scope);
        }
    }

    /// Reads a check; a failed one that contains failed ones is represented by these.
    fn read_check(&mut self, check: &Map<String, Value>, name: &str, scope: CheckScope) {
        let is_healthy = is_healthy(check);
        self.has_checks |= is_healthy.is_some();
        if is_healthy == Some(true) {
            return;
        }
        let scope = scope_of(check, name).unwrap_or(scope);
        let before = self.failed.len();
        self.read_containers(check, name, scope);
        if is_healthy == Some(false) && self.failed.len() == before {
            let text = describe(check, name);
            self.failed.push(FailedCheck { name: name.to_owned(), text, scope });
        }
    }
}

fn join(path: &str, name: &str) -> String {
    let name = shorten(name);
    if path.is_empty() { name } else { format!("{path}/{name}") }
}

fn is_healthy(object: &Map<String, Value>) -> Option<bool> {
    let mut flags = ["ok", "healthy"].into_iter().filter_map(|name| object.get(name)?.as_bool());
    if let Some(flag) = flags.next() {
        return Some(flag);
    }
    let status = object.get("status")?.as_str()?.to_ascii_lowercase();
    Some(!FAILED_WORDS.contains(&status.as_str()))
}

/// The scope that a check states, or that its name has in its framework.
fn scope_of(check: &Map<String, Value>, name: &str) -> Option<CheckScope> {
    let notes = NOTES.into_iter().filter_map(|name| check.get(name)?.as_object());
    let stated = std::iter::once(check).chain(notes).find_map(|part| part.get("scope")?.as_str());
    match stated {
        Some("self") => Some(CheckScope::Own),
        Some("dependency") => Some(CheckScope::Dependency),
        // Dropwizard: the application stays ready without a check that is not critical.
        _ if check.get("critical") == Some(&Value::Bool(false)) => Some(CheckScope::Dependency),
        _ if OWN_CHECKS.contains(&name) => Some(CheckScope::Own),
        _ => None,
    }
}

/// `stock feed (3 /s, threshold 50)`, `db (connection refused)`.
fn describe(check: &Map<String, Value>, name: &str) -> String {
    let mut text = name.to_owned();
    if let Some(value) = check.get("value").or(check.get("observedValue")) {
        let unit = check.get("observedUnit").and_then(Value::as_str).unwrap_or_default();
        let value = shorten(format!("{value} {unit}").trim_end());
        let threshold = check.get("threshold").map(|least| format!(", threshold {least}"));
        let threshold = shorten(&threshold.unwrap_or_default());
        write!(text, " ({value}{threshold})").expect("a string takes all");
    } else if let Some(error) = error_of(check) {
        write!(text, " ({})", shorten(error)).expect("a string takes all");
    }
    text
}

/// What a check reports about its failure.
fn error_of(check: &Map<String, Value>) -> Option<&str> {
    let notes = NOTES.into_iter().filter_map(|name| check.get(name)?.as_object());
    let parts = std::iter::once(check).chain(notes);
    let mut texts = parts.flat_map(|part| {
        ["output", "message", "error", "exception", "description"].map(|name| {
            let text = part.get(name)?;
            text.as_str().or_else(|| text.get("message")?.as_str())
        })
    });
    texts.find_map(|text| text.filter(|text| !text.is_empty()))
}

/// The first [`TEXT_CHARS_MAX`] characters on one line.
fn shorten(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.by_ref().take(TEXT_CHARS_MAX).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
