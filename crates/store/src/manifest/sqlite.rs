//! The manifest of a single hub, in SQLite: one transaction per change. Layout:
//! `docs/formats/manifest.md`.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, OpenFlags, Transaction, params};
use weir_datafile::{ErrorKind, FileSeal, StoreError};
use weir_tables::{Micros, StreamId};

use super::digest;
use super::moving::FileRow;
use super::{DataFile, ManifestChange, ManifestContent, QueuedDeletion, Tier, name_of, tier_of};

#[derive(Debug)]
pub(crate) struct SqliteManifest {
    connection: Connection,
}

/// `user_version` of the schema below.
const SCHEMA_VERSION: i64 = 2;
/// Version of a manifest with files in a cold tier: an older weir, which knows one tier, must not
/// treat them as lost.
const SLOW_VERSION: i64 = 3;

pub(super) const SCHEMA: &str = "
CREATE TABLE snapshot (id INTEGER PRIMARY KEY AUTOINCREMENT, made_ts INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE data_file (
  id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, path TEXT NOT NULL UNIQUE, tier TEXT NOT NULL DEFAULT 'local',
  day INTEGER NOT NULL, row_count INTEGER NOT NULL, byte_count INTEGER NOT NULL,
  min_ts INTEGER NOT NULL, max_ts INTEGER NOT NULL, arrival_ts INTEGER NOT NULL DEFAULT 0, checksum INTEGER,
  begin_snapshot INTEGER NOT NULL REFERENCES snapshot (id), end_snapshot INTEGER REFERENCES snapshot (id)
);
CREATE INDEX data_file_live ON data_file (table_name, day) WHERE end_snapshot IS NULL;
CREATE TABLE stream_position (
  stream BLOB PRIMARY KEY, position INTEGER NOT NULL, snapshot INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE gc_queue (file INTEGER PRIMARY KEY REFERENCES data_file (id), path TEXT NOT NULL, queued_ts INTEGER NOT NULL);
CREATE TABLE setting (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO setting VALUES ('wal_floor', 0), ('next_file_id', 1);
PRAGMA user_version = 2;
";

/// Migrates from version 1: the time of the commit that added a file approximates the arrival of
/// its rows.
const FROM_VERSION_1: &str = "
ALTER TABLE data_file ADD COLUMN arrival_ts INTEGER NOT NULL DEFAULT 0;
UPDATE data_file SET arrival_ts = (SELECT made_ts FROM snapshot WHERE id = begin_snapshot);
PRAGMA user_version = 2;
";

impl SqliteManifest {
    /// Opens the manifest at `path`; creates it when it is missing.
    ///
    /// # Errors
    /// `NewerVersion`, `Corrupt`, `Io`, `Full`.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let (connection, version) = open_for_writing(path).map_err(|error| fail(&error, path))?;
        match version {
            0 => {
                refuse_beside_rows(path)?;
                let text = format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;");
                let made = connection.execute_batch(&text);
                // Move the schema into the main file: without its `-wal` it must not look like a
                // new one.
                let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
                let made = made.and_then(|()| connection.query_row(checkpoint, [], |_| Ok(())));
                made.map_err(|error| fail(&error, path))?;
            }
            1 => migrate(&connection, path).map_err(|error| fail(&error, path))?,
            SCHEMA_VERSION | SLOW_VERSION => {}
            _ => {
                return Err(of_other_version(path, version));
            }
        }
        add_checksum(&connection).map_err(|error| fail(&error, path))?;
        Ok(Self { connection })
    }

    /// Opens the manifest at `path` read-only, while another weir may have it open.
    ///
    /// # Errors
    /// `Io` when there is none, `NewerVersion`, `Corrupt`.
    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        match open_for_reading(path).map_err(|error| fail(&error, path))? {
            (connection, 1 | SCHEMA_VERSION | SLOW_VERSION) => Ok(Self { connection }),
            (_, version) => Err(of_other_version(path, version)),
        }
    }

    /// Loads everything that a start needs.
    pub(crate) fn load(&self) -> Result<ManifestContent, StoreError> {
        let load = || {
            Ok(ManifestContent {
                files: self.live_files()?,
                positions: self.positions()?,
                owned: None,
                lost: HashSet::new(),
                snapshot: 0,
                wal_floor: self.setting("wal_floor")?.cast_unsigned(),
                paths: self.column("SELECT path FROM data_file WHERE end_snapshot IS NULL")?,
                next_file_id: self.setting("next_file_id")?,
            })
        };
        load().map_err(|error| self.fail(&error))
    }

    /// Writes a snapshot of the database into a new file.
    ///
    /// # Errors
    /// `Full`, `Io`.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let copied = self.connection.execute("VACUUM INTO ?1", [path.to_string_lossy()]);
        copied.map(drop).map_err(|error| fail(&error, path))
    }

    /// Converts a copy into the manifest of a separate directory: drops queued deletions of the
    /// origin, and places all files in the data directory.
    ///
    /// # Errors
    /// `Full`, `Io`, `Corrupt`.
    pub(crate) fn forget_removed(path: &Path) -> Result<(), StoreError> {
        clear_removed(path).map_err(|error| fail(&error, path))
    }

    fn live_files(&self) -> rusqlite::Result<Vec<Arc<DataFile>>> {
        let mut statement = self.connection.prepare(&format!(
            "SELECT id, table_name, path, day, row_count, byte_count, min_ts, max_ts, {}, tier, {}
             FROM data_file
             WHERE end_snapshot IS NULL ORDER BY id",
            self.arrival()?,
            checksum_column(&self.connection)?
        ))?;
        let rows = statement.query_map([], |row| {
            let Some(table) = weir_tables::table(&row.get::<_, String>(1)?) else {
                return Ok(None);
            };
            Ok(Some(Arc::new(DataFile {
                id: row.get(0)?,
                table,
                path: row.get(2)?,
                tier: tier_of(&row.get::<_, String>(9)?),
                day: row.get(3)?,
                row_count: row.get::<_, i64>(4)?.cast_unsigned(),
                byte_count: row.get::<_, i64>(5)?.cast_unsigned(),
                min_ts: row.get(6)?,
                max_ts: row.get(7)?,
                arrival_ts: row.get(8)?,
                seal: row.get::<_, Option<u32>>(10)?.map(FileSeal),
                index: OnceLock::new(),
                dictionaries: OnceLock::new(),
            })))
        })?;
        rows.filter_map(Result::transpose).collect()
    }

    /// Files of the tables, including tables that this weir does not know.
    pub(super) fn file_rows(&self) -> rusqlite::Result<Vec<FileRow>> {
        let mut statement = self.connection.prepare(&format!(
            "SELECT id, table_name, path, day, row_count, byte_count, min_ts, max_ts, {}, {} FROM data_file
             WHERE end_snapshot IS NULL ORDER BY id",
            self.arrival()?,
            checksum_column(&self.connection)?
        ))?;
        let rows = statement.query_map([], |row| {
            Ok(FileRow {
                id: row.get(0)?,
                table: row.get(1)?,
                path: row.get(2)?,
                day: row.get(3)?,
                row_count: row.get(4)?,
                byte_count: row.get(5)?,
                min_ts: row.get(6)?,
                max_ts: row.get(7)?,
                arrival_ts: row.get(8)?,
                checksum: row.get(9)?,
            })
        })?;
        rows.collect()
    }

    pub(super) fn stream_rows(&self) -> rusqlite::Result<Vec<(Vec<u8>, i64)>> {
        let mut statement =
            self.connection.prepare("SELECT stream, position FROM stream_position")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// The column with the arrival time of a file's last row, which version 1 lacks.
    fn arrival(&self) -> rusqlite::Result<&'static str> {
        let version: i64 =
            self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok(if version == 1 { "max_ts" } else { "arrival_ts" })
    }

    /// Every path that the manifest names and its tier, including tables that this weir does not
    /// know.
    pub(crate) fn places(&self) -> Result<Vec<(String, Tier)>, StoreError> {
        let load = || {
            let sql = "SELECT path, tier FROM data_file WHERE end_snapshot IS NULL ORDER BY id";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement
                .query_map([], |row| Ok((row.get(0)?, tier_of(&row.get::<_, String>(1)?))))?;
            rows.collect::<Result<_, _>>()
        };
        load().map_err(|error| self.fail(&error))
    }

    fn positions(&self) -> rusqlite::Result<HashMap<StreamId, u64>> {
        let mut statement =
            self.connection.prepare("SELECT stream, position FROM stream_position")?;
        let rows = statement.query_map([], |row| {
            let stream = StreamId(u128::from_be_bytes(row.get::<_, [u8; 16]>(0)?));
            Ok((stream, row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        rows.collect()
    }

    fn setting(&self, name: &str) -> rusqlite::Result<i64> {
        self.connection
            .query_row("SELECT value FROM setting WHERE name = ?1", [name], |row| row.get(0))
    }

    fn column(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        self.connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    }

    /// Id of the cold tier, as in its marker; `None` if there never was one.
    pub(crate) fn slow_id(&self) -> Result<Option<i64>, StoreError> {
        match self.setting("slow_id") {
            Ok(id) => Ok(Some(id)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Records a cold tier.
    pub(crate) fn set_slow_id(&mut self, id: i64) -> Result<(), StoreError> {
        let set = format!(
            "BEGIN IMMEDIATE; INSERT OR REPLACE INTO setting VALUES ('slow_id', {id});
             PRAGMA user_version = {SLOW_VERSION}; COMMIT;"
        );
        self.connection
            .execute_batch(&set)
            .and_then(|()| digest::seal(&self.connection))
            .map_err(|error| self.fail(&error))
    }

    /// Commits a change atomically; durable on return.
    ///
    /// # Errors
    /// `Full`, `Io`, `Corrupt`; nothing was changed. A failed commit may still reappear after a
    /// restart until the next one succeeds: after a failed sync the content of the disk is unknown.
    pub(crate) fn commit(&mut self, change: &ManifestChange<'_>) -> Result<(), StoreError> {
        let mut snapshot = None;
        let mut work = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            snapshot = Some(apply(&transaction, change)?);
            transaction.commit()
        };
        match work(&mut self.connection) {
            // If the snapshot is visible, the commit succeeded, whatever else failed.
            Err(error) if !snapshot.is_some_and(|id| self.has_snapshot(id)) => {
                Err(self.fail(&error))
            }
            _ => Ok(()),
        }
    }

    fn has_snapshot(&self, id: i64) -> bool {
        let sql = "SELECT count(*) FROM snapshot WHERE id = ?1";
        self.connection
            .query_row(sql, [id], |row| row.get::<_, i64>(0))
            .is_ok_and(|count| count > 0)
    }

    /// Removes deleted files from the queue.
    pub(crate) fn forget(&mut self, ids: &[i64]) -> Result<(), StoreError> {
        forget_files(ids, &mut self.connection).map_err(|error| self.fail(&error))
    }

    /// Files that wait to be deleted.
    pub(crate) fn gc_queue(&self) -> Result<Vec<QueuedDeletion>, StoreError> {
        let load = || {
            let mut statement = self.connection.prepare(
                "SELECT file, gc_queue.path, queued_ts, tier, byte_count, coalesce(reason = 'retention', FALSE)
                 FROM gc_queue JOIN data_file ON data_file.id = file AND data_file.path = gc_queue.path
                   AND end_snapshot IS NOT NULL
                 LEFT JOIN snapshot ON snapshot.id = end_snapshot",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(QueuedDeletion {
                    id: row.get(0)?,
                    path: row.get(1)?,
                    since: Micros(row.get(2)?),
                    tier: tier_of(&row.get::<_, String>(3)?),
                    byte_count: row.get::<_, i64>(4)?.cast_unsigned(),
                    is_restorable: row.get(5)?,
                })
            })?;
            rows.collect::<Result<_, _>>()
        };
        load().map_err(|error| self.fail(&error))
    }

    /// Compares the content with the checksum of the last commit; makes it where it is missing.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.is_intact()? {
            None => self.seal(),
            Some(true) => Ok(()),
            Some(false) => {
                let path = self.connection.path().unwrap_or("manifest.sqlite");
                let text =
                    format!("cannot open `{path}`: it changed after writing, the checksum differs");
                Err(StoreError::new(ErrorKind::Corrupt, text).with_hint(
                    "check the disk, then restore the newest backup, or run `weir store repair`: it compares the manifest with the files",
                ))
            }
        }
    }

    /// Whether the content is as the last commit left it; `None` when an older weir made that.
    pub(crate) fn is_intact(&self) -> Result<Option<bool>, StoreError> {
        digest::is_intact(&self.connection).map_err(|error| self.fail(&error))
    }

    /// Accepts the present content as right.
    pub(crate) fn seal(&self) -> Result<(), StoreError> {
        digest::seal(&self.connection).map_err(|error| self.fail(&error))
    }

    /// Puts expired files that wait to be deleted back into their tables.
    pub(crate) fn undelete(&mut self, ids: &[i64], now: Micros) -> Result<(), StoreError> {
        undelete_files(ids, now, &mut self.connection).map_err(|error| self.fail(&error))
    }

    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        fail(error, Path::new(self.connection.path().unwrap_or("manifest.sqlite")))
    }
}

