//! The ledger of a single hub: the SQLite file `actions.sqlite`.
//!
//! Journal mode WAL with `synchronous = FULL` (<https://www.sqlite.org/pragma.html>): a commit is on
//! the disk before `apply` returns. SQLite would open another program's database without an error,
//! so the file carries an `application_id`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind as IoKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Row, Transaction, params};
use weir_tables::Clock;

use crate::backend::{Change, Document, LedgerBackend, LedgerError};
use crate::checks::{document_sum, has_lost_commits, is_as_written};

/// Largest body of a document, in bytes; larger ones are refused.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

const FILE_NAME: &str = "actions.sqlite";
/// Larger logs of SQLite are not read for lost commits: its checkpoints keep it at 4 MiB.
const WAL_BYTES_MAX: u64 = 256 << 20;
/// `weir` in ASCII.
const APPLICATION_ID: i64 = 0x7765_6972;
/// `user_version` of the schema below.
const SCHEMA_VERSION: i64 = 1;
/// How long a call waits for another process that holds the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The pragmas are part of the transaction: a file with half a schema does not occur.
const SCHEMA: &str = "
BEGIN IMMEDIATE;
CREATE TABLE document (
  kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  due_us INTEGER, changed_us INTEGER NOT NULL, sum INTEGER, PRIMARY KEY (kind, key)
);
CREATE INDEX document_due ON document (kind, due_us) WHERE due_us IS NOT NULL;
CREATE INDEX document_finished ON document (kind, changed_us) WHERE due_us IS NULL;
PRAGMA application_id = 0x77656972;
PRAGMA user_version = 1;
COMMIT;
";

/// A ledger in one SQLite file. Several processes of one host may have it open.
pub struct SqliteLedger {
    connection: Connection,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// What was lost before this start.
    loss: Option<String>,
}

