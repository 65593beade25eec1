//! `reject`: lines that could not be understood, kept raw.

table! {
    /// Lines that could not be understood: kept raw, with the reason.
    Reject, RejectRows = "reject";
    grain: "one row per line that did not parse";
    source: "every parser";
    sort: [ts];
    words: [raw];
    1 ts: Time = "When the line was read.";
    2 host: Text = "The host whose line it is.";
    3 source: Text = "The file it was read from.";
    4 source_offset: OptInt = "Byte offset of the line in its stream; NULL when the source has no offsets.";
    5 parser: Text = "The parser that gave up: `nginx_template`, `json`, `haproxy_http`, `grok`, …";
    6 reason: Text = "Why, one of few words: `invalid_json`, `no_match`, `too_long`, `too_costly` (a pattern would take too many steps), `routed` (a pipeline said so).";
    7 detail: Text = "Where and what, for a person.";
    8 raw: Text = "The line; bytes that are not UTF-8 are written as `\\xNN`.";
    9 stream: OptInt = "Which file it was read from, or journal: the first 52 bits of the stream's identity. With source_offset it names the line; NULL when the source cannot be read again.";
}