/// The column with the checksum of a file, which manifests of an older weir lack.
fn checksum_column(connection: &Connection) -> rusqlite::Result<&'static str> {
    let sql = "SELECT count(*) FROM pragma_table_info('data_file') WHERE name = 'checksum'";
    let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(if count == 0 { "NULL" } else { "checksum" })
}

/// Adds the column with the checksum of a file. An older weir leaves it NULL.
fn add_checksum(connection: &Connection) -> rusqlite::Result<()> {
    match checksum_column(connection)? {
        "NULL" => connection.execute_batch("ALTER TABLE data_file ADD COLUMN checksum INTEGER"),
        _ => Ok(()),
    }
}

fn forget_files(ids: &[i64], connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for id in ids {
        transaction.execute("DELETE FROM gc_queue WHERE file = ?1", [id])?;
        transaction.execute("DELETE FROM data_file WHERE id = ?1", [id])?;
    }
    transaction.execute(
        "DELETE FROM snapshot WHERE id < (SELECT max(id) FROM snapshot)
                 AND id NOT IN (SELECT begin_snapshot FROM data_file)
                 AND id NOT IN (SELECT end_snapshot FROM data_file WHERE end_snapshot IS NOT NULL)",
        [],
    )?;
    digest::seal(&transaction)?;
    transaction.commit()
}

