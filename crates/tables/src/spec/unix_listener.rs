//! `unix_listener`: listening Unix sockets, and how full their accept queues are.

table! {
    /// Listening Unix sockets with the length and the limit of their accept queues.
    UnixListener, UnixListenerRows = "unix_listener";
    grain: "one row per listening Unix socket and second in which its queue or owner changed or connections waited, and once a minute";
    source: "netlink sock_diag (AF_UNIX, state LISTEN); owner from /proc/PID/fd";
    sort: [host, netns, socket_path, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 socket_path: Text = "Path that the socket is bound to; `@name` for an abstract name; empty without a name.";
    5 accept_queue_length: Int = "Connections that wait for accept().";
    6 accept_queue_limit: Int = "The limit in force: min(backlog of listen(), net.core.somaxconn). Length = limit + 1 means full: connect() of a non-blocking client fails with EAGAIN.";
    7 socket_inode: Int = "The socket's inode: its identity while it lives.";
    8 process_id: OptInt = "Lowest process id that holds the socket; NULL when no process could be read.";
    9 process_name: OptText = "Name of that process (comm); NULL when no process could be read.";
    10 process_count: OptInt = "How many processes hold the socket (workers); NULL when no process could be read.";
    11 cgroup: OptText = "cgroup of that process; NULL when it could not be read.";
    12 user_id: OptInt = "Owner of the socket; NULL before Linux 4.20.";
    13 tier: OptText = "Tier of the process, as in `listener`; NULL when no process could be read.";
    14 accepting_process_id: OptInt = "Lowest process id that accepts from the socket, as in `listener`.";
    15 accepting_process_count: OptInt = "How many processes accept from the socket, as in `listener`.";
}
