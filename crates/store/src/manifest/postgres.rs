//! The manifest of a cluster, in PostgreSQL. Layout: `docs/formats/manifest.md`.
//!
//! Every commit begins by locking one row, so snapshots are numbered in commit order: a hub that
//! has seen snapshot N has seen all before it. A stream belongs to one hub at a time. A hub that
//! lost a stream finds it in `stream_lost`, and cannot commit before it has purged its rows of that
//! stream.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use postgres::types::ToSql;
use postgres::{Client, Row, Transaction};
use weir_datafile::{ErrorKind, FileSeal, StoreError};
use weir_sql::Peer;
use weir_tables::{Micros, StreamId};

use super::upgrade::{CHECKSUM, add_checksum};
use super::{DataFile, ManifestChange, ManifestContent, QueuedDeletion, Tier, name_of, tier_of};
use crate::cluster::{ClusterOptions, ManifestOptions, random};
use crate::postgres_client::PostgresServer;

const VERSION: i64 = 1;
/// Lifetime of a lease, and of a hub's heartbeat.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// After this long without a heartbeat, other hubs delete the uncommitted files of a hub.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

pub(super) const SCHEMA: &str = "
CREATE TABLE setting (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE hub (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, address text NOT NULL,
  instance bigint NOT NULL, seen_ts bigint NOT NULL, wal_floor bigint NOT NULL DEFAULT 0, next_file_id bigint NOT NULL DEFAULT 0
);
CREATE TABLE lease (name text PRIMARY KEY, hub bigint NOT NULL, until_ts bigint NOT NULL);
CREATE TABLE snapshot (id bigint PRIMARY KEY, made_ts bigint NOT NULL, reason text NOT NULL, hub bigint NOT NULL);
CREATE TABLE data_file (
  id bigint PRIMARY KEY, table_name text NOT NULL, path text NOT NULL UNIQUE, tier text NOT NULL,
  day bigint NOT NULL, row_count bigint NOT NULL, byte_count bigint NOT NULL, min_ts bigint NOT NULL, max_ts bigint NOT NULL,
  arrival_ts bigint NOT NULL, checksum bigint, begin_snapshot bigint NOT NULL, end_snapshot bigint
);
CREATE INDEX data_file_live ON data_file (table_name, day) WHERE end_snapshot IS NULL;
CREATE INDEX data_file_begin ON data_file (begin_snapshot);
CREATE INDEX data_file_end ON data_file (end_snapshot) WHERE end_snapshot IS NOT NULL;
CREATE TABLE pending_file (path text PRIMARY KEY, hub bigint NOT NULL);
CREATE TABLE stream_position (stream bytea PRIMARY KEY, position bigint NOT NULL, snapshot bigint, hub bigint NOT NULL);
CREATE INDEX stream_position_hub ON stream_position (hub);
CREATE TABLE stream_lost (hub bigint NOT NULL, stream bytea NOT NULL, PRIMARY KEY (hub, stream));
CREATE TABLE gc_queue (file bigint PRIMARY KEY, path text NOT NULL, queued_ts bigint NOT NULL);
CREATE TABLE shared_file (name text PRIMARY KEY, content bytea NOT NULL);
INSERT INTO setting VALUES ('version', 1), ('snapshot', 0);
";

/// The server's clock, µs since 1970: leases use one clock.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const COLUMNS: &str =
    "id, table_name, path, tier, day, row_count, byte_count, min_ts, max_ts, arrival_ts";

/// The open manifest, as seen by one hub.
pub(crate) struct PostgresManifest {
    server: Mutex<PostgresServer>,
    pub(super) hub: i64,
    /// Drawn at start: a different value belongs to another process.
    pub(super) instance: i64,
}

impl std::fmt::Debug for PostgresManifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("hub", &self.hub).finish_non_exhaustive()
    }
}

/// The result of a heartbeat.
#[derive(Debug)]
pub(crate) struct ClusterPulse {
    pub(crate) is_leader: bool,
    pub(crate) peers: Vec<Peer>,
    pub(crate) lost: Vec<StreamId>,
}

/// The result of claiming streams.
#[derive(Debug)]
pub(crate) enum ClaimOutcome {
    /// Claimed, as far as the streams are known, with their positions in files.
    Ours(Vec<(StreamId, u64)>),
    /// This hub lost some of them, and its log still has their rows.
    Stale,
}

