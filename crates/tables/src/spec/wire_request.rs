//! `wire_request`: what only packets tell of a request; the rest is in `request`.

table! {
    /// Requests in packets: when their bytes were seen, what was sent again, and which edge request asked an upstream.
    WireRequest, WireRequestRows = "wire_request";
    grain: "one row per request in a capture; the row of `request` with the same source and `source_offset` belongs to it";
    source: "captures, and live taps (`live:eth0`)";
    sort: [ts];
    1 ts: Time = "When the last byte of the response was seen, or of the request if there was no response.";
    2 host: Text = "The host that captured it.";
    3 tier: Text = "Where the clock stood: `wire_edge` or `wire_upstream`.";
    4 source: Text = "The capture.";
    5 source_offset: Int = "The request's number in the capture, from 1.";
    6 connection_number: Int = "Its connection: `connection_number` of `tcp_conn`.";
    7 connection_requests: Int = "Its place in the connection, from 1.";
    8 network_protocol_name: Text = "`http`, `mysql`, `postgresql`, `redis`, `mongodb`, `tls` or `opaque`: requests of the last two are told apart by whose turn it is.";
    9 url_template: OptText = "The path with what looks like an id replaced; NULL when not readable.";
    10 request_first_ts: Time = "The first byte of the request.";
    11 request_last_ts: Time = "The last byte of the request.";
    12 response_first_ts: OptTime = "The first byte of the response; NULL when there was none.";
    13 response_last_ts: OptTime = "The last byte of the response; NULL when there was none.";
    14 response_acked_ts: OptTime = "The client's acknowledgement of the last byte; NULL when not seen.";
    15 think_seconds: OptFloat = "From the last byte of the request to the first of the response.";
    16 transfer_seconds: OptFloat = "From the first byte of the response to the last.";
    17 ack_tail_seconds: OptFloat = "From the last byte of the response to its acknowledgement.";
    18 request_retransmits: Int = "Segments of the request that were sent again.";
    19 response_retransmits: Int = "Segments of the response that were sent again.";
    20 response_spurious_retransmits: Int = "Of these, what the client had already (DSACK).";
    21 interim_responses: Int = "1xx responses before the real one.";
    22 parent_source_offset: OptInt = "The edge's request for which this upstream request was made; NULL when not found.";
    23 parent_match: OptText = "How the parent was found: by `header` or by `time`; NULL without one.";
    24 end: Text = "`ok`, `reset`, `closed`, `unanswered`, `unseen` (only the client has the response) or `cut`.";
    25 is_truncated: Flag = "Whether the snap length cut a head, so that fields or sizes may be missing.";
    26 sampled_ratio: Float = "The share of connections that has rows; counts divided by it are those of all.";
    27 operation: OptText = "The command that a database was asked for, such as `COM_QUERY` or `GET`; never a statement's text. NULL for http and when not readable.";
    28 error_code: OptText = "The database's code of the error that it answered with, such as `1064` or `42P01`; NULL when it answered with none.";
}
