//! The body of a health response: JSON in which an application reports its own checks.
//!
//! Sources: draft-inadarei-api-health-check-06, and the documentation of Spring Boot's Actuator,
//! MicroProfile Health (Quarkus), AspNetCore.HealthChecks.UI, Dropwizard, Terminus and health-go.
//!
//! ```text
//!   {"status": "fail", "checks": {"feed:rate": [{"status": "fail", "observedValue": 3}]}}   draft
//!   {"status": "DOWN", "checks": [{"name": "db", "status": "DOWN", "data": {}}]}     MicroProfile
//!   {"status": "DOWN", "components": {"db": {"status": "DOWN", "details": {}}}}            Spring
//!   {"status": "Unhealthy", "entries": {"db": {"status": "Unhealthy"}}}                   ASP.NET
//!   {"status": "error", "details": {"db": {"status": "down"}}}            Terminus, older Spring
//!   {"status": "Unavailable", "failures": {"db": "connection refused"}}                 health-go
//!   {"db": {"healthy": false}, "deadlocks": {"healthy": true}}                         Dropwizard
//!   {"ok": false, "checks": [{"name": "feed", "ok": false, "value": 3, "threshold": 50}]}    weir
//! ```
//!
//! A check may state `"scope": "self"` or `"dependency"`, beside its status or in its `details` or
//! `data`, where frameworks let applications write. The surprising thing: most bodies state no
//! scope, so whether the failure is the application's own shows only in comparison with its
//! siblings.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Members that contain checks, by name or as a list.
const CONTAINERS: [&str; 5] = ["checks", "components", "entries", "results", "details"];
/// Members in which frameworks keep what an application wrote about its check.
const NOTES: [&str; 2] = ["details", "data"];
/// Checks of frameworks that are about the process itself: Spring's availability states and
/// Dropwizard's search for deadlocked threads.
const OWN_CHECKS: [&str; 3] = ["readinessState", "livenessState", "deadlocks"];
const FAILED_WORDS: [&str; 12] = [
    "fail",
    "failed",
    "failing",
    "failure",
    "error",
    "down",
    "out_of_service",
    "unhealthy",
    "unavailable",
    "service unavailable",
    "critical",
    "timeout during health check",
];
const WARN_WORDS: [&str; 5] = ["warn", "warning", "degraded", "partially available", "partial"];
/// Longer texts of a failed check are cut.
const TEXT_CHARS_MAX: usize = 120;
/// Further checks of a body are not read.
const CHECKS_MAX: usize = 200;

/// The content of a health response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthDigest {
    /// Whether the application counts itself as healthy; `None` if only its checks have a status.
    pub is_healthy: Option<bool>,
    /// Whether the application reports itself as degraded, which counts as healthy.
    pub is_degraded: bool,
    /// The name that the application gives itself (`serviceId`).
    pub service: Option<String>,
    /// The checks: of a failed one that contains failed ones, these.
    pub checks: Vec<HealthCheck>,
}

impl HealthDigest {
    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &HealthCheck> {
        self.checks.iter().filter(|check| check.status == HealthStatus::Fail)
    }
}

/// One check of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The name, the same in every member of a pool: `db`, `broker/us1`.
    pub name: String,
    /// The name with figures or error: `feed (3 /s, threshold 50)`.
    pub text: String,
    /// What the check examines.
    pub scope: CheckScope,
    /// The result.
    pub status: HealthStatus,
    /// The measured value, as it is written.
    pub value: Option<String>,
    /// The unit of the value.
    pub unit: Option<String>,
    /// The bound of the value, as it is written.
    pub threshold: Option<String>,
    /// What the application reports about it.
    pub output: Option<String>,
}

/// What a check examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckScope {
    /// The application itself.
    Own,
    /// Something that other applications depend on as well.
    Dependency,
    /// One of both.
    Unstated,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// It passed, or its word is not known as a failure.
    Pass,
    /// It passed, with a concern.
    Warn,
    /// It failed.
    Fail,
}

