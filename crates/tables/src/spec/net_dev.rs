//! `net_dev`: bytes, packets, errors and drops per network device.

table! {
    /// Bytes, packets, errors and drops of every network device.
    NetDev, NetDevRows = "net_dev";
    grain: "one row per device and second";
    source: "/proc/net/dev";
    sort: [host, netns, device, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 device: Text = "Name of the device, such as eth0.";
    5 rx_bytes_total: Int = "Bytes received.";
    6 rx_packets_total: Int = "Packets received.";
    7 rx_errors_total: Int = "Bad packets received.";
    8 rx_drops_total: Int = "Packets dropped on receipt, unknown protocols among them.";
    9 rx_fifo_errors_total: Int = "Packets lost because the ring was full.";
    10 tx_bytes_total: Int = "Bytes sent.";
    11 tx_packets_total: Int = "Packets sent.";
    12 tx_errors_total: Int = "Sending failed.";
    13 tx_drops_total: Int = "Packets dropped before sending.";
}