impl std::fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteLedger").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteLedger {
    /// Opens `actions.sqlite` in `directory`, which must exist; creates the file when it is
    /// missing. `clock` dates the changes, for [`prune`](LedgerBackend::prune).
    ///
    /// # Errors
    /// `Unusable` if the file cannot be written, is damaged, or belongs to another program or a
    /// newer weir.
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<Self, LedgerError> {
        let path = directory.join(FILE_NAME);
        make_private(directory, &path).map_err(|error| {
            let hint = match error.kind() {
                IoKind::NotFound => "create the directory",
                _ => "give weir's user write access to the directory",
            };
            LedgerError::Unusable(format!(
                "cannot open `{}`: {error}\nhint: {hint}",
                path.display()
            ))
        })?;
        let loss = find_loss(&path);
        let opened = open_connection(&path).map_err(|error| unusable(&path, "open", &error))?;
        let (connection, application_id, version) = opened;
        check_owner(&path, application_id, version)?;
        if version == 0 {
            create_schema(&connection).map_err(|error| unusable(&path, "create", &error))?;
        }
        let mut ledger = Self { connection, path, clock, loss };
        ledger.check()?;
        Ok(ledger)
    }

    /// Reads everything once: the structure, indexes that must have what the rows have, and the rows.
    fn check(&mut self) -> Result<(), LedgerError> {
        let check = self
            .connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0))
            .map_err(|error| unusable(&self.path, "read", &error))?;
        if check != "ok" {
            return Err(damaged(&self.path, &check));
        }
        add_sums(&self.connection).map_err(|error| unusable(&self.path, "write", &error))?;
        self.documents(&format!("SELECT {COLUMNS} FROM document"), []).map(drop)
    }

    /// Writes a consistent copy of the ledger in `directory` to `to`, which must not exist; false
    /// when there is no ledger. Another program may have it open.
    ///
    /// # Errors
    /// `Unusable`.
    pub fn copy(directory: &Path, to: &Path) -> Result<bool, LedgerError> {
        let path = directory.join(FILE_NAME);
        if !path.exists() {
            return Ok(false);
        }
        let copied = Connection::open(&path).and_then(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])
        });
        copied.map(|_| true).map_err(|error| unusable(&path, "copy", &error))
    }

    /// Makes all changes, or none; why the disk takes nothing, when it is full or fails.
    pub(crate) fn apply_if_space(
        &mut self,
        changes: &[Change],
    ) -> Result<Option<String>, LedgerError> {
        changes.iter().try_for_each(check_size)?;
        match self.apply_all(changes) {
            Ok(None) => Ok(None),
            Ok(Some(conflict)) => Err(conflict),
            Err(error) => self.without_space(&error),
        }
    }

    /// Writes documents as they are, whatever the versions of the kept ones; why the disk takes
    /// nothing, when it is full or fails.
    pub(crate) fn overwrite(
        &mut self,
        documents: &BTreeMap<(String, String), Option<Document>>,
    ) -> Result<Option<String>, LedgerError> {
        match self.overwrite_all(documents) {
            Ok(()) => Ok(None),
            Err(error) => self.without_space(&error),
        }
    }

    fn without_space(&self, error: &rusqlite::Error) -> Result<Option<String>, LedgerError> {
        let described = unusable(&self.path, "write", error);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
                Ok(Some(described.to_string()))
            }
            _ => Err(described),
        }
    }

    fn overwrite_all(
        &mut self,
        documents: &BTreeMap<(String, String), Option<Document>>,
    ) -> rusqlite::Result<()> {
        let now_us = self.clock.now().0;
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for ((kind, key), document) in documents {
            transaction
                .execute("DELETE FROM document WHERE kind = ?1 AND key = ?2", [kind, key])?;
            let Some(document) = document else { continue };
            let sum = document_sum(document, now_us);
            transaction.execute(
                "INSERT INTO document (kind, key, version, body, due_us, changed_us, sum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![kind, key, document.version, document.body, document.due_us, now_us, sum],
            )?;
        }
        transaction.commit()
    }

    /// Limits the size of the file, as a full disk does.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: Option<u32>) {
        let pages = pages.unwrap_or(u32::MAX - 1);
        let set = format!("PRAGMA max_page_count = {pages}");
        self.connection.query_row(&set, [], |_| Ok(())).expect("the pragma answers");
    }

    fn apply_all(&mut self, changes: &[Change]) -> rusqlite::Result<Option<LedgerError>> {
        let now_us = self.clock.now().0;
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for change in changes {
            if !apply_one(&transaction, change, now_us)? {
                let (kind, key) = (change.kind.clone(), change.key.clone());
                return Ok(Some(LedgerError::Conflict { kind, key }));
            }
        }
        transaction.commit().map(|()| None)
    }

    fn documents(
        &self,
        query: &str,
        arguments: impl rusqlite::Params,
    ) -> Result<Vec<Document>, LedgerError> {
        let rows = self.connection.prepare_cached(query).and_then(|mut statement| {
            statement.query_map(arguments, document_of)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        let rows = rows.map_err(|error| unusable(&self.path, "read", &error))?;
        rows.into_iter().map(|row| self.compare(row)).collect()
    }

    /// The document, if its checksum matches.
    fn compare(&self, (document, is_whole): (Document, bool)) -> Result<Document, LedgerError> {
        if is_whole {
            return Ok(document);
        }
        let Document { kind, key, .. } = document;
        Err(damaged(&self.path, &format!("{kind} `{key}` changed after writing")))
    }
}

impl LedgerBackend for SqliteLedger {
    fn prune(&mut self, kind: &str, before_us: i64) -> Result<usize, LedgerError> {
        let deleted = self.connection.execute(
            "DELETE FROM document WHERE kind = ?1 AND due_us IS NULL AND changed_us < ?2",
            params![kind, before_us],
        );
        deleted.map_err(|error| unusable(&self.path, "write", &error))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        changes.iter().try_for_each(check_size)?;
        match self.apply_all(changes) {
            Ok(None) => Ok(()),
            Ok(Some(conflict)) => Err(conflict),
            Err(error) => Err(unusable(&self.path, "write", &error)),
        }
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        let query = format!("SELECT {COLUMNS} FROM document WHERE kind = ?1 AND key = ?2");
        Ok(self.documents(&query, params![kind, key])?.pop())
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        let query = format!("SELECT {COLUMNS} FROM document WHERE kind = ?1 ORDER BY key");
        self.documents(&query, [kind])
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        let query = format!(
            "SELECT {COLUMNS} FROM document
             WHERE kind = ?1 AND due_us IS NOT NULL AND due_us <= ?2 ORDER BY due_us, key LIMIT ?3"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.documents(&query, params![kind, now_us, limit])
    }

    fn trouble(&self) -> Option<String> {
        self.loss.clone()
    }
}

/// What [`document_of`] reads.
const COLUMNS: &str = "kind, key, version, body, due_us, changed_us, sum";

/// A document, and whether it is as it was written.
fn document_of(row: &Row<'_>) -> rusqlite::Result<(Document, bool)> {
    let document = Document {
        kind: row.get(0)?,
        key: row.get(1)?,
        version: row.get(2)?,
        body: row.get(3)?,
        due_us: row.get(4)?,
    };
    let is_whole = is_as_written(&document, row.get(5)?, row.get(6)?);
    Ok((document, is_whole))
}

/// Adds the column with checksums to a file of an older weir, which works on without it.
fn add_sums(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT count(*) FROM pragma_table_info('document') WHERE name = 'sum'";
    let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    if count > 0 {
        return Ok(());
    }
    match connection.execute_batch("ALTER TABLE document ADD COLUMN sum INTEGER") {
        // Another process may do the same.
        Err(_) if connection.query_row(sql, [], |row| row.get::<_, i64>(0))? > 0 => Ok(()),
        outcome => outcome,
    }
}

/// Describes commits that are lost because SQLite's log changed after writing.
fn find_loss(path: &Path) -> Option<String> {
    let log = path.with_file_name(format!("{FILE_NAME}-wal"));
    let length = std::fs::metadata(&log).ok()?.len();
    if length > WAL_BYTES_MAX || !has_lost_commits(&std::fs::read(&log).ok()?) {
        return None;
    }
    Some(format!(
        "`{}` changed after writing: the last changes of incidents and notices may be lost, and \
         notices may be sent again",
        log.display()
    ))
}

/// Makes one change; false when the document has another version than expected.
fn apply_one(
    transaction: &Transaction<'_>,
    change: &Change,
    now_us: i64,
) -> rusqlite::Result<bool> {
    let Change { kind, key, expected, body } = change;
    let sum = sum_of(change, now_us);
    let count = match (body, *expected) {
        (Some((body, due_us)), 0) => transaction
            .prepare_cached(
                "INSERT INTO document (kind, key, version, body, due_us, changed_us, sum)
                 VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )?
            .execute(params![kind, key, body, due_us, now_us, sum])?,
        (Some((body, due_us)), expected) => transaction
            .prepare_cached(
                "UPDATE document SET version = version + 1, body = ?3, due_us = ?4, changed_us = ?5,
                 sum = ?7 WHERE kind = ?1 AND key = ?2 AND version = ?6",
            )?
            .execute(params![kind, key, body, due_us, now_us, expected, sum])?,
        (None, 0) => {
            let query = "SELECT count(*) FROM document WHERE kind = ?1 AND key = ?2";
            let found: i64 = transaction.query_row(query, params![kind, key], |row| row.get(0))?;
            usize::from(found == 0)
        }
        (None, expected) => transaction.execute(
            "DELETE FROM document WHERE kind = ?1 AND key = ?2 AND version = ?3",
            params![kind, key, expected],
        )?,
    };
    Ok(count == 1)
}

/// Checksum of a document after a change; `None` when it is deleted.
fn sum_of(change: &Change, now_us: i64) -> Option<i64> {
    let (body, due_us) = change.body.clone()?;
    let (kind, key, version) = (change.kind.clone(), change.key.clone(), change.expected + 1);
    Some(document_sum(&Document { kind, key, version, body, due_us }, now_us))
}

fn check_size(change: &Change) -> Result<(), LedgerError> {
    let size = change.body.as_ref().map_or(0, |(body, _)| body.len());
    if size <= BODY_BYTES_MAX {
        return Ok(());
    }
    Err(LedgerError::Unusable(format!(
        "cannot write {} `{}`: its body has {size} bytes, the limit is {BODY_BYTES_MAX}",
        change.kind, change.key
    )))
}

/// Creates the file with mode 0600, or takes an existing one away from other accounts. SQLite
/// gives its `-wal` and `-shm` files the mode of the main file.
fn make_private(directory: &Path, path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => File::open(directory)?.sync_all(),
        Err(error) if error.kind() == IoKind::AlreadyExists => {
            std::fs::set_permissions(path, Permissions::from_mode(0o600))
        }
        Err(error) => Err(error),
    }
}

/// The connection with the file's `application_id` and `user_version`, which are read before
/// anything is written.
fn open_connection(path: &Path) -> rusqlite::Result<(Connection, i64, i64)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application_id: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let is_new = tables == 0 && application_id == 0 && version == 0;
    if is_new || application_id == APPLICATION_ID {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        return Ok((connection, APPLICATION_ID, version));
    }
    Ok((connection, application_id, version))
}

