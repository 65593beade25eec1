//! `log_gap`: bytes of logs that are in no row.

table! {
    /// Stretches of logs that are in no row: what was lost or skipped, where, how much and why.
    LogGap, LogGapRows = "log_gap";
    grain: "one row per stretch that was lost or skipped, and one per truncated log, whether or not bytes are known to be lost";
    source: "the tailer";
    sort: [ts];
    1 ts: Time = "When it was detected.";
    2 host: Text = "The host whose log it is.";
    3 source: Text = "The path that the log is watched under, as in `log.source`.";
    4 stream: OptInt = "Identity of the stream with the gap, as in `log.stream`.";
    5 source_offset: Int = "Offset of the first missing byte in its stream.";
    6 end_offset: OptInt = "Offset after the last missing byte; NULL when it is unknown how far the lost content reached.";
    7 lost_bytes: Int = "Bytes known to be lost: seen and not read. 0 when none are known to be lost, and for `nul_bytes`.";
    8 is_exact: Flag = "Whether `lost_bytes` is all that can be lost; false when more may have been written after the last check of the file.";
    9 unwatched_seconds: OptFloat = "Time between the last check of the content and the detection of its end, in which more may have been written; NULL when that is impossible.";
    10 reason: Text = "`truncated`: cut or overwritten (copytruncate, `>`) before it was read; `gone`: deleted, or unmounted; `too_long`: the rest of a line over the limit; `nul_bytes`: a hole in a sparse file; `stream_gone`: the hub needs bytes of a file that no longer exists.";
    11 detail: Text = "Description for people.";
}
