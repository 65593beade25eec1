//! `db_server`: a database server's own metrics: connections, memory, waits.

table! {
    /// One sample of each database server in `[[databases]]`.
    DbServer, DbServerRows = "db_server";
    grain: "one row per server and sample, every 1 to 10 s";
    source: "PostgreSQL pg_stat_activity, MySQL and MariaDB SHOW GLOBAL STATUS, Redis INFO";
    sort: [host, server_address, ts];
    1 ts: Time = "When the server was queried.";
    2 host: Text = "The host that queried it.";
    3 system: Text = "postgresql, mysql (MariaDB too) or redis.";
    4 server_address: Text = "Where it was queried: `address:port`, or the path of a socket.";
    5 purpose: OptText = "`store` or `cache`, from the configuration; NULL when not set.";
    6 version: OptText = "Version string; NULL when it did not answer.";
    7 is_replica: OptFlag = "Whether it is a replica; NULL when it did not answer.";
    8 connections: OptInt = "Client connections; NULL when it did not answer.";
    9 connection_limit: OptInt = "Limit of client connections (PostgreSQL: without the superuser reserve); NULL when it did not answer.";
    10 connections_refused_total: OptInt = "Connections refused since its start because the limit was reached; NULL where it does not count them (PostgreSQL).";
    11 connections_refused_increase: OptInt = "Increase since the last answered sample; NULL in the first and after a restart.";
    12 memory_bytes: OptInt = "Memory of its data (Redis used_memory); NULL elsewhere.";
    13 memory_limit_bytes: OptInt = "Redis maxmemory; NULL when none is set, and elsewhere.";
    14 eviction_policy: OptText = "Redis maxmemory_policy; NULL elsewhere.";
    15 evicted_keys_total: OptInt = "Keys evicted because memory was full; NULL except for Redis.";
    16 evicted_keys_increase: OptInt = "Increase since the last answered sample; NULL in the first and after a restart.";
    17 writes_refused_total: OptInt = "Commands refused because memory was full (Redis errorstat_OOM); NULL except for Redis.";
    18 writes_refused_increase: OptInt = "Increase since the last answered sample; NULL in the first and after a restart.";
    19 waiting_on_lock: OptInt = "Sessions that have waited for a lock for more than 5 s; NULL where it is not queried (Redis), and where the user may not see other sessions.";
    20 blocker: OptText = "The session that most of them wait for: process, user, state and duration; NULL when none waits. Never statement text.";
    21 data_directory: OptText = "Where its files are; NULL when it does not report that.";
    22 interval_seconds: OptFloat = "Time since the previous sample; NULL in the first.";
    23 duration_seconds: Float = "How long the queries took.";
    24 error: OptText = "Why it could not be queried; NULL on success.";
    25 sessions_active: OptInt = "Sessions that run a statement, without weir's; NULL for Redis and where the user may not see other sessions.";
    26 sessions_on_cpu: OptInt = "Those among them that wait for nothing: they compute, or read from the page cache; NULL except for PostgreSQL.";
    27 longest_statement_seconds: OptFloat = "How long the oldest running statement of a client runs, those that wait for a lock left out; NULL when none runs.";
    28 longest_statement: OptText = "Its session: process, user, database and the statement's first word. Never its text.";
    29 idle_transaction_seconds: OptFloat = "How long the oldest idle session with an open transaction has sent nothing; NULL when there is none.";
    30 idle_transaction: OptText = "That session: process, user and database.";
    31 blocked_clients: OptInt = "Clients that wait in a blocking command such as BLPOP, as they intend to (Redis); NULL elsewhere.";
    32 slow_commands_increase: OptInt = "Commands that entered Redis' SLOWLOG since the last answered sample; NULL in the first, elsewhere, and where the user may not read it.";
    33 slowest_command: OptText = "The slowest of them: its name, never its arguments; NULL when there was none.";
    34 slowest_command_seconds: OptFloat = "How long it blocked the server.";
    35 connections_idle: OptInt = "Connections that run no statement and have no open transaction; NULL for Redis and where the user may not see other sessions.";
}
