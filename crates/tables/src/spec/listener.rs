//! `listener`: listening sockets, and how full their accept queues are.

table! {
    /// Every listening TCP socket with the length and the limit of its accept queue.
    Listener, ListenerRows = "listener";
    grain: "one row per listening socket and second";
    source: "netlink sock_diag (state LISTEN); owner from /proc/PID/fd";
    sort: [host, netns, server_port, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace: `host` for the agent's own, else its name under /run/netns, else `net:[inode]`.";
    4 server_address: Text = "The address listened on; `0.0.0.0` and `::` mean any.";
    5 server_port: Int = "The port listened on.";
    6 accept_queue_length: Int = "Established connections that wait for accept().";
    7 accept_queue_limit: Int = "The limit in force: min(backlog of listen(), net.core.somaxconn). Length = limit + 1 means full.";
    8 socket_inode: Int = "The socket's inode: its identity while it lives.";
    9 process_id: OptInt = "Lowest process id that holds the socket; NULL when no process could be read.";
    10 process_name: OptText = "Name of that process (comm); NULL when no process could be read.";
    11 process_count: OptInt = "How many processes hold the socket (workers); NULL when no process could be read.";
    12 cgroup: OptText = "cgroup of that process; NULL when it could not be read.";
    13 user_id: OptInt = "Owner of the socket.";
    14 tier: OptText = "Tier of the process, derived from its name: `proxy`, `db`, `edge` (weir itself), else `app`; NULL when no process could be read.";
    15 accepting_process_id: OptInt = "Lowest process id that accepts from the socket: the only holder, a process that has it in an epoll set, else a child of another holder (a worker); NULL while the queue is empty or when it could not be read.";
    16 accepting_process_count: OptInt = "How many processes accept from the socket; NULL as `accepting_process_id`.";
}
