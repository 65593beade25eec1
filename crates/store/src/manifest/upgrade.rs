//! Manifests in PostgreSQL that an older weir made: they lack the checksums of files.

use postgres::{Error, Transaction};

/// Checksum of a file; NULL also where the table has no such column.
pub(super) const CHECKSUM: &str = "(to_jsonb(data_file) ->> 'checksum')::bigint";

/// Adds the column with the checksum of a file. Hubs of an older weir leave it NULL.
pub(super) fn add_checksum(work: &mut Transaction<'_>) -> Result<(), Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'data_file'::regclass AND attname = 'checksum')";
    if !work.query_one(sql, &[])?.get::<_, bool>(0) {
        work.batch_execute("ALTER TABLE data_file ADD COLUMN IF NOT EXISTS checksum bigint")?;
    }
    Ok(())
}
