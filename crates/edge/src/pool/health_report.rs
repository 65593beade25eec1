//! What one health check of a backend found, before it is compared with the rest of its pool.

use weir_tables::{CheckScope, HealthCheck, HealthDigest};

/// Failed checks that a text names; further ones are counted.
const NAMED_CHECKS_MAX: usize = 5;

/// The result of one health check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HealthReport {
    /// Whether the backend responded.
    pub(crate) has_responded: bool,
    /// Why the backend fails, whatever its failed checks are about.
    pub(crate) failure: Option<String>,
    pub(crate) failed: Vec<HealthCheck>,
}

impl HealthReport {
    /// A backend that responded, or that accepted a connection if nothing else was requested.
    pub(crate) fn passed() -> Self {
        Self { has_responded: true, ..Self::default() }
    }

    pub(crate) fn without_response(why: String) -> Self {
        Self { failure: Some(why), ..Self::default() }
    }

    /// Evaluates a response: its status, unless its body names failed checks.
    ///
    /// Frameworks respond with 503 when any check fails, so the status alone cannot tell a broken
    /// backend from a broken database that all backends share.
    pub(crate) fn of_response(status: u16, body: &[u8]) -> Self {
        let by_status = (status >= 400).then(|| format!("it responds with status {status}"));
        let digest = HealthDigest::parse(body);
        let is_healthy = digest.as_ref().and_then(|digest| digest.is_healthy);
        let mut failed: Vec<HealthCheck> =
            digest.iter().flat_map(HealthDigest::failed).cloned().collect();
        let failure = match is_healthy {
            Some(true) => {
                for check in &mut failed {
                    // The application counts it as harmless.
                    check.scope = CheckScope::Dependency;
                }
                by_status
            }
            _ if !failed.is_empty() => None,
            Some(false) => {
                Some(by_status.unwrap_or_else(|| "its health response reports a failure".into()))
            }
            None => by_status,
        };
        Self { has_responded: true, failure, failed }
    }

    pub(crate) fn has_failed(&self, name: &str) -> bool {
        self.failed.iter().any(|check| check.name == name)
    }
}

/// What is kept of a backend's health checks.
#[derive(Debug, Default)]
pub(crate) struct CheckRecord {
    /// The newest report.
    pub(crate) report: HealthReport,
    /// Names of failed checks that did not count at the newest report.
    pub(crate) tolerated: Vec<String>,
    /// Names of the failed checks that alone took the backend out; empty if something else did.
    pub(crate) ejected_for: Vec<String>,
}

impl CheckRecord {
    /// Remembers which failed checks do not count; true if these are others than before.
    pub(crate) fn set_tolerated(&mut self, failed: &[HealthCheck]) -> bool {
        let names: Vec<String> = failed.iter().map(|check| check.name.clone()).collect();
        let is_change = !names.is_empty() && names != self.tolerated;
        self.tolerated = names;
        is_change
    }
}

/// `db (connection refused); feed (3, threshold 50)`; `None` without any.
pub(crate) fn texts_of<'a>(failed: impl IntoIterator<Item = &'a HealthCheck>) -> Option<String> {
    let mut failed = failed.into_iter().map(|check| check.text.as_str());
    let mut texts = failed.by_ref().take(NAMED_CHECKS_MAX).collect::<Vec<&str>>().join("; ");
    let more = failed.count();
    if more > 0 {
        texts += &format!(" and {more} more");
    }
    (!texts.is_empty()).then_some(texts)
}
