//! A checksum over what the manifest of a single hub says: SQLite has none of its pages.
//!
//! One changed bit in a file's times or path makes a query leave out its rows, or a start delete
//! it. So each commit writes the checksum of the live files, the positions and the settings, with
//! the number of its snapshot, and a start compares it. An older weir does not know it: when the
//! newest snapshot is another one, the checksum is made again.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

const CONTENT: [&str; 3] = [
    "SELECT id, table_name, path, tier, day, row_count, byte_count, min_ts, max_ts, arrival_ts
     FROM data_file WHERE end_snapshot IS NULL ORDER BY id",
    "SELECT stream, position FROM stream_position ORDER BY stream",
    "SELECT name, value FROM setting WHERE name NOT LIKE 'digest%' ORDER BY name",
];

/// Writes the checksum.
pub(super) fn seal(connection: &Connection) -> rusqlite::Result<()> {
    let mut set = connection.prepare_cached("INSERT OR REPLACE INTO setting VALUES (?1, ?2)")?;
    set.execute(("digest", digest(connection)?))?;
    set.execute(("digest_snapshot", newest_snapshot(connection)?))?;
    Ok(())
}

/// Forgets the checksum: the next start makes it.
pub(super) fn unseal(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM setting WHERE name LIKE 'digest%'", []).map(drop)
}

/// Whether the content is as the last commit left it; `None` when an older weir made that.
pub(super) fn is_intact(connection: &Connection) -> rusqlite::Result<Option<bool>> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < 2 {
        return Ok(None);
    }
    let (stored, of) = (setting(connection, "digest")?, setting(connection, "digest_snapshot")?);
    if of != Some(newest_snapshot(connection)?) {
        return Ok(None);
    }
    Ok(Some(stored == Some(digest(connection)?)))
}

fn setting(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT value FROM setting WHERE name = ?1")?;
    let mut rows = statement.query([name])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

fn newest_snapshot(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT coalesce(max(id), 0) FROM snapshot", [], |row| row.get(0))
}

fn digest(connection: &Connection) -> rusqlite::Result<i64> {
    let mut hasher = crc32fast::Hasher::new();
    for sql in CONTENT {
        let mut statement = connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Null => hasher.update(b"n"),
                    ValueRef::Integer(number) => hasher.update(&number.to_le_bytes()),
                    ValueRef::Real(number) => hasher.update(&number.to_le_bytes()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        hasher.update(&(bytes.len() as u64).to_le_bytes());
                        hasher.update(bytes);
                    }
                }
            }
        }
        hasher.update(b"end");
    }
    Ok(i64::from(hasher.finalize()))
}
