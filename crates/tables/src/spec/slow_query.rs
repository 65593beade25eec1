//! `slow_query`: queries that took long or were stopped at a limit.

table! {
    /// Queries that took long or were stopped at a limit: who asked what, what it cost and why it ended.
    SlowQuery, SlowQueryRows = "slow_query";
    grain: "one row per query that took at least `api.slow_query_milliseconds` or was stopped at a limit";
    source: "weir";
    sort: [host, ts];
    1 ts: Time = "When the query began.";
    2 host: Text = "The host of the hub that ran it.";
    3 user_name: Text = "Who asked: the user of the login, else the address that asked; `weir` for weir itself.";
    4 asker: Text = "`user` or `rule`.";
    5 query_text: Text = "The SQL, cut at 4 KiB.";
    6 ended_by: Text = "`answer`, `cancelled` (its asker went away), `time`, `memory`, `spill`, `read`, `user_read`, `answer_bytes` (the limit that it met) or `error`.";
    7 duration_seconds: Float = "From its start to its end, waiting for its turn not included.";
    8 cpu_seconds: Float = "Processor time of its operators; reading of files is not in it.";
    9 read_bytes: Int = "Bytes read from files.";
    10 reads: Int = "Ranges of bytes that were read.";
    11 memory_bytes: Int = "Most memory that its operators had at one time.";
    12 spilled_bytes: Int = "Bytes written to disk because they did not fit into memory.";
    13 rows: Int = "Rows of the answer; 0 without one.";
    14 error: OptText = "What it was told; NULL after an answer and when its asker went away.";
}
