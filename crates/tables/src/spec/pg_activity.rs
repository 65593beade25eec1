//! `pg_activity`: what the sessions of PostgreSQL servers do, without a login.

table! {
    /// Sessions of each PostgreSQL server on the host by what they do, from the titles of its processes.
    PgActivity, PgActivityRows = "pg_activity";
    grain: "one row per server and sample, every 2 s or more, while a session waits for a lock; once a minute otherwise";
    source: "/proc/PID/cmdline of a listening postmaster's children (PostgreSQL documentation §28.1), /proc/PID/schedstat";
    sort: [host, netns, process_id, ts];
    1 ts: Time = "When the titles were read.";
    2 host: Text = "The server's host.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 process_id: Int = "Process id of the postmaster.";
    5 server_port: OptInt = "Lowest TCP port that it listens on; NULL when it has Unix sockets only.";
    6 sessions: Int = "Client sessions.";
    7 sessions_active: Int = "Sessions that run a statement, including sessions that wait for a lock.";
    8 waiting: Int = "Sessions that wait for a lock.";
    9 waiting_on_lock: Int = "Sessions seen waiting for over 5 s without running in between.";
    10 longest_wait_seconds: OptFloat = "The longest of these waits, since it was first seen; NULL when none waits.";
    11 idle_in_transaction: Int = "Sessions with an open transaction that run no statement.";
    12 blocker: OptText = "A session that may hold the lock: the oldest idle one with an open transaction, else the oldest statement that does not wait, with process, user and database. NULL when none waits.";
    13 queued_change: OptText = "The oldest waiting session whose command is no SELECT, INSERT, UPDATE or DELETE, such as ALTER TABLE: those that came later may wait for it. NULL without one.";
}