/// Changes since a snapshot.
#[derive(Debug)]
pub(crate) struct ManifestNews {
    /// The newest snapshot.
    pub(crate) snapshot: i64,
    pub(crate) added: Vec<Arc<DataFile>>,
    pub(crate) removed: Vec<i64>,
    /// Whether `added` lists all current files, and every other file is gone.
    pub(crate) is_whole: bool,
}

impl PostgresManifest {
    /// Joins the cluster as hub `id`, or as a new hub with this name; creates missing tables.
    ///
    /// # Errors
    /// `Io`, `NewerVersion`; `Locked` when a live hub has this name.
    pub(crate) fn enter(options: &ClusterOptions, id: Option<i64>) -> Result<Self, StoreError> {
        let mut server = PostgresServer::new(&options.manifest)?;
        make_tables(&mut server, &options.manifest.schema)?;
        let instance = random("instance");
        let (name, address) = (&options.name, &options.address);
        let hub = server.with(|client| {
            let mut work = client.transaction()?;
            let row = work.query_opt(
                &format!("SELECT id, seen_ts > {NOW} - $2 FROM hub WHERE name = $1 FOR UPDATE"),
                &[name, &micros(LEASE)],
            )?;
            let hub = match row {
                Some(row) => {
                    let (found, is_there): (i64, bool) = (row.get(0), row.get(1));
                    if is_there && id != Some(found) {
                        return Ok(None);
                    }
                    let sql = format!(
                        "UPDATE hub SET address = $2, instance = $3, seen_ts = {NOW} WHERE id = $1"
                    );
                    work.execute(&sql, &[&found, address, &instance])?;
                    found
                }
                None => {
                    let sql = format!(
                        "INSERT INTO hub (name, address, instance, seen_ts) VALUES ($1, $2, $3, {NOW}) RETURNING id"
                    );
                    work.query_one(&sql, &[name, address, &instance])?.get(0)
                }
            };
            work.commit()?;
            Ok(Some(hub))
        })?;
        let hub = hub.ok_or_else(|| {
            let text = format!("cannot enter the cluster: another hub is there as `{name}`");
            StoreError::new(ErrorKind::Locked, text)
                .with_hint("give each hub a name of its own: `cluster.name`")
        })?;
        Ok(Self { server: Mutex::new(server), hub, instance })
    }

