//! `log`: every log line that is not a request.

table! {
    /// Every log line that is not a request: application, error and system logs, the journal.
    Log, LogRows = "log";
    grain: "one row per parsed log line that is not a request; a line is in exactly one of `log`, `request` and `reject`";
    source: "log files and the journal";
    sort: [ts];
    words: [body];
    1 ts: Time = "Time in the line; the time of reading when the line has none.";
    2 host: Text = "The host whose log it is.";
    3 observed_ts: Time = "When the agent read the line.";
    4 source: Text = "The file it was read from, or `journal`.";
    5 source_offset: OptInt = "Byte offset of the line in its stream; NULL when the source has no offsets.";
    6 program: OptText = "The program that wrote it: nginx, sshd, kernel; NULL when unknown.";
    7 process_id: OptInt = "The process id in the line; NULL when it has none.";
    8 severity: OptText = "One of trace, debug, info, notice, warn, error, critical, alert, emergency; NULL when the line has none.";
    9 facility: OptText = "Syslog facility, such as `auth`; NULL when the line has none.";
    10 body: Text = "The message; the whole line when it has no structure.";
    11 repair: OptText = "Repairs made to read it: `hex_escape`, `invalid_utf8`, `loose_json` (values without quotes), `implausible_time` (the time in the line is impossible; it is in attrs as `weir.time`), joined by `,`; else NULL.";
    12 attrs: Attrs = "Fields of the line that have no column.";
    13 stream: OptInt = "Identity of the file or journal it was read from: the first 52 bits of the stream's id. With source_offset it identifies the line; NULL when the source cannot be read again.";
    14 message_template: OptText = "The message without texts that a visitor can choose: quoted paths, names and headers are `…`. Rules match on it. NULL when it is unknown which words are the program's own; known are nginx, HAProxy, Apache and PHP-FPM.";
}
