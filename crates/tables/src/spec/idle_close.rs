//! `idle_close`: idle connections that an application closed, and after how long.

table! {
    /// Connections that carried nothing for a second and more until the application that serves them closed them.
    IdleClose, IdleCloseRows = "idle_close";
    grain: "one row per connection that was seen idle (a look each second, more rarely where many connections make it dear; at most 100 rows a look)";
    source: "netlink sock_diag: tcp_info of open connections of listening applications, then TIME_WAIT on their side";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "When it was closed.";
    2 host: Text = "The host of the application.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 server_address: Text = "The application's side.";
    5 server_port: Int = "The port that it listens on.";
    6 client_address: Text = "The other side, which would have kept the connection longer.";
    7 idle_seconds: Float = "Seconds since the last byte of either direction, too long when there was one more exchange between the last look and the end.";
    8 process_id: Int = "Lowest process id that held the listening socket while the connection was idle.";
    9 process_name: Text = "Name of that process (comm).";
}
