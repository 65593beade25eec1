//! `tcp_state`: connections opened and closed, and by which side, per server port.

table! {
    /// TCP connections of this host by server port: opened, closed by which side, and failed
    /// attempts. Only with `ebpf.enabled`.
    TcpState, TcpStateRows = "tcp_state";
    grain: "one row per namespace, side, server port and second in which something happened";
    source: "eBPF at the tracepoint inet_sock_set_state";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "The end of the second.";
    2 host: Text = "The host that it was counted on.";
    3 netns: Text = "Network namespace: `host` for the agent's own, else its name under /run/netns, else `net:[inode]`.";
    4 side: Text = "Which end of the connections this host is: `server` or `client`. A listener whose backlog is 0 counts as `client`.";
    5 server_port: Int = "The server's port, on either side.";
    6 opened: Int = "Connections that became established.";
    7 closed_here: Int = "Established connections that this host closed first.";
    8 closed_by_peer: Int = "Established connections that the other side closed first.";
    9 aborted: Int = "Established connections that ended without a FIN: reset by either side, or timed out after too many retransmits.";
    10 connect_failed: Int = "Connection attempts of this host that were refused, timed out or were abandoned; 0 on the side `server`.";
    11 interval_seconds: Float = "Actual length of the second.";
}
