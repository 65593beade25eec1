//! `collector_run`: every collector reports on itself.

table! {
    /// How each collector fared: success, duration, rows.
    CollectorRun, CollectorRunRows = "collector_run";
    grain: "one row per collector every 10 s, and at once when it fails or recovers";
    source: "weir";
    sort: [host, collector, ts];
    1 ts: Time = "When the last run ended.";
    2 host: Text = "The host that it ran on.";
    3 collector: Text = "Its name, such as listener, tail.";
    4 is_success: Flag = "Whether the last run succeeded.";
    5 runs: Int = "Runs since the row before.";
    6 failures: Int = "Of them, failed.";
    7 duration_seconds: Float = "Time of all these runs together, by the wall clock.";
    8 cpu_seconds: OptFloat = "Processor time of all these runs together; NULL when not measured.";
    9 rows: Int = "Rows made in these runs.";
    10 error: OptText = "What the last failure said; NULL when none failed.";
}
