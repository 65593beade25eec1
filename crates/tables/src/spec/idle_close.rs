//! `idle_close`: idle connections closed by an application, and their idle timeout.

table! {
    /// Connections that were idle for at least a second when the application behind them closed
    /// them.
    IdleClose, IdleCloseRows = "idle_close";
    grain: "one row per connection that was seen idle (sampled each second, less often where many connections make it expensive; at most 100 rows a sample)";
    source: "netlink sock_diag: tcp_info of open connections of listening applications, then TIME_WAIT on their side";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "When it was closed.";
    2 host: Text = "The host of the application.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 server_address: Text = "The application's side.";
    5 server_port: Int = "The port that it listens on.";
    6 client_address: Text = "The other side, which kept the connection open.";
    7 idle_seconds: Float = "Seconds since the last byte in either direction; too long if there was one more exchange after the last sample.";
    8 process_id: Int = "Lowest process id that held the listening socket while the connection was idle.";
    9 process_name: Text = "Name of that process (comm).";
}
