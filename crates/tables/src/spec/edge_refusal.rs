//! `edge_refusal`: what reached the edge and became no request, so that an attack that asks nothing is seen too.

table! {
    /// Connections that `weir edge` turned away, and those that ended before a request: handshakes that failed, heads that never came.
    EdgeRefusal, EdgeRefusalRows = "edge_refusal";
    grain: "one row per listener, reason, client address and second; beyond 256 addresses a second the rest is one row without address";
    source: "`weir edge`";
    sort: [ts];
    1 ts: Time = "When the first of them ended.";
    2 host: Text = "The host of the edge.";
    3 listener: Text = "The address and port that took the connection.";
    4 reason: Text = "`connections`, `address_connections`, `proxy_header`, `tls_handshake`, `slow_head`, `malformed`, `head_too_large` or `reset`.";
    5 client_address: OptText = "The peer's address; NULL on the row of the rest.";
    6 connections: Int = "How many connections.";
    7 received_bytes: Int = "Bytes received on them before they ended; with TLS what it carried.";
    8 sent_bytes: Int = "Bytes sent on them; with TLS what it carried.";
    9 detail: OptText = "What the library said of the first of them; NULL when it said nothing.";
}
