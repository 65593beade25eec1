//! `softnet_stat`: packets between interrupt and protocol, per CPU.

table! {
    /// Packets processed from the network backlog per CPU, and packets dropped there.
    SoftnetStat, SoftnetStatRows = "softnet_stat";
    grain: "one row per CPU at each sample in which a column changed, and each minute";
    source: "/proc/net/softnet_stat";
    sort: [host, cpu, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 cpu: Text = "The CPU's number.";
    4 packets_total: Int = "Packets processed.";
    5 drops_total: Int = "Packets dropped because the backlog was full.";
    6 time_squeezes_total: Int = "Rounds that ended with work left.";
    7 backlog_length: OptInt = "Packets waiting now; NULL before kernel 5.14.";
}
