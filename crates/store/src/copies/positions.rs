//! Positions of copies, one row per copy in the manifest, over a separate connection: a slow flush
//! or compaction does not block them. Layout: `docs/formats/manifest.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, params};
use weir_datafile::StoreError;
use weir_tables::LogPosition;

use crate::manifest::fail;

/// The persisted state of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyState {
    /// Drawn when the copy began: with a log position it names a row uniquely, even across
    /// directories.
    pub(crate) epoch: i64,
    /// Everything before this position is copied.
    pub(crate) done: LogPosition,
    /// End of the batch being copied, so that a retry has the same rows; at most `done` without
    /// one.
    pub(crate) planned: LogPosition,
}

impl CopyState {
    fn checksum(&self, name: &str) -> i64 {
        let Self { epoch, done, planned } = *self;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(name.as_bytes());
        let numbers = [done.sequence, done.row, planned.sequence, planned.row];
        for number in [epoch.cast_unsigned()].iter().chain(&numbers) {
            hasher.update(&number.to_le_bytes());
        }
        i64::from(hasher.finalize())
    }
}

/// A state as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredState {
    pub(crate) state: CopyState,
    /// Whether its checksum is right, or it has none.
    pub(crate) is_intact: bool,
}

/// The positions database.
pub(crate) struct CopyPositions {
    connection: Mutex<Connection>,
    path: PathBuf,
}

/// Kept outside the tables of manifest version 1, which an older weir ignores. Its changes remove the
/// checksum: the manifest's own does not cover positions.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS copy_position (
  name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, row INTEGER NOT NULL,
  planned_sequence INTEGER NOT NULL, planned_row INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS copy_checksum (name TEXT PRIMARY KEY, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS copy_position_changed AFTER INSERT ON copy_position
BEGIN DELETE FROM copy_checksum WHERE name = NEW.name; END;
";

impl CopyPositions {
    /// Opens the manifest, or a separate file.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, `Full`.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = connect(path).map_err(|error| fail(&error, path))?;
        Ok(Self { connection: Mutex::new(connection), path: path.to_owned() })
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.lock();
        work(&connection).map_err(|error| fail(&error, &self.path))
    }

    /// Loads the state of every copy by name; an error in place of one that changed after writing.
    pub(crate) fn load(&self) -> Result<BTreeMap<String, StoredState>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "SELECT name, coalesce(epoch, 0), coalesce(sequence, 0), coalesce(row, 0),
                 coalesce(planned_sequence, 0), coalesce(planned_row, 0), checksum
                 FROM copy_position FULL JOIN copy_checksum USING (name)",
            )?;
            let rows = statement.query_map([], |row| {
                let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
                let state = CopyState {
                    epoch: row.get(1)?,
                    done: LogPosition { sequence: number(2)?, row: number(3)? },
                    planned: LogPosition { sequence: number(4)?, row: number(5)? },
                };
                let (name, sum) = (row.get::<_, String>(0)?, row.get::<_, Option<i64>>(6)?);
                let is_intact = sum.is_none_or(|sum| sum == state.checksum(&name));
                Ok((name, StoredState { state, is_intact }))
            })?;
            rows.collect()
        })
    }

    /// Saves a copy's state; durable on return.
    pub(crate) fn save(&self, name: &str, state: &CopyState) -> Result<(), StoreError> {
        let CopyState { epoch, done, planned } = *state;
        let number = u64::cast_signed;
        self.with(|connection| {
            let work = connection.unchecked_transaction()?;
            let mut statement = work.prepare_cached(
                "INSERT OR REPLACE INTO copy_position VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            statement.execute(params![
                name,
                epoch,
                number(done.sequence),
                number(done.row),
                number(planned.sequence),
                number(planned.row)
            ])?;
            drop(statement);
            let sql = "INSERT OR REPLACE INTO copy_checksum VALUES (?1, ?2)";
            work.execute(sql, params![name, state.checksum(name)])?;
            work.commit()
        })
    }

    /// Deletes a copy's state.
    pub(crate) fn forget(&self, name: &str) -> Result<(), StoreError> {
        self.with(|connection| {
            let work = connection.unchecked_transaction()?;
            work.execute("DELETE FROM copy_position WHERE name = ?1", [name])?;
            work.execute("DELETE FROM copy_checksum WHERE name = ?1", [name])?;
            work.commit()
        })
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}