fn undelete_files(ids: &[i64], now: Micros, connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction
        .execute("INSERT INTO snapshot (made_ts, reason) VALUES (?1, 'undelete')", [now.0])?;
    for id in ids {
        transaction.execute("DELETE FROM gc_queue WHERE file = ?1", [id])?;
        transaction.execute("UPDATE data_file SET end_snapshot = NULL WHERE id = ?1", [id])?;
    }
    digest::seal(&transaction)?;
    transaction.commit()
}

fn clear_removed(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    digest::unseal(&connection)?;
    connection.execute_batch(
                "BEGIN; DELETE FROM gc_queue; DELETE FROM data_file WHERE end_snapshot IS NOT NULL;
                 UPDATE data_file SET tier = 'local'; DELETE FROM setting WHERE name = 'slow_id'; COMMIT;",
            )
}

fn open_for_reading(path: &Path) -> rusqlite::Result<(Connection, i64)> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok((connection, version))
}

fn open_for_writing(path: &Path) -> rusqlite::Result<(Connection, i64)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok((connection, version))
}

/// Applies a change; returns the snapshot's number.
fn apply(transaction: &Transaction<'_>, change: &ManifestChange<'_>) -> rusqlite::Result<i64> {
    transaction.execute(
        "INSERT INTO snapshot (made_ts, reason) VALUES (?1, ?2)",
        params![change.now.0, change.reason],
    )?;
    let snapshot = transaction.last_insert_rowid();
    for file in change.add {
        transaction.execute(
            "INSERT INTO data_file (id, table_name, path, day, row_count, byte_count, min_ts, max_ts, arrival_ts,
             begin_snapshot, tier, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![file.id, file.table.name, file.path, file.day, file.row_count.cast_signed(),
                file.byte_count.cast_signed(), file.min_ts, file.max_ts, file.arrival_ts, snapshot,
                name_of(file.tier), file.seal.map(|seal| seal.0)],
        )?;
        transaction.execute(
            "UPDATE setting SET value = max(value, ?1) WHERE name = 'next_file_id'",
            [file.id + 1],
        )?;
    }
    for file in change.remove {
        transaction.execute(
            "UPDATE data_file SET end_snapshot = ?1 WHERE id = ?2",
            params![snapshot, file.id],
        )?;
        transaction.execute(
            "INSERT INTO gc_queue (file, path, queued_ts) VALUES (?1, ?2, ?3)",
            params![file.id, file.path, change.now.0],
        )?;
    }
    let mut upsert = transaction.prepare_cached(
        "INSERT INTO stream_position VALUES (?1, ?2, ?3)
         ON CONFLICT (stream) DO UPDATE SET position = excluded.position, snapshot = excluded.snapshot
         WHERE position <> excluded.position",
    )?;
    for (stream, position) in change.positions {
        upsert.execute(params![stream.0.to_be_bytes(), position.cast_signed(), snapshot])?;
    }
    if let Some(floor) = change.wal_floor {
        transaction.execute(
            "UPDATE setting SET value = ?1 WHERE name = 'wal_floor'",
            [floor.cast_signed()],
        )?;
    }
    digest::seal(transaction)?;
    Ok(snapshot)
}

