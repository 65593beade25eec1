//! Queries one application for its health, and turns the digest into results.
//!
//! GET only, with a user agent of its own, a timeout of 2 s and at most 64 KiB. The shallow path
//! `/weir/health/live` is for balancers: it says nothing about checks.

use std::time::Duration;

use weir_tables::{CheckScope, HealthCheck, HealthDigest, HealthStatus};

use super::deadline::Deadline;
use super::digest_target::DigestTarget;
use super::http_client::{HttpFault, HttpRequest, HttpUrl, get};
use super::{CheckOutcome, CheckState};

/// Paths where digests are searched, the best first.
const PATHS: [&str; 3] = ["/weir/health", "/actuator/health", "/health"];
const HEALTH_AGENT: &str = concat!("weir-health/", env!("CARGO_PKG_VERSION"));
const TIMEOUT: Duration = Duration::from_secs(2);
const BODY_BYTES: usize = 64 << 10;
/// Checks of one digest that become rows.
const CHECKS_MAX: usize = 50;
/// Failed checks that the summary names.
const NAMED_MAX: usize = 5;
/// The name of the summary among an application's checks.
pub(super) const SUMMARY: &str = "health";

/// A digest with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundDigest {
    pub(super) path: &'static str,
    pub(super) status: u16,
    pub(super) digest: HealthDigest,
    pub(super) duration: Duration,
}

/// What a listener answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DigestReply {
    /// A digest.
    Found(FoundDigest),
    /// HTTP, but no digest.
    Absent(String),
    /// No answer.
    Silent(String),
    /// Something else than HTTP.
    NotHttp,
}

/// Queries `known`, or each path until one has a digest.
pub(super) fn poll(target: &DigestTarget, known: Option<&'static str>) -> DigestReply {
    let deadline = Deadline::after(TIMEOUT);
    let mut last = DigestReply::Absent("it has no digest".to_owned());
    for path in known.as_slice().iter().chain(PATHS.iter().filter(|_| known.is_none())) {
        last = poll_path(target, path, deadline);
        if !matches!(last, DigestReply::Absent(_)) {
            break;
        }
    }
    last
}

fn poll_path(target: &DigestTarget, path: &'static str, deadline: Deadline) -> DigestReply {
    let DigestTarget { address, host_header, .. } = target;
    let (host, port) = (address.ip().to_string(), address.port());
    let url = HttpUrl { is_tls: false, host, port, path: path.to_owned() };
    let before = deadline.elapsed();
    let response = get(
        &HttpRequest {
            url: &url,
            address: Some(*address),
            host_header: Some(host_header),
            user_agent: HEALTH_AGENT,
            ca_file: None,
            body_bytes: BODY_BYTES,
        },
        deadline,
    );
    let response = match response {
        Ok(response) => response,
        Err(HttpFault::NotHttp) => return DigestReply::NotHttp,
        Err(fault) => return DigestReply::Silent(fault.reason(deadline)),
    };
    let status = response.status;
    // A failed digest has 503, 500 or 429; with another status the JSON is about the request.
    let is_own_status = matches!(status, 200..=299 | 418 | 429 | 500..=599);
    let digest = match HealthDigest::parse(&response.body) {
        Some(digest) if is_own_status && !response.is_cut => digest,
        _ if response.is_cut => {
            return DigestReply::Absent(format!("{path} has more than 64 KiB"));
        }
        _ => return DigestReply::Absent(format!("{path} answers with status {status}, no digest")),
    };
    let duration = deadline.elapsed().saturating_sub(before);
    DigestReply::Found(FoundDigest { path, status, digest, duration })
}

/// One result of a digest: the name, the scope, the outcome.
pub(super) struct DigestResult {
    pub(super) check: String,
    pub(super) scope: Option<&'static str>,
    pub(super) outcome: CheckOutcome,
}

impl FoundDigest {
    /// The summary, and a result for each check.
    pub(super) fn results(&self) -> Vec<DigestResult> {
        let checks = self.digest.checks.iter().take(CHECKS_MAX).map(result);
        std::iter::once(self.summary()).chain(checks).collect()
    }

    fn summary(&self) -> DigestResult {
        let failed: Vec<&HealthCheck> = self.digest.failed().collect();
        let is_failed = match self.digest.is_healthy {
            Some(is_healthy) => !is_healthy,
            None => !failed.is_empty(),
        };
        let is_shared =
            !failed.is_empty() && failed.iter().all(|one| one.scope == CheckScope::Dependency);
        let state = match is_failed {
            true if !is_shared => CheckState::Critical,
            true => CheckState::Warning,
            false if self.digest.is_degraded || !failed.is_empty() => CheckState::Warning,
            false => CheckState::Ok,
        };
        let named: Vec<&str> =
            failed.iter().take(NAMED_MAX).map(|check| check.text.as_str()).collect();
        let mut text = match named.as_slice() {
            [] if is_failed => "the application reports a failure".to_owned(),
            [] if self.digest.is_degraded => "the application reports a degradation".to_owned(),
            [] => format!("{} checks pass", self.digest.checks.len()),
            named => format!("failed: {}", named.join("; ")),
        };
        if failed.len() > NAMED_MAX {
            text += &format!(" and {} more", failed.len() - NAMED_MAX);
        }
        let outcome = CheckOutcome::new(state, text).with_value(self.status.into(), "");
        DigestResult { check: SUMMARY.to_owned(), scope: None, outcome }
    }
}

fn result(check: &HealthCheck) -> DigestResult {
    let state = match check.status {
        HealthStatus::Pass => CheckState::Ok,
        HealthStatus::Warn => CheckState::Warning,
        HealthStatus::Fail => CheckState::Critical,
    };
    let scope = match check.scope {
        CheckScope::Own => Some("self"),
        CheckScope::Dependency => Some("dependency"),
        CheckScope::Unstated => None,
    };
    let mut outcome = CheckOutcome::new(state, check.output.clone().unwrap_or_default());
    // Jackson writes `"NaN"`, which is no measured value.
    let value = check.value.as_ref().and_then(|value| value.parse().ok());
    outcome.value = value.filter(|value: &f64| value.is_finite());
    if let (None, Some(value), true) = (outcome.value, &check.value, outcome.output.is_empty()) {
        outcome.output.clone_from(value);
    }
    outcome.unit.clone_from(&check.unit);
    outcome.threshold.clone_from(&check.threshold);
    DigestResult { check: check.name.clone(), scope, outcome }
}