fn check_owner(path: &Path, application_id: i64, version: i64) -> Result<(), LedgerError> {
    let path = path.display();
    if application_id != APPLICATION_ID {
        return Err(LedgerError::Unusable(format!(
            "cannot open `{path}`: it is the database of another program\n\
             hint: move the file away and restart; weir creates a new one"
        )));
    }
    if version > SCHEMA_VERSION {
        return Err(LedgerError::Unusable(format!(
            "cannot open `{path}`: a newer weir wrote it (format {version}, this weir reads \
             {SCHEMA_VERSION})\nhint: start the newer weir"
        )));
    }
    Ok(())
}

/// Another process may create the schema at the same time; the second one finds it there.
fn create_schema(connection: &Connection) -> rusqlite::Result<()> {
    let Err(error) = connection.execute_batch(SCHEMA) else { return Ok(()) };
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == SCHEMA_VERSION { Ok(()) } else { Err(error) }
}

fn unusable(path: &Path, verb: &'static str, error: &rusqlite::Error) -> LedgerError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            return damaged(path, &error.to_string());
        }
        Some(ErrorCode::DiskFull) => "\nhint: free space on the file system",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "\nhint: find the process that locks the file, with `fuser`"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "\nhint: give weir's user write access to the file and its directory"
        }
        _ => "",
    };
    LedgerError::Unusable(format!("cannot {verb} `{}`: {error}{hint}", path.display()))
}

