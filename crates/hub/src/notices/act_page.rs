//! What the page behind a link of a message needs: the grant, the incident, the PIN, the device.

use std::time::Duration;

use parking_lot::Mutex;
use weir_actions::{Incident, IncidentState, IncidentSummary};
use weir_ledger::LedgerError;
use weir_notify::links::{self, LinkGrant, PinCheck};
use weir_tables::Clock;

use super::Notices;

/// Requests of such pages at once, and per second after that. Tokens cannot be guessed, so this
/// bounds the work only.
const BURST: f64 = 200.0;
const PER_SECOND: f64 = 100.0;

/// Bounds the requests that need no login.
#[derive(Debug, Default)]
pub(crate) struct OpenDoor {
    /// Requests in the bucket, and the time of its last leak.
    taken: Mutex<(f64, Duration)>,
}

impl OpenDoor {
    /// Whether one more request may be served now.
    pub(crate) fn admits(&self, clock: &dyn Clock) -> bool {
        let now = clock.monotonic();
        let mut taken = self.taken.lock();
        let passed = now.saturating_sub(taken.1).as_secs_f64();
        *taken = ((taken.0 - passed * PER_SECOND).max(0.0), now);
        if taken.0 + 1.0 > BURST {
            return false;
        }
        taken.0 += 1.0;
        true
    }
}

/// An incident as the page shows it.
#[derive(Debug)]
pub(crate) struct LinkedIncident {
    /// `None` when it has been over for longer than five minutes.
    pub(crate) summary: Option<IncidentSummary>,
    pub(crate) is_open: bool,
}

impl Notices {
    /// What a token allows.
    pub(crate) async fn link(&self, token: &str) -> Result<Option<LinkGrant>, LedgerError> {
        let (token, now_us) = (token.to_owned(), self.clock.now().0);
        self.with_ledger(move |ledger| links::find(ledger, &token, now_us)).await
    }

    /// Whether a cookie is that of the person's device.
    pub(crate) async fn is_paired(
        &self,
        grant: &LinkGrant,
        cookie: &str,
    ) -> Result<bool, LedgerError> {
        let (grant, cookie, now_us) = (grant.clone(), cookie.to_owned(), self.clock.now().0);
        self.with_ledger(move |ledger| links::is_paired(ledger, &grant, &cookie, now_us)).await
    }

    /// Checks a PIN, and remembers the device.
    pub(crate) async fn check_pin(&self, token: &str, pin: &str) -> Result<PinCheck, LedgerError> {
        let (token, pin, now_us) = (token.to_owned(), pin.to_owned(), self.clock.now().0);
        self.with_ledger(move |ledger| links::check_pin(ledger, &token, &pin, now_us)).await
    }

    /// The incident of a link, as the ledger has it.
    pub(crate) async fn linked(&self, grant: &LinkGrant) -> Result<LinkedIncident, LedgerError> {
        let id = grant.incident.clone();
        let found = self.with_ledger(move |ledger| ledger.get("incident", &id)).await?;
        let incident: Option<Incident> =
            found.and_then(|document| serde_json::from_str(&document.body).ok());
        Ok(LinkedIncident {
            is_open: incident.as_ref().is_some_and(|it| it.state() == IncidentState::Open),
            summary: incident.map(|incident| incident.summary()),
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::FixedClock;

    use super::*;

    #[test]
    fn more_than_a_burst_is_refused() {
        let (door, clock) = (OpenDoor::default(), FixedClock::default());
        let admitted = (0..300).filter(|_| door.admits(&clock)).count();
        assert!((200..210).contains(&admitted), "{admitted}");
    }
}
