//! `slow_query`: slow queries and queries stopped at a limit.

table! {
    /// Slow queries and queries stopped at a limit: user, SQL, cost and why they ended.
    SlowQuery, SlowQueryRows = "slow_query";
    grain: "one row per query that took at least `api.slow_query_milliseconds` or was stopped at a limit";
    source: "weir";
    sort: [host, ts];
    1 ts: Time = "When the query started.";
    2 host: Text = "The host of the hub that ran it.";
    3 user_name: Text = "The user of the login, else the client's address; `weir` for weir itself.";
    4 asker: Text = "`user` or `rule`.";
    5 query_text: Text = "The SQL, cut at 4 KiB.";
    6 ended_by: Text = "`answer`, `cancelled` (the client disconnected), `time`, `memory`, `spill`, `read`, `user_read`, `answer_bytes` (the limit that was reached) or `error`.";
    7 duration_seconds: Float = "From start to end, queueing excluded.";
    8 cpu_seconds: Float = "CPU time of its operators, file reads excluded.";
    9 read_bytes: Int = "Bytes read from files.";
    10 reads: Int = "Byte ranges read.";
    11 memory_bytes: Int = "Peak memory of its operators.";
    12 spilled_bytes: Int = "Bytes written to disk because they did not fit into memory.";
    13 rows: Int = "Rows of the result; 0 without one.";
    14 error: OptText = "The error returned; NULL after a result and when the client disconnected.";
}
