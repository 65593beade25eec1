//! `db_server`: what a database server says of itself: connections, memory, waits.

table! {
    /// One look at each database server that `[[databases]]` names.
    DbServer, DbServerRows = "db_server";
    grain: "one row per server and look, every 1 to 10 s";
    source: "PostgreSQL pg_stat_activity, MySQL and MariaDB SHOW GLOBAL STATUS, Redis INFO";
    sort: [host, server_address, ts];
    1 ts: Time = "When the server was asked.";
    2 host: Text = "The host that asked.";
    3 system: Text = "postgresql, mysql (MariaDB too) or redis.";
    4 server_address: Text = "Where it was asked: `address:port`, or the path of a socket.";
    5 purpose: OptText = "`store` or `cache`, as the configuration says; NULL when it does not.";
    6 version: OptText = "What it calls itself; NULL when it did not answer.";
    7 is_replica: OptFlag = "Whether it copies another server; NULL when it did not answer.";
    8 connections: OptInt = "Connections of clients; NULL when it did not answer.";
    9 connection_limit: OptInt = "How many clients may connect (PostgreSQL: without those kept for superusers); NULL when it did not answer.";
    10 connections_refused_total: OptInt = "Connections refused since its start because the limit was reached; NULL where it does not count them (PostgreSQL).";
    11 connections_refused_increase: OptInt = "The same since the last look that was answered; NULL at the first and after a restart.";
    12 memory_bytes: OptInt = "Memory of its data (Redis used_memory); NULL elsewhere.";
    13 memory_limit_bytes: OptInt = "Redis maxmemory; NULL when none is set, and elsewhere.";
    14 eviction_policy: OptText = "Redis maxmemory_policy; NULL elsewhere.";
    15 evicted_keys_total: OptInt = "Keys thrown out because memory was full; NULL elsewhere than in Redis.";
    16 evicted_keys_increase: OptInt = "The same since the last look that was answered; NULL at the first and after a restart.";
    17 writes_refused_total: OptInt = "Commands refused because memory was full (Redis errorstat_OOM); NULL elsewhere than in Redis.";
    18 writes_refused_increase: OptInt = "The same since the last look that was answered; NULL at the first and after a restart.";
    19 waiting_on_lock: OptInt = "Sessions that wait for a lock for more than 5 s; NULL where it was not asked (Redis, MySQL).";
    20 blocker: OptText = "The session that most of them wait for: process, user, state and how long; NULL when none waits. No statement's text.";
    21 data_directory: OptText = "Where its files are; NULL when it does not tell.";
    22 interval_seconds: OptFloat = "Since the look before; NULL at the first.";
    23 duration_seconds: Float = "How long the questions took.";
    24 error: OptText = "Why it could not be asked; NULL when it could.";
}
