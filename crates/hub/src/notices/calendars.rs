//! Addresses of the calendars of rotas, which programs subscribe to without a login.

use weir_ledger::{Change, LedgerError};
use weir_notify::links;

use super::Notices;

/// Kind and key of the document with the secret that keys derive from.
const KIND: &str = "calendar_key";
const KEY: &str = "oncall";
/// How far a calendar reaches.
const DAYS: u16 = 90;

impl Notices {
    /// Path and query of a rota's calendar.
    pub(crate) async fn calendar_path(&self, rota: &str) -> Result<String, LedgerError> {
        let secret = self.calendar_secret().await?;
        Ok(format!("/api/oncall/{rota}.ics?key={}", links::calendar_key(&secret, rota)))
    }

    /// The calendar of a rota; `None` without the right key, or without such a rota.
    pub(crate) async fn calendar(
        &self,
        rota: &str,
        key: &str,
    ) -> Result<Option<String>, LedgerError> {
        let secret = self.calendar_secret().await?;
        if !links::is_calendar_key(key, &secret, rota) {
            return Ok(None);
        }
        let found = self.policy.rotas.iter().find(|known| known.name == rota);
        Ok(found.map(|rota| weir_actions::calendar(rota, self.clock.now(), DAYS)))
    }

    async fn calendar_secret(&self) -> Result<String, LedgerError> {
        self.with_ledger(|ledger| {
            if let Some(document) = ledger.get(KIND, KEY)? {
                return Ok(document.body);
            }
            let secret = links::token().ok_or_else(|| {
                LedgerError::Unusable("cannot make a key: no random numbers".to_owned())
            })?;
            let (kind, key, body) = (KIND.to_owned(), KEY.to_owned(), Some((secret.clone(), None)));
            match ledger.apply(&[Change { kind, key, expected: 0, body }]) {
                Ok(()) => Ok(secret),
                // Another hub was first.
                Err(LedgerError::Conflict { .. }) => {
                    Ok(ledger.get(KIND, KEY)?.map(|document| document.body).unwrap_or_default())
                }
                Err(error) => Err(error),
            }
        })
        .await
    }
}
