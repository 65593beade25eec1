//! `slo_slice`: requests or checks of each SLO, counted by the minute.

table! {
    /// Requests or checks of each SLO and minute, and how many of them failed. Sums over several
    /// minutes are burn rates.
    SloSlice, SloSliceRows = "slo_slice";
    grain: "one row per SLO and minute, and further ones for what arrived later: the counts of a minute add up";
    source: "`request` or `check_result`, counted by the hub for each entry of `[[slos]]`";
    sort: [slo, ts];
    1 ts: Time = "When the minute began.";
    2 host: Text = "The hub that counted.";
    3 slo: Text = "The SLO's name.";
    4 kind: Text = "availability, latency or checks.";
    5 definition: Text = "What is counted and what is good; a changed one begins a new history.";
    6 target: Text = "The checked target of an SLO about one; empty for others.";
    7 objective_ratio: Float = "Share that has to be good, as configured when the row was written.";
    8 window_seconds: Int = "The time over which it has to hold.";
    9 total_count: Int = "Requests or checks that count; 0 in a minute without any.";
    10 failed_count: Int = "Failed ones among them.";
    11 failing_hosts: OptText = "At most 8 hosts that recorded failures, separated by commas; NULL without any.";
    12 failing_upstreams: OptText = "At most 8 addresses of upstreams with failures, separated by commas; NULL without any.";
    13 budget_left_ratio: OptFloat = "Share of the window's budget that is left, negative when more failed than may; NULL when it was not computed.";
}
