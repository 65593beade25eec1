//! `db_replica`: replica lag as each side sees it.

table! {
    /// Replication as the servers of `[[databases]]` see it: the primary its replicas and slots,
    /// the replica its source.
    DbReplica, DbReplicaRows = "db_replica";
    grain: "one row per replica, slot or source that a server knows, every 5 s";
    source: "PostgreSQL pg_stat_replication, pg_replication_slots, pg_stat_wal_receiver; SHOW REPLICA STATUS; Redis INFO replication";
    sort: [host, server_address, peer, ts];
    1 ts: Time = "When the server was queried.";
    2 host: Text = "The host that queried it.";
    3 system: Text = "postgresql, mysql (MariaDB too) or redis.";
    4 server_address: Text = "The queried server.";
    5 role: Text = "What the row describes: `replica` (the queried server is the primary, `peer` replicates it), `source` (the queried server replicates `peer`) or `slot` (PostgreSQL keeps its log for `peer`).";
    6 peer: Text = "The other side: address and name, or the slot's name.";
    7 state: Text = "The server's own term: streaming, catchup, online, wait_bgsave; IO and SQL threads as `Yes/Yes`; a slot's wal_status. Empty when it reports none.";
    8 is_running: OptFlag = "Whether it replicates now: false when a thread is stopped, the link is down or the slot has no consumer.";
    9 is_paused: OptFlag = "Whether replay was paused by hand (PostgreSQL pg_wal_replay_pause); NULL elsewhere.";
    10 unsent_bytes: OptInt = "Bytes that the replica has not received and stored yet; NULL when not visible from here.";
    11 unapplied_bytes: OptInt = "Bytes that it has received and not applied yet; NULL when not visible from here.";
    12 retained_bytes: OptInt = "Log that a slot retains; NULL elsewhere.";
    13 lag_seconds: OptFloat = "Age of the last applied change as the server reports it; NULL when it reports none. Unreliable: see `heartbeat_seconds`.";
    14 heartbeat_seconds: OptFloat = "Age of the newest heartbeat row that arrived (`heartbeat` in `[[databases]]`); NULL without one.";
    15 source_position: OptInt = "Position of the primary's log in bytes: constant while nothing is written. NULL when not visible from here.";
    16 error: OptText = "The last error of replication; NULL when there is none.";
    17 applier: OptText = "What the replica's applier does, in the server's own terms (`Replica_SQL_Running_State`), such as `Waiting for table metadata lock`; NULL elsewhere.";
}
