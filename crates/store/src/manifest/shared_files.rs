//! Small files that all hubs of a cluster share: the members of the fleet.

use weir_datafile::StoreError;

use super::PostgresManifest;

impl PostgresManifest {
    /// Small files that all hubs share: name and content.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn shared_files(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.with(|client| {
            let rows = client.query("SELECT name, content FROM shared_file ORDER BY name", &[])?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        })
    }

    /// Replaces a shared file by compare-and-set. `before` is the expected content, `None` for a
    /// missing file; a new content of `None` deletes the file. Returns whether the content was as
    /// expected.
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
