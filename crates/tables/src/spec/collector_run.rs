//! `collector_run`: status of every collector.

table! {
    /// Status of each collector: success, duration, rows.
    CollectorRun, CollectorRunRows = "collector_run";
    grain: "one row per collector every 10 s, and at once when it fails or recovers";
    source: "weir";
    sort: [host, collector, ts];
    1 ts: Time = "When the last run ended.";
    2 host: Text = "The host that it ran on.";
    3 collector: Text = "The collector's name, such as listener or tail.";
    4 is_success: Flag = "Whether the last run succeeded.";
    5 runs: Int = "Runs since the previous row.";
    6 failures: Int = "Failed runs since the previous row.";
    7 duration_seconds: Float = "Wall-clock time of these runs in total.";
    8 cpu_seconds: OptFloat = "CPU time of these runs in total; NULL when not measured.";
    9 rows: Int = "Rows made in these runs.";
    10 error: OptText = "Message of the last failure; NULL when none failed.";
}
