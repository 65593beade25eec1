//! `edge_backend`: how the edge sees each of its backends, every few seconds and at each change.

table! {
    /// A backend as `weir edge` sees it: whether it gets requests and why not, its share, its latency.
    EdgeBackend, EdgeBackendRows = "edge_backend";
    grain: "one row per backend every ten seconds, and one when its state changes or its time-out is learnt";
    source: "`weir edge`";
    sort: [backend, ts];
    1 ts: Time = "When it was looked at.";
    2 host: Text = "The host of the edge.";
    3 backend: Text = "Its address and port.";
    4 state: Text = "`up`, `slow_start`, `check_failed`, `ejected`, `stalled` or `draining`.";
    5 reason: OptText = "What led to the state; NULL when up.";
    6 is_believed: Flag = "False when so many look ill that the edge sends requests to all of them (panic).";
    7 weight: Int = "Its weight.";
    8 in_flight: Int = "Requests under way.";
    9 queued: Int = "Requests of the whole pool that wait for a free place.";
    10 requests_total: Int = "Requests sent to it since the edge began.";
    11 failures_total: Int = "Those of them that got no whole answer.";
    12 retries_total: Int = "Requests that were sent elsewhere after it failed.";
    13 idle_closed_total: Int = "Idle connections that the backend closed before the edge did: each could have been an empty answer.";
    14 latency_seconds: OptFloat = "About the median time to the first byte of late; NULL before the first answer.";
    15 idle_timeout_seconds: Float = "After how long the edge closes an idle connection to it; set, or learnt from its `Keep-Alive` header and from what it closed.";
    16 received_bytes_total: Int = "Bytes received from it.";
    17 sent_bytes_total: Int = "Bytes sent to it.";
    18 pool: OptText = "The pool that it is in; NULL for the one that takes what no route names.";
    19 idle_repeated_total: OptInt = "Closings of idle connections at the same age as one that was a second to five minutes before: that is a time-out, not a restart. NULL in rows of weir before this column.";
}