    /// Opens another connection for the same hub.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn again(&self, options: &ClusterOptions) -> Result<Self, StoreError> {
        let server = Mutex::new(PostgresServer::new(&options.manifest)?);
        Ok(Self { server, hub: self.hub, instance: self.instance })
    }

    /// Opens a read-only view.
    ///
    /// # Errors
    /// `Io`, also when there is no cluster; `NewerVersion`.
    pub(crate) fn look(options: &ManifestOptions) -> Result<Self, StoreError> {
        let mut server = PostgresServer::new(options)?;
        if !server.with(|client| has_tables(&mut client.transaction()?, &options.schema))? {
            let text = format!("there is no cluster in the schema `{}`", options.schema);
            return Err(StoreError::new(ErrorKind::Io, text)
                .with_hint("check `cluster.manifest` and `cluster.schema`"));
        }
        check_version(&mut server)?;
        Ok(Self::of_nobody(server))
    }

    /// Opens the manifest without being a hub.
    pub(super) fn of_nobody(server: PostgresServer) -> Self {
        Self { server: Mutex::new(server), hub: 0, instance: 0 }
    }

    /// The current files, and the names of others that must stay: files in their grace period, or
    /// files that a hub is about to commit.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn files(&self) -> Result<(Vec<Arc<DataFile>>, HashSet<String>), StoreError> {
        self.with(|client| {
            let mut work = snapshot_transaction(client)?;
            let files = live_files(&mut work)?;
            let sql = "SELECT path FROM data_file UNION SELECT path FROM gc_queue UNION SELECT path FROM pending_file";
            let names = work.query(sql, &[])?;
            Ok((files, names.iter().map(|row| row.get(0)).collect()))
        })
    }

    pub(crate) fn hub(&self) -> i64 {
        self.hub
    }

    pub(super) fn with<T>(
        &self,
        work: impl FnMut(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        self.server.lock().with(work)
    }

    pub(super) fn load(&self) -> Result<ManifestContent, StoreError> {
        self.with(|client| {
            let mut work = snapshot_transaction(client)?;
            let snapshot = value(&mut work, "snapshot")?;
            let files = live_files(&mut work)?;
            let paths = work.query("SELECT path FROM data_file WHERE end_snapshot IS NULL", &[])?;
            let (mut positions, mut owned) = (HashMap::new(), HashSet::new());
            let sql = "SELECT stream, position FROM stream_position WHERE hub = $1";
            for row in work.query(sql, &[&self.hub])? {
                let Some(stream) = stream_of(&row) else { continue };
                owned.insert(stream);
                positions.insert(stream, row.get::<_, i64>(1).cast_unsigned());
            }
            let lost = lost(&mut work, self.hub)?.into_iter().collect();
            let sql = "SELECT wal_floor, next_file_id FROM hub WHERE id = $1";
            let hub = work.query_one(sql, &[&self.hub])?;
            let wal_floor: i64 = hub.get(0);
            Ok(ManifestContent {
                files,
                positions,
                owned: Some(owned),
                lost,
                snapshot,
                wal_floor: wal_floor.cast_unsigned(),
                paths: paths.iter().map(|row| row.get(0)).collect(),
                next_file_id: hub.get(1),
            })
        })
    }

    pub(crate) fn places(&self) -> Result<Vec<(String, Tier)>, StoreError> {
        self.with(|client| {
            let sql = "SELECT path, tier FROM data_file WHERE end_snapshot IS NULL ORDER BY id";
            let rows = client.query(sql, &[])?;
            Ok(rows.iter().map(|row| (row.get(0), tier_of(row.get(1)))).collect())
        })
    }

    pub(crate) fn slow_id(&self) -> Result<Option<i64>, StoreError> {
        self.with(|client| {
            let row = client.query_opt("SELECT value FROM setting WHERE name = 'slow_id'", &[])?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    pub(crate) fn set_slow_id(&self, id: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO setting VALUES ('slow_id', $1) ON CONFLICT (name) DO NOTHING";
        self.with(|client| client.execute(sql, &[&id]).map(drop))
    }

    pub(super) fn gc_queue(&self) -> Result<Vec<QueuedDeletion>, StoreError> {
        self.with(|client| {
            let sql = "SELECT file, gc_queue.path, queued_ts, tier, byte_count, coalesce(reason = 'retention', false)
                 FROM gc_queue JOIN data_file ON data_file.id = file LEFT JOIN snapshot ON snapshot.id = end_snapshot";
            let rows = client.query(sql, &[])?;
            let queue = rows.iter().map(|row| QueuedDeletion {
                id: row.get(0),
                path: row.get(1),
                since: Micros(row.get(2)),
                tier: tier_of(row.get(3)),
                byte_count: row.get::<_, i64>(4).cast_unsigned(),
                is_restorable: row.get(5),
            });
            Ok(queue.collect())
        })
    }

    pub(super) fn forget(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.with(|client| {
            let mut work = client.transaction()?;
            // A hub that has not yet seen the replacement cannot learn it from the remaining rows.
            let sql = "INSERT INTO setting
                 SELECT 'forgotten', coalesce(max(end_snapshot), 0) FROM data_file WHERE id = ANY($1)
                 ON CONFLICT (name) DO UPDATE SET value = greatest(setting.value, excluded.value)";
            work.execute(sql, &[&ids])?;
            work.execute("DELETE FROM gc_queue WHERE file = ANY($1)", &[&ids])?;
            work.execute("DELETE FROM data_file WHERE id = ANY($1)", &[&ids])?;
            let sql = "DELETE FROM snapshot WHERE id < (SELECT value FROM setting WHERE name = 'snapshot')
                 AND NOT EXISTS (SELECT FROM data_file WHERE begin_snapshot = snapshot.id)
                 AND NOT EXISTS (SELECT FROM data_file WHERE end_snapshot = snapshot.id)";
            work.execute(sql, &[])?;
            work.commit()
        })
    }

    /// Announces files that are about to be uploaded to the shared place.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn note_pending(&self, paths: &[String]) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO pending_file SELECT unnest($1::text[]), $2 ON CONFLICT (path) DO NOTHING";
        self.with(|client| client.execute(sql, &[&paths, &self.hub]).map(drop))
    }

    /// Uploaded files that were not committed: of this hub, or with `is_leader` those of dead hubs.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn pending(&self, is_leader: bool) -> Result<Vec<String>, StoreError> {
        self.with(|client| {
            let rows = if is_leader {
                let sql = format!(
                    "SELECT path FROM pending_file JOIN hub ON hub.id = hub WHERE seen_ts < {NOW} - $1 AND hub <> $2"
                );
                client.query(&sql, &[&micros(ABANDONED), &self.hub])?
            } else {
                client.query("SELECT path FROM pending_file WHERE hub = $1", &[&self.hub])?
            };
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })
    }

    /// Forgets uncommitted files after their deletion.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn forget_pending(&self, paths: &[String]) -> Result<(), StoreError> {
        let sql = "DELETE FROM pending_file WHERE path = ANY($1)";
        self.with(|client| client.execute(sql, &[&paths]).map(drop))
    }

    /// Commits as [`super::Manifest::commit`]; returns the snapshot's number.
    ///
    /// # Errors
    /// `Io`, `Full`, `Moved`.
    pub(crate) fn commit(&self, change: &ManifestChange<'_>) -> Result<i64, StoreError> {
        let outcome = self.with(|client| {
            let mut work = client.transaction()?;
            let outcome = self.apply(&mut work, change)?;
            if outcome.is_ok() {
                work.commit()?;
            }
            Ok(outcome)
        });
        outcome?.map_err(|why| StoreError::new(ErrorKind::Moved, why))
    }

    /// Applies a change; `Err` reports a conflict with another hub.
    fn apply(
        &self,
        work: &mut Transaction<'_>,
        change: &ManifestChange<'_>,
    ) -> Result<Result<i64, &'static str>, postgres::Error> {
        let snapshot = lock(work)? + 1;
        let ids: Vec<i64> = change.add.iter().map(|file| file.id).collect();
        // An earlier attempt whose response was lost.
        let sql = "SELECT begin_snapshot FROM data_file WHERE id = ANY($1) LIMIT 1";
        if let Some(known) = work.query_opt(sql, &[&ids])? {
            return Ok(Ok(known.get(0)));
        }
        let sql = "UPDATE hub SET wal_floor = coalesce($3, wal_floor), next_file_id = greatest(next_file_id, $4)
             WHERE id = $1 AND instance = $2";
        let floor = change.wal_floor.map(u64::cast_signed);
        let next = ids.iter().max().map_or(0, |id| id + 1);
        if work.execute(sql, &[&self.hub, &self.instance, &floor, &next])? == 0 {
            return Ok(Err("another process is this hub now"));
        }
        let is_of_rows = change.wal_floor.is_some();
        if is_of_rows && lost(work, self.hub)?.iter().any(|stream| !change.purged.contains(stream))
        {
            return Ok(Err("another hub took streams over"));
        }
        let sql = "DELETE FROM stream_lost WHERE hub = $1 AND stream = ANY($2)";
        work.execute(sql, &[&self.hub, &keys(change.cleared.iter())])?;
        let sql = "INSERT INTO snapshot VALUES ($1, $2, $3, $4)";
        work.execute(sql, &[&snapshot, &change.now.0, &change.reason, &self.hub])?;
        let by = SnapshotAuthor { hub: self.hub, snapshot };
        if let Err(why) = add_files(work, by, change.add)?
            .and(remove_files(work, snapshot, change)?)
            .and(move_streams(work, by, change.positions)?)
        {
            return Ok(Err(why));
        }
        work.execute("UPDATE setting SET value = $1 WHERE name = 'snapshot'", &[&snapshot])?;
        Ok(Ok(snapshot))
    }

    /// Changes since snapshot `seen`; `None` without any. Returns all current files when
    /// replacements since `seen` are already forgotten.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn news(&self, seen: i64) -> Result<Option<ManifestNews>, StoreError> {
        self.with(|client| {
            let mut work = snapshot_transaction(client)?;
            let snapshot = value(&mut work, "snapshot")?;
            if snapshot == seen {
                return Ok(None);
            }
            let sql = "SELECT value > $1 FROM setting WHERE name = 'forgotten'";
            let is_whole = work.query_opt(sql, &[&seen])?.is_some_and(|row| row.get(0));
            let (added, removed) = if is_whole {
                (live_files(&mut work)?, Vec::new())
            } else {
                let sql = format!(
                    "SELECT {COLUMNS}, {CHECKSUM} FROM data_file WHERE begin_snapshot > $1 AND end_snapshot IS NULL ORDER BY id"
                );
                let added = work.query(&sql, &[&seen])?.iter().filter_map(file_of).collect();
                let removed = work.query("SELECT id FROM data_file WHERE end_snapshot > $1", &[&seen])?;
                (added, removed.iter().map(|row| row.get(0)).collect())
            };
            Ok(Some(ManifestNews { snapshot, added, removed, is_whole }))
        })
    }

    /// Streams that other hubs took over and that this hub's log may have rows of.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn lost_streams(&self) -> Result<Vec<StreamId>, StoreError> {
        self.with(|client| lost(&mut client.transaction()?, self.hub))
    }

    /// Claims streams for this hub; a stream with a position is created if no hub knows it,
    /// starting there.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn claim(
        &self,
        streams: &[(StreamId, Option<u64>)],
    ) -> Result<ClaimOutcome, StoreError> {
        let keys = keys(streams.iter().map(|(stream, _)| stream));
        let from: Vec<Option<i64>> =
            streams.iter().map(|(_, from)| from.map(u64::cast_signed)).collect();
        self.with(|client| {
            let mut work = client.transaction()?;
            lock(&mut work)?;
            let sql = "SELECT count(*) FROM stream_lost WHERE hub = $1 AND stream = ANY($2)";
            if work.query_one(sql, &[&self.hub, &keys])?.get::<_, i64>(0) > 0 {
                return Ok(ClaimOutcome::Stale);
            }
            let sql = "INSERT INTO stream_lost SELECT hub, stream FROM stream_position
                 WHERE stream = ANY($2) AND hub NOT IN ($1, 0) ON CONFLICT DO NOTHING";
            work.execute(sql, &[&self.hub, &keys])?;
            let sql = "UPDATE stream_position SET hub = $1 WHERE stream = ANY($2) AND hub <> $1";
            work.execute(sql, &[&self.hub, &keys])?;
            // A stream begins where its first hub admitted it, even if none of its rows are
            // flushed.
            let sql = "INSERT INTO stream_position (stream, position, hub) SELECT stream, position, $1
                 FROM unnest($2::bytea[], $3::bigint[]) AS new (stream, position) WHERE position IS NOT NULL
                 ON CONFLICT DO NOTHING";
            work.execute(sql, &[&self.hub, &keys, &from])?;
            let sql = "SELECT stream, position FROM stream_position WHERE stream = ANY($2) AND hub = $1";
            let ours = work.query(sql, &[&self.hub, &keys])?;
            work.commit()?;
            Ok(ClaimOutcome::Ours(ours.iter().filter_map(position_of).collect()))
        })
    }

    /// Positions of streams in files, whichever hub they belong to.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn filed(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, StoreError> {
        let keys = keys(streams.iter());
        self.with(|client| {
            let sql = "SELECT stream, position FROM stream_position WHERE stream = ANY($1)";
            let rows = client.query(sql, &[&keys])?;
            Ok(rows.iter().filter_map(position_of).collect())
        })
    }

    /// Sends a heartbeat, and returns what this hub must know of the others.
    ///
    /// # Errors
    /// `Io`; `Locked` when another process is this hub now.
    pub(crate) fn pulse(&self) -> Result<ClusterPulse, StoreError> {
        let pulse = self.with(|client| {
            if !self.is_seen(client)? {
                return Ok(None);
            }
            let lease = micros(LEASE);
            let sql = format!(
                "INSERT INTO lease VALUES ('work', $1, {NOW} + $2) ON CONFLICT (name) DO UPDATE
                 SET hub = $1, until_ts = {NOW} + $2 WHERE lease.hub = $1 OR lease.until_ts < {NOW}"
            );
            let is_leader = client.execute(&sql, &[&self.hub, &lease])? > 0;
            let sql = format!(
                "SELECT id, name, address FROM hub
                 WHERE seen_ts > {NOW} - $2 AND id <> $1 AND address <> '' ORDER BY id"
            );
            let peers = client.query(&sql, &[&self.hub, &lease])?;
            let peers =
                peers.iter().map(|row| Peer { name: row.get(1), address: row.get(2) }).collect();
            let mut work = client.transaction()?;
            Ok(Some(ClusterPulse { is_leader, peers, lost: lost(&mut work, self.hub)? }))
        })?;
        pulse.ok_or_else(replaced)
    }

    pub(super) fn is_seen(&self, client: &mut Client) -> Result<bool, postgres::Error> {
        let sql = format!("UPDATE hub SET seen_ts = {NOW} WHERE id = $1 AND instance = $2");
        Ok(client.execute(&sql, &[&self.hub, &self.instance])? > 0)
    }

    /// Releases leases so that others can proceed at once.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn leave(&self) -> Result<(), StoreError> {
        self.with(|client| {
            client.execute("DELETE FROM lease WHERE hub = $1", &[&self.hub])?;
            let sql = "UPDATE hub SET seen_ts = 0 WHERE id = $1 AND instance = $2";
            client.execute(sql, &[&self.hub, &self.instance]).map(drop)
        })
    }
}

