//! A probe of each receiver every day, which disturbs no person: a login, an address, a key.
//!
//! The results are in the log and in `/api/status`, and the heartbeat needs one that passed: a token
//! that was revoked is noticed before the page that needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weir_tables::Micros;

use super::Notices;

/// When receivers are probed first.
const FIRST: Duration = Duration::from_secs(5);
/// Interval between two checks for receivers that are due.
const LOOK: Duration = Duration::from_secs(600);
/// A receiver is probed when its last success is older.
const EVERY_SECONDS: f64 = 86_400.0;
/// Time for one probe.
const TIMEOUT: Duration = Duration::from_secs(15);
/// A receiver that passed, or accepted a message, within this time counts as able to page.
const FRESH_SECONDS: f64 = 86_400.0 + 1_200.0;

/// Results of the last probes.
#[derive(Debug, Default)]
pub(super) struct ProbeBook {
    results: Mutex<BTreeMap<String, ProbeResult>>,
    /// Whether each receiver was probed once.
    is_complete: AtomicBool,
}

/// The last probes of a receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeResult {
    pub(super) passed: Option<Micros>,
    /// Why the last one failed.
    pub(super) error: Option<String>,
}

impl ProbeBook {
    pub(super) fn of(&self, receiver: &str) -> ProbeResult {
        self.results.lock().get(receiver).cloned().unwrap_or_default()
    }

    fn note(&self, receiver: &str, now: Micros, found: Result<String, String>) {
        let mut book = self.results.lock();
        let result = book.entry(receiver.to_owned()).or_default();
        match found {
            Ok(_) => *result = ProbeResult { passed: Some(now), error: None },
            Err(why) => {
                if result.error.as_ref() != Some(&why) {
                    tracing::warn!("the daily probe of receiver `{receiver}` failed: {why}");
                }
                result.error = Some(why);
            }
        }
    }
}

/// Probes each receiver once a day, and one that fails every ten minutes.
pub(super) async fn probe_always(notices: Arc<Notices>) {
    tokio::time::sleep(FIRST).await;
    loop {
        for name in &notices.policy.receivers {
            let now = notices.clock.now();
            let passed = notices.probes.of(name).passed;
            let is_due = passed.is_none_or(|at| now.seconds_since(at).abs() >= EVERY_SECONDS);
            if let Some(receiver) = notices.outbox.receiver(name).filter(|_| is_due) {
                let found = match tokio::time::timeout(TIMEOUT, receiver.probe()).await {
                    Ok(found) => found.map_err(|error| error.message),
                    Err(_) => Err("no answer within 15 s".to_owned()),
                };
                notices.probes.note(name, notices.clock.now(), found);
            }
        }
        notices.probes.is_complete.store(true, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
    }
}

impl Notices {
    /// Whether some receiver passed its probe or accepted a message within a day; also before the
    /// first probes, and without any receiver.
    pub(super) fn has_fresh_receiver(&self) -> bool {
        let is_complete = self.probes.is_complete.load(Ordering::Relaxed);
        if !is_complete || self.policy.receivers.is_empty() {
            return true;
        }
        let now = self.clock.now();
        let status = self.outbox.status();
        self.policy.receivers.iter().any(|name| {
            let sent = status.receivers.get(name).and_then(|it| it.last_success.as_ref());
            let sent = sent.map(|note| Micros(note.ts_us));
            let times = [self.probes.of(name).passed, sent];
            times.into_iter().flatten().any(|at| now.seconds_since(at) <= FRESH_SECONDS)
        })
    }
}
