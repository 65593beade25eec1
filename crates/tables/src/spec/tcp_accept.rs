//! `tcp_accept`: wait times in accept queues.

table! {
    /// How long established connections waited for accept(). Only with `ebpf.enabled`.
    TcpAccept, TcpAcceptRows = "tcp_accept";
    grain: "one row per listening address, port and second in which connections were accepted or abandoned";
    source: "eBPF at the tracepoints inet_sock_set_state and sys_exit (accept, accept4)";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "The end of the second.";
    2 host: Text = "The host that it was measured on.";
    3 netns: Text = "Network namespace: `host` for the agent's own, else its name under /run/netns, else `net:[inode]`.";
    4 server_address: Text = "The address that clients connected to; a listener on `0.0.0.0` has several.";
    5 server_port: Int = "The port that they connected to.";
    6 accepted: Int = "Connections that accept() returned.";
    7 measured: Int = "Connections among them with a known wait: established after weir started watching.";
    8 abandoned: Int = "Connections that ended in the queue: reset by the client, or their listener was closed.";
    9 wait_sum_seconds: Float = "Sum of the waits.";
    10 wait_p50_seconds: OptFloat = "Median wait, at most 1/16 too high; NULL when none was measured.";
    11 wait_p90_seconds: OptFloat = "90th percentile of the waits.";
    12 wait_p99_seconds: OptFloat = "99th percentile.";
    13 wait_max_seconds: OptFloat = "The longest wait; NULL when none was measured.";
    14 interval_seconds: Float = "Actual length of the second.";
}