pub(super) fn replaced() -> StoreError {
    StoreError::new(ErrorKind::Locked, "another process is this hub of the cluster now")
        .with_hint("give each hub a name and a data directory of its own")
}

fn make_tables(server: &mut PostgresServer, schema: &str) -> Result<(), StoreError> {
    server.with(|client| {
        let mut work = client.transaction()?;
        // Two hubs may start at once.
        work.batch_execute("SELECT pg_advisory_xact_lock(1702193522)")?;
        if has_tables(&mut work, schema)? {
            add_checksum(&mut work)?;
        } else {
            work.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"; {SCHEMA}"))?;
        }
        work.commit()
    })?;
    check_version(server)
}

pub(super) fn has_tables(
    work: &mut Transaction<'_>,
    schema: &str,
) -> Result<bool, postgres::Error> {
    let sql =
        "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'setting')";
    Ok(work.query_one(sql, &[&schema])?.get(0))
}

fn check_version(server: &mut PostgresServer) -> Result<(), StoreError> {
    let (version, is_half) = server.with(|client| {
        let mut work = client.transaction()?;
        let half = work.query_opt("SELECT FROM setting WHERE name = 'restoring'", &[])?;
        Ok((value(&mut work, "version")?, half.is_some()))
    })?;
    if is_half {
        let text = "cannot use the manifest in PostgreSQL: a restore into it did not finish";
        return Err(StoreError::new(ErrorKind::Corrupt, text)
            .with_hint("run `weir restore` again: it resumes"));
    }
    if version <= VERSION {
        return Ok(());
    }
    let text = format!("cannot use the manifest in PostgreSQL: it is of version {version}");
    Err(StoreError::new(ErrorKind::NewerVersion, text)
        .with_hint("run the newer weir that wrote it"))
}

