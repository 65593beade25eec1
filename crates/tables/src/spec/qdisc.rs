//! `qdisc`: queueing disciplines of network devices.

table! {
    /// Packets sent, dropped and delayed by each queueing discipline, and its rate where one is
    /// set.
    Qdisc, QdiscRows = "qdisc";
    grain: "one row per queueing discipline of a namespace and second in which it changed, all of them once a minute";
    source: "rtnetlink RTM_GETQDISC, linux/gen_stats.h";
    sort: [host, netns, device, handle, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace: host, a name of `ip netns`, or `net:[inode]`.";
    4 device: Text = "The device's name, or its number where the name is not known.";
    5 kind: Text = "fq_codel, tbf, mq, noqueue …";
    6 handle: Text = "Its handle as `tc` prints it, such as `8001:`.";
    7 parent: Text = "`root`, or the handle above.";
    8 sent_bytes_total: Int = "Bytes sent.";
    9 sent_packets_total: Int = "Packets sent.";
    10 drops_total: Int = "Packets dropped because the queue was full or too slow.";
    11 overlimits_total: Int = "How often a packet was delayed by the rate limit.";
    12 requeues_total: Int = "How often the device could not accept a packet.";
    13 backlog_bytes: Int = "Bytes queued now.";
    14 backlog_packets: Int = "Packets queued now.";
    15 rate_bytes_per_second: OptInt = "The configured rate (tbf only); NULL for the others.";
}
