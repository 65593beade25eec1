//! `wire_request`: packet-level details of a request; the rest is in `request`.

table! {
    /// Requests seen in packets: timing, retransmits, and the edge request behind an upstream
    /// request.
    WireRequest, WireRequestRows = "wire_request";
    grain: "one row per request in a capture; it matches the row of `request` with the same source and `source_offset`";
    source: "captures, and live taps (`live:eth0`)";
    sort: [ts];
    1 ts: Time = "When the last byte of the response was seen, or of the request without a response.";
    2 host: Text = "The host that captured it.";
    3 tier: Text = "Where the clock is: `wire_edge` or `wire_upstream`.";
    4 source: Text = "The capture.";
    5 source_offset: Int = "The request's number in the capture, from 1.";
    6 connection_number: Int = "Its connection: `connection_number` of `tcp_conn`.";
    7 connection_requests: Int = "Its position in the connection, from 1.";
    8 network_protocol_name: Text = "`http`, `http2`, `mysql`, `postgresql`, `redis`, `mongodb`, `tls` or `opaque`: requests of the last two are delimited by changes of direction.";
    9 url_template: OptText = "The path with apparent ids replaced; NULL when not readable.";
    10 request_first_ts: Time = "The first byte of the request.";
    11 request_last_ts: Time = "The last byte of the request.";
    12 response_first_ts: OptTime = "The first byte of the response; NULL when there was none.";
    13 response_last_ts: OptTime = "The last byte of the response; NULL when there was none.";
    14 response_acked_ts: OptTime = "The client's acknowledgement of the last byte; NULL when not seen.";
    15 think_seconds: OptFloat = "From the last byte of the request to the first of the response.";
    16 transfer_seconds: OptFloat = "From the first byte of the response to the last.";
    17 ack_tail_seconds: OptFloat = "From the last byte of the response to its acknowledgement.";
    18 request_retransmits: Int = "Retransmitted segments of the request.";
    19 response_retransmits: Int = "Retransmitted segments of the response.";
    20 response_spurious_retransmits: Int = "Retransmits among them that the client had already (DSACK).";
    21 interim_responses: Int = "1xx responses before the final one.";
    22 parent_source_offset: OptInt = "The edge's request for which this upstream request was made; NULL when not found.";
    23 parent_match: OptText = "How the parent was matched: by `header` or by `time`; NULL without one.";
    24 end: Text = "`ok`, `reset`, `closed`, `unanswered`, `unseen` (only the client has the response) or `cut`.";
    25 is_truncated: Flag = "Whether the snap length truncated a head, so that fields or sizes may be missing.";
    26 sampled_ratio: Float = "Share of connections that have rows; divide counts by it to estimate the total.";
    27 operation: OptText = "The database command, such as `COM_QUERY` or `GET`; never statement text. NULL for http and when not readable.";
    28 error_code: OptText = "The database's error code, such as `1064` or `42P01`, or the status of gRPC, such as `14`; NULL without an error.";
}
