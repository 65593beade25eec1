//! `tcp_wait`: connections that wait for an answer.

table! {
    /// Open connections whose request has had no answer for a second, per service, from the
    /// kernel's times of the last data sent and received: any protocol, also through TLS, without a
    /// log and without eBPF. Streams that only send, long polls and subscriptions wait as well.
    TcpWait, TcpWaitRows = "tcp_wait";
    grain: "one row per namespace, side, service and sample, every 1.5 s or rarer while a connection waits; at most 50 per namespace and sample, those with the most first";
    source: "netlink sock_diag: tcp_info (last_data_sent, last_data_recv, data_segs_in, data_segs_out, unacked) of established connections";
    sort: [host, netns, side, server_address, server_port, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 side: Text = "Which end of the connections this host is: `server` (its local port listens) or `client`.";
    5 server_address: Text = "Address of the service, on either side.";
    6 server_port: Int = "Port of the service, on either side.";
    7 connections: Int = "Open connections between this host and the service, or of its clients.";
    8 waiting: Int = "Those whose client sent last, at least a second ago, and has no answer.";
    9 unacknowledged: Int = "Those that wait and have sent data that the other kernel has not acknowledged.";
    10 longest_seconds: Float = "The longest wait among them.";
    11 process_id: OptInt = "A process of this host at these connections; NULL when it was not found.";
    12 process_name: OptText = "Its name; NULL when it was not found.";
    13 tier: OptText = "Tier of the process, as in `listener`; NULL when it was not found.";
}
