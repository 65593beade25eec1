//! Cluster membership for repairs: like a hub without rows, invisible to other hubs.

use weir_datafile::StoreError;
use weir_tables::Micros;

use super::postgres::{ABANDONED, NOW, PostgresManifest, lock, micros, replaced};
use super::upgrade::add_checksum;
use crate::cluster::{ManifestOptions, random};

impl PostgresManifest {
    /// Enters temporarily as a member that changes files but takes no rows and answers no queries;
    /// other hubs do not see it.
    ///
    /// # Errors
    /// `Io`, also when there is no cluster; `NewerVersion`.
    pub(crate) fn enter_to_mend(options: &ManifestOptions) -> Result<Self, StoreError> {
        let mut manifest = Self::look(options)?;
        let instance = random("instance");
        manifest.hub = manifest.with(|client| {
            let mut work = client.transaction()?;
            add_checksum(&mut work)?;
            work.commit()?;
            // Members that were killed.
            let sql = format!(
                "DELETE FROM hub WHERE address = '' AND seen_ts < {NOW} - $1 AND id NOT IN (SELECT hub FROM pending_file)"
            );
            client.execute(&sql, &[&micros(ABANDONED)])?;
            let name = format!("repair {instance:016x}");
            let sql = format!(
                "INSERT INTO hub (name, address, instance, seen_ts) VALUES ($1, '', $2, {NOW}) RETURNING id"
            );
            Ok(client.query_one(&sql, &[&name, &instance])?.get(0))
        })?;
        manifest.instance = instance;
        Ok(manifest)
    }

    /// Ends [`PostgresManifest::enter_to_mend`]. A hub later deletes files that were written and
    /// not committed.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn leave_for_good(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM hub WHERE id = $1 AND id NOT IN (SELECT hub FROM pending_file)";
        self.with(|client| client.execute(sql, &[&self.hub]).map(drop))
    }

    /// Sends a heartbeat.
    ///
    /// # Errors
    /// As [`PostgresManifest::pulse`].
    pub(crate) fn seen(&self) -> Result<(), StoreError> {
        if self.with(|client| self.is_seen(client))? { Ok(()) } else { Err(replaced()) }
    }

    /// Puts expired files that wait to be deleted back into their tables, as a new snapshot.
    ///
    /// # Errors
    /// `Io`; nothing was changed.
    pub(crate) fn undelete(&self, ids: &[i64], now: Micros) -> Result<(), StoreError> {
        self.with(|client| {
            let mut work = client.transaction()?;
            let snapshot = lock(&mut work)? + 1;
            let sql = "INSERT INTO snapshot VALUES ($1, $2, 'undelete', $3)";
            work.execute(sql, &[&snapshot, &now.0, &self.hub])?;
            work.execute("DELETE FROM gc_queue WHERE file = ANY($1)", &[&ids])?;
            let sql =
                "UPDATE data_file SET begin_snapshot = $1, end_snapshot = NULL WHERE id = ANY($2)";
            work.execute(sql, &[&snapshot, &ids])?;
            work.execute("UPDATE setting SET value = $1 WHERE name = 'snapshot'", &[&snapshot])?;
            work.commit()
        })
    }
}
