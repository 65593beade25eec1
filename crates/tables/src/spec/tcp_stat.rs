//! `tcp_stat`: the kernel's protocol counters by name; new kernels' counters appear by themselves.

table! {
    /// The kernel's TCP, IP, UDP and ICMP counters by the kernel's own names, per network
    /// namespace.
    TcpStat, TcpStatRows = "tcp_stat";
    grain: "one row per counter and sample in which it changed, and one per counter each minute";
    source: "/proc/net/netstat, /proc/net/snmp";
    sort: [host, netns, protocol, counter, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace: `host` for the agent's own, else its name under /run/netns, else `net:[inode]`.";
    4 protocol: Text = "The kernel's group: TcpExt, Tcp, Ip, IpExt, Udp, Icmp, …";
    5 counter: Text = "The kernel's name within the group, such as ListenOverflows.";
    6 value: Int = "The raw value since boot (or since the namespace was made); gauges such as Tcp.CurrEstab too.";
    7 increase: OptInt = "Increase since the previous sample; NULL for the first sample and when the counter went backwards (reset).";
    8 interval_seconds: OptFloat = "Time since the previous sample; NULL for the first.";
}
