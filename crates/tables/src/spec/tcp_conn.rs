//! `tcp_conn`: TCP connections seen in packets.

table! {
    /// TCP connections seen in packets: handshake, round trips, retransmits, losses, delays, and
    /// which side closed.
    TcpConn, TcpConnRows = "tcp_conn";
    grain: "one row per connection in a capture, when it is over or the capture is";
    source: "captures, and live taps (`live:eth0`)";
    sort: [ts];
    1 ts: Time = "The last packet.";
    2 host: Text = "The host that captured it.";
    3 source: Text = "The capture.";
    4 connection_number: Int = "Counts from 1 in the capture.";
    5 client_address: Text = "The client's address.";
    6 client_port: Int = "The client's port.";
    7 server_address: Text = "The server's address.";
    8 server_port: Int = "The server's port.";
    9 network_protocol_name: Text = "`http`, `http2`, `mysql`, `postgresql`, `redis`, `mongodb`, `tls`, `opaque`, or `unknown` without any payload.";
    10 first_ts: Time = "The first packet.";
    11 client_syns: Int = "SYNs of the client; 0 when the capture started later.";
    12 server_syns: Int = "SYN-ACKs of the server.";
    13 syn_wait_seconds: OptFloat = "From the first SYN to the SYN-ACK; NULL when not seen.";
    14 handshake_rtt_seconds: OptFloat = "From the SYN-ACK to its acknowledgement; NULL when not seen.";
    15 client_rtt_min_seconds: OptFloat = "Shortest round trip from the tap to the client; NULL when not measured.";
    16 server_rtt_min_seconds: OptFloat = "Shortest round trip from the tap to the server; NULL when not measured.";
    17 delay_variation_max_seconds: OptFloat = "Longest path delay of a client packet above the minimum, by TCP timestamps; NULL without them.";
    18 timestamp_tick_seconds: OptFloat = "One tick of the client's timestamps; NULL without them.";
    19 requests: Int = "Requests seen.";
    20 client_bytes: Int = "Payload of the client, each byte once.";
    21 server_bytes: Int = "Payload of the server, each byte once.";
    22 client_packets: Int = "Packets of the client.";
    23 server_packets: Int = "Packets of the server.";
    24 client_retransmits: Int = "Segments that the client retransmitted.";
    25 server_retransmits: Int = "Segments that the server retransmitted.";
    26 client_spurious_retransmits: Int = "Retransmits among them that the server had already (DSACK).";
    27 server_spurious_retransmits: Int = "Retransmits among them that the client had already (DSACK).";
    28 client_reordered: Int = "Segments of the client that arrived out of order.";
    29 server_reordered: Int = "Segments of the server that arrived out of order.";
    30 client_missing: OptInt = "Packets of the client lost before the tap, by IP identification; NULL when the ids do not count up.";
    31 server_missing: OptInt = "Packets of the server lost before the tap, by IP identification; NULL when the ids do not count up.";
    32 client_zero_windows: Int = "How often the client closed its receive window.";
    33 server_zero_windows: Int = "How often the server closed its receive window.";
    34 client_zero_window_seconds: Float = "How long the client's window was closed.";
    35 server_zero_window_seconds: Float = "How long the server's window was closed.";
    36 fin_by: OptText = "`client` or `server`, the side that closed first; NULL when neither did.";
    37 rst_by: OptText = "`client` or `server`, the side that reset it; NULL when neither did.";
    38 is_reset_in_flight: Flag = "Whether the server reset it while a request was pending.";
    39 requests_after_fin: Int = "Requests sent after the server's FIN.";
    40 interface_index: Int = "The interface, as the capture numbers it.";
    41 sampled_ratio: Float = "Share of connections that have rows; divide counts by it to estimate the total.";
}
