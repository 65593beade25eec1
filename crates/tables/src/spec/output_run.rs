//! `output_run`: status of each output that copies rows to another system.

table! {
    /// Status of each output that copies rows to another system: rows accepted, refused and given
    /// up, and its lag.
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
    7 batches: Int = "Batches completed since the previous row.";
    8 failures: Int = "Attempts that failed since the previous row; they are retried.";
    9 rows: Int = "Rows accepted by the target since the previous row, repeats included.";
    10 repeats: Int = "Rows among them that the target had already: sent again after a response was lost.";
    11 rows_refused: Int = "Rows refused by the target; they are not sent again.";
    12 rows_lost: Int = "Rows that were given up because more than `keep_bytes` waited.";
    13 bytes: Int = "Bytes sent, as JSON; bytes of columns for Parquet.";
    14 lag_bytes: Int = "Bytes of the log not copied yet.";
    15 lag_seconds: Float = "Age of the oldest of them; 0 without any.";
    16 error: OptText = "Why the last attempt failed; NULL after one that succeeded.";
    17 refusals: OptText = "Reasons of refusals since the previous row, with counts; NULL without any.";
    18 batch_seconds: OptFloat = "How long rows are batched before they are sent (`batch_seconds` of the output): the expected delay.";
}
