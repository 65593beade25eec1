//! `ship`: how far every followed log is.

table! {
    /// Every log that an agent follows: how far it is read, how much of it is safe at the hub, how long the rest waits.
    Ship, ShipRows = "ship";
    grain: "one row per followed file or journal every 10 s while it moves or lags or loses bytes, else every 5 minutes; at once when its lines bear the times of a clock that is behind";
    source: "the agent's tailer";
    sort: [host, source, ts];
    1 ts: Time = "When the agent looked.";
    2 host: Text = "The host whose log it is.";
    3 source: Text = "The file, under the name that it is watched by, or `journal`; as in `log`, `request` and `reject`.";
    4 stream: OptInt = "Identity of the stream, as in `log`, `request` and `reject`; NULL before a file has its first line.";
    5 program: Text = "The program that writes it: nginx, haproxy, syslog, …; `other` when unknown.";
    6 state: Text = "What it is doing: waiting (no whole line yet), starting, reading, rotated (no longer at its path, read to its end), deleted (no longer at any path), failed.";
    7 position_bytes: Int = "How far it is read. Positions of a journal are no bytes.";
    8 acknowledged_bytes: Int = "How far the hub has it for sure.";
    9 size_bytes: Int = "Its size; for a journal, its position.";
    10 lag_bytes: Int = "Bytes that are written and not yet safe at the hub.";
    11 lag_seconds: Float = "How long the oldest of them has waited, at least, since the agent first saw it; 0 when none waits.";
    12 lost_bytes: Int = "Bytes known to have been there that can no longer be read (cut by copytruncate, deleted), since the row before.";
    13 deleted_bytes: Int = "Size of a file that has no name any more while a program still writes to it; else 0.";
    14 error: OptText = "Why it cannot be read; NULL when it can.";
    15 timed_lines: OptInt = "The last lines that say their time, as far back as they were of the same age (within 2 s) when they were read; NULL when none was read since the row before.";
    16 least_age_seconds: OptFloat = "The least age of them, by the host's clock; below 0 for a line from the future.";
    17 greatest_age_seconds: OptFloat = "The greatest age of them; more than 2 s above the least when one read brought lines of different ages, such as a buffer or what was there for long.";
    18 timed_span_seconds: OptFloat = "How far apart their times are.";
}
