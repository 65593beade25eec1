//! What `weir tune` proposes: rules of their own (`tune/`), what must never be set, and what is told but not true.
//!
//! A new proposal is `tune/<id>.sql` with a section `[setting]`, `tune/<id>.test` and its id here. Its answer names the
//! setting (`name`), `current` and `suggested`; of a line in a configuration `file`, `line`, `directive`, `arguments` and
//! `new_arguments`.

use std::sync::Arc;

use crate::Rule;
use crate::built_in::built_in;

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

/// Settings that must not be touched, or not so, with the reason.
pub const NEVER: &[(&str, &str)] = &[
    (
        "net.ipv4.tcp_tw_recycle",
        "gone since Linux 4.12; it dropped visitors behind one NAT by their time stamps",
    ),
    (
        "net.ipv4.tcp_mem = three equal values",
        "no brake is left between enough and the kernel killing a process for want of memory; leave it to the kernel, and bound tcp_rmem[2] and tcp_wmem[2]",
    ),
    (
        "net.ipv4.tcp_syncookies = 0",
        "switches off what serves good clients during a flood; 1,451 SYNs dropped and 0 of 20 good clients served where cookies served all 20",
    ),
    (
        "net.ipv4.tcp_abort_on_overflow = 1",
        "turns a burst into errors that visitors see, where a second try would have been served",
    ),
    (
        "net.ipv4.tcp_max_tw_buckets below its default",
        "does not shorten TIME_WAIT, it only takes away the protection from late packets",
    ),
    (
        "net.ipv4.tcp_timestamps = 0, net.ipv4.tcp_sack = 0",
        "each lost packet costs far more than the bytes that they save",
    ),
    ("net.ipv4.tcp_synack_retries = 2", "visitors on bad mobile lines need more tries"),
    (
        "vm.drop_caches in a timer",
        "throws away what makes reads fast, and nothing is gained: that memory is free when it is needed",
    ),
];

/// What is told often and is not so.
pub const MYTHS: &[(&str, &str)] = &[
    (
        "`tcp_fin_timeout` shortens TIME_WAIT",
        "it is for orphaned FIN_WAIT_2 only; TIME_WAIT is 60 s, compiled in",
    ),
    (
        "`tcp_tw_reuse` helps a web server",
        "it is for connections that this host opens; a server's own TIME_WAIT stays",
    ),
    (
        "many connections in TIME_WAIT are harmful",
        "each costs 0.25 KiB; they matter only to who opens connections to few addresses and ports",
    ),
    (
        "`tcp_max_syn_backlog` is the length of the SYN queue",
        "since Linux 4.3 the program's own backlog is; this value matters only without SYN cookies",
    ),
    (
        "`Possible SYN flooding` means an attack",
        "it is said once per socket, also when the backlog is too small for an honest burst",
    ),
    (
        "larger `rmem_max` makes TCP faster",
        "TCP grows its buffers by itself up to tcp_rmem[2]; rmem_max is for programs that ask with SO_RCVBUF, which switches that off",
    ),
    (
        "`somaxconn` alone makes the queue longer",
        "the program must ask for it too, and listen anew",
    ),
];

/// The rules of `weir tune`.
///
/// # Panics
/// Never in a tested build: one that does not parse fails the tests.
pub fn tuning() -> Vec<Arc<Rule>> {
    let rules = BUILT_IN.iter().map(|(id, sql, _)| {
        Arc::new(Rule::parse("built in", sql).unwrap_or_else(|error| panic!("{id}: {error}")))
    });
    rules.collect()
}

/// Id and text of the `.test` file of each of them.
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
