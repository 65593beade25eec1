//! `tcp_peer`: retransmitted segments and resets, per peer.

table! {
    /// Retransmitted segments and reset connections per peer. Only with `ebpf.enabled`.
    TcpPeer, TcpPeerRows = "tcp_peer";
    grain: "one row per namespace, side, server port, peer and second in which something happened; beyond `ebpf.peer_rows` one sum per namespace and side";
    source: "eBPF at the tracepoints tcp_retransmit_skb, tcp_retransmit_synack, tcp_send_reset, tcp_receive_reset";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "The end of the second.";
    2 host: Text = "The host that it was counted on.";
    3 netns: Text = "Network namespace: `host` for the agent's own, else its name under /run/netns, else `net:[inode]`.";
    4 side: Text = "Which end of the connections this host is: `server` or `client`. A listener whose backlog is 0 counts as `client`.";
    5 server_port: OptInt = "The server's port, on either side; NULL in a sum of peers.";
    6 peer_address: OptText = "The other side; NULL in a sum of peers.";
    7 peers: Int = "Number of peers in the row: 1, or more in a sum (a peer at two ports counts twice).";
    8 retransmits: Int = "Retransmitted segments as RetransSegs counts them, including the SYNs and SYN-ACKs below.";
    9 syn_retransmits: Int = "SYNs among them: the peer did not answer a connection attempt.";
    10 syn_ack_retransmits: Int = "SYN-ACKs among them: the client did not answer, or its answer was dropped because the accept queue was full.";
    11 resets_sent: Int = "Connections that this host reset. Resets for segments of no connection do not count.";
    12 resets_received: Int = "Connections that the peer reset, refused connection attempts included.";
    13 interval_seconds: Float = "Actual length of the second.";
}
