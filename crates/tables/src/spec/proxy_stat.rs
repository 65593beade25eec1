//! `proxy_stat`: the counters that a proxy keeps about itself, its backends and their servers.

table! {
    /// HAProxy's own counters, read from its stats socket or its statistics page: they exist even
    /// where its log cannot be read.
    ProxyStat, ProxyStatRows = "proxy_stat";
    grain: "one row per HAProxy process, frontend, backend and server every 2 s while it changes, else every 10 s";
    source: "`show stat` and `show info` of HAProxy's `stats socket`, or the CSV of its `stats uri`";
    sort: [host, proxy_name, ts];
    1 ts: Time = "When HAProxy was queried.";
    2 host: Text = "The host of HAProxy.";
    3 program: Text = "haproxy.";
    4 source: Text = "Where it was queried: the path or address of the stats socket, or the URL of the statistics page.";
    5 kind: Text = "`process`, `frontend`, `backend` or `server`; `error` when it could not be queried.";
    6 proxy_name: Text = "Name of the frontend, or of the backend; `haproxy` for the process.";
    7 server_name: OptText = "Name of the server in its backend; NULL for other kinds.";
    8 upstream_address: OptText = "Address and port of the server; NULL for other kinds, and where neither HAProxy nor its configuration names it.";
    9 mode: OptText = "`http` or `tcp`; NULL where HAProxy does not report it.";
    10 state: OptText = "As HAProxy writes it: OPEN, UP, DOWN, MAINT, DRAIN, NOLB, `no check`, `UP 1/3` …; NULL for the process.";
    11 state_seconds: OptFloat = "Time since the state last changed; NULL where it has none.";
    12 check_status: OptText = "Result of the last health check: L4OK, L4CON, L4TOUT, L7STS, L7TOUT …; NULL without checks.";
    13 check_code: OptInt = "Status code of the last check's response; NULL when there was none.";
    14 check_text: OptText = "What the last check reported, such as `Connection refused`; NULL when it reported nothing.";
    15 servers_up: OptInt = "Servers that take requests: backends; 0 or 1 for a server; NULL for other kinds.";
    16 servers_total: OptInt = "Servers of the backend, without those in maintenance and backup servers; NULL for other kinds.";
    17 queue_length: OptInt = "Requests in the queue; NULL for frontends and the process.";
    18 sessions: OptInt = "Current sessions; of a server, requests in progress.";
    19 session_limit: OptInt = "Its limit: `maxconn` of a frontend, a server or the process; NULL when there is none.";
    20 sessions_total: OptInt = "Sessions since its start; of the process, connections.";
    21 sessions_increase: OptInt = "Increase since the previous sample; NULL in the first and after a restart.";
    22 responses_increase: OptInt = "HTTP responses since the previous sample, of all status codes; NULL as above and in TCP mode.";
    23 responses_5xx_increase: OptInt = "Those with a status of 500 to 599; NULL as above.";
    24 responses_4xx_increase: OptInt = "Those with a status of 400 to 499; NULL as above.";
    25 connect_errors_increase: OptInt = "Connections to the server that failed; NULL as above and for other kinds than backends and servers.";
    26 response_errors_increase: OptInt = "Responses that failed: the server timed out, closed early or sent no valid HTTP; NULL as above.";
    27 retries_increase: OptInt = "Connections that were retried; NULL as above.";
    28 client_aborts_increase: OptInt = "Transfers that the client ended; NULL as above.";
    29 checks_failed_increase: OptInt = "Health checks that failed while the server was up; NULL as above and without checks.";
    30 queue_seconds: OptFloat = "Mean time in the queue over the last 1,024 requests; NULL for frontends and the process.";
    31 connect_seconds: OptFloat = "Mean time to connect, likewise.";
    32 response_seconds: OptFloat = "Mean time from the request to the response's header, likewise; 0 in TCP mode.";
    33 total_seconds: OptFloat = "Mean duration of sessions, likewise.";
    34 idle_ratio: OptFloat = "Share of time in which HAProxy's event loop had nothing to do; NULL except for the process.";
    35 process_id: OptInt = "Process id; NULL except for the process.";
    36 interval_seconds: OptFloat = "Time since the sample that the increases are counted from; NULL in the first.";
    37 duration_seconds: Float = "How long HAProxy took to reply.";
    38 error: OptText = "Why it could not be queried; NULL on success.";
    39 handshake_failures_increase: OptInt = "TLS handshakes with clients that failed; NULL except for frontends, in the first sample, and before HAProxy 2.4.";
}
