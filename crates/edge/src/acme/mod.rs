//! Obtains and renews certificates (ACME, RFC 8555).
//!
//! ```text
//!   missing ──┐                         ┌─► valid ── a third of its lifetime left ──► due
//!   due ──────┴─► order ─► challenges ──┤                                             │
//!     ▲                                 └─► failed: retry with exponential backoff ───┘
//!     └──────── the old certificate is served meanwhile, even after it expired ───────┘
//! ```
//! One thread does all of this and mostly sleeps. Serving does not depend on it.

pub(crate) mod challenge;
pub(crate) mod client;
mod files;
mod order;
pub(crate) mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use instant_acme::ChallengeType;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use weir_tables::{EdgeCertificate, EdgeCertificateRows, Micros};

use self::challenge::ChallengeStore;
use self::files::CertificateInfo;
use self::order::{OrderError, obtain, type_name};
use self::settings::{AcmeChallenge, AcmeNames, AcmeSettings, challenge_types};
use crate::admin::state::CertificateState;
use crate::record::take;
use crate::settings::listener::ListenerSettings;
use crate::shared::SharedState;
use crate::tls;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// Interval between checks for due certificates.
const POLL: Duration = Duration::from_millis(500);
/// Interval between reports of all certificates.
const REPORT: Duration = Duration::from_secs(60);
/// A new certificate is not renewed earlier than this, whatever its lifetime.
const RENEWAL_MIN: i64 = HOUR;
/// Pause after the first failure, doubled each time. Let's Encrypt allows five failed validations
/// per name and hour.
const PAUSE_MIN: i64 = 2 * 60 * SECOND;
const PAUSE_MAX: i64 = 12 * HOUR;

/// The certificates that the edge obtains.
#[derive(Debug, Default)]
pub(crate) struct CertificateManager {
    pub(crate) challenges: Arc<ChallengeStore>,
    managed: Mutex<Vec<ManagedCertificate>>,
}

#[derive(Clone, Debug)]
struct ManagedCertificate {
    names: AcmeNames,
    authority: String,
    path: PathBuf,
    info: Option<CertificateInfo>,
    failures: u32,
    failure: Option<String>,
    /// Time of the next attempt or renewal.
    next: Micros,
}

