//! `edge_listener`: connections and requests per listener of the edge.

table! {
    /// An address that `weir edge` listens on: connections, requests, bytes, and the length of its
    /// accept queue.
    EdgeListener, EdgeListenerRows = "edge_listener";
    grain: "one row per listener every ten seconds";
    source: "`weir edge`, `/proc/sys/net/core/somaxconn`";
    sort: [listener, ts];
    1 ts: Time = "When the row was written.";
    2 host: Text = "The host of the edge.";
    3 listener: Text = "Its address and port.";
    4 is_tls: Flag = "Whether it speaks TLS.";
    5 connections: Int = "Open connections.";
    6 accepted_total: Int = "Connections accepted since the edge started.";
    7 refused_total: Int = "Connections refused, and connections that ended before a request.";
    8 requests_total: Int = "Requests answered.";
    9 received_bytes_total: Int = "Bytes received; with TLS the decrypted payload.";
    10 sent_bytes_total: Int = "Bytes sent; with TLS the decrypted payload.";
    11 backlog: Int = "Backlog passed to listen() for each accept queue; there is one per thread.";
    12 backlog_limit: OptInt = "net.core.somaxconn, to which the kernel silently lowers it; NULL when it cannot be read.";
}
