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
    6 drops_total: Int = "Packets dropped because the table was full, all CPUs together.";
    7 early_drops_total: Int = "Connections evicted early to make room.";
    8 insert_failures_total: Int = "Connections that could not be inserted.";
    9 drops_increase: OptInt = "Increase of drops_total since the previous sample; NULL in the first.";
    10 early_drops_increase: OptInt = "Increase of early_drops_total since the previous sample; NULL in the first.";
}