impl CertificateManager {
    fn lock(&self) -> MutexGuard<'_, Vec<ManagedCertificate>> {
        self.managed.lock()
    }

    /// The state of all certificates.
    pub(crate) fn states(&self, now: Micros) -> Vec<CertificateState> {
        self.lock().iter().map(|one| one.state(now)).collect()
    }

    /// Retries failed certificates at once.
    pub(crate) fn retry(&self) {
        for one in self.lock().iter_mut().filter(|one| one.failures > 0) {
            one.next = Micros(0);
        }
    }

    /// Loads the certificates on disk and plans their renewal.
    pub(crate) fn plan(&self, settings: &AcmeSettings) {
        let managed = settings.certificates.iter().map(|names| {
            let path = settings.file(names);
            let info = files::inspect(&path);
            let authority = settings.directory.authority.clone();
            let next = renewal_time(info.as_ref(), names);
            ManagedCertificate {
                names: names.clone(),
                authority,
                path,
                info,
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

    fn update(&self, names: &AcmeNames, change: impl FnOnce(&mut ManagedCertificate)) {
        if let Some(one) = self.lock().iter_mut().find(|one| one.names == *names) {
            change(one);
        }
    }
}

/// When to renew a certificate: at once if it is missing or lacks a name, otherwise when a third
/// of its lifetime is left; half of a lifetime under ten days.
fn renewal_time(info: Option<&CertificateInfo>, names: &AcmeNames) -> Micros {
    let Some(info) = info else { return Micros(0) };
    if names.0.iter().any(|name| !info.names.contains(name)) {
        return Micros(0);
    }
    let life = info.not_after.0 - info.not_before.0;
    let left = if life < 10 * DAY { life / 2 } else { life / 3 };
    Micros(info.not_after.0 - left)
}

/// The pause after consecutive failures.
fn pause(failures: u32, is_rate_limited: bool) -> i64 {
    let doubled = PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(PAUSE_MAX);
    if is_rate_limited { doubled.max(HOUR) } else { doubled }
}

impl ManagedCertificate {
    fn cannot_save(&self, why: impl std::fmt::Display) -> OrderError {
        OrderError::disk(&self.path, &why)
    }

    fn state(&self, now: Micros) -> CertificateState {
        let state = match &self.info {
            None => "missing",
            Some(info) if info.not_after <= now => "ended",
            Some(_) if renewal_time(self.info.as_ref(), &self.names) <= now => "due",
            Some(_) => "valid",
        };
        CertificateState {
            names: self.names.text(),
            authority: self.authority.clone(),
            path: self.path.clone(),
            state,
            not_before: self.info.as_ref().map(|info| info.not_before),
            not_after: self.info.as_ref().map(|info| info.not_after),
            failures: self.failures,
            failure: self.failure.clone(),
            next: self.next.max(now),
        }
    }
}

/// The challenge type of the next attempt.
///
/// Authorities connect to ports 80 and 443, so listeners on these ports are preferred over ones
/// that depend on port forwarding.
fn challenge_type(
    wanted: AcmeChallenge,
    listeners: &[ListenerSettings],
    failures: u32,
) -> ChallengeType {
    let (http, tls) = challenge_types(listeners);
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

/// Obtains and renews certificates until the edge ends.
pub(crate) async fn renew_loop(acme: Arc<CertificateManager>, shared: Arc<SharedState>) {
    let mut known = None;
    let mut reported: Option<Instant> = None;
    loop {
        let live = shared.live();
        let Some(settings) = live.settings.acme.as_ref() else {
            acme.lock().clear();
            known = None;
            tokio::select! {
                () = tokio::time::sleep(POLL) => continue,
                () = ended(&shared) => break,
            }
        };
        if known.as_ref() != Some(settings) {
            acme.plan(settings);
            known = Some(settings.clone());
            reported = None;
        }
        if reported.is_none_or(|at| at.elapsed() >= REPORT) {
            report(&acme, &shared, &live.settings.host);
            reported = Some(Instant::now());
        }
        if let Some(one) = acme.due(shared.clock.now()) {
            tokio::select! {
                () = attempt(&acme, &shared, settings, &one) => reported = None,
                () = ended(&shared) => break,
            }
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
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

async fn attempt(
    acme: &CertificateManager,
    shared: &SharedState,
    settings: &AcmeSettings,
    one: &ManagedCertificate,
) {
    let live = shared.live();
    let kind = challenge_type(settings.challenge, &live.settings.listeners, one.failures);
    let obtained = obtain(settings, &one.names, &kind, &acme.challenges).await;
    acme.challenges.clear();
    let saved = obtained.and_then(|pem| save(one, &pem));
    let now = shared.clock.now();
    match saved {
        Ok(info) => {
            let next = Micros(renewal_time(Some(&info), &one.names).0.max(now.0 + RENEWAL_MIN));
            acme.update(&one.names, |one| {
                *one = ManagedCertificate {
                    info: Some(info),
                    failures: 0,
                    failure: None,
                    next,
                    ..one.clone()
                };
            });
            tracing::info!(
                "obtained a certificate for `{}` from `{}` ({})",
                one.names.text(),
                one.authority,
                type_name(&kind)
            );
            if let Some(certificates) = &shared.live().certificates {
                certificates.reload_changed();
            }
        }
        Err(error) => {
            let failures = one.failures + 1;
            let wait = pause(failures, error.is_rate_limited);
            tracing::error!(
                "cannot obtain a certificate for `{}` from `{}`: {}; next attempt in {} min\nhint: {}",
                one.names.text(),
                one.authority,
                error.why,
                wait / 60 / SECOND,
                error.hint
            );
            acme.update(&one.names, |one| {
                one.failures = failures;
                one.failure = Some(error.why);
                one.next = Micros(now.0 + wait);
            });
        }
    }
}

/// Writes a certificate with its key, after checking that they can be served.
fn save(one: &ManagedCertificate, pem: &str) -> Result<CertificateInfo, OrderError> {
    // Check a temporary file first, so that a broken certificate never replaces a good one.
    let temporary = one.path.with_extension("check");
    files::write(&temporary, pem.as_bytes()).map_err(|error| one.cannot_save(error))?;
    let checked = tls::load_both(&temporary);
    let info = files::inspect(&temporary);
    std::fs::remove_file(&temporary).map_err(|error| one.cannot_save(error))?;
    checked.map_err(|error| one.cannot_save(error.message))?;
    let info = info.ok_or_else(|| one.cannot_save("it is not a certificate"))?;
    files::write(&one.path, pem.as_bytes()).map_err(|error| one.cannot_save(error))?;
    Ok(info)
}

fn report(acme: &CertificateManager, shared: &SharedState, host: &str) {
    let now = shared.clock.now();
    let mut rows = EdgeCertificateRows::default();
    for one in acme.states(now) {
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

    fn info(days: i64) -> CertificateInfo {
        CertificateInfo {
            not_before: Micros(DAY),
            not_after: Micros(DAY + days * DAY),
            names: vec!["a.example".into(), "b.example".into()],
        }
    }

    fn listener(text: &str, is_tls: bool) -> ListenerSettings {
        ListenerSettings::parse(text, is_tls, 1).expect("an address")
    }

    fn auto(listeners: &[ListenerSettings], failures: u32) -> &'static str {
        type_name(&challenge_type(AcmeChallenge::Auto, listeners, failures))
    }

    fn names(text: &str) -> AcmeNames {
        text.parse().expect("names")
    }

    #[test]
    fn a_certificate_is_due_with_a_third_of_its_lifetime_left_or_without_a_name() {
        assert_eq!(renewal_time(Some(&info(90)), &names("a.example")), Micros(61 * DAY));
        assert_eq!(renewal_time(Some(&info(6)), &names("a.example b.example")), Micros(4 * DAY));
        assert_eq!(renewal_time(Some(&info(90)), &names("a.example c.example")), Micros(0));
        assert_eq!(renewal_time(None, &names("a.example")), Micros(0));
    }

    #[test]
    fn pauses_grow_to_half_a_day_and_respect_rate_limits() {
        let minutes: Vec<i64> =
            (1..=11).map(|failures| pause(failures, false) / SECOND / 60).collect();
        assert_eq!(minutes, [2, 4, 8, 16, 32, 64, 128, 256, 512, 720, 720]);
        assert_eq!(pause(1, true), HOUR);
        assert_eq!(pause(u32::MAX, true), PAUSE_MAX);
    }

    #[test]
    fn the_challenge_type_fits_the_listeners_and_alternates_after_a_failure() {
        let (plain, tls) = (listener("127.0.0.1:80", false), listener("127.0.0.1:443", true));
        let other = listener("127.0.0.1:8080", false);
        assert_eq!(auto(&[plain.clone(), tls.clone()], 0), "http-01");
        assert_eq!(auto(&[plain, tls.clone()], 1), "tls-alpn-01");
        assert_eq!(auto(&[other.clone(), tls.clone()], 0), "tls-alpn-01");
        assert_eq!(auto(std::slice::from_ref(&tls), 1), "tls-alpn-01");
        assert_eq!(auto(&[other], 1), "http-01");
        assert_eq!(type_name(&challenge_type(AcmeChallenge::Http01, &[tls], 0)), "http-01");
    }
}
