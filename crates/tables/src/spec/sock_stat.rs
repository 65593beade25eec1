//! `sock_stat`: socket counts by state.

table! {
    /// Counts of sockets, orphans and TCP memory per network namespace.
    SockStat, SockStatRows = "sock_stat";
    grain: "one row per network namespace and second";
    source: "/proc/net/sockstat, /proc/net/sockstat6, Tcp.CurrEstab; states by sock_diag without TIME_WAIT every 2 s or rarer";
    sort: [host, netns, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 tcp_in_use: Int = "TCP sockets in use, IPv4 and IPv6, excluding TIME_WAIT.";
    5 tcp_orphan: Int = "Orphaned TCP sockets, held by no process (host-wide).";
    6 tcp_time_wait: Int = "Sockets in TIME_WAIT.";
    7 tcp_allocated: Int = "TCP sockets allocated (host-wide).";
    8 tcp_memory_bytes: Int = "Memory of TCP buffers (host-wide).";
    9 tcp_established: Int = "Sockets in ESTABLISHED or CLOSE_WAIT (Tcp.CurrEstab).";
    10 udp_in_use: Int = "UDP sockets in use, IPv4 and IPv6.";
    11 udp_memory_bytes: Int = "Memory of UDP buffers (host-wide).";
    12 tcp_syn_recv: OptInt = "Sockets in SYN_RECV; NULL when this sample did not count states.";
    13 tcp_syn_sent: OptInt = "Sockets in SYN_SENT; NULL when this sample did not count states.";
    14 tcp_fin_wait: OptInt = "Sockets in FIN_WAIT_1 or FIN_WAIT_2; NULL when this sample did not count states.";
    15 tcp_close_wait: OptInt = "Sockets in CLOSE_WAIT: the peer has closed, this side has not; NULL when this sample did not count states.";
    16 tcp_last_ack: OptInt = "Sockets in LAST_ACK or CLOSING; NULL when this sample did not count states.";
    17 tcp_close_wait_unread: OptInt = "Sockets of `tcp_close_wait` that still wait for the program: not accepted yet, or with data that it has not read; NULL when this sample did not count states.";
}
