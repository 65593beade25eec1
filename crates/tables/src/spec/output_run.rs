//! `output_run`: how each output fared that copies rows to another system.

table! {
    /// How each output fared that copies rows to another system: what was taken, refused and given up, and how far it is behind.
    OutputRun, OutputRunRows = "output_run";
    grain: "one row per output every 5 s";
    source: "weir";
    sort: [host, output, ts];
    1 ts: Time = "When the 5 s ended.";
    2 host: Text = "The host of the hub that copies.";
    3 output: Text = "The output's name.";
    4 target: Text = "What kind of system: `elasticsearch`, `kafka`, `http` or `s3`.";
    5 table_name: Text = "The table that is copied.";
    6 is_success: Flag = "Whether the last attempt succeeded.";
    7 batches: Int = "Batches that were settled since the row before.";
    8 failures: Int = "Attempts that failed since the row before; they are made again.";
    9 rows: Int = "Rows that the target has since the row before, with those that it had already.";
    10 repeats: Int = "Of them, rows that it had already: sent again after an answer was lost.";
    11 rows_refused: Int = "Rows that the target will not take; they are not sent again.";
    12 rows_lost: Int = "Rows that were given up because more than `keep_bytes` waited.";
    13 bytes: Int = "Bytes of rows that were sent, as JSON; of columns for Parquet.";
    14 lag_bytes: Int = "Bytes of the log that are not copied yet.";
    15 lag_seconds: Float = "How long the oldest of them have been waiting; 0 when none do.";
    16 error: OptText = "Why the last attempt failed; NULL after one that succeeded.";
    17 refusals: OptText = "Reasons of refusals since the row before, with counts; NULL when there were none.";
    18 batch_seconds: OptFloat = "How long rows are gathered before they are sent (`batch_seconds` of the output): they wait so long where all is well.";
}
