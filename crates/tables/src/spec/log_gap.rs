//! `log_gap`: bytes of logs that are in no row.

table! {
    /// Stretches of logs that are in no row: what was lost or passed over, where, how much and why.
    LogGap, LogGapRows = "log_gap";
    grain: "one row per stretch that was lost or passed over, and one per log that was cut, whether or not bytes are known to be lost";
    source: "the tailer";
    sort: [ts];
    1 ts: Time = "When it was noticed.";
    2 host: Text = "The host whose log it is.";
    3 source: Text = "The path that the log is watched under, as in `log.source`.";
    4 stream: OptInt = "Identity of the stream that misses the bytes, as in `log.stream`.";
    5 source_offset: Int = "Offset in its stream of the first byte that is missing.";
    6 end_offset: OptInt = "Offset behind the last missing byte; NULL when nobody knows how far the lost content reached.";
    7 lost_bytes: Int = "Bytes known to be lost: those that were seen and not read. 0 when none is known to be lost, and for `nul_bytes`.";
    8 is_exact: Flag = "Whether `lost_bytes` is all that can be lost; false when more may have been written after the last look at the file.";
    9 unwatched_seconds: OptFloat = "Time between the last look at the content and the notice of its end, in which more may have been written; NULL when that cannot be.";
    10 reason: Text = "`truncated`: cut or overwritten (copytruncate, `>`) before it was read; `gone`: deleted, or its file system took it away; `too_long`: the rest of a line over the limit; `nul_bytes`: a hole that no writer wrote; `stream_gone`: the hub wants bytes of a file that is not there any more.";
    11 detail: Text = "What happened, for a person.";
}
