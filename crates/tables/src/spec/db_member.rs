//! `db_member`: members of replicated databases, as each asked server reports them.

table! {
    /// Members of replicated databases: role, position and source, as each probed server reports them.
    DbMember, DbMemberRows = "db_member";
    grain: "one row per probed server and per direct replica of it, with each probe";
    source: "PostgreSQL pg_control_system, pg_stat_replication, pg_stat_wal_receiver; SHOW REPLICAS, SHOW ALL REPLICAS STATUS; Redis INFO replication";
    sort: [host, cluster, member, ts];
    1 ts: Time = "When the server was queried.";
    2 host: Text = "The host that queried it.";
    3 system: Text = "postgresql, mysql (MariaDB too) or redis.";
    4 server_address: Text = "The queried server.";
    5 cluster: Text = "What its members have in common: PostgreSQL's system identifier, Redis' replication id. Empty for MySQL and MariaDB, where only `source_member` connects members.";
    6 member: Text = "The member: the queried server as it is configured, or the address that it reports for its replica.";
    7 is_self: Flag = "Whether the row describes the queried server itself; only such rows are first-hand.";
    8 role: Text = "primary (it replicates nothing and accepts writes), replica, or relay (a replica that serves others).";
    9 source_member: OptText = "Address that it replicates from; NULL for a primary.";
    10 state: Text = "The server's own term, as in `db_replica`; empty when it reports none.";
    11 position: OptInt = "Its own position in the replicated log, in bytes: applied on a replica, written on a primary. NULL where there is no such number (MySQL).";
    12 term: OptInt = "Generation of the primary: PostgreSQL's timeline; NULL elsewhere.";
    13 is_read_only: OptFlag = "Whether it refuses writes of clients; NULL when not known from here.";
}
