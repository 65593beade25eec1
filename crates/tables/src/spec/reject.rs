//! `reject`: lines that could not be parsed, kept raw.

table! {
    /// Lines that could not be parsed: kept raw, with the reason.
    Reject, RejectRows = "reject";
    grain: "one row per line that did not parse";
    source: "every parser";
    sort: [ts];
    words: [raw];
    1 ts: Time = "When the line was read.";
    2 host: Text = "The host whose line it is.";
    3 source: Text = "The file it was read from.";
    4 source_offset: OptInt = "Byte offset of the line in its stream; NULL when the source has no offsets.";
    5 parser: Text = "The parser that rejected it: `nginx_template`, `json`, `haproxy_http`, `grok`, …";
    6 reason: Text = "Reason code: `invalid_json`, `no_match`, `too_long`, `too_costly` (a pattern would take too many steps), `routed` (by a pipeline).";
    7 detail: Text = "What is wrong and where.";
    8 raw: Text = "The line; bytes that are not UTF-8 are written as `\\xNN`.";
    9 stream: OptInt = "Identity of the file or journal it was read from: the first 52 bits of the stream's id. With source_offset it identifies the line; NULL when the source cannot be read again.";
}
