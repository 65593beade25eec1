//! `edge_listener`: what goes through each address of the edge, requests or not.

table! {
    /// An address that `weir edge` listens on: connections, requests, bytes, and the length of its accept queue.
    EdgeListener, EdgeListenerRows = "edge_listener";
    grain: "one row per listener every ten seconds";
    source: "`weir edge`, `/proc/sys/net/core/somaxconn`";
    sort: [listener, ts];
    1 ts: Time = "When it was looked at.";
    2 host: Text = "The host of the edge.";
    3 listener: Text = "Its address and port.";
    4 is_tls: Flag = "Whether it speaks TLS.";
    5 connections: Int = "Connections that are open.";
    6 accepted_total: Int = "Connections accepted since the edge began.";
    7 refused_total: Int = "Connections turned away, and those that ended before a request.";
    8 requests_total: Int = "Requests answered.";
    9 received_bytes_total: Int = "Bytes received; with TLS what it carried.";
    10 sent_bytes_total: Int = "Bytes sent; with TLS what it carried.";
    11 backlog: Int = "Length of each accept queue that the edge asked for; it has one for each thread.";
    12 backlog_limit: OptInt = "net.core.somaxconn, to which the kernel cuts it silently; NULL when it cannot be read.";
}
