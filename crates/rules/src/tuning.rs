//! The rules of `weir tune` (`tune/`), settings that must never be used, and common myths.
//!
//! A new proposal is `tune/<id>.sql` with a section `[setting]`, `tune/<id>.test` and its id here.
//! Its result has the setting (`name`), `current` and `suggested`; for a configuration line also
//! `file`, `line`, `directive`, `arguments` and `new_arguments`.

use std::sync::Arc;

use crate::built_in::{ORIGIN, built_in};
use crate::{Rule, SourceFile};

built_in! {
    "tune":
    "tune.conntrack_max",
    "tune.harmful",
    "tune.listen_backlog",
    "tune.local_port_range",
    "tune.max_tw_buckets",
    "tune.netdev_budget",
    "tune.netdev_max_backlog",
    "tune.rmem_max",
    "tune.slow_start_after_idle",
    "tune.somaxconn",
}

/// Settings, or values, that must never be used, with the reason.
pub const NEVER: &[(&str, &str)] = &[
    (
        "net.ipv4.tcp_tw_recycle",
        "removed in Linux 4.12; it dropped clients behind one NAT because of their timestamps",
    ),
    (
        "net.ipv4.tcp_mem = three equal values",
        "removes the back-pressure between normal use and the OOM killer; leave it to the kernel, and bound tcp_rmem[2] and tcp_wmem[2]",
    ),
    (
        "net.ipv4.tcp_syncookies = 0",
        "legitimate clients cannot connect during a flood; 1,451 SYNs dropped and 0 of 20 clients served where cookies served all 20",
    ),
    (
        "net.ipv4.tcp_abort_on_overflow = 1",
        "turns a burst into visible errors, where a retry would have succeeded",
    ),
    (
        "net.ipv4.tcp_max_tw_buckets below its default",
        "does not shorten TIME_WAIT, it only removes the protection from late packets",
    ),
    (
        "net.ipv4.tcp_timestamps = 0, net.ipv4.tcp_sack = 0",
        "each lost packet costs far more than the bytes saved",
    ),
    ("net.ipv4.tcp_synack_retries = 2", "clients on bad mobile networks need more retries"),
    (
        "vm.drop_caches in a timer",
        "evicts the cache that makes reads fast, and gains nothing: that memory is free when needed",
    ),
];

/// Common myths, with the facts.
pub const MYTHS: &[(&str, &str)] = &[
    (
        "`tcp_fin_timeout` shortens TIME_WAIT",
        "it affects orphaned FIN_WAIT_2 only; TIME_WAIT is 60 s, compiled in",
    ),
    (
        "`tcp_tw_reuse` helps a web server",
        "it affects outgoing connections only; a server's own TIME_WAIT stays",
    ),
    (
        "many connections in TIME_WAIT are harmful",
        "each costs 0.25 KiB; they matter only to a host that opens connections to few addresses and ports",
    ),
    (
        "`tcp_max_syn_backlog` is the length of the SYN queue",
        "since Linux 4.3 the program's own backlog is; this value applies only without SYN cookies",
    ),
    (
        "`Possible SYN flooding` means an attack",
        "it is logged once per socket, also when the backlog is too small for a legitimate burst",
    ),
    (
        "larger `rmem_max` makes TCP faster",
        "TCP grows its buffers up to tcp_rmem[2] as needed; rmem_max is for programs that set SO_RCVBUF, which disables that",
    ),
    (
        "`somaxconn` alone makes the queue longer",
        "the program must request it too, and call listen() again",
    ),
];

/// The rules of `weir tune`.
///
/// # Panics
/// Never in a tested build: one that does not parse fails the tests.
pub fn tuning() -> Vec<Arc<Rule>> {
    let rules = BUILT_IN.iter().map(|(id, sql, _)| {
        Arc::new(
            Rule::parse(SourceFile { origin: ORIGIN, text: sql })
                .unwrap_or_else(|error| panic!("{id}: {error}")),
        )
    });
    rules.collect()
}

/// Id and `.test` text of each rule of `weir tune`.
pub fn tuning_tests() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILT_IN.iter().map(|(id, _, test)| (*id, *test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_its_risk_and_is_named_like_its_file() {
        for (rule, (id, ..)) in tuning().iter().zip(BUILT_IN) {
            assert_eq!(rule.id, *id);
            assert!(rule.setting.is_some(), "{id} has no section `[setting]`");
            assert!(!rule.needs.is_empty(), "{id} does not say which tables it needs");
        }
    }

    #[test]
    fn nothing_is_proposed_that_must_never_be_set() {
        for rule in tuning() {
            assert!(
                !rule.sql.contains("tcp_tw_recycle") && !rule.sql.contains("'net.ipv4.tcp_mem'")
            );
        }
    }
}