pub(super) fn snapshot_transaction(
    client: &mut Client,
) -> Result<Transaction<'_>, postgres::Error> {
    let level = postgres::IsolationLevel::RepeatableRead;
    client.build_transaction().isolation_level(level).read_only(true).start()
}

/// Locks the manifest, which serializes commits; returns the newest snapshot.
pub(super) fn lock(work: &mut Transaction<'_>) -> Result<i64, postgres::Error> {
    let sql = "SELECT value FROM setting WHERE name = 'snapshot' FOR UPDATE";
    Ok(work.query_one(sql, &[])?.get(0))
}

fn value(work: &mut Transaction<'_>, name: &str) -> Result<i64, postgres::Error> {
    Ok(work.query_one("SELECT value FROM setting WHERE name = $1", &[&name])?.get(0))
}

fn live_files(work: &mut Transaction<'_>) -> Result<Vec<Arc<DataFile>>, postgres::Error> {
    let sql = format!(
        "SELECT {COLUMNS}, {CHECKSUM} FROM data_file WHERE end_snapshot IS NULL ORDER BY id"
    );
    Ok(work.query(&sql, &[])?.iter().filter_map(file_of).collect())
}

fn lost(work: &mut Transaction<'_>, hub: i64) -> Result<Vec<StreamId>, postgres::Error> {
    let rows = work.query("SELECT stream FROM stream_lost WHERE hub = $1", &[&hub])?;
    Ok(rows.iter().filter_map(stream_of).collect())
}