/// Migrates a manifest of version 1 to the current version, after copying it.
fn migrate(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let copy = path.with_added_extension("v1");
    // Left by a killed migration: it may be incomplete.
    drop(std::fs::remove_file(&copy));
    connection.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {FROM_VERSION_1} COMMIT;"))?;
    digest::unseal(connection)?;
    tracing::info!("`{}` is of version 2 now, `{}` is as before", path.display(), copy.display());
    Ok(())
}

fn of_other_version(path: &Path, version: i64) -> StoreError {
    let text = format!("cannot open `{}`: it is of version {version}", path.display());
    StoreError::new(ErrorKind::NewerVersion, text).with_hint("run the newer weir that wrote it")
}

pub(crate) fn fail(error: &rusqlite::Error, path: &Path) -> StoreError {
    use rusqlite::ErrorCode as Code;
    let kind = match error.sqlite_error_code() {
        Some(Code::DiskFull) => ErrorKind::Full,
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    StoreError::new(kind, format!("cannot use `{}`: {error}", path.display()))
}

/// Rejects an empty manifest beside existing rows. A manifest is created before any row is stored,
/// so it was lost: starting would delete every file as unknown.
///
/// # Errors
/// `Corrupt`.
fn refuse_beside_rows(path: &Path) -> Result<(), StoreError> {
    let root = path.parent().unwrap_or(path);
    let has_rows = ["wal", "data"].iter().any(|part| {
        std::fs::read_dir(root.join(part)).is_ok_and(|mut entries| entries.next().is_some())
    });
    if !has_rows {
        return Ok(());
    }
    let text = format!("cannot open `{}`: it is empty, but rows are beside it", path.display());
    Err(StoreError::new(ErrorKind::Corrupt, text).with_hint(
        "put `manifest.sqlite` and `manifest.sqlite-wal` back as they were; to start over, name another directory with `--data`",
    ))
}
