//! Export and import of a manifest: out of PostgreSQL into the SQLite file of a backup, and from
//! there into an empty PostgreSQL.
//!
//! State of one run is not transferred: earlier snapshots, queued deletions, log floors, and the
//! owners of streams.

use std::path::Path;
use std::time::Duration;

use postgres::Row;
use rusqlite::Connection;
use weir_datafile::{ErrorKind, StoreError};
use weir_sql::Peer;
use weir_tables::Micros;

use super::SqliteManifest;
use super::postgres::{
    LEASE, NOW, PostgresManifest, SCHEMA, has_tables, micros, snapshot_transaction,
};
use super::sqlite::fail;
use super::upgrade::CHECKSUM;
use crate::cluster::ManifestOptions;
use crate::postgres_client::PostgresServer;

/// Lifetime of a hold; the holder renews it sooner.
const HOLD: Duration = Duration::from_secs(60);
/// Key of the PostgreSQL advisory lock for restores.
const RESTORE_LOCK: i32 = 1_702_193;

/// A file entry of any manifest, possibly of a table that this weir does not know.
#[derive(Debug)]
pub(crate) struct FileRow {
    pub(crate) id: i64,
    pub(crate) table: String,
    pub(crate) path: String,
    pub(crate) day: i64,
    pub(crate) row_count: i64,
    pub(crate) byte_count: i64,
    pub(crate) min_ts: i64,
    pub(crate) max_ts: i64,
    pub(crate) arrival_ts: i64,
    pub(crate) checksum: Option<i64>,
}

/// Exported content: the files of the tables and the positions of streams.
#[derive(Debug, Default)]
pub(crate) struct ManifestExport {
    pub(crate) files: Vec<FileRow>,
    pub(crate) streams: Vec<(Vec<u8>, i64)>,
}

/// The hubs of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Hubs {
    /// Live hubs.
    pub there: Vec<Peer>,
    /// Names of hubs that stopped without leaving the cluster.
    pub gone: Vec<String>,
}

impl ManifestExport {
    /// Writes the manifest of a single hub.
    ///
    /// # Errors
    /// `Full`, `Io`.
    pub(crate) fn write(&self, path: &Path, now: Micros) -> Result<(), StoreError> {
        let write = || {
            let mut connection = Connection::open(path)?;
            connection.execute_batch(super::sqlite::SCHEMA)?;
            let work = connection.transaction()?;
            let sql = "INSERT INTO snapshot (id, made_ts, reason) VALUES (1, ?1, 'backup')";
            work.execute(sql, [now.0])?;
            for file in &self.files {
                work.execute(
                    "INSERT INTO data_file (id, table_name, path, tier, day, row_count, byte_count, min_ts, max_ts,
                     arrival_ts, checksum, begin_snapshot) VALUES (?1, ?2, ?3, 'slow', ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1)",
                    rusqlite::params![file.id, file.table, file.path, file.day, file.row_count, file.byte_count,
                        file.min_ts, file.max_ts, file.arrival_ts, file.checksum],
                )?;
            }
            for (stream, position) in &self.streams {
                let sql = "INSERT INTO stream_position VALUES (?1, ?2, 1)";
                work.execute(sql, rusqlite::params![stream, position])?;
            }
            let next = self.files.iter().map(|file| file.id + 1).max().unwrap_or(1);
            work.execute("UPDATE setting SET value = ?1 WHERE name = 'next_file_id'", [next])?;
            work.commit()
        };
        write().map_err(|error| fail(&error, path))
    }

    /// Reads the manifest of a single hub.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `NewerVersion`.
    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        let manifest = SqliteManifest::read(path)?;
        let files = manifest.file_rows().map_err(|error| fail(&error, path))?;
        let streams = manifest.stream_rows().map_err(|error| fail(&error, path))?;
        Ok(Self { files, streams })
    }
}

