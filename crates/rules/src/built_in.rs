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
    "disk.slow",
    "mem.oom_kill",
    "cpu.steal",
    "cpu.saturated",
    "tcp.listen_overflow",
    "tcp.accept_queue_high",
    "tcp.syn_flood",
    "tcp.syn_flood_false",
    "tcp.time_wait_many",
    "tcp.sysctl_harmful",
    "kernel.new_drop_counter",
    "proxy.backlog_below_somaxconn",
    "app.slow",
    "client.slow_reader",
    "log.invalid_json",
    "log.key_explosion",
    "log.heartbeat_missing",
    "log.ship_lag",
    "log.truncated",
    "log.rotated_unfinished",
    "weir.agent_silent",
}
