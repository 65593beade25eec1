//! `db_replica`: how far copies of a database are behind, as each side sees it.

table! {
    /// Replication as the servers of `[[databases]]` see it: the primary its replicas and slots, the replica its source.
    DbReplica, DbReplicaRows = "db_replica";
    grain: "one row per replica, slot or source that a server knows, every 5 s";
    source: "PostgreSQL pg_stat_replication, pg_replication_slots, pg_stat_wal_receiver; SHOW REPLICA STATUS; Redis INFO replication";
    sort: [host, server_address, peer, ts];
    1 ts: Time = "When the server was asked.";
    2 host: Text = "The host that asked.";
    3 system: Text = "postgresql, mysql (MariaDB too) or redis.";
    4 server_address: Text = "The server that was asked.";
    5 role: Text = "What the row is: `replica` (the asked server is the primary, `peer` copies it), `source` (the asked server copies `peer`) or `slot` (PostgreSQL keeps its log for `peer`).";
    6 peer: Text = "The other side: address and name, or the slot's name.";
    7 state: Text = "In the server's word: streaming, catchup, online, wait_bgsave; IO and SQL threads as `Yes/Yes`; a slot's wal_status. Empty when it tells none.";
    8 is_running: OptFlag = "Whether it copies now: false when a thread is stopped, the link is down or the slot has no consumer.";
    9 is_paused: OptFlag = "Whether a person paused applying (PostgreSQL pg_wal_replay_pause); NULL elsewhere.";
    10 unsent_bytes: OptInt = "What the replica has not received and stored yet; NULL when it cannot be seen from here.";
    11 unapplied_bytes: OptInt = "What it has received and not applied yet; NULL when it cannot be seen from here.";
    12 retained_bytes: OptInt = "Log that a slot keeps from being removed; NULL elsewhere.";
    13 lag_seconds: OptFloat = "Age of what was applied last, by the server's own account; NULL when it gives none. It lies: see `heartbeat_seconds`.";
    14 heartbeat_seconds: OptFloat = "Age of the newest heartbeat row that arrived (`heartbeat` in `[[databases]]`); NULL without one.";
    15 source_position: OptInt = "Where the primary's log stands, in bytes: it stays the same while nothing is written. NULL when it cannot be seen from here.";
    16 error: OptText = "The last error of replication; NULL when there is none.";
    17 applier: OptText = "What the replica's applying does, in the server's words (`Replica_SQL_Running_State`), such as `Waiting for table metadata lock`; NULL elsewhere.";
}