impl PostgresManifest {
    /// Exports the current content.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn moving(&self) -> Result<ManifestExport, StoreError> {
        self.with(|client| {
            let mut work = snapshot_transaction(client)?;
            let sql = format!(
                "SELECT id, table_name, path, day, row_count, byte_count, min_ts, max_ts, arrival_ts, {CHECKSUM}
                 FROM data_file WHERE end_snapshot IS NULL ORDER BY id"
            );
            let files = work.query(&sql, &[])?.iter().map(file_row).collect();
            let sql = "SELECT stream, position FROM stream_position ORDER BY stream";
            let streams = work.query(sql, &[])?;
            let streams = streams.iter().map(|row| (row.get(0), row.get(1))).collect();
            Ok(ManifestExport { files, streams })
        })
    }

    /// Lists live and dead hubs.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn hubs(&self) -> Result<Hubs, StoreError> {
        self.with(|client| {
            let sql = format!(
                "SELECT name, address, seen_ts > {NOW} - $1 FROM hub
                 WHERE seen_ts > 0 AND address <> '' ORDER BY id"
            );
            let mut hubs = Hubs::default();
            for row in client.query(&sql, &[&micros(LEASE)])? {
                let peer = Peer { name: row.get(0), address: row.get(1) };
                match row.get(2) {
                    true => hubs.there.push(peer),
                    false => hubs.gone.push(peer.name),
                }
            }
            Ok(hubs)
        })
    }

    /// Holds the current files of the tables, even after they leave the tables, until the hold is
    /// not renewed for a minute or released by [`PostgresManifest::let_go`].
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn hold(&self, who: &str) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT INTO lease VALUES ($1, 0, {NOW} + $2) ON CONFLICT (name) DO UPDATE SET until_ts = {NOW} + $2"
        );
        self.with(|client| client.execute(&sql, &[&held(who), &micros(HOLD)]).map(drop))
    }

    /// Releases a hold.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn let_go(&self, who: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM lease WHERE name = $1";
        self.with(|client| client.execute(sql, &[&held(who)]).map(drop))
    }

    /// Whether any reader holds files.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn is_held(&self) -> Result<bool, StoreError> {
        self.with(|client| {
            let over = format!("DELETE FROM lease WHERE name LIKE 'hold %' AND until_ts <= {NOW}");
            client.execute(&over, &[])?;
            let sql = "SELECT EXISTS (SELECT FROM lease WHERE name LIKE 'hold %')";
            Ok(client.query_one(sql, &[])?.get(0))
        })
    }

    /// Checks that a restore may begin; returns the tier id of an interrupted restore.
    ///
    /// # Errors
    /// `Io`, also when there is a cluster.
    pub(crate) fn restoring(options: &ManifestOptions) -> Result<Option<i64>, StoreError> {
        let found = PostgresServer::new(options)?.with(|client| {
            let mut work = client.transaction()?;
            if !has_tables(&mut work, &options.schema)? {
                return Ok(Ok(None));
            }
            let sql = "SELECT value FROM setting WHERE name = 'restoring'";
            Ok(work.query_opt(sql, &[])?.map(|row| Some(row.get(0))).ok_or(()))
        })?;
        found.map_err(|()| {
            let text =
                format!("cannot restore into the cluster: there is one in `{}`", options.schema);
            StoreError::new(ErrorKind::Io, text)
                .with_hint("name another schema, `cluster.schema`, and a place that is empty")
        })
    }

    /// Begins or resumes a restore: from here on no hub opens the manifest. `id` is the id in the
    /// tier's marker.
    ///
    /// # Errors
    /// `Io`; `Locked`: another restore is running.
    pub(crate) fn begin_restore(options: &ManifestOptions, id: i64) -> Result<Self, StoreError> {
        let this = Self::of_nobody(PostgresServer::new(options)?);
        let schema = &options.schema;
        let is_free = this.with(|client| {
            let mut work = client.transaction()?;
            let sql = "SELECT pg_try_advisory_lock($1, hashtext($2))";
            if !work.query_one(sql, &[&RESTORE_LOCK, schema])?.get::<_, bool>(0) {
                return Ok(false);
            }
            if !has_tables(&mut work, schema)? {
                let sql = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"; {SCHEMA}");
                work.batch_execute(&sql)?;
                let sql = "INSERT INTO setting VALUES ('restoring', $1), ('slow_id', $1)";
                work.execute(sql, &[&id])?;
            }
            work.commit()?;
            Ok(true)
        })?;
        if is_free {
            return Ok(this);
        }
        Err(StoreError::new(ErrorKind::Locked, "cannot restore into the cluster: another one does")
            .with_hint("wait for it"))
    }

    /// Ends a restore: one transaction adds all content.
    ///
    /// # Errors
    /// `Io`, `Full`.
    pub(crate) fn end_restore(
        &self,
        all: &ManifestExport,
        shared: &[(String, Vec<u8>)],
        now: Micros,
    ) -> Result<(), StoreError> {
        let numbers = |of: fn(&FileRow) -> i64| all.files.iter().map(of).collect::<Vec<i64>>();
        let (tables, paths): (Vec<&str>, Vec<&str>) =
            all.files.iter().map(|file| (file.table.as_str(), file.path.as_str())).unzip();
        let (streams, positions): (Vec<&[u8]>, Vec<i64>) =
            all.streams.iter().map(|(stream, position)| (stream.as_slice(), *position)).unzip();
        let ids = numbers(|file| file.id);
        let checksums: Vec<Option<i64>> = all.files.iter().map(|file| file.checksum).collect();
        // File numbers begin with their hub's number: a new hub must not reuse a restored one.
        let next = ids.iter().max().map_or(0, |id| crate::cluster::hub_of(*id)) + 1;
        self.with(|client| {
            let mut work = client.transaction()?;
            work.execute("DELETE FROM setting WHERE name = 'restoring'", &[])?;
            work.execute("INSERT INTO snapshot VALUES (1, $1, 'restore', 0)", &[&now.0])?;
            work.execute("UPDATE setting SET value = 1 WHERE name = 'snapshot'", &[])?;
            let sql = "INSERT INTO data_file (id, table_name, path, tier, day, row_count, byte_count, min_ts, max_ts,
                 arrival_ts, checksum, begin_snapshot)
                 SELECT id, of, path, 'slow', day, row_count, byte_count, min_ts, max_ts, arrival_ts, checksum, 1
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                 $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
                 AS file (id, of, path, day, row_count, byte_count, min_ts, max_ts, arrival_ts, checksum)";
            work.execute(
                sql,
                &[
                    &ids,
                    &tables,
                    &paths,
                    &numbers(|file| file.day),
                    &numbers(|file| file.row_count),
                    &numbers(|file| file.byte_count),
                    &numbers(|file| file.min_ts),
                    &numbers(|file| file.max_ts),
                    &numbers(|file| file.arrival_ts),
                    &checksums,
                ],
            )?;
            // Hub 0 never exists, so the first hub that an agent connects to claims its streams.
            let sql = "INSERT INTO stream_position (stream, position, snapshot, hub)
                 SELECT stream, position, 1, 0 FROM unnest($1::bytea[], $2::bigint[]) AS of (stream, position)";
            work.execute(sql, &[&streams, &positions])?;
            for (name, content) in shared {
                work.execute("INSERT INTO shared_file VALUES ($1, $2)", &[name, content])?;
            }
            work.batch_execute(&format!("ALTER TABLE hub ALTER COLUMN id RESTART WITH {next}"))?;
            work.commit()
        })
    }
}

fn file_row(row: &Row) -> FileRow {
    FileRow {
        id: row.get(0),
        table: row.get(1),
        path: row.get(2),
        day: row.get(3),
        row_count: row.get(4),
        byte_count: row.get(5),
        min_ts: row.get(6),
        max_ts: row.get(7),
        arrival_ts: row.get(8),
        checksum: row.get(9),
    }
}

fn held(who: &str) -> String {
    format!("hold {who}")
}