impl HealthDigest {
    /// Parses a body; `None` if it reports no health.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let mut reader = DigestReader::default();
        let mut digest =
            Self { is_healthy: None, is_degraded: false, service: None, checks: vec![] };
        match serde_json::from_slice(body).ok()? {
            Value::Object(summary) => {
                reader.read_containers(&summary, "", CheckScope::Unstated);
                let status = status_of(&summary);
                if status.is_none() && !reader.has_checks && is_dropwizard(summary.values()) {
                    reader.read_named(&summary, "", CheckScope::Unstated);
                }
                digest.is_healthy = status.map(|status| status != HealthStatus::Fail);
                digest.is_degraded = status == Some(HealthStatus::Warn);
                digest.service = ["serviceId", "service"]
                    .iter()
                    .find_map(|name| Some(shorten(summary.get(*name)?.as_str()?)));
            }
            Value::Array(list) if is_dropwizard(list.iter()) => {
                reader.read_list(&list, "", CheckScope::Unstated);
            }
            _ => return None,
        }
        digest.checks = reader.checks;
        (digest.is_healthy.is_some() || reader.has_checks).then_some(digest)
    }
}

/// Whether all values are checks of Dropwizard.
fn is_dropwizard<'a>(mut values: impl ExactSizeIterator<Item = &'a Value>) -> bool {
    values.len() > 0 && values.all(|value| value.get("healthy").is_some_and(Value::is_boolean))
}

#[derive(Default)]
struct DigestReader {
    checks: Vec<HealthCheck>,
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
        if let Some(Value::Object(failures)) = parent.get("failures") {
            self.read_failures(failures, path, scope);
        }
    }

    /// Reads names and reasons of failed checks only, as health-go has them.
    fn read_failures(&mut self, failures: &Map<String, Value>, path: &str, scope: CheckScope) {
        for (name, reason) in failures {
            let Some(reason) = reason.as_str() else { continue };
            let mut check = Map::new();
            check.insert("output".into(), reason.into());
            self.has_checks = true;
            self.push(&check, (&join(path, name), scope), HealthStatus::Fail);
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
        let status = status_of(check);
        self.has_checks |= status.is_some();
        let scope = scope_of(check, name).unwrap_or(scope);
        if let Some(status @ (HealthStatus::Pass | HealthStatus::Warn)) = status {
            self.push(check, (name, scope), status);
            return;
        }
        let before = self.failed_count();
        self.read_containers(check, name, scope);
        if status == Some(HealthStatus::Fail) && self.failed_count() == before {
            self.push(check, (name, scope), HealthStatus::Fail);
        }
    }

    fn failed_count(&self) -> usize {
        self.checks.iter().filter(|check| check.status == HealthStatus::Fail).count()
    }

    fn push(
        &mut self,
        check: &Map<String, Value>,
        (name, scope): (&str, CheckScope),
        status: HealthStatus,
    ) {
        if self.checks.len() < CHECKS_MAX {
            self.checks.push(HealthCheck {
                name: name.to_owned(),
                text: describe(check, name),
                scope,
                status,
                value: value_of(check).map(|value| shorten(&plain(value))),
                unit: check.get("observedUnit").and_then(Value::as_str).map(shorten),
                threshold: check.get("threshold").map(|threshold| shorten(&plain(threshold))),
                output: error_of(check).map(shorten),
            });
        }
    }
}

fn join(path: &str, name: &str) -> String {
    let name = shorten(name);
    if path.is_empty() { name } else { format!("{path}/{name}") }
}

fn status_of(object: &Map<String, Value>) -> Option<HealthStatus> {
    let mut flags = ["ok", "healthy"].into_iter().filter_map(|name| object.get(name)?.as_bool());
    if let Some(is_healthy) = flags.next() {
        return Some(if is_healthy { HealthStatus::Pass } else { HealthStatus::Fail });
    }
    let status = object.get("status")?.as_str()?.to_ascii_lowercase();
    Some(match status.as_str() {
        word if FAILED_WORDS.contains(&word) => HealthStatus::Fail,
        word if WARN_WORDS.contains(&word) => HealthStatus::Warn,
        _ => HealthStatus::Pass,
    })
}

fn value_of(check: &Map<String, Value>) -> Option<&Value> {
    check.get("value").or(check.get("observedValue")).filter(|value| !value.is_null())
}

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
    if let Some(value) = value_of(check) {
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