fn position_of(row: &Row) -> Option<(StreamId, u64)> {
    Some((stream_of(row)?, row.get::<_, i64>(1).cast_unsigned()))
}

type LeaseCheck = Result<(), &'static str>;

/// A hub and the snapshot that it commits.
#[derive(Clone, Copy)]
struct SnapshotAuthor {
    hub: i64,
    snapshot: i64,
}

fn add_files(
    work: &mut Transaction<'_>,
    SnapshotAuthor { hub, snapshot }: SnapshotAuthor,
    files: &[Arc<DataFile>],
) -> Result<LeaseCheck, postgres::Error> {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let sql = "DELETE FROM pending_file WHERE hub = $1 AND path = ANY($2)";
    if work.execute(sql, &[&hub, &paths])? != paths.len() as u64 {
        return Ok(Err("another hub considered this one gone and took its files"));
    }
    for file in files {
        let (table, tier) = (file.table.name, name_of(file.tier));
        let (rows, bytes) = (file.row_count.cast_signed(), file.byte_count.cast_signed());
        let values: [&(dyn ToSql + Sync); 12] = [
            &file.id,
            &table,
            &file.path,
            &tier,
            &file.day,
            &rows,
            &bytes,
            &file.min_ts,
            &file.max_ts,
            &file.arrival_ts,
            &snapshot,
            &file.seal.map(|seal| i64::from(seal.0)),
        ];
        let sql = format!(
            "INSERT INTO data_file ({COLUMNS}, begin_snapshot, checksum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
        );
        work.execute(&sql, &values)?;
    }
    Ok(Ok(()))
}

