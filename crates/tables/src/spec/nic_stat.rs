//! `nic_stat`: counters of network drivers.

table! {
    /// Driver counters of a network device about loss, errors or limits, as `ethtool -S` prints
    /// them.
    NicStat, NicStatRows = "nic_stat";
    grain: "one row per counter and 10 s in which it changed, all of them every 10 minutes";
    source: "ethtool -S (ioctl SIOCETHTOOL, ETHTOOL_GSTATS), own namespace only";
    sort: [host, device, counter, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 device: Text = "The device, such as eth0.";
    4 driver: Text = "Its driver, such as ena; empty when unknown.";
    5 counter: Text = "The driver's own name for it, such as rx_missed_errors or bw_in_allowance_exceeded.";
    6 value_total: Int = "The counter's value.";
    7 increase: OptInt = "Increase since the previous sample; NULL in the first, and when it fell (the driver was reset).";
}
