//! `conntrack_stat`: the connection tracking table of each network namespace.

table! {
    /// Fill level of the connection tracking table, and connections it rejected.
    ConntrackStat, ConntrackStatRows = "conntrack_stat";
    grain: "one row per network namespace that tracks connections and 5 s";
    source: "/proc/net/stat/nf_conntrack, net.netfilter.nf_conntrack_max";
    sort: [host, netns, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace: host, a name of `ip netns`, or `net:[inode]`.";
    4 entries: Int = "Connections in the table now.";
    5 entries_limit: OptInt = "net.netfilter.nf_conntrack_max, the same for each namespace; NULL when it could not be read.";
    6 drops_total: Int = "Packets dropped for any reason: no entry could be allocated (a full table), two packets raced for the same entry, a hash chain was too long, or the packet did not fit its connection; all CPUs together.";
    7 early_drops_total: Int = "Connections evicted early to make room, which happens at a full table only.";
    8 insert_failures_total: Int = "Connections that could not be inserted since another packet had inserted the same one (a clash that could not be resolved); their packets are in drops_total.";
    9 drops_increase: OptInt = "Increase of drops_total since the previous sample; NULL in the first.";
    10 early_drops_increase: OptInt = "Increase of early_drops_total since the previous sample; NULL in the first.";
    11 insert_failures_increase: OptInt = "Increase of insert_failures_total since the previous sample; NULL in the first.";
    12 chain_too_long_total: OptInt = "Connections not inserted because their hash chain was too long; NULL before Linux 5.15.";
    13 chain_too_long_increase: OptInt = "Increase of chain_too_long_total since the previous sample; NULL in the first.";
    14 invalid_total: OptInt = "Packets that fit no connection. They are not dropped here, but by rules with `ct state invalid`; NULL when the kernel has no such counter.";
    15 invalid_increase: OptInt = "Increase of invalid_total since the previous sample; NULL in the first.";
}
