//! `edge_refusal`: connections that became no request, so that an attack without requests is
//! visible too.

table! {
    /// Connections that `weir edge` refused or that ended before a request: failed handshakes,
    /// missing request heads.
    EdgeRefusal, EdgeRefusalRows = "edge_refusal";
    grain: "one row per listener, reason, client address and second; beyond 256 addresses a second, the rest is one row without an address";
    source: "`weir edge`";
    sort: [ts];
    1 ts: Time = "When the first of them ended.";
    2 host: Text = "The host of the edge.";
    3 listener: Text = "The address and port that took the connection.";
    4 reason: Text = "`connections`, `address_connections`, `proxy_header`, `tls_handshake`, `slow_head`, `malformed`, `head_too_large` or `reset`.";
    5 client_address: OptText = "The peer's address; NULL in the row for the rest.";
    6 connections: Int = "How many connections.";
    7 received_bytes: Int = "Bytes received on them before they ended; with TLS the decrypted payload.";
    8 sent_bytes: Int = "Bytes sent on them; with TLS the decrypted payload.";
    9 detail: OptText = "The library's error for the first of them; NULL without one.";
}
