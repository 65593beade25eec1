//! Who mends files beside the hubs of a cluster: like a hub without rows, which others do not see.

use weir_datafile::StoreError;

use super::postgres::{ABANDONED, NOW, PostgresManifest, micros, replaced};
use crate::cluster::{ManifestOptions, random};

impl PostgresManifest {
    /// Enters for a while as one that takes no rows and answers no queries, but changes files: other hubs do not see it.
    ///
    /// # Errors
    /// `Io`, also when there is no cluster; `NewerVersion`.
    pub(crate) fn enter_to_mend(options: &ManifestOptions) -> Result<Self, StoreError> {
        let mut manifest = Self::look(options)?;
        let instance = random("instance");
        manifest.hub = manifest.with(|client| {
            // Those that were killed.
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

    /// Ends [`PostgresManifest::enter_to_mend`]. What was written and not entered is deleted by a hub later.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn leave_for_good(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM hub WHERE id = $1 AND id NOT IN (SELECT hub FROM pending_file)";
        self.with(|client| client.execute(sql, &[&self.hub]).map(drop))
    }

    /// Says that this hub is there.
    ///
    /// # Errors
    /// As [`PostgresManifest::pulse`].
    pub(crate) fn seen(&self) -> Result<(), StoreError> {
        if self.with(|client| self.is_seen(client))? { Ok(()) } else { Err(replaced()) }
    }
}
