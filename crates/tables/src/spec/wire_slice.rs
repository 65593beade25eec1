//! `wire_slice`: what one server port did in one slice of time, by packets.

table! {
    /// Slices of time of one server port: arrivals, completions, concurrency, response times, what TCP did, a verdict.
    WireSlice, WireSliceRows = "wire_slice";
    grain: "one row per capture, server port and slice; slices without a packet have one too";
    source: "captures, and live taps (`live:eth0`)";
    sort: [ts];
    1 ts: Time = "When the slice begins.";
    2 host: Text = "The host that captured it.";
    3 tier: Text = "Where the clock stood: `wire_edge` or `wire_upstream`.";
    4 source: Text = "The capture.";
    5 server_port: Int = "The server's port; 0 for ports without a tier of their own.";
    6 width_seconds: Float = "How wide slices are.";
    7 observed_seconds: Float = "How much of the slice lies in the capture.";
    8 arrivals: Int = "Requests whose first byte was seen.";
    9 completions: Int = "Responses whose last byte was seen.";
    10 concurrency: Float = "Requests under way on average.";
    11 throughput: Float = "Completions per second.";
    12 busy_seconds: Float = "Time with at least one request under way.";
    13 weighted_seconds: Float = "Requests under way times how long.";
    14 sum_seconds: Float = "Durations of the requests that arrived, together.";
    15 variance_mean_seconds: Float = "Variance over mean of these durations.";
    16 duration_p50_seconds: OptFloat = "Median of first request byte to last response byte.";
    17 duration_p95_seconds: OptFloat = "95th percentile of the same.";
    18 duration_p99_seconds: OptFloat = "99th percentile of the same.";
    19 think_p50_seconds: OptFloat = "Median of last request byte to first response byte.";
    20 think_p95_seconds: OptFloat = "95th percentile of the same.";
    21 think_p99_seconds: OptFloat = "99th percentile of the same.";
    22 transfer_p95_seconds: OptFloat = "95th percentile of first to last response byte.";
    23 syn_wait_p95_seconds: OptFloat = "95th percentile of first SYN to SYN-ACK.";
    24 delay_variation_p95_seconds: OptFloat = "95th percentile of how long the way held clients' packets; NULL without TCP timestamps.";
    25 errors_5xx: Int = "Responses with status 5xx; of databases, errors.";
    26 new_connections: Int = "Connections that began.";
    27 syns: Int = "SYNs of clients.";
    28 late_syns: Int = "Of these, repeated after 0.8 s and more with no answer between.";
    29 synack_retries: Int = "SYN-ACKs sent again.";
    30 retransmits: Int = "Segments of the server sent again.";
    31 spurious_retransmits: Int = "Of these, what the client had already (DSACK).";
    32 missing: Int = "Packets of clients lost before the tap, by IP identification.";
    33 missed_by_tap: Int = "Holes that the receiver acknowledged: the tap lost packets.";
    34 zero_windows: Int = "Receive windows that clients shut.";
    35 resets_in_flight: Int = "Server resets while a request waited.";
    36 closing_races: Int = "Requests that crossed the server's closing.";
    37 packets: Int = "TCP packets.";
    38 payload_bytes: Int = "Their payload.";
    39 dispersion_10ms: Float = "Variance over mean of arrivals in bins of 10 ms; 1 is chance.";
    40 dispersion_100ms: Float = "Variance over mean of arrivals in bins of 100 ms; 1 is chance.";
    41 little_error_ratio: OptFloat = "How far throughput times response time is from concurrency; NULL when idle.";
    42 verdict: OptText = "What stands out in this slice alone; NULL when idle, `unknown` when something was lost.";
    43 sampled_ratio: Float = "The share of connections that was looked at; counts divided by it are those of all.";
    44 tap_drops: OptInt = "Packets that the tap lost since its ring was full; NULL in captures, which do not say when.";
    45 ring_freezes: OptInt = "How often the ring was full; NULL in captures.";
    46 softnet_drops: OptInt = "Packets that the kernel of the host dropped before any tap; NULL in captures.";
    47 is_lossy: Flag = "Whether packets of this slice may be missing: then loss, waits and arrivals prove nothing.";
}
