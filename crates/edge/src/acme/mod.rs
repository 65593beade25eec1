//! Certificates that the edge obtains and renews by itself (ACME, RFC 8555).
//!
//! ```text
//!   missing ──┐                     ┌─► valid ── a third of its life is left ──► due
//!   due ──────┴─► order ─► proofs ──┤                                            │
//!     ▲                             └─► failed: later again, later each time ────┘
//!     └─────── what is served goes on being served, to its end and beyond ───────┘
//! ```
//! All of it is one thread that sleeps mostly. Nothing of it is needed to serve.

pub(crate) mod challenge;
pub(crate) mod client;
mod files;
mod order;
pub(crate) mod settings;

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use instant_acme::ChallengeType;
use tokio::time::Instant;
use weir_tables::{EdgeCertificate, EdgeCertificateRows, Micros};

use self::challenge::ChallengeStore;
use self::files::CertificateInfo;
use self::order::{OrderError, obtain, word};
use self::settings::{AcmeChallenge, AcmeNames, AcmeSettings};
use crate::admin::state::CertificateState;
use crate::record::take;
use crate::settings::ListenerSettings;
use crate::tls;
use crate::worker::SharedState;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// How often the thread looks what is due.
const LOOK: Duration = Duration::from_millis(500);
/// How often all certificates are reported.
const REPORT: Duration = Duration::from_secs(60);
/// A certificate that was just obtained is not renewed sooner, whatever it says.
const REST: i64 = HOUR;
/// Pause after the first failure; doubled each time. Let's Encrypt allows five failed proofs an hour and name.
const PAUSE: i64 = 2 * 60 * SECOND;
const PAUSE_MAX: i64 = 12 * HOUR;

/// What the threads of an edge share of it.
#[derive(Debug, Default)]
pub(crate) struct CertificateManager {
    pub(crate) challenges: Arc<ChallengeStore>,
    managed: Mutex<Vec<ManagedCertificate>>,
}

/// One certificate.
#[derive(Clone, Debug)]
struct ManagedCertificate {
    names: AcmeNames,
    authority: String,
    path: PathBuf,
    facts: Option<CertificateInfo>,
    failures: u32,
    failure: Option<String>,
    next: Micros,
}

impl CertificateManager {
    fn lock(&self) -> MutexGuard<'_, Vec<ManagedCertificate>> {
        self.managed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All certificates as they are.
    pub(crate) fn states(&self, now: Micros) -> Vec<CertificateState> {
        self.lock().iter().map(|one| one.state(now)).collect()
    }

    /// Whoever waits after a failure waits no longer.
    pub(crate) fn retry(&self) {
        for one in self.lock().iter_mut().filter(|one| one.failures > 0) {
            one.next = Micros(0);
        }
    }

    /// Begins with what is on disk.
    pub(crate) fn plan(&self, settings: &AcmeSettings) {
        let managed = settings.certificates.iter().map(|names| {
            let path = settings.file(names);
            let facts = files::facts(&path);
            let authority = settings.directory.authority.clone();
            let next = due(facts.as_ref(), names);
            ManagedCertificate {
                names: names.clone(),
                authority,
                path,
                facts,
                failures: 0,
                failure: None,
                next,
            }
        });
        *self.lock() = managed.collect();
    }

    fn due(&self, now: Micros) -> Option<ManagedCertificate> {
        self.lock().iter().find(|one| one.next <= now).cloned()
    }

    fn note(&self, names: &AcmeNames, change: impl FnOnce(&mut ManagedCertificate)) {
        if let Some(one) = self.lock().iter_mut().find(|one| one.names == *names) {
            change(one);
        }
    }
}

/// When a certificate is to be renewed: at once when there is none, or one without all the names; else when a third of its
/// life is left, of a short life half.
fn due(facts: Option<&CertificateInfo>, names: &AcmeNames) -> Micros {
    let Some(facts) = facts else { return Micros(0) };
    if names.0.iter().any(|name| !facts.names.contains(name)) {
        return Micros(0);
    }
    let life = facts.not_after.0 - facts.not_before.0;
    let left = if life < 10 * DAY { life / 2 } else { life / 3 };
    Micros(facts.not_after.0 - left)
}

