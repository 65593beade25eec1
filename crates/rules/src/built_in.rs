//! The rules that are compiled in: one line each. A new rule is `rules/<id>.sql`, `rules/<id>.test` and its id here.
//! Causes come before what they explain, so that a symptom knows its cause in the same round.

macro_rules! built_in {
    ($($id:literal,)+) => {
        /// Id, text of the rule file, text of its test file.
        pub(crate) const BUILT_IN: &[(&str, &str, &str)] = &[$((
            $id,
            include_str!(concat!("../../../rules/", $id, ".sql")),
            include_str!(concat!("../../../rules/", $id, ".test")),
        )),+];
    };
}

built_in! {
    "disk.full",
    "disk.fill_eta",
    "disk.inodes_full",
    "disk.io_error",
    "disk.stuck",
    "disk.member_outlier",
    "disk.readonly",
    "disk.slow",
    "host.hung_task",
    "mem.oom_kill",
    "mem.cgroup_near_limit",
    "mem.thrash",
    "cpu.steal",
    "cpu.cgroup_throttled",
    "cpu.saturated",
    "nic.errors",
    "nic.ring_drop",
    "conntrack.full",
    "softirq.backlog_drop",
    "softirq.squeezed",
    "app.fd_limit",
    "app.segfault",
    "tcp.listen_overflow",
    "tcp.accept_queue_high",
    "tcp.syn_flood",
    "tcp.syn_flood_false",
    "tcp.syncookies_off",
    "tcp.ephemeral_exhausted",
    "tcp.time_wait_many",
    "tcp.tw_overflow",
    "tcp.orphans",
    "tcp.mem_pressure",
    "tcp.sysctl_harmful",
    "kernel.new_drop_counter",
    "wire.loss",
    "wire.host_unreachable",
    "wire.syn_blackhole",
    "proxy.backlog_below_somaxconn",
    "proxy.worker_connections",
    "app.down",
    "app.slow",
    "client.slow_reader",
    "log.invalid_json",
    "log.key_explosion",
    "log.heartbeat_missing",
    "log.ship_lag",
    "log.truncated",
    "log.rotated_unfinished",
    "log.udp_rcvbuf",
    "weir.agent_silent",
}
