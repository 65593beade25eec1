//! `tcp_connect`: connection attempts of this host that get no answer.

table! {
    /// Connection attempts of this host that the other side has not answered for a second, per
    /// destination, without eBPF.
    TcpConnect, TcpConnectRows = "tcp_connect";
    grain: "one row per namespace, destination and sample, every 2 s or rarer while an attempt there had to be repeated; at most 50 per namespace, those with the most first";
    source: "netlink sock_diag: sockets in SYN_SENT and how often their SYN was retransmitted";
    sort: [host, netns, peer_address, peer_port, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 peer_address: Text = "Where the connections lead.";
    5 peer_port: Int = "The port there.";
    6 attempts: Int = "Sockets in SYN_SENT.";
    7 unanswered: Int = "Those whose SYN was retransmitted: no answer for a second.";
    8 silent: Int = "Those whose SYN was retransmitted at least twice: no answer for three seconds.";
    9 process_id: OptInt = "A process that tries, looked up from three unanswered attempts on; NULL when it was not found.";
    10 process_name: OptText = "Its name; NULL when it was not found.";
}