/// How long to wait after so many failures in a row.
fn pause(failures: u32, is_rate_limited: bool) -> i64 {
    let doubled = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(PAUSE_MAX);
    if is_rate_limited { doubled.max(HOUR) } else { doubled }
}

impl ManagedCertificate {
    fn state(&self, now: Micros) -> CertificateState {
        let state = match &self.facts {
            None => "missing",
            Some(facts) if facts.not_after <= now => "ended",
            Some(_) if due(self.facts.as_ref(), &self.names) <= now => "due",
            Some(_) => "valid",
        };
        CertificateState {
            names: self.names.text(),
            authority: self.authority.clone(),
            path: self.path.clone(),
            state,
            not_before: self.facts.as_ref().map(|facts| facts.not_before),
            not_after: self.facts.as_ref().map(|facts| facts.not_after),
            failures: self.failures,
            failure: self.failure.clone(),
            next: self.next.max(now),
        }
    }
}

/// Whether listeners can show a proof by HTTP, and whether by TLS.
pub(crate) fn ways(listeners: &[ListenerSettings]) -> (bool, bool) {
    let is_plain = |one: &ListenerSettings| !one.is_tls && !one.is_h2c;
    (listeners.iter().any(is_plain), listeners.iter().any(|one| one.is_tls))
}

/// How names are proved this time: authorities ask at ports 80 and 443, so listeners there are better than such as
/// something in front leads to.
fn way(wanted: AcmeChallenge, listeners: &[ListenerSettings], failures: u32) -> ChallengeType {
    let (http, tls) = ways(listeners);
    let has_443 = listeners.iter().any(|one| one.is_tls && one.address.port() == 443);
    let has_80 = listeners.iter().any(|one| !one.is_tls && !one.is_h2c && one.address.port() == 80);
    match wanted {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Auto if http && tls => {
            let is_http_first = has_80 || !has_443;
            let is_http = is_http_first == failures.is_multiple_of(2);
            if is_http { ChallengeType::Http01 } else { ChallengeType::TlsAlpn01 }
        }
        AcmeChallenge::Auto if tls => ChallengeType::TlsAlpn01,
        AcmeChallenge::Auto => ChallengeType::Http01,
    }
}

/// Keeps certificates until the edge ends.
pub(crate) async fn keep(shared: Arc<SharedState>) {
    let acme = &shared.acme;
    let mut known = None;
    let mut reported: Option<Instant> = None;
    loop {
        let live = shared.live();
        let Some(settings) = live.settings.acme.as_ref() else {
            acme.lock().clear();
            known = None;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => continue,
                () = ended(&shared) => break,
            }
        };
        if known.as_ref() != Some(settings) {
            acme.plan(settings);
            known = Some(settings.clone());
            reported = None;
        }
        if reported.is_none_or(|at| at.elapsed() >= REPORT) {
            report(&shared, &live.settings.host);
            reported = Some(Instant::now());
        }
        if let Some(one) = acme.due(shared.clock.now()) {
            tokio::select! {
                () = attempt(&shared, settings, &one) => reported = None,
                () = ended(&shared) => break,
            }
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = ended(&shared) => break,
        }
    }
    acme.challenges.clear();
}