fn remove_files(
    work: &mut Transaction<'_>,
    snapshot: i64,
    change: &ManifestChange<'_>,
) -> Result<LeaseCheck, postgres::Error> {
    let ids: Vec<i64> = change.remove.iter().map(|file| file.id).collect();
    let sql = "UPDATE data_file SET end_snapshot = $1 WHERE id = ANY($2) AND end_snapshot IS NULL";
    if work.execute(sql, &[&snapshot, &ids])? != ids.len() as u64 {
        return Ok(Err("another hub has removed the same files"));
    }
    let sql = "INSERT INTO gc_queue SELECT id, path, $1 FROM data_file WHERE id = ANY($2)";
    work.execute(sql, &[&change.now.0, &ids])?;
    Ok(Ok(()))
}

fn move_streams(
    work: &mut Transaction<'_>,
    SnapshotAuthor { hub, snapshot }: SnapshotAuthor,
    positions: &[(StreamId, u64)],
) -> Result<LeaseCheck, postgres::Error> {
    let keys = keys(positions.iter().map(|(stream, _)| stream));
    let to: Vec<i64> = positions.iter().map(|(_, position)| position.cast_signed()).collect();
    let sql = "UPDATE stream_position SET position = moved.position, snapshot = $2
         FROM unnest($3::bytea[], $4::bigint[]) AS moved (stream, position)
         WHERE stream_position.stream = moved.stream AND hub = $1";
    let moved = work.execute(sql, &[&hub, &snapshot, &keys, &to])?;
    let is_ours = moved == positions.len() as u64;
    Ok(if is_ours { Ok(()) } else { Err("another hub took streams over") })
}

fn file_of(row: &Row) -> Option<Arc<DataFile>> {
    let table = weir_tables::table(row.get(1))?;
    Some(Arc::new(DataFile {
        id: row.get(0),
        table,
        path: row.get(2),
        tier: tier_of(row.get(3)),
        day: row.get(4),
        row_count: row.get::<_, i64>(5).cast_unsigned(),
        byte_count: row.get::<_, i64>(6).cast_unsigned(),
        min_ts: row.get(7),
        max_ts: row.get(8),
        arrival_ts: row.get(9),
        seal: row.get::<_, Option<i64>>(10).and_then(|sum| u32::try_from(sum).ok()).map(FileSeal),
        index: OnceLock::new(),
        dictionaries: OnceLock::new(),
    }))
}

fn stream_of(row: &Row) -> Option<StreamId> {
    let bytes: [u8; 16] = row.get::<_, &[u8]>(0).try_into().ok()?;
    Some(StreamId(u128::from_be_bytes(bytes)))
}

fn keys<'a>(streams: impl Iterator<Item = &'a StreamId>) -> Vec<Vec<u8>> {
    streams.map(|stream| stream.0.to_be_bytes().to_vec()).collect()
}

pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
