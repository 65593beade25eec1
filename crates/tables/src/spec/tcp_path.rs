//! `tcp_path`: segments and retransmissions of open connections, per peer.

table! {
    /// Data segments sent and retransmitted on connections that stay open, per peer, without eBPF.
    /// Loopback is left out.
    TcpPath, TcpPathRows = "tcp_path";
    grain: "one row per namespace, side, server port, peer and 10 s in which at least 20 data segments were sent; at most 100 per namespace, those with the most retransmissions first";
    source: "netlink sock_diag: tcp_info (data_segs_out, total_retrans, dsack_dups, rtt) of established connections, every 2 s or rarer; increases between two samples of the same connection, so connections shorter than that are not in it";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "End of the interval.";
    2 host: Text = "The host that it was measured on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 side: Text = "Which end of the connections this host is: `server` (its local port listens) or `client`.";
    5 server_port: Int = "The server's port, on either side.";
    6 peer_address: Text = "The other side: the server's address, or for clients their network (/24 in IPv4, /48 in IPv6).";
    7 connections: Int = "Connections with data in the interval.";
    8 lossy_connections: Int = "Connections among them with retransmissions.";
    9 segments: Int = "Data segments sent, including retransmitted ones.";
    10 retransmits: Int = "Retransmitted data segments.";
    11 spurious_retransmits: OptInt = "Retransmissions among them that the peer had already (DSACK); NULL before Linux 4.19.";
    12 rtt_seconds: OptFloat = "Mean smoothed round-trip time of the connections; NULL when none was measured.";
    13 interval_seconds: Float = "Seconds between the samples that the increases are of.";
}
