//! `wire_slice`: time slices of one server port, from packets.

table! {
    /// Time slices of one server port: arrivals, completions, concurrency, response times, TCP
    /// events, a verdict.
    WireSlice, WireSliceRows = "wire_slice";
    grain: "one row per capture, server port and slice; slices without a packet have one too";
    source: "captures, and live taps (`live:eth0`)";
    sort: [ts];
    1 ts: Time = "Start of the slice.";
    2 host: Text = "The host that captured it.";
    3 tier: Text = "Where the clock is: `wire_edge` or `wire_upstream`.";
    4 source: Text = "The capture.";
    5 server_port: Int = "The server's port; 0 for ports without their own tier.";
    6 width_seconds: Float = "Length of a slice.";
    7 observed_seconds: Float = "How much of the slice is covered by the capture.";
    8 arrivals: Int = "Requests whose first byte was seen.";
    9 completions: Int = "Responses whose last byte was seen.";
    10 concurrency: Float = "Average requests in flight.";
    11 throughput: Float = "Completions per second.";
    12 busy_seconds: Float = "Time with at least one request in flight.";
    13 weighted_seconds: Float = "Sum of the requests' times in flight.";
    14 sum_seconds: Float = "Total duration of the requests that arrived.";
    15 variance_mean_seconds: Float = "Variance over mean of these durations.";
    16 duration_p50_seconds: OptFloat = "Median of first request byte to last response byte.";
    17 duration_p95_seconds: OptFloat = "95th percentile.";
    18 duration_p99_seconds: OptFloat = "99th percentile.";
    19 think_p50_seconds: OptFloat = "Median of last request byte to first response byte.";
    20 think_p95_seconds: OptFloat = "95th percentile.";
    21 think_p99_seconds: OptFloat = "99th percentile.";
    22 transfer_p95_seconds: OptFloat = "95th percentile of first to last response byte.";
    23 syn_wait_p95_seconds: OptFloat = "95th percentile of first SYN to SYN-ACK.";
    24 delay_variation_p95_seconds: OptFloat = "95th percentile of the path delay of clients' packets; NULL without TCP timestamps.";
    25 errors_5xx: Int = "Responses with status 5xx; of databases, errors.";
    26 new_connections: Int = "New connections.";
    27 syns: Int = "SYNs of clients.";
    28 late_syns: Int = "SYNs among them repeated after 0.8 s or more without an answer.";
    29 synack_retries: Int = "Retransmitted SYN-ACKs.";
    30 retransmits: Int = "Retransmitted segments of the server.";
    31 spurious_retransmits: Int = "Retransmits among them that the client had already (DSACK).";
    32 missing: Int = "Packets of clients lost before the tap, by IP identification.";
    33 missed_by_tap: Int = "Gaps that the receiver acknowledged: packets lost by the tap.";
    34 zero_windows: Int = "Receive windows closed by clients.";
    35 resets_in_flight: Int = "Server resets while a request was pending.";
    36 closing_races: Int = "Requests that raced with the server's close.";
    37 packets: Int = "TCP packets.";
    38 payload_bytes: Int = "Their payload.";
    39 dispersion_10ms: Float = "Variance over mean of arrivals in 10 ms bins; 1 means random.";
    40 dispersion_100ms: Float = "Variance over mean of arrivals in 100 ms bins; 1 means random.";
    41 little_error_ratio: OptFloat = "Deviation of throughput × response time from concurrency (Little's law); NULL when idle.";
    42 verdict: OptText = "Verdict from this slice alone; NULL when idle, `unknown` when packets were lost.";
    43 sampled_ratio: Float = "Share of connections that were sampled; divide counts by it to estimate the total.";
    44 tap_drops: OptInt = "Packets that the tap lost because its ring was full; NULL in captures, which do not record the time.";
    45 ring_freezes: OptInt = "How often the ring was full; NULL in captures.";
    46 softnet_drops: OptInt = "Packets that the host's kernel dropped before any tap; NULL in captures.";
    47 is_lossy: Flag = "Whether packets of this slice may be missing: then losses, waits and arrivals are not reliable.";
}
