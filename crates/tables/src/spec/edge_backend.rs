//! `edge_backend`: the edge's view of each backend, every few seconds and at each change.

table! {
    /// A backend as `weir edge` sees it: whether it receives requests and why not, its share, its
    /// latency.
    EdgeBackend, EdgeBackendRows = "edge_backend";
    grain: "one row per backend every ten seconds, and one when its state changes, its idle timeout is learned, or other checks of its health response fail";
    source: "`weir edge`";
    sort: [backend, ts];
    1 ts: Time = "When the row was written.";
    2 host: Text = "The host of the edge.";
    3 backend: Text = "Its address and port.";
    4 state: Text = "`up`, `slow_start`, `check_failed`, `ejected`, `stalled`, `draining` or `unresolved`.";
    5 reason: OptText = "Why it is in this state; NULL when up.";
    6 is_believed: Flag = "False when too many backends look unhealthy, so that requests go to all of them (panic mode).";
    7 weight: Int = "Its weight.";
    8 in_flight: Int = "Requests in flight.";
    9 queued: Int = "Queued requests of the whole pool.";
    10 requests_total: Int = "Requests sent to it since the edge started.";
    11 failures_total: Int = "Requests among them without a complete response.";
    12 retries_total: Int = "Requests retried elsewhere after it failed.";
    13 idle_closed_total: Int = "Idle connections that the backend closed before the edge did: each could have become an empty response.";
    14 latency_seconds: OptFloat = "Recent median time to first byte, approximately; NULL before the first response.";
    15 idle_timeout_seconds: Float = "How long the edge keeps an idle connection to it; configured, or learned from its `Keep-Alive` header and from connections it closed.";
    16 received_bytes_total: Int = "Bytes received from it.";
    17 sent_bytes_total: Int = "Bytes sent to it.";
    18 pool: OptText = "Its pool; NULL for the default pool.";
    19 idle_repeated_total: OptInt = "Idle connections closed at the same age as another one a second to five minutes earlier: a timeout, not a restart. NULL in rows of older versions.";
    20 failed_checks: OptText = "Failed checks of its newest health response, with figures or errors. It stays up when they are a dependency, or when most of its pool fails them. NULL without any, and in rows of older versions.";
}