fn damaged(path: &Path, why: &str) -> LedgerError {
    let path = path.display();
    LedgerError::Unusable(format!(
        "cannot read `{path}`: it is damaged: {why}\n\
         hint: stop weir, move `{path}` and its `-wal` and `-shm` files away, and start it again; \
         weir then sends a notice for each open incident again"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use expect_test::expect;
    use weir_tables::{FixedClock, Micros};

    use super::*;

    fn open(directory: &Path) -> SqliteLedger {
        SqliteLedger::open(directory, Arc::new(FixedClock::new(Micros(1_000)))).unwrap()
    }

    fn put(key: &str, expected: i64, due_us: Option<i64>) -> Change {
        let body = Some((format!("{{\"from\":{expected}}}"), due_us));
        Change { kind: "notice".to_owned(), key: key.to_owned(), expected, body }
    }

    fn delete_at(expected: i64) -> Change {
        Change { body: None, ..put("a", expected, None) }
    }

    fn sized(size: usize) -> Change {
        Change { body: Some(("x".repeat(size), None)), ..put("a", 0, None) }
    }

    fn keys(documents: Vec<Document>) -> Vec<String> {
        documents.into_iter().map(|document| document.key).collect()
    }

    fn message_of(directory: &Path) -> String {
        let clock = Arc::new(FixedClock::default());
        let error = SqliteLedger::open(directory, clock).unwrap_err().to_string();
        error.replace(&*directory.to_string_lossy(), "DIR")
    }

    #[test]
    fn change_with_an_old_version_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = open(dir.path());
        ledger.apply(&[put("a", 0, Some(5)), put("b", 0, None)]).unwrap();
        let conflict = ledger.apply(&[put("b", 1, Some(9)), put("a", 0, Some(7))]);
        let (kind, key) = ("notice".to_owned(), "a".to_owned());
        assert_eq!(conflict, Err(LedgerError::Conflict { kind, key }));
        let b = ledger.get("notice", "b").unwrap().unwrap();
        assert_eq!((b.version, b.due_us), (1, None));
        ledger.apply(&[put("a", 1, Some(7))]).unwrap();
        let a = ledger.get("notice", "a").unwrap().unwrap();
        assert_eq!((a.version, a.due_us, a.body.as_str()), (2, Some(7), "{\"from\":1}"));
        assert!(ledger.apply(&[put("missing", 3, None)]).is_err());
    }

    #[test]
    fn document_is_deleted_only_at_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = open(dir.path());
        ledger.apply(&[put("a", 0, None)]).unwrap();
        assert!(ledger.apply(&[delete_at(0)]).is_err());
        assert!(ledger.apply(&[delete_at(2)]).is_err());
        ledger.apply(&[delete_at(1)]).unwrap();
        ledger.apply(&[delete_at(0)]).unwrap();
        assert_eq!(ledger.get("notice", "a"), Ok(None));
    }

    #[test]
    fn due_documents_come_earliest_first_and_only_of_their_kind() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = open(dir.path());
        let other = Change { kind: "incident".to_owned(), ..put("x", 0, Some(1)) };
        let notices = [put("c", 0, Some(3)), put("a", 0, Some(9)), put("b", 0, Some(2))];
        ledger.apply(&[&notices[..], &[other, put("d", 0, None)]].concat()).unwrap();
        assert_eq!(keys(ledger.due("notice", 3, 10).unwrap()), ["b", "c"]);
        assert_eq!(keys(ledger.due("notice", i64::MAX, 1).unwrap()), ["b"]);
        assert_eq!(keys(ledger.all("notice").unwrap()), ["a", "b", "c", "d"]);
    }

    #[test]
    fn prune_deletes_old_finished_documents_only() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FixedClock::new(Micros(1_000)));
        let mut ledger = SqliteLedger::open(dir.path(), Arc::clone(&clock) as _).unwrap();
        ledger.apply(&[put("old", 0, None), put("open", 0, Some(1))]).unwrap();
        clock.set(Micros(2_000));
        ledger.apply(&[put("young", 0, None)]).unwrap();
        assert_eq!(ledger.prune("incident", 2_000), Ok(0));
        assert_eq!(ledger.prune("notice", 2_000), Ok(1));
        assert_eq!(keys(ledger.all("notice").unwrap()), ["open", "young"]);
    }

    #[test]
    fn two_connections_have_the_same_documents_and_one_wins() {
        let dir = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (open(dir.path()), open(dir.path()));
        first.apply(&[put("a", 0, Some(1))]).unwrap();
        assert_eq!(second.get("notice", "a").unwrap().unwrap().version, 1);
        second.apply(&[put("a", 1, Some(2))]).unwrap();
        assert!(first.apply(&[put("a", 1, Some(3))]).is_err());
        assert_eq!(first.get("notice", "a").unwrap().unwrap().due_us, Some(2));
    }

    #[test]
    fn concurrent_changes_of_one_document_are_each_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).apply(&[put("a", 0, None)]).unwrap();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut ledger = open(dir.path());
                std::thread::spawn(move || {
                    let mut made = 0;
                    while made < 25 {
                        let version = ledger.get("notice", "a").unwrap().unwrap().version;
                        match ledger.apply(&[put("a", version, None)]) {
                            Ok(()) => made += 1,
                            Err(LedgerError::Conflict { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(open(dir.path()).get("notice", "a").unwrap().unwrap().version, 101);
    }

    #[test]
    fn files_are_private_and_reopened_with_their_documents() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).apply(&[put("a", 0, Some(5))]).unwrap();
        let path = dir.path().join(FILE_NAME);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut ledger = open(dir.path());
        ledger.apply(&[put("b", 0, None)]).unwrap();
        for entry in dir.path().read_dir().unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", entry.path());
        }
        assert_eq!(ledger.all("notice").unwrap().len(), 2);
    }

    #[test]
    fn copy_has_what_was_committed_while_the_ledger_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("hub"), dir.path().join("copy"));
        std::fs::create_dir(&from).unwrap();
        std::fs::create_dir(&to).unwrap();
        assert_eq!(SqliteLedger::copy(&from, &to.join(FILE_NAME)), Ok(false));
        let mut ledger = open(&from);
        ledger.apply(&[put("a", 0, Some(5)), put("b", 0, None)]).unwrap();
        assert_eq!(SqliteLedger::copy(&from, &to.join(FILE_NAME)), Ok(true));
        ledger.apply(&[put("a", 1, None)]).unwrap();
        let mut copied = open(&to);
        assert_eq!(keys(copied.all("notice").unwrap()), ["a", "b"]);
        assert_eq!(copied.get("notice", "a").unwrap().unwrap().version, 1);
        assert!(SqliteLedger::copy(&from, &to.join(FILE_NAME)).is_err(), "it is there already");
    }

    #[test]
    fn body_over_the_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = open(dir.path());
        let error = ledger.apply(&[sized(BODY_BYTES_MAX + 1)]).unwrap_err().to_string();
        let text = "cannot write notice `a`: its body has 262145 bytes, the limit is 262144";
        assert_eq!(error, text);
        ledger.apply(&[sized(BODY_BYTES_MAX)]).unwrap();
    }

    #[test]
    fn foreign_newer_and_missing_places_are_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        expect![[r"
            cannot open `DIR/actions.sqlite`: it is the database of another program
            hint: move the file away and restart; weir creates a new one"]]
        .assert_eq(&message_of(dir.path()));
        std::fs::remove_file(&path).unwrap();
        open(dir.path()).connection.pragma_update(None, "user_version", 9).unwrap();
        expect![[r"
            cannot open `DIR/actions.sqlite`: a newer weir wrote it (format 9, this weir reads 1)
            hint: start the newer weir"]]
        .assert_eq(&message_of(dir.path()));
        expect![[r"
            cannot open `DIR/actions.sqlite`: No such file or directory (os error 2)
            hint: create the directory"]]
        .assert_eq(&message_of(&dir.path().join("missing")).replace("DIR/missing", "DIR"));
    }

    #[test]
    fn damaged_files_are_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        std::fs::write(&path, "no database at all").unwrap();
        expect![[r"
            cannot read `DIR/actions.sqlite`: it is damaged: file is not a database
            hint: stop weir, move `DIR/actions.sqlite` and its `-wal` and `-shm` files away, and start it again; weir then sends a notice for each open incident again"]]
        .assert_eq(&message_of(dir.path()));
        std::fs::remove_file(&path).unwrap();
        let mut ledger = open(dir.path());
        for number in 0..200 {
            ledger.apply(&[put(&format!("key {number}"), 0, Some(number))]).unwrap();
        }
        drop(ledger);
        let mut bytes = std::fs::read(&path).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        assert!(message_of(dir.path()).contains("it is damaged"), "{}", message_of(dir.path()));
    }
}
