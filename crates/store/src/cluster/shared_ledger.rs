//! The ledger of notices in a cluster: a table beside the manifest, so that all hubs see one.

use postgres::{Client, Error as PostgresError, Row, Transaction};
use weir_datafile::StoreError;
use weir_ledger::{Change, Document, LedgerBackend, LedgerError};

use crate::options::ManifestOptions;
use crate::postgres_client::PostgresServer;

/// Hubs that start at the same time make the table one after the other.
const MAKE: &str = "SELECT pg_advisory_xact_lock(7311190);
CREATE TABLE IF NOT EXISTS ledger (kind text, key text, version bigint NOT NULL, body text NOT NULL, due_us bigint,
  changed_us bigint NOT NULL, PRIMARY KEY (kind, key));
CREATE INDEX IF NOT EXISTS ledger_due ON ledger (kind, due_us) WHERE due_us IS NOT NULL";
/// PostgreSQL's clock, which all hubs share.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const COLUMNS: &str = "SELECT kind, key, version, body, due_us FROM ledger";

/// Documents in the manifest's PostgreSQL.
pub struct SharedLedger(PostgresServer);

impl SharedLedger {
    /// Connects, and makes the table when it is missing; the schema is there once a hub has opened
    /// its store. Blocks.
    ///
    /// # Errors
    /// `Io`: when PostgreSQL cannot be used.
    pub fn open(options: &ManifestOptions) -> Result<Self, StoreError> {
        let mut server = PostgresServer::new(options)?;
        server.with(|client| {
            let mut work = client.transaction()?;
            work.batch_execute(MAKE)?;
            work.commit()
        })?;
        Ok(Self(server))
    }

    fn with<T>(
        &mut self,
        work: impl FnMut(&mut Client) -> Result<T, PostgresError>,
    ) -> Result<T, LedgerError> {
        self.0.with(work).map_err(|error| LedgerError::Unusable(error.message))
    }

    fn documents(
        &mut self,
        condition: &str,
        values: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<Document>, LedgerError> {
        let sql = format!("{COLUMNS} WHERE {condition}");
        self.with(|client| Ok(client.query(&sql, values)?.iter().map(document).collect()))
    }
}

impl LedgerBackend for SharedLedger {
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        let conflict = self.with(|client| {
            let mut work = client.transaction()?;
            for change in changes {
                if make(&mut work, change)? != 1 {
                    return Ok(Some((change.kind.clone(), change.key.clone())));
                }
            }
            work.commit()?;
            Ok(None)
        })?;
        conflict.map_or(Ok(()), |(kind, key)| Err(LedgerError::Conflict { kind, key }))
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        Ok(self.documents("kind = $1 AND key = $2", &[&kind, &key])?.pop())
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        self.documents("kind = $1 ORDER BY key", &[&kind])
    }

    fn prune(&mut self, kind: &str, before_us: i64) -> Result<usize, LedgerError> {
        let deleted = self.with(|client| {
            let sql = "DELETE FROM ledger WHERE kind = $1 AND due_us IS NULL AND changed_us < $2";
            client.execute(sql, &[&kind, &before_us])
        })?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.documents(
            "kind = $1 AND due_us <= $2 ORDER BY due_us, key LIMIT $3",
            &[&kind, &now_us, &limit],
        )
    }
}

/// Makes one change; the number of documents that it concerns, 0 if the version differs.
fn make(work: &mut Transaction<'_>, change: &Change) -> Result<u64, PostgresError> {
    let Change { kind, key, expected, body } = change;
    match body {
        Some((body, due_us)) if *expected == 0 => work.execute(
            &format!("INSERT INTO ledger VALUES ($1, $2, 1, $3, $4, {NOW}) ON CONFLICT DO NOTHING"),
            &[kind, key, body, due_us],
        ),
        Some((body, due_us)) => work.execute(
            &format!(
                "UPDATE ledger SET version = version + 1, body = $3, due_us = $4, changed_us = {NOW} \
                 WHERE kind = $1 AND key = $2 AND version = $5"
            ),
            &[kind, key, body, due_us, expected],
        ),
        None => work.execute(
            "DELETE FROM ledger WHERE kind = $1 AND key = $2 AND version = $3",
            &[kind, key, expected],
        ),
    }
}

fn document(row: &Row) -> Document {
    Document {
        kind: row.get(0),
        key: row.get(1),
        version: row.get(2),
        body: row.get(3),
        due_us: row.get(4),
    }
}