async fn ended(shared: &SharedState) {
    while !shared.is_ending.load(Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn attempt(shared: &SharedState, settings: &AcmeSettings, one: &ManagedCertificate) {
    let live = shared.live();
    let way = way(settings.challenge, &live.settings.listeners, one.failures);
    let obtained = obtain(settings, &one.names, &way, &shared.acme.challenges).await;
    shared.acme.challenges.clear();
    let kept = obtained.and_then(|pem| keep_file(one, &pem));
    let now = shared.clock.now();
    match kept {
        Ok(facts) => {
            let next = Micros(due(Some(&facts), &one.names).0.max(now.0 + REST));
            shared.acme.note(&one.names, |one| {
                *one = ManagedCertificate {
                    facts: Some(facts),
                    failures: 0,
                    failure: None,
                    next,
                    ..one.clone()
                };
            });
            tracing::info!(
                "a certificate for `{}` came from `{}` ({})",
                one.names.text(),
                one.authority,
                word(&way)
            );
            if let Some(certificates) = &shared.live().certificates {
                certificates.reload_changed();
            }
        }
        Err(refusal) => {
            let failures = one.failures + 1;
            let wait = pause(failures, refusal.is_rate_limited);
            tracing::error!(
                "cannot obtain a certificate for `{}` from `{}`: {}; tried again in {} min\nhint: {}",
                one.names.text(),
                one.authority,
                refusal.why,
                wait / 60 / SECOND,
                refusal.hint
            );
            shared.acme.note(&one.names, |one| {
                one.failures = failures;
                one.failure = Some(refusal.why);
                one.next = Micros(now.0 + wait);
            });
        }
    }
}

/// Writes a certificate with its key, when the two can be served.
fn keep_file(one: &ManagedCertificate, pem: &str) -> Result<CertificateInfo, OrderError> {
    let failed = |error: std::io::Error| OrderError::disk(&one.path, &error);
    // Beside first: what cannot be served must not take the place of what can.
    let beside = one.path.with_extension("check");
    files::write(&beside, pem.as_bytes()).map_err(failed)?;
    let checked = tls::load_both(&beside);
    let facts = files::facts(&beside);
    std::fs::remove_file(&beside).map_err(failed)?;
    checked.map_err(|error| failed(std::io::Error::other(error.message)))?;
    let facts = facts.ok_or_else(|| failed(std::io::Error::other("it is no certificate")))?;
    files::write(&one.path, pem.as_bytes()).map_err(failed)?;
    Ok(facts)
}

fn report(shared: &SharedState, host: &str) {
    let now = shared.clock.now();
    let mut rows = EdgeCertificateRows::default();
    for one in shared.acme.states(now) {
        rows.push(&EdgeCertificate {
            ts: now,
            host,
            names: &one.names,
            authority: &one.authority,
            path: &one.path.display().to_string(),
            state: one.state,
            not_before: one.not_before,
            not_after: one.not_after,
            failures: one.failures.into(),
            failure: one.failure.as_deref(),
            next_attempt_ts: one.next,
        });
    }
    let mut batches = Vec::new();
    take(&mut rows, &mut batches);
    if !batches.is_empty() {
        (shared.sink)(batches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> AcmeNames {
        text.parse().expect("names")
    }

    #[test]
    fn a_certificate_is_due_with_a_third_of_its_life_left_or_without_a_name() {
        let facts = |days: i64| CertificateInfo {
            not_before: Micros(DAY),
            not_after: Micros(DAY + days * DAY),
            names: vec!["a.example".into(), "b.example".into()],
        };
        assert_eq!(due(Some(&facts(90)), &names("a.example")), Micros(61 * DAY));
        assert_eq!(due(Some(&facts(6)), &names("a.example b.example")), Micros(4 * DAY));
        assert_eq!(due(Some(&facts(90)), &names("a.example c.example")), Micros(0));
        assert_eq!(due(None, &names("a.example")), Micros(0));
    }

    #[test]
    fn pauses_grow_to_half_a_day_and_a_limit_of_the_authority_is_kept() {
        let minutes: Vec<i64> =
            (1..=11).map(|failures| pause(failures, false) / SECOND / 60).collect();
        assert_eq!(minutes, [2, 4, 8, 16, 32, 64, 128, 256, 512, 720, 720]);
        assert_eq!(pause(1, true), HOUR);
        assert_eq!(pause(u32::MAX, true), PAUSE_MAX);
    }

    #[test]
    fn the_way_is_what_listeners_can_and_the_other_one_after_a_failure() {
        let listener = |text: &str, is_tls| ListenerSettings::parse(text, is_tls, 1).expect("one");
        let (plain, tls) = (listener("127.0.0.1:80", false), listener("127.0.0.1:443", true));
        let other = listener("127.0.0.1:8080", false);
        let auto = |listeners: &[ListenerSettings], failures| {
            word(&way(AcmeChallenge::Auto, listeners, failures))
        };
        assert_eq!(auto(&[plain.clone(), tls.clone()], 0), "http-01");
        assert_eq!(auto(&[plain, tls.clone()], 1), "tls-alpn-01");
        assert_eq!(auto(&[other.clone(), tls.clone()], 0), "tls-alpn-01");
        assert_eq!(auto(std::slice::from_ref(&tls), 1), "tls-alpn-01");
        assert_eq!(auto(&[other], 1), "http-01");
        assert_eq!(word(&way(AcmeChallenge::Http01, &[tls], 0)), "http-01");
    }
}
