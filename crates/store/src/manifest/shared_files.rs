//! Small files that all hubs of a cluster have: who belongs to the fleet.

use weir_datafile::StoreError;

use super::PostgresManifest;

impl PostgresManifest {
    /// Small files that all hubs have: name and content.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn shared_files(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.with(|client| {
            let rows = client.query("SELECT name, content FROM shared_file ORDER BY name", &[])?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        })
    }

    /// Puts such a file there in the place of `before`, `None` for no file; `None` as its content deletes it. Whether it did:
    /// not when there is something else by now.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn share_file(
        &self,
        name: &str,
        before: Option<&[u8]>,
        content: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.with(|client| {
            let changed = match (before, content) {
                (None, None) => return Ok(true),
                (None, Some(content)) => client.execute(
                    "INSERT INTO shared_file VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                    &[&name, &content],
                )?,
                (Some(before), Some(content)) => client.execute(
                    "UPDATE shared_file SET content = $3 WHERE name = $1 AND content = $2",
                    &[&name, &before, &content],
                )?,
                (Some(before), None) => client.execute(
                    "DELETE FROM shared_file WHERE name = $1 AND content = $2",
                    &[&name, &before],
                )?,
            };
            Ok(changed > 0)
        })
    }
}
