//! `request`: one vocabulary for every tier; `tier` names the clock.

table! {
    /// Every request as one tier saw it; rows of different `tier` never measure the same thing.
    Request, RequestRows = "request";
    grain: "one row per request and tier that recorded it";
    source: "access logs of nginx, HAProxy and Apache, captures that `weir wire` reads, live taps, `weir edge`";
    sort: [ts];
    ids: [request_id, server_address];
    words: [url_path, url_query, user_agent_original, http_request_header_referer];
    1 ts: Time = "When the tier wrote the record: at completion for proxies' logs.";
    2 host: Text = "The host that recorded it.";
    3 tier: Text = "Where the clock is: `client`, `edge`, `wire_edge`, `proxy`, `wire_upstream` or `app`.";
    4 observed_ts: Time = "When the agent read the record.";
    5 source: Text = "The file it was read from.";
    6 source_offset: OptInt = "Byte offset of the line in its stream, or the request's number in its capture; NULL when the source has no offsets.";
    7 program: OptText = "The program that recorded it: nginx, haproxy, apache.";
    8 request_id: OptText = "The id that joins the tiers' rows of one request; NULL when not logged.";
    9 client_address: OptText = "The peer's address as the tier saw it; behind a balancer that is the balancer.";
    10 client_port: OptInt = "The peer's port; NULL when not logged.";
    11 server_address: OptText = "The requested host name, else the address that accepted the connection.";
    12 server_port: OptInt = "The port that accepted the connection; NULL when not logged.";
    13 url_scheme: OptText = "http or https; NULL when not logged.";
    14 http_request_method: OptText = "GET, POST, …; NULL when the request line could not be parsed.";
    15 url_path: OptText = "Path without the query; NULL when the request line could not be parsed.";
    16 url_query: OptText = "Query without `?`; NULL when there is none.";
    17 network_protocol_version: OptText = "1.0, 1.1, 2 or 3; NULL when not logged.";
    18 http_response_status_code: OptInt = "The status sent to the peer; NULL when none was sent.";
    19 request_bytes: OptInt = "Bytes received from the peer; NULL when not logged.";
    20 response_bytes: OptInt = "Bytes sent to the peer with headers; NULL when not logged.";
    21 response_body_bytes: OptInt = "Bytes of body sent to the peer; NULL when not logged.";
    22 user_agent_original: OptText = "The header User-Agent; NULL when absent.";
    23 http_request_header_referer: OptText = "The header Referer; NULL when absent.";
    24 duration_seconds: OptFloat = "First byte of the request read to last byte of the response written, by this tier's clock (nginx request_time, HAProxy Ta).";
    25 request_read_seconds: OptFloat = "Time until the whole request head was read (HAProxy TR); NULL when not logged.";
    26 queue_seconds: OptFloat = "Time in this tier's queue for a free upstream (HAProxy Tw); NULL when not logged.";
    27 upstream_connect_seconds: OptFloat = "Connect time to the upstream, summed over tries (nginx upstream_connect_time, HAProxy Tc); NULL without an upstream.";
    28 upstream_header_seconds: OptFloat = "From the start of connecting until the upstream's first header byte, summed over tries (nginx upstream_header_time, HAProxy Tc+Tr); NULL without an upstream.";
    29 upstream_response_seconds: OptFloat = "From the start of connecting until the upstream's last byte, summed over tries (nginx upstream_response_time); NULL without an upstream.";
    30 upstream_address: OptText = "The upstream that answered last, `address:port`; NULL without an upstream.";
    31 upstream_status_code: OptInt = "The last upstream's status; NULL without an upstream.";
    32 upstream_tries: OptInt = "How many upstreams were tried; NULL when not logged.";
    33 proxy_frontend: OptText = "HAProxy frontend; NULL elsewhere.";
    34 proxy_backend: OptText = "HAProxy backend or nginx upstream name; NULL when not logged.";
    35 proxy_server: OptText = "HAProxy server name; NULL elsewhere.";
    36 termination_state: OptText = "HAProxy's termination flags, such as `CD--`; NULL elsewhere.";
    37 connection_requests: OptInt = "Requests on the connection so far, this one included; NULL when not logged.";
    38 repair: OptText = "Repairs made to read it: `hex_escape`, `invalid_utf8`, `loose_json` (values without quotes), `implausible_time` (the time in the line is impossible; it is in attrs as `weir.time`), joined by `,`; else NULL.";
    39 attrs: Attrs = "Fields of the line that have no column.";
    40 stream: OptInt = "Identity of the file or journal it was read from: the first 52 bits of the stream's id. With source_offset it identifies the line; NULL when the source cannot be read again.";
    41 sampled_ratio: OptFloat = "Share of connections that have rows, where sampled: live taps over their limits. NULL when every request has a row.";
    42 failure: OptText = "Why it failed, as `weir edge` saw it: `connect_refused`, `connect_timeout`, `connect_tls`, `no_backend`, `queue_full`, `queue_timeout`, `response_timeout`, `backend_stalled`, `empty_answer`, `invalid_answer`, `answer_cut`, `client_closed`, `client_slow`, `body_too_large`, `bad_request`; NULL when it did not fail, and from other sources.";
    43 tls_handshake_seconds: OptFloat = "The TLS handshake, on the first request of a connection; NULL on later ones, without TLS, or when not measured.";
}
