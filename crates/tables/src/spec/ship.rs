//! `ship`: position and lag of every followed log.

table! {
    /// Every log that an agent follows: how far it is read, how much is durable at the hub, how
    /// long the rest has waited.
    Ship, ShipRows = "ship";
    grain: "one row per followed file or journal every 10 s while it moves or lags or loses bytes, else every 5 minutes; at once when its lines carry times of a clock that is behind";
    source: "the agent's tailer";
    sort: [host, source, ts];
    1 ts: Time = "When the agent sampled it.";
    2 host: Text = "The host whose log it is.";
    3 source: Text = "The path that it is watched under, or `journal`; as in `log`, `request` and `reject`.";
    4 stream: OptInt = "Identity of the stream, as in `log`, `request` and `reject`; NULL before a file has its first line.";
    5 program: Text = "The program that writes it: nginx, haproxy, syslog, …; `other` when unknown.";
    6 state: Text = "What it is doing: waiting (no whole line yet), starting, reading, rotated (no longer at its path, read to its end), deleted (no longer at any path), failed.";
    7 position_bytes: Int = "How far it is read. Positions of a journal are no bytes.";
    8 acknowledged_bytes: Int = "How far it is durable at the hub.";
    9 size_bytes: Int = "Its size; for a journal, its position.";
    10 lag_bytes: Int = "Bytes written and not yet durable at the hub.";
    11 lag_seconds: Float = "Minimum age of the oldest of them, since the agent first saw it; 0 without any.";
    12 lost_bytes: Int = "Bytes known to be lost (truncated by copytruncate, deleted) since the previous row.";
    13 deleted_bytes: Int = "Size of a deleted file that a program still writes to; else 0.";
    14 error: OptText = "Why it cannot be read; NULL when it can.";
    15 timed_lines: OptInt = "The latest lines with a time, as far back as their ages at reading agree (within 2 s); NULL when none was read since the previous row.";
    16 least_age_seconds: OptFloat = "Minimum age of these lines, by the host's clock; below 0 for a line from the future.";
    17 greatest_age_seconds: OptFloat = "Maximum age of these lines; more than 2 s above the minimum when one read returned lines of different ages, such as a buffer or a backlog.";
    18 timed_span_seconds: OptFloat = "Time span of these lines.";
}
